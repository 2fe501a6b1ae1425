# SPDX-License-Identifier: Apache-2.0
"""Tasks that grasp and carry objects, with one or two arms."""

from __future__ import annotations

import numpy as np

from multipanda_py.learning.gym.task import GymTask, closeness
from multipanda_py.learning.gym.task_scene import TABLE, TABLE_HEIGHT, TOOL_DOWN, TaskScene, turned
from multipanda_py.pose import Pose
from multipanda_py.state import Vector

_CUBE_HALF_EDGE = 0.02  # Half edge of the cube [m].
_CUBE_TOLERANCE = 0.015  # Maximum distance of the cube from its goal at the end [m].
_MAX_CUBE_OPENING = 0.62
"""Maximum opening of a gripper that holds the cube, from 0 (closed) to 1 (open)."""


class PickAndPlace(GymTask):
    """Transport of a cube of 4 cm and 50 g to a point with the gripper."""

    arms = {"arm": {}}
    objects = {
        "table": TABLE,
        "cube": {"shape": "box", "size": [_CUBE_HALF_EDGE] * 3,
                 "position": [0.45, 0.0, TABLE_HEIGHT + _CUBE_HALF_EDGE],
                 "mass": 0.05, "friction": 1.0, "rgba": [0.8, 0.25, 0.2, 1.0]},
    }  # fmt: skip
    goal_size = 3
    time_limit = 12.0

    def reset(self, scene: TaskScene, random: np.random.Generator) -> Vector:
        """Place the cube at random on the table, and return a random goal above the table."""
        at, yaw = random.uniform([0.4, -0.15], [0.55, 0.15]), random.uniform(-0.6, 0.6)
        scene.set_object_pose(
            "cube", Pose(np.array([*at, TABLE_HEIGHT + _CUBE_HALF_EDGE]), turned(yaw))
        )
        return random.uniform([0.4, -0.2, TABLE_HEIGHT + 0.08], [0.58, 0.2, TABLE_HEIGHT + 0.25])

    def reward(self, scene: TaskScene) -> float:
        """Return the sum of 0.3 a and 0.7 a b, where a and b measure proximity from 0 to 1.

        a is the proximity of gripper and cube, and b that of cube and goal (:func:`.closeness`).
        """
        cube = scene.object_pose("cube").position
        reaching = closeness(scene.distance(scene.tool_pose("arm").position, cube), 0.1)
        return 0.3 * reaching + 0.7 * closeness(scene.distance(cube, scene.goal), 0.15) * reaching

    def is_success(self, scene: TaskScene) -> bool:
        """Return True if the cube is within 15 mm of the goal and 30 mm of the tool."""
        cube = scene.object_pose("cube").position
        in_hand = scene.distance(scene.tool_pose("arm").position, cube) < 0.03
        return in_hand and scene.distance(cube, scene.goal) < _CUBE_TOLERANCE

    def expert(self, scene: TaskScene, time: float) -> dict[str, tuple[Pose, float]]:
        """Return tool pose and gripper opening that grasp the cube and carry it to the goal."""
        return {"arm": grasp_and_carry(scene, "arm", "cube", scene.goal, _MAX_CUBE_OPENING)}


def grasp_and_carry(
    scene: TaskScene, arm: str, object_name: str, goal: Vector, grasped: float
) -> tuple[Pose, float]:
    """Return the next tool pose and gripper opening to grasp an object and carry it to a goal.

    Args:
        scene: Current scene.
        arm: Name of an arm with a gripper.
        object_name: Name of the object, which is grasped from above across its x axis.
        goal: Desired position of the centre of the object in the world frame, (3,) [m].
        grasped: Gripper opening below which the object counts as grasped, from 0 to 1.
    """
    pose, tool = scene.object_pose(object_name), scene.tool_pose(arm)
    yaw = float(np.arctan2(pose.rotation[1, 0], pose.rotation[0, 0]))
    # The object looks the same after 90 degrees, so 45 degrees suffice for the tool.
    yaw = (yaw + np.pi / 4) % (np.pi / 2) - np.pi / 4
    down = turned(yaw) @ TOOL_DOWN
    off = pose.position - tool.position
    is_over = float(np.linalg.norm(off[:2])) < 0.012
    is_there = is_over and abs(float(off[2])) < 0.012
    has_it = (
        is_there
        and scene.gripper_opening(arm) < grasped
        and scene.cell.gripper(arm).state().is_grasped
    )
    if has_it:
        return Pose(tool.position + (goal - pose.position), tool.rotation), 0.0
    if is_there:
        return Pose(pose.position, down), 0.0
    if is_over:
        return Pose(pose.position, down), 1.0
    return Pose(pose.position + np.array([0.0, 0.0, 0.1]), down), 1.0


_BRICK_HALF_EDGES = np.array([0.03, 0.02, 0.02])
_BRICK = {"shape": "box", "size": _BRICK_HALF_EDGES.tolist(), "mass": 0.06, "friction": 1.0}
_BRICK_TOLERANCE = 0.012  # Maximum distance of the upper brick from its goal at the end [m].
_MAX_BRICK_OPENING = 0.62
"""Maximum opening of a gripper that holds a brick, from 0 (closed) to 1 (open)."""
_ASIDE_POSITIONS = {
    "left": np.array([0.4, 0.3, TABLE_HEIGHT + 0.25]),
    "right": np.array([0.4, -0.3, TABLE_HEIGHT + 0.25]),
}


class StackBricks(GymTask):
    """Stack of two bricks: the left arm places the lower one, the right arm the upper one."""

    arms = {"left": {"position": [0.0, 0.3, 0.0]}, "right": {"position": [0.0, -0.3, 0.0]}}
    objects = {
        "table": TABLE,
        "lower": {
            **_BRICK,
            "position": [0.5, 0.2, TABLE_HEIGHT + _BRICK_HALF_EDGES[2]],
            "rgba": [0.2, 0.5, 0.8, 1.0],
        },
        "upper": {
            **_BRICK,
            "position": [0.5, -0.2, TABLE_HEIGHT + _BRICK_HALF_EDGES[2]],
            "rgba": [0.9, 0.6, 0.1, 1.0],
        },
    }
    goal_size = 3
    time_limit = 30.0

    def reset(self, scene: TaskScene, random: np.random.Generator) -> Vector:
        """Place both bricks at random, and return the goal of the centre of the lower one."""
        for name, side in (("lower", 1.0), ("upper", -1.0)):
            at = random.uniform([0.45, 0.16], [0.55, 0.24]) * [1.0, side]
            scene.set_object_pose(
                name,
                Pose(
                    np.array([*at, TABLE_HEIGHT + _BRICK_HALF_EDGES[2]]),
                    turned(random.uniform(-0.4, 0.4)),
                ),
            )
        self._phase = 0
        return np.array([0.5, 0.0, TABLE_HEIGHT + _BRICK_HALF_EDGES[2]])

    _phase = 0

    def _brick_errors(self, scene: TaskScene) -> tuple[float, float]:
        lower, upper = scene.object_pose("lower").position, scene.object_pose("upper").position
        # The goal of the upper brick is on top of the present position of the lower one.
        on_top = lower + [0.0, 0.0, 2.0 * _BRICK_HALF_EDGES[2]]
        return scene.distance(lower, scene.goal), scene.distance(upper, on_top)

    def reward(self, scene: TaskScene) -> float:
        """Return the sum of 0.5 a and 0.5 b c, where a, b and c measure proximity from 0 to 1.

        a and c are proximities of the lower brick to its goal, with length scales of 10 cm and 5
        cm. b is the proximity of the upper brick to the top of the lower one (:func:`.closeness`).
        """
        lower, upper = self._brick_errors(scene)
        return 0.5 * closeness(lower, 0.1) + 0.5 * closeness(upper, 0.1) * closeness(lower, 0.05)

    def is_success(self, scene: TaskScene) -> bool:
        """Return True if the bricks are stacked and both grippers are open."""
        lower, upper = self._brick_errors(scene)
        let_go = all(scene.gripper_opening(arm) > _MAX_BRICK_OPENING for arm in self.arms)
        return let_go and lower < 2.0 * _BRICK_TOLERANCE and upper < _BRICK_TOLERANCE

    def expert(self, scene: TaskScene, time: float) -> dict[str, tuple[Pose, float]]:
        """Return tool poses and gripper openings that place the lower, then the upper brick."""
        lower, upper = scene.object_pose("lower").position, scene.object_pose("upper").position
        aside = {arm: (Pose(at, TOOL_DOWN), 1.0) for arm, at in _ASIDE_POSITIONS.items()}
        on_top = lower + [0.0, 0.0, 2.0 * _BRICK_HALF_EDGES[2] + 0.002]
        if self._phase == 0:
            done = scene.distance(lower, scene.goal + [0.0, 0.0, 0.004]) < 0.006
            self._phase += done
            left = self._carry_brick(scene, "left", "lower", scene.goal + [0.0, 0.0, 0.004])
            return aside | {"left": left}
        if self._phase == 1:
            self._phase += scene.tool_pose("left").position[1] > 0.2
            return aside | {"left": self._release_and_retreat(scene, "left")}
        if self._phase == 2:
            self._phase += scene.distance(upper, on_top) < 0.006
            return aside | {"right": self._carry_brick(scene, "right", "upper", on_top)}
        return aside | {"right": self._release_and_retreat(scene, "right")}

    def _carry_brick(
        self, scene: TaskScene, arm: str, object_name: str, goal: Vector
    ) -> tuple[Pose, float]:
        at = scene.object_pose(object_name).position
        over = goal + [0.0, 0.0, 0.08]
        is_over = scene.distance(at[:2], goal[:2]) < 0.006
        return grasp_and_carry(
            scene, arm, object_name, goal if is_over else over, _MAX_BRICK_OPENING
        )

    def _release_and_retreat(self, scene: TaskScene, arm: str) -> tuple[Pose, float]:
        tool = scene.tool_pose(arm)
        if scene.gripper_opening(arm) < 0.9:
            return tool, 1.0
        if tool.position[2] < TABLE_HEIGHT + 0.15:
            return tool.with_position(tool.position + [0.0, 0.0, 0.1]), 1.0
        return Pose(_ASIDE_POSITIONS[arm], TOOL_DOWN), 1.0


_BAR_HALF_EDGES = np.array([0.16, 0.015, 0.015])
_GRASP_DISTANCE = 0.125
"""Distance from the centre of the bar to each grasp point [m]."""
_MEETING_POINT = np.array([0.5, 0.0, TABLE_HEIGHT + 0.22])
_BAR_ALONG_Y = turned(0.5 * np.pi)
"""Orientation of the bar along the y axis of the world, with one end in front of each arm."""
_GRIPPER_ORIENTATION = _BAR_ALONG_Y @ TOOL_DOWN
"""Orientation of a gripper that grasps the bar across its length."""
_MAX_BAR_OPENING = 0.5
"""Maximum opening of a gripper that holds the bar, from 0 (closed) to 1 (open)."""


class HandOver(GymTask):
    """Handover of a 32 cm bar from the left gripper to the right gripper.

    The bar starts on the table in front of the left arm. At the end only the right gripper holds
    it, above the table.
    """

    arms = {"left": {"position": [0.0, 0.3, 0.0]}, "right": {"position": [0.0, -0.3, 0.0]}}
    objects = {
        "table": TABLE,
        "bar": {"shape": "box", "size": _BAR_HALF_EDGES.tolist(),
                "position": [0.5, 0.18, TABLE_HEIGHT + _BAR_HALF_EDGES[2]],
                "rpy": [0.0, 0.0, 1.5708], "mass": 0.05, "friction": 1.0,
                "rgba": [0.9, 0.6, 0.1, 1.0]},
    }  # fmt: skip
    time_limit = 25.0
    # Collision avoidance between the arms would keep the grippers apart during the handover.
    params = {"collision_avoidance": {"arms": False}}

    def reset(self, scene: TaskScene, random: np.random.Generator) -> Vector:
        """Place the bar at random in front of the left arm. The task has no goal vector."""
        at = random.uniform([0.45, 0.14], [0.55, 0.2])
        scene.set_object_pose(
            "bar", Pose(np.array([*at, TABLE_HEIGHT + _BAR_HALF_EDGES[2]]), _BAR_ALONG_Y)
        )
        self._phase = 0
        return np.zeros(0)

    _phase = 0

    def _holds(self, scene: TaskScene, arm: str) -> bool:
        return (
            scene.gripper_opening(arm) < _MAX_BAR_OPENING
            and scene.cell.gripper(arm).state().is_grasped
        )

    def reward(self, scene: TaskScene) -> float:
        """Return the progress of the handover.

        - Before a grasp, it is 0 to 1/6 and increases with the proximity of left gripper and bar.
        - While only the left gripper holds the bar, it is 1/3 to 2/3 and increases with the
          proximity of right gripper and bar.
        - Once the right gripper holds the bar, it is 0.8 until the task is done.
        """
        left, right = (self._holds(scene, arm) for arm in self.arms)
        near = closeness(
            scene.distance(scene.tool_pose("left").position, scene.object_pose("bar").position)
            - _GRASP_DISTANCE,
            0.2,
        )
        if not (left or right):
            return near / 6.0
        if not right:
            distance = (
                scene.distance(
                    scene.tool_pose("right").position, scene.object_pose("bar").position
                )
                - _GRASP_DISTANCE
            )
            return (1.0 + closeness(distance, 0.2)) / 3.0
        return 0.8

    def is_success(self, scene: TaskScene) -> bool:
        """Return True if only the right gripper holds the bar, above the table."""
        is_up = float(scene.object_pose("bar").position[2]) > TABLE_HEIGHT + 0.08
        return is_up and self._holds(scene, "right") and scene.gripper_opening("left") > 0.8

    def expert(self, scene: TaskScene, time: float) -> dict[str, tuple[Pose, float]]:
        """Return tool poses and gripper openings for the present phase of the handover."""
        bar = scene.object_pose("bar")
        # The left arm grasps and lifts the bar, the right one grasps it, the left one releases.
        ends = {"left": bar.position + _GRASP_DISTANCE * bar.rotation[:, 0],
                "right": bar.position - _GRASP_DISTANCE * bar.rotation[:, 0]}  # fmt: skip
        wait = Pose(np.array([0.5, -0.3, TABLE_HEIGHT + 0.3]), _GRIPPER_ORIENTATION)
        if self._phase == 0:
            left = self._take(scene, "left", ends["left"])
            self._phase += self._holds(scene, "left")
            return {"left": left, "right": (wait, 1.0)}
        left_at = _MEETING_POINT + np.array([0.0, _GRASP_DISTANCE, 0.0])
        if self._phase == 1:
            self._phase += scene.distance(scene.tool_pose("left").position, left_at) < 0.015
            return {"left": (Pose(left_at, _GRIPPER_ORIENTATION), 0.0), "right": (wait, 1.0)}
        if self._phase == 2:
            self._phase += self._holds(scene, "right")
            return {"left": (Pose(left_at, _GRIPPER_ORIENTATION), 0.0),
                    "right": self._take(scene, "right", ends["right"])}  # fmt: skip
        right = scene.tool_pose("right")
        up = scene.tool_pose("left").with_position(
            scene.tool_pose("left").position + np.array([0.0, 0.05, 0.1])
        )
        if scene.gripper_opening("left") < 0.85:
            up = scene.tool_pose("left")
        return {"left": (up, 1.0), "right": (right, 0.0)}

    def _take(self, scene: TaskScene, arm: str, at: Vector) -> tuple[Pose, float]:
        tool = scene.tool_pose(arm).position
        off = at - tool
        # The fingers close along x, so the tolerance along x is smaller than along the bar (y).
        is_over = abs(float(off[0])) < 0.012 and abs(float(off[1])) < 0.03
        is_there = is_over and abs(float(off[2])) < 0.012
        goal = at if is_over else at + np.array([0.0, 0.0, 0.08])
        return Pose(goal, _GRIPPER_ORIENTATION), 0.0 if is_there else 1.0


_LIFT_TABLE_HEIGHT = 0.3  # Height of the top of the table [m].
_BOX_HALF_EDGES = np.array([0.06, 0.08, 0.1])
"""Half edges of the box [m]."""
_LIFT_TOLERANCE = 0.02  # Maximum distance of the box from its goal height at the end [m].
_PRESS_DEPTH = 0.04
"""Depth of the tip targets inside the box. The springs then press with this depth [m]."""
_GRASP_HEIGHT = 0.04
"""Height of the grasp above the centre of the box [m]. The box then hangs between the tips."""
_APPROACH_DISTANCE = 0.015
"""Distance of the tips from the box before they press [m]."""
_MISALIGNMENTS = (0.01, 0.03)
"""Offset of a tip from its grasp point, parallel to the side of the box [m]. Up to the first value
the expert presses fully, and from the second on it does not press."""
_CONTACT_GAPS = (0.003, 0.01)
"""Gap between tip and box up to which contact counts fully, and from which it does not [m]."""
_SLIP_MISALIGNMENT = 0.04
"""Increase of both offsets in ``_MISALIGNMENTS`` for tips in contact, which may slip [m]."""
_PRESS_FORCES = (8.0, 18.0)
"""Pressing force up to which the expert does not lift, and from which it lifts fully [N]."""
_MAX_LEAD_HEIGHT = 0.02
"""Maximum height of the tool targets above the grasp points on the box while lifting [m]."""
_SIDES = {"left": 1.0, "right": -1.0}
_TIP_TOOL = {"mass": 0.2, "com": [0.0, 0.0, 0.03], "position": [0.0, 0.0, 0.06], "friction": 1.0,
        "inertia": [1e-3, 1e-3, 1e-3, 0.0, 0.0, 0.0]}  # fmt: skip
_INWARD_ROTATIONS = {
    "left": np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]]),
    "right": np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, -1.0, 0.0]]),
}
"""Orientations of tools that point at each other along y."""


class LiftBox(GymTask):
    """Two-arm lift of a box of 12 x 16 x 20 cm and 0.8 kg by 15 cm."""

    arms = {
        "left": {"position": [0.0, 0.3, 0.0], "gripper": False, "tool": _TIP_TOOL,
                 "q_start": [0.4451, 0.02959, -0.5255, -2.25892, -1.61219, 1.64112, 0.71578]},
        "right": {"position": [0.0, -0.3, 0.0], "gripper": False, "tool": _TIP_TOOL,
                  "q_start": [-0.73593, 0.03744, 0.82009, -2.25883, 1.60509, 1.65203, -0.71612]},
    }  # fmt: skip
    objects = {
        "table": {"shape": "box", "size": [0.2, 0.2, 0.02],
                  "position": [0.5, 0.0, _LIFT_TABLE_HEIGHT - 0.02],
                  "rgba": [0.72, 0.6, 0.45, 1.0]},
        "box": {"shape": "box", "size": _BOX_HALF_EDGES.tolist(),
                "position": [0.5, 0.0, _LIFT_TABLE_HEIGHT + _BOX_HALF_EDGES[2]],
                "mass": 0.8, "rgba": [0.85, 0.33, 0.2, 1.0]},
    }  # fmt: skip
    goal_size = 1
    time_limit = 10.0
    allowed_contacts = ("left box", "right box")

    _rest = Pose.identity()

    def reset(self, scene: TaskScene, random: np.random.Generator) -> Vector:
        """Place the box at random, and return the goal height of its centre, (1,) [m]."""
        at, yaw = random.uniform([0.47, -0.01], [0.53, 0.01]), random.uniform(-0.1, 0.1)
        self._rest = Pose(np.array([*at, _LIFT_TABLE_HEIGHT + _BOX_HALF_EDGES[2]]), turned(yaw))
        scene.set_object_pose("box", self._rest)
        return np.array([_LIFT_TABLE_HEIGHT + _BOX_HALF_EDGES[2] + 0.15])

    def _sum_of_tip_distances(self, scene: TaskScene) -> float:
        box = scene.object_pose("box")
        return sum(
            scene.distance(
                scene.tool_pose(arm).position,
                box.position + side * _BOX_HALF_EDGES[1] * box.rotation[:, 1],
            )
            for arm, side in _SIDES.items()
        )

    def reward(self, scene: TaskScene) -> float:
        """Return 0.3 times the proximity of tool tips and box plus 0.7 times the lifted fraction.

        The lifted fraction is 0 at the start height of the box and 1 at the goal height.
        """
        risen = 1.0 - abs(float(scene.goal[0] - scene.object_pose("box").position[2])) / 0.15
        return 0.3 * closeness(self._sum_of_tip_distances(scene), 0.2) + 0.7 * max(
            0.0, min(1.0, risen)
        )

    def is_success(self, scene: TaskScene) -> bool:
        """Return True if the box is upright and within 20 mm of the goal height."""
        box = scene.object_pose("box")
        is_upright = float(box.rotation[2, 2]) > 0.95
        return is_upright and abs(float(scene.goal[0] - box.position[2])) < _LIFT_TOLERANCE

    def expert(self, scene: TaskScene, time: float) -> dict[str, tuple[Pose, float]]:
        """Return tool poses that approach both sides of the box, press, and lift it."""
        # The poses depend continuously on the scene, not on time, so a policy can imitate them.
        box, goal = scene.object_pose("box"), float(scene.goal[0])
        yaw = float(np.arctan2(box.rotation[1, 0], box.rotation[0, 0]))
        grip = box.position + [0.0, 0.0, _GRASP_HEIGHT]
        gaps = np.array(
            [
                (scene.tool_pose(arm).position - grip) @ turned(yaw) * [1.0, side, 1.0]
                for arm, side in _SIDES.items()
            ]
        )
        pressing = min(abs(float(scene.force(arm) @ turned(yaw)[:, 1])) for arm in _SIDES)
        touches = _fade_out(float(gaps[:, 1].max()) - float(_BOX_HALF_EDGES[1]), *_CONTACT_GAPS)
        aside = float(np.hypot(gaps[:, 0], gaps[:, 2]).max()) - _SLIP_MISALIGNMENT * touches
        beside = _fade_out(aside, *_MISALIGNMENTS)
        holds = beside * touches * _fade_out(-pressing, -_PRESS_FORCES[1], -_PRESS_FORCES[0])
        inside = beside * (_PRESS_DEPTH + _APPROACH_DISTANCE) - _APPROACH_DISTANCE
        lift = holds * float(np.clip(goal - box.position[2], 0.0, _MAX_LEAD_HEIGHT))
        # The tools follow the rotation of the box until they hold it, and then rotate it to zero.
        frame = turned((1.0 - holds) * yaw)
        middle = grip + [0.0, 0.0, lift]
        return {
            arm: (
                Pose(
                    middle + side * (_BOX_HALF_EDGES[1] - inside) * frame[:, 1],
                    frame @ _INWARD_ROTATIONS[arm],
                ),
                1.0,
            )
            for arm, side in _SIDES.items()
        }


def _fade_out(value: float, full: float, empty: float) -> float:
    # 1 up to ``full``, 0 from ``empty``, linear in between.
    return float(np.clip((empty - value) / (empty - full), 0.0, 1.0))
