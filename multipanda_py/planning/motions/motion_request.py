# SPDX-License-Identifier: Apache-2.0
"""Request for a collision-free motion, and the resulting plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from numbers import Integral, Real
from typing import Any, Literal, TypeAlias

import numpy as np
import pinocchio as pin

from multipanda_py.exceptions import PlanRejected
from multipanda_py.planning.optimiser.scene import Scene
from multipanda_py.pose import Pose
from multipanda_py.state import Matrix, Vector


def frames_at(scene: Scene, arm: str, goal: Pose | Vector) -> dict[str, pin.SE3]:
    """Return the poses in the world of the frames of an arm at a goal.

    A tool pose determines only frames fixed to the tool, so others are left out.

    Args:
        scene: Scene with the arm.
        arm: Name of the arm.
        goal: Joint configuration, (n,) [rad, m], or tool pose in the world.

    Returns:
        Poses by name: ``tool``, and frames of the URDF without the prefix of the arm.
    """
    model, described = scene.model(arm), scene.arms[arm]
    tool = model.frames[model.getFrameId(described.ee_frame)]
    result = {}
    if isinstance(goal, Pose):
        result["tool"] = pin.SE3(goal.rotation, goal.position)
        joint = result["tool"] * tool.placement.inverse()
        frames = [frame for frame in model.frames if frame.parentJoint == tool.parentJoint]
        placed = [joint * frame.placement for frame in frames]
    else:
        data = model.createData()
        pin.framesForwardKinematics(model, data, goal)
        result["tool"] = data.oMf[model.getFrameId(described.ee_frame)].copy()
        frames, placed = [*model.frames], [one.copy() for one in data.oMf]
    for frame, one in zip(frames, placed):
        result.setdefault(frame.name.removeprefix(described.prefix), one)
    return result


PathConstraint: TypeAlias = Literal["", "upright", "orientation"]
PATH_CONSTRAINTS: tuple[PathConstraint, ...] = ("", "upright", "orientation")
"""Constraints of the tool along the motion: none, vertical direction, or orientation."""
NUMBER_BOUNDS = {
    "clearance": (0.0, 0.5),
    "velocity_scaling": (0.01, 1.0),
    "planning_time": (0.01, 600.0),
}
"""Minimum and maximum of the numeric options of a request."""
MAX_WAYPOINTS = 100
"""Maximum number of goals of one motion, including the last one."""


@dataclass(frozen=True)
class MotionRequest:
    """Request for a collision-free motion.

    Attributes:
        waypoints: Waypoints in order, the goal last. Each maps names of arms to a tool pose in the
            world or a joint configuration, (n,). Other arms may move out of the way.
        path_constraint: Constraint of the tools of arms in ``waypoints``. ``orientation``: no
            rotation. ``upright``: only rotations about the vertical axis. Empty: no constraint.
        clearance: Minimum distance of bodies [m]. Executing controllets may need a larger one.
            Bodies that start closer and cannot move apart keep their initial distance.
        velocity_scaling: Fraction of the velocity limits. Its square is the fraction of the
            acceleration limits.
        planning_time: Maximum processor time of the search, without other threads [s].
        seed: Random seed. Equal seeds give equal motions.
        allowed_contacts: Names of objects that the grippers of arms in ``waypoints`` may touch.
            Attached objects may rest on them.
    """

    waypoints: Sequence[Mapping[str, Pose | Vector]]
    path_constraint: PathConstraint = ""
    clearance: float = 0.03
    velocity_scaling: float = 0.3
    planning_time: float = 5.0
    seed: int = 0
    allowed_contacts: Sequence[str] = ()

    def waypoint_name(self, number: int) -> str:
        """Return the name of a waypoint for messages; numbers start at 1."""
        return "goal" if number == len(self.waypoints) else f"via, goal {number}"

    def check(self) -> None:
        """Raise an error if the request is invalid.

        Raises:
            PlanRejected: If an option is invalid. The message contains the allowed values.
        """
        if not self.waypoints or not all(self.waypoints):
            raise PlanRejected("goals: got none. Give a goal for one arm or more")
        if len(self.waypoints) > MAX_WAYPOINTS:
            raise PlanRejected(
                f"via: got {len(self.waypoints) - 1} goals, allowed up to {MAX_WAYPOINTS - 1}. "
                f"Plan "
                "several motions"
            )
        if (
            not isinstance(self.path_constraint, str)
            or self.path_constraint not in PATH_CONSTRAINTS
        ):
            allowed = ", ".join(repr(keep) for keep in PATH_CONSTRAINTS)
            raise PlanRejected(
                f"path_constraint: got {self.path_constraint!r:.40}, allowed {allowed}"
            )
        _check_names(self.allowed_contacts)
        for name, (low, high) in NUMBER_BOUNDS.items():
            value = getattr(self, name)
            if not (_is_a(Real, value) and low <= value <= high):
                raise PlanRejected(
                    f"{name}: got {value!r:.40}, allowed a number from {low:g} to {high:g}"
                )
        if not (_is_a(Integral, self.seed) and self.seed >= 0):
            raise PlanRejected(f"seed: got {self.seed!r:.40}, allowed an integer >= 0")


def request_of(
    stops: Sequence[Mapping[str, Pose | Vector]], options: Mapping[str, Any]
) -> MotionRequest:
    """Create and check a request.

    Args:
        stops: Goals of every waypoint by arm: tool pose, or joint positions (n,) [rad, m].
        options: Other fields of :class:`MotionRequest`, by name.

    Raises:
        PlanRejected: If an option is unknown or has an invalid value.
    """
    known = [field.name for field in fields(MotionRequest) if field.name != "waypoints"]
    if unknown := [name for name in options if name not in known]:
        raise PlanRejected(f"options: got {', '.join(unknown)}, allowed {', '.join(known)}")
    request = MotionRequest(stops, **options)
    request.check()
    return request


def _is_a(kind: type, value: Any) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _check_names(names: Any) -> None:
    is_list = isinstance(names, (list, tuple, set, frozenset))
    if not is_list or not all(isinstance(name, str) for name in names):
        raise PlanRejected(f"allowed_contacts: got {names!r:.40}, allowed a list of names")


MAX_START_DEVIATION = 0.03
"""Maximum distance of a joint from the start of its plan at execution [rad, m]. The executing
controllet fades this distance out."""
STAY_TOLERANCE = 1e-4
"""Range of joint motion up to which an arm counts as not moving [rad, m]."""
MAX_OBJECT_TRANSLATION, MAX_OBJECT_ROTATION = 0.01, 0.05
"""Maximum translation [m] and rotation [rad] of an object after planning, up to which the plan is
executed."""


@dataclass(frozen=True, eq=False, repr=False)
class MotionPlan:
    """Trajectories of arms that start and end together.

    Attributes:
        points: Trajectory points by arm, as for :meth:`.Cell.follow_trajectory`, (p, 1 + 3 n).
        duration: Duration of the motion [s].
        starts: Joint configurations of all arms of the cell at the start, by arm, (n,).
        object_poses: Poses of the objects in the world at the start.
        held: Names of the attached objects, by arm.
        nearest: Minimum distance of bodies along the motion [m].
        reason: Result of the search in one sentence.
        controllet_params: Parameters of the executing controllets at the time of planning, by
            controllet.
    """

    points: Mapping[str, Matrix]
    duration: float
    starts: Mapping[str, Vector]
    object_poses: Mapping[str, Pose]
    held: Mapping[str, str]
    nearest: float
    reason: str
    controllet_params: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __repr__(self) -> str:
        arms = ", ".join(self.moving) or "no arm"
        return f"<MotionPlan of {arms}, {self.duration:.2f} s, {self.nearest:.3f} m apart>"

    @property
    def moving(self) -> tuple[str, ...]:
        """Names of the arms that move."""
        return tuple(
            arm
            for arm, rows in self.points.items()
            if np.ptp(rows[:, 1 : 1 + (rows.shape[1] - 1) // 3], axis=0).max() > STAY_TOLERANCE
        )

    def rows(self) -> Matrix:
        """Return the trajectory points of all arms, with m joints, as one array, (p, 1 + 3 m)."""
        points = [*self.points.values()]
        parts = [np.hsplit(rows[:, 1:], 3) for rows in points]
        result: Matrix = np.hstack(
            [points[0][:, :1], *(part[order] for order in range(3) for part in parts)]
        )
        return result

    def check(
        self,
        postures: Mapping[str, Vector],
        objects: Mapping[str, Pose],
        held: Mapping[str, str],
    ) -> None:
        """Raise an error if arms or objects have changed since the plan was made.

        Args:
            postures: Present joint configurations of all arms, by name, (n,).
            objects: Present poses of the objects in the world.
            held: Names of the objects that are attached now, by arm.

        Raises:
            PlanRejected: If something has changed. The message contains the difference.
        """
        if {*postures} != {*self.starts}:
            raise PlanRejected(
                f"plan: made for the arms {', '.join(self.starts)}, but this cell has "
                f"{', '.join(postures)}. Plan again with this cell"
            )
        for arm, configuration in postures.items():
            start = self.starts[arm]
            off = (
                float(np.abs(configuration - start).max())
                if configuration.shape == start.shape
                else np.inf
            )
            if not off <= MAX_START_DEVIATION:
                raise PlanRejected(
                    f"plan: a joint of {arm} is {off:.3f} rad from the start of the plan, "
                    f"allowed up to {MAX_START_DEVIATION:g} rad. Plan again"
                )
        for arm in postures:
            before, now = self.held.get(arm), held.get(arm)
            if before != now:
                raise PlanRejected(
                    f"plan: {arm} holds {now or 'nothing'}, but was planned with "
                    f"{before or 'nothing'}. Plan again"
                )
        if gone := sorted({*objects} ^ {*self.object_poses}):
            raise PlanRejected(
                f"plan: {', '.join(gone)} appeared or disappeared after planning. Plan again"
            )
        for name, pose in objects.items():
            distance, angle = pose.distance(self.object_poses[name])
            if distance > MAX_OBJECT_TRANSLATION or angle > MAX_OBJECT_ROTATION:
                raise PlanRejected(
                    f"plan: {name} is {distance:.3f} m and {angle:.2f} rad from its pose in the "
                    f"plan, allowed {MAX_OBJECT_TRANSLATION:g} m and {MAX_OBJECT_ROTATION:g} "
                    f"rad. Plan again"
                )
