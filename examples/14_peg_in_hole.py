# SPDX-License-Identifier: Apache-2.0
"""Insert a peg into a hole with 0.5 mm of clearance on each side, by contact.

Run: .venv/bin/python examples/14_peg_in_hole.py [seed]

The peg has a diameter of 16 mm and slips a little in the gripper. The pose of the hole is known
to 3 mm and 2 degrees. The arm presses lightly and searches in a spiral until the tip drops into
the hole. Its compliance then aligns the peg. The grasp is simulated: only contacts hold the peg.
"""

from __future__ import annotations

import sys

import numpy as np

from multipanda_py import Cell, Pose
from multipanda_py.config.cell_file import CellConfig

CONTROLLET = "cartesian_impedance_controller"
RADIUS, LENGTH, CLEARANCE = 0.008, 0.09, 0.0005  # Peg, and its distance from each wall [m].
TABLE, BLOCK = 0.2, 0.04  # Heights [m].
HOLE, PEG = np.array([0.5, 0.1]), np.array([0.5, -0.1])  # Positions on the table [m].
GRIP = 0.01  # Height of the fingers above the centre of the peg [m].
DOWN = np.diag([1.0, -1.0, -1.0])  # Orientation of a gripper that points down.
PITCH, SPEED = 0.0007, 0.006  # Spiral of the search [m, m/s].
PRESS = 0.015  # Depth of the target below the block: the spring exerts 6 N [m].
DROP = 0.005  # Minimum drop of the gripper when the tip enters the hole [m].
STEP = 20  # Number of cycles between targets.


def walls() -> dict[str, dict[str, object]]:
    """Return the four walls of a block with a square hole."""
    inner, thick, half = RADIUS + CLEARANCE, 0.03, 0.5 * BLOCK
    made: dict[str, dict[str, object]] = {}
    for name, side in (("front", (1.0, 0.0)), ("back", (-1.0, 0.0)),
                       ("left", (0.0, 1.0)), ("right", (0.0, -1.0))):  # fmt: skip
        position = HOLE + np.array(side) * (inner + thick)
        size = [thick, inner + 2 * thick, half] if side[0] else [inner + 2 * thick, thick, half]
        made[f"wall_{name}"] = {
            "shape": "box", "size": size, "position": [*position.tolist(), TABLE + half],
            "friction": 0.2, "contact_time": 0.005,
        }  # fmt: skip
    return made


def bench() -> Cell:
    """Return a cell with an arm, an upright peg, and a block with a hole."""
    top = {
        "shape": "box",
        "contact_time": 0.005,
        "size": [0.2, 0.3, TABLE / 2],
        "position": [0.5, 0.0, TABLE / 2],
    }
    peg = {
        "shape": "cylinder",
        "size": [RADIUS, LENGTH / 2],
        "mass": 0.05,
        "friction": 0.4,
        "position": [*PEG.tolist(), TABLE + LENGTH / 2],
    }
    soft = {"stiffness": [1200.0, 1200.0, 400.0, 25.0, 25.0, 40.0]}
    return Cell(
        CellConfig.from_dict(
            {
                "cell": {"name": "peg", "placement": "inline"},
                "arms": {"arm": {}},
                "objects": {"table": top, "peg": peg, **walls()},
                "controllets": {CONTROLLET: {"type": "cartesian_impedance", "params": soft}},
                "active": [f"arm/{CONTROLLET}"],
            }
        )
    )


class GripperArm:
    """Arm with a gripper, and its last target."""

    def __init__(self, cell: Cell) -> None:
        self.cell, self.gripper = cell, cell.gripper("arm")
        self.goal = cell.pose("arm")

    def send(self, pose: Pose) -> None:
        """Send a target, and simulate until the next one."""
        self.goal = pose
        self.cell.set_target("arm", pose)
        self.cell.step(STEP)

    def go(self, position: np.ndarray, rotation: np.ndarray = DOWN) -> None:
        """Move in a straight line at 0.15 m/s."""
        begin, end = self.goal, Pose(position, rotation)
        steps = max(1, round(begin.distance(end)[0] / 0.15 / (1e-3 * STEP)))
        for k in range(steps):
            self.send(begin.interpolate(end, (k + 1) / steps))
        self.cell.step(300)

    def depth(self) -> float:
        """Return the depth of the tip of the peg in the hole [m]."""
        peg = self.cell.objects()["peg"]
        tip = peg.position - 0.5 * LENGTH * abs(peg.rotation[2, 2]) * np.array([0.0, 0.0, 1.0])
        is_inside = np.abs(tip[:2] - HOLE).max() < RADIUS
        return float(TABLE + BLOCK - tip[2]) if is_inside else 0.0


def main(seed: int = 0) -> float:
    """Insert the peg; return its final depth [m]."""
    random = np.random.default_rng(seed)
    observed = HOLE + random.uniform(-0.003, 0.003, 2)
    tilt = Pose.from_rpy(np.zeros(3), [*random.uniform(-0.035, 0.035, 2), 0.0]).rotation
    with bench() as cell:
        cell.step(100)
        arm = GripperArm(cell)
        arm.gripper.move(0.06).wait()
        position = np.array([*PEG, TABLE + 0.5 * LENGTH + GRIP])
        over = np.array([0.0, 0.0, 0.1])
        arm.go(position + over)
        arm.go(position)
        grasped = arm.gripper.grasp(width=2 * RADIUS, force=60.0).wait()
        if not grasped.succeeded:
            raise SystemExit(f"the peg is not in the gripper: {grasped.text}")
        arm.go(position + over)
        height = TABLE + BLOCK + 0.5 * LENGTH + GRIP
        arm.go(np.array([*observed, height + 0.03]), tilt @ DOWN)
        arm.go(np.array([*observed, height - PRESS]), tilt @ DOWN)
        for k in range(1500):  # A spiral at constant speed, PITCH wider after each revolution.
            if cell.pose("arm").position[2] < height - DROP:  # Measured by the arm, not simulated.
                break
            angle = np.sqrt(4.0 * np.pi * k * 1e-3 * STEP * SPEED / PITCH)
            around = PITCH * angle / (2.0 * np.pi) * np.array([np.cos(angle), np.sin(angle)])
            arm.send(Pose(np.array([*(observed + around), height - PRESS]), tilt @ DOWN))
        searched = k * STEP * 1e-3
        inside = cell.pose("arm").position
        arm.go(np.array([*inside[:2], inside[2] - 0.04]), tilt @ DOWN)
        arm.gripper.move(0.06).wait()
        cell.step(300)
        depth = arm.depth()
        print(
            f"seed {seed}: {1e3 * depth:.1f} mm deep of {1e3 * BLOCK:.0f}, after {searched:.1f} s "
            f"of search, {cell.time:.1f} s in all"
        )
        return depth


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 0) < 0.03)
