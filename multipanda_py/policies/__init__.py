# SPDX-License-Identifier: Apache-2.0
"""Policies that answer with chunks of actions, run beside an environment that does not wait.

A policy is anything that maps an observation to a chunk: a function, a network, a process of its
own. Needs gymnasium, of the extra ``gym``.
"""

from multipanda_py.extras import require

require("gymnasium")

from multipanda_py.policies.action_chunk import ActionChunk  # noqa: E402
from multipanda_py.policies.inference import Inference, LockstepInference, Policy  # noqa: E402
from multipanda_py.policies.lerobot_inference import LeRobotInference  # noqa: E402
from multipanda_py.policies.process_inference import ProcessInference  # noqa: E402
from multipanda_py.policies.program_inference import ProgramInference  # noqa: E402
from multipanda_py.policies.run_log import RunLog  # noqa: E402
from multipanda_py.policies.runner import PolicyRunner  # noqa: E402
from multipanda_py.policies.thread_inference import ThreadInference  # noqa: E402
from multipanda_py.policies.torch_policy import torch_policy  # noqa: E402

__all__ = [
    "ActionChunk",
    "Inference",
    "LeRobotInference",
    "LockstepInference",
    "Policy",
    "PolicyRunner",
    "ProcessInference",
    "ProgramInference",
    "RunLog",
    "ThreadInference",
    "torch_policy",
]
