# SPDX-License-Identifier: Apache-2.0
"""Execution of policies that compute while the arms continue to move.

A policy maps an observation to a chunk, which is a sequence of actions at a fixed rate. It can be
a function, a network or a separate process. Requires gymnasium from the extra ``gym``.
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
