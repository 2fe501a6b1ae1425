# SPDX-License-Identifier: Apache-2.0
"""Pick a bar up with one gripper, hand it to the other one in the air, and put it down.

Run: .venv/bin/python examples/13_hand_over.py

The planner avoids collisions of arms, objects and the grasped bar. Grippers may touch only the
bar and the table. The grasp is simulated: only contacts hold the bar.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np

from multipanda_py import Cell, Pose
from multipanda_py.config.cell_file import CellConfig

CONTROLLET = "joint_trajectory_controller"
BAR = {"shape": "box", "size": [0.16, 0.015, 0.015], "position": [0.45, 0.16, 0.215],
       "mass": 0.05}  # fmt: skip
TABLE = {"shape": "box", "size": [0.2, 0.3, 0.1], "position": [0.45, 0.0, 0.1]}
NEAR = {
    "collision_avoidance": {"fixed_objects": "without_gripper", "arms": False}
}  # Fingers may come close to the table.
END = 0.125  # Distance of a grasp from the centre of the bar [m].
OVER = np.array([0.0, 0.0, 0.07])  # Offset of the poses before a grasp and after a release [m].
IN_THE_AIR, GOAL = np.array([0.45, 0.0, 0.42]), np.array([0.45, -0.16, 0.215])


def cell_with_a_bar() -> Cell:
    """Return a cell with two arms, their grippers, a table and a bar."""
    return Cell(
        CellConfig.from_dict(
            {
                "cell": {"name": "hand_over", "placement": "inline"},
                "arms": {
                    "left": {"position": [0.0, 0.3, 0.0]},
                    "right": {"position": [0.0, -0.3, 0.0]},
                },
                "objects": {"table": TABLE, "bar": BAR},
                "controllets": {CONTROLLET: {"type": "joint_trajectory", "params": NEAR}},
                "active": [f"left/{CONTROLLET}", f"right/{CONTROLLET}"],
            }
        )
    )


class GripperArm:
    """Arm with a gripper that grasps from above."""

    def __init__(self, cell: Cell, arm: str, end: float) -> None:
        self.cell, self.arm, self.gripper = cell, arm, cell.gripper(arm)
        self.end = np.array([end, 0.0, 0.0])  # Grasp, relative to the centre of the bar [m].
        self.aside = np.array([0.0, 0.15 if arm == "left" else -0.15, 0.05])
        self.base = cell.descriptions[arm].position_base_in_world

    def go(self, centre: np.ndarray, touching: tuple[str, ...] = ()) -> None:
        """Move to the grasp of a bar with this centre, (3,) [m]."""
        here = self.cell.pose(self.arm)
        self.move(here.with_position(centre + self.end - self.base), touching)

    def carry(self, centre: np.ndarray) -> None:
        """Carry the bar until its centre is here, (3,) [m], whatever its orientation."""
        here, bar = self.cell.pose(self.arm), self.cell.objects()["bar"]
        low = BAR["size"][0] * abs(bar.rotation[2, 0])  # Height of its centre above its lower end.
        displacement = centre + [0.0, 0.0, low + 0.003] - bar.position
        self.move(here.with_position(here.position + displacement), ("table",))

    def pick(self, centre: np.ndarray) -> None:
        """Approach the bar from above, and grasp it."""
        self.gripper.move(0.078).wait()
        self.go(centre + OVER)
        self.go(centre, ("bar", "table"))
        grasped = self.gripper.grasp(width=0.03, force=60.0).wait()
        print(f"{self.arm}: {grasped.text}")
        if not grasped.succeeded:
            raise SystemExit(f"{self.arm} has not grasped the bar")

    def release(self) -> None:
        """Open the gripper, and move up and aside."""
        self.gripper.move(0.078).wait()
        here = self.cell.pose(self.arm)
        up = here.with_position(here.position + 0.5 * OVER)
        self.move(up.with_position(up.position + self.aside), ("bar", "table"), [{self.arm: up}])

    def move(
        self, pose: Pose, touching: tuple[str, ...], via: Sequence[dict[str, Pose]] = ()
    ) -> None:
        """Move to a pose. The other arm stays, as its goal is its current configuration."""
        stay = {arm: self.cell.state(arm).q for arm in self.cell.arms if arm != self.arm}
        options = {
            "path_constraint": "orientation",
            "clearance": 0.01,
            "velocity_scaling": 0.5,
            "planning_time": 60.0,
        }
        self.cell.move_to({**stay, self.arm: pose}, via=via, allowed_contacts=touching, **options)


def main() -> float:
    """Hand the bar over; return its final distance from its goal [m]."""
    with cell_with_a_bar() as cell:
        cell.step(200)
        left, right = GripperArm(cell, "left", -END), GripperArm(cell, "right", END)
        left.pick(cell.objects()["bar"].position)
        left.carry(IN_THE_AIR)
        right.pick(cell.objects()["bar"].position)
        left.release()
        right.carry(GOAL + OVER)
        right.carry(GOAL)
        right.release()
        cell.step(300)
        bar = cell.objects()["bar"]
        error = float(np.linalg.norm(bar.position - GOAL))
        print(f"the bar lies {1e3 * error:.1f} mm from its goal, after {cell.time:.1f} s")
        return error


if __name__ == "__main__":
    sys.exit(main() > 0.02)
