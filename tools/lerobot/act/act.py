# SPDX-License-Identifier: Apache-2.0
"""Run an ACT policy from the environment of LeRobot for 1 s, in lockstep with its inference.

Usage: python act.py POLICY LEROBOT_PYTHON; ``make test-lerobot`` runs it.
"""

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from multipanda_py.exceptions import PolicyFailed
from multipanda_py.learning.gym import CellEnv
from multipanda_py.learning.policies import LeRobotInference, LockstepInference, PolicyRunner

saved, python = sys.argv[1:]


class CpuInference(LeRobotInference):
    """Inference with the operators that torchvision lacks here."""

    MAKE = "act_policy:make"
    FOLDERS = (Path(__file__).parent,)


def awaited(inference: LeRobotInference, observed: dict[str, Any]) -> np.ndarray | None:
    """Return the chunk of a request; None after 60 s."""
    inference.request(observed, 0.0)
    end = time.monotonic() + 60.0
    while (answer := inference.receive(0.0)) is None and time.monotonic() < end:
        time.sleep(0.002)
    return answer


env = CellEnv("push", rate=30.0, cameras={"overview": (96, 128)})
inference = CpuInference(saved, env, python=python, instruction="push the puck")
observed, _ = env.reset(seed=0)
start = time.monotonic()
chunk = awaited(inference, observed)
duration = time.monotonic() - start
if chunk is None or chunk.shape != (10, 6) or not np.isfinite(chunk).all():
    sys.exit(f"ACT: got {chunk}, expected ten actions of six numbers")
if not np.array_equal(chunk, awaited(inference, observed)):
    sys.exit("ACT: same observation, different chunk")
requested = []
runner = PolicyRunner(
    env,
    LockstepInference(lambda observed: requested.append(1) or awaited(inference, observed), 0.1),
    rate=30.0,
)
runner.reset(seed=0)
for _ in range(30):
    runner.step()
inference.close()
if runner.fault or not (~runner.log["held"]).sum() > 20:
    sys.exit(f"ACT: {runner.fault}, expected actions")
try:
    CpuInference(saved, CellEnv("reach", rate=30.0), python=python)
except PolicyFailed as error:
    if "observation.images.overview: trained with [3, 96, 128]" not in str(error):
        sys.exit(f"ACT: unexpected error for another environment: {error}")
else:
    sys.exit("ACT: another environment was not rejected")
sys.stdout.write(
    f"ACT: {len(requested)} chunks executed, the first one after {1e3 * duration:.0f} ms\n"
)
