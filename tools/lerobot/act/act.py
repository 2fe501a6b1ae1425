# SPDX-License-Identifier: Apache-2.0
"""Let an ACT of LeRobot's own environment act for a second, in lockstep with its answers.

Usage: python act.py POLICY LEROBOT_PYTHON, as ``make test-lerobot`` does
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


class Beside(LeRobotInference):
    """With what torchvision lacks here."""

    MAKE = "act_policy:make"
    FOLDERS = (Path(__file__).parent,)


def awaited(inference: LeRobotInference, observed: dict[str, Any]) -> np.ndarray | None:
    """Return the answer to a question."""
    inference.request(observed, 0.0)
    end = time.monotonic() + 60.0
    while (answer := inference.receive(0.0)) is None and time.monotonic() < end:
        time.sleep(0.002)
    return answer


env = CellEnv("push", rate=30.0, cameras={"overview": (96, 128)})
inference = Beside(saved, env, python=python, instruction="push the puck")
observed, _ = env.reset(seed=0)
begun = time.monotonic()
chunk = awaited(inference, observed)
took = time.monotonic() - begun
if chunk is None or chunk.shape != (10, 6) or not np.isfinite(chunk).all():
    sys.exit(f"ACT: got {chunk}, expected ten actions of six numbers")
if not np.array_equal(chunk, awaited(inference, observed)):
    sys.exit("ACT: another answer to the same question")
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
    Beside(saved, CellEnv("reach", rate=30.0), python=python)
except PolicyFailed as refused:
    if "observation.images.overview: trained with [3, 96, 128]" not in str(refused):
        sys.exit(f"ACT: another environment: {refused}")
else:
    sys.exit("ACT: another environment was not refused")
sys.stdout.write(
    f"ACT: {len(requested)} chunks played, the first answer after {1e3 * took:.0f} ms\n"
)
