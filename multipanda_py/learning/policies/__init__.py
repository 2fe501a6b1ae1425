# SPDX-License-Identifier: Apache-2.0
"""Policies that answer with chunks of actions, run beside an environment that does not wait.

A policy is anything that maps an observation to a chunk: a function, a network, a process of its
own. Needs gymnasium, of the extra ``gym``.
"""

from multipanda_py.registry import require

require("gymnasium")

from multipanda_py.learning.policies.inference import (  # noqa: E402
    Inference,
    LockstepInference,
    Policy,
    ProcessInference,
    ThreadInference,
    torch_policy,
)
from multipanda_py.learning.policies.program_inference import (  # noqa: E402
    LeRobotInference,
    ProgramInference,
)
from multipanda_py.learning.policies.runner import (  # noqa: E402
    ActionChunk,
    PolicyRunner,
    RunLog,
)

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
