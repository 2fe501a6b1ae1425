# SPDX-License-Identifier: Apache-2.0
"""Move two simulated arms from Python, without ROS: switch, set gains, send targets.

Run: .venv/bin/python examples/01_move_two_arms.py
"""

from __future__ import annotations

from pathlib import Path

from multipanda_py import Cell, Pose

CONFIG = Path(__file__).parent.parent / "config" / "dual_sim.yaml"

# "inline" computes as fast as possible, and every run gives the same result to the last bit.
# "process" runs the same loop at 1 kHz in real time.
with Cell.from_yaml(CONFIG, placement="inline") as cell:
    print("active:", ", ".join(cell.active))

    result = cell.switch(["dual_cartesian_impedance_controller"], strictness="force_auto")
    print(result.message)
    cell.set_parameters(
        "dual_cartesian_impedance_controller", {"stiffness": [800.0] * 3 + [40.0] * 3}
    )

    start = {arm: cell.pose(arm) for arm in cell.arms}
    for arm, pose in start.items():
        cell.set_target(arm, Pose(pose.position + [0.0, 0.0, 0.1], pose.rotation))
    for _ in range(8):
        cell.step(250)
        heights = [cell.pose(arm).position[2] - start[arm].position[2] for arm in cell.arms]
        print(f"{cell.state('left').time:5.2f} s  lifted", " ".join(f"{h:.4f} m" for h in heights))
