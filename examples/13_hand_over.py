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

LAW = "joint_trajectory_controller"
BAR = {"shape": "box", "size": [0.16, 0.015, 0.015], "position": [0.45, 0.16, 0.215],
       "mass": 0.05}  # fmt: skip
TABLE = {"shape": "box", "size": [0.2, 0.3, 0.1], "position": [0.45, 0.0, 0.1]}
NEAR = {
    "collision_avoidance": {"fixed_objects": "without_gripper", "arms": False}
}  # Fingers may come close to the table.
END = 0.125  # Distance of a grasp from the middle of the bar [m].
OVER = np.array([0.0, 0.0, 0.07])  # Offset of the poses before a grasp and after a release [m].
IN_THE_AIR, PLACE = np.array([0.45, 0.0, 0.42]), np.array([0.45, -0.16, 0.215])


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
                "controllets": {LAW: {"type": "joint_trajectory", "params": NEAR}},
                "active": [f"left/{LAW}", f"right/{LAW}"],
            }
        )
    )


class Hand:
    """Arm with a gripper that grasps from above."""

    def __init__(self, cell: Cell, arm: str, end: float) -> None:
        self.cell, self.arm, self.fingers = cell, arm, cell.gripper(arm)
        self.end = np.array([end, 0.0, 0.0])  # Grasp, relative to the middle of the bar [m].
        self.aside = np.array([0.0, 0.15 if arm == "left" else -0.15, 0.05])
        self.base = cell.descriptions[arm].position_base_in_world

    def go(self, middle: np.ndarray, touching: tuple[str, ...] = ()) -> None:
        """Move to the grasp of a bar with this middle, (3,) [m]."""
        here = self.cell.pose(self.arm)
        self.move(here.with_position(middle + self.end - self.base), touching)

    def carry(self, middle: np.ndarray) -> None:
        """Carry the bar until its middle is here, (3,) [m], however it has rotated."""
        here, bar = self.cell.pose(self.arm), self.cell.objects()["bar"]
        low = BAR["size"][0] * abs(bar.rotation[2, 0])  # Height of its middle above its lower end.
        way = middle + [0.0, 0.0, low + 0.003] - bar.position
        self.move(here.with_position(here.position + way), ("table",))

    def take(self, middle: np.ndarray) -> None:
        """Approach the bar from above, and grasp it."""
        self.fingers.move(0.078).wait()
        self.go(middle + OVER)
        self.go(middle, ("bar", "table"))
        grasped = self.fingers.grasp(width=0.03, force=60.0).wait()
        print(f"{self.arm}: {grasped.text}")
        if not grasped.succeeded:
            raise SystemExit(f"{self.arm} has not grasped the bar")

    def leave(self) -> None:
        """Open the fingers, and move up and aside."""
        self.fingers.move(0.078).wait()
        here = self.cell.pose(self.arm)
        up = here.with_position(here.position + 0.5 * OVER)
        self.move(up.with_position(up.position + self.aside), ("bar", "table"), [{self.arm: up}])

    def move(
        self, pose: Pose, touching: tuple[str, ...], via: Sequence[dict[str, Pose]] = ()
    ) -> None:
        """Move to a pose. The other arm has its own pose as its goal, so it does not give way."""
        stay = {arm: self.cell.state(arm).q for arm in self.cell.arms if arm != self.arm}
        how = {
            "path_constraint": "orientation",
            "clearance": 0.01,
            "velocity_scaling": 0.5,
            "planning_time": 60.0,
        }
        self.cell.move_to({**stay, self.arm: pose}, via=via, allowed_contacts=touching, **how)


def main() -> float:
    """Hand the bar over; return its final distance from its place [m]."""
    with cell_with_a_bar() as cell:
        cell.step(200)
        left, right = Hand(cell, "left", -END), Hand(cell, "right", END)
        left.take(cell.objects()["bar"].position)
        left.carry(IN_THE_AIR)
        right.take(cell.objects()["bar"].position)
        left.leave()
        right.carry(PLACE + OVER)
        right.carry(PLACE)
        right.leave()
        cell.step(300)
        bar = cell.objects()["bar"]
        off = float(np.linalg.norm(bar.position - PLACE))
        print(f"the bar lies {1e3 * off:.1f} mm from its place, after {cell.time:.1f} s")
        return off


if __name__ == "__main__":
    sys.exit(main() > 0.02)
