# SPDX-License-Identifier: Apache-2.0
"""Scene of a plan: arms, movable objects, their frames, and the variables of a slice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from multipanda_py.config.describe import describe_arms, describe_objects
from multipanda_py.exceptions import ConfigurationError, PlanRejected, UnknownName
from multipanda_py.pose import Pose
from multipanda_py.registry import needed
from multipanda_py.robots import ArmDescription, SceneObject
from multipanda_py.robots.dynamics.arm_dynamics import build_pinocchio
from multipanda_py.state import Matrix, Vector

if TYPE_CHECKING:
    from multipanda_py.config.cell_file import CellConfig


_SMALL_ANGLE = 1e-6
"""Length of a rotation vector below which series replace the quotients of its Jacobian [rad].
Their error is below 1e-13."""


def skew(vectors: Vector) -> Matrix:
    """Return the cross-product matrices of vectors, (s, 3) to (s, 3, 3)."""
    result = np.zeros((*vectors.shape, 3))
    x, y, z = vectors[..., 0], vectors[..., 1], vectors[..., 2]
    result[..., 0, 1], result[..., 0, 2], result[..., 1, 2] = -z, y, -x
    result[..., 1, 0], result[..., 2, 0], result[..., 2, 1] = z, -y, x
    return result


def exp3(vectors: Vector) -> Matrix:
    """Return the rotation matrices of rotation vectors, (s, 3) to (s, 3, 3)."""
    # SciPy needs a writable array, so the vectors are copied.
    rotation = needed("scipy.spatial.transform").Rotation
    result: Matrix = rotation.from_rotvec(np.array(vectors)).as_matrix()
    return result


def log3(rotations: Matrix) -> Vector:
    """Return the rotation vectors of rotation matrices, with angles up to pi, (s, 3)."""
    rotation = needed("scipy.spatial.transform").Rotation
    result: Vector = rotation.from_matrix(np.array(rotations)).as_rotvec()
    return result


def left_jacobian(vectors: Vector) -> Matrix:
    r"""Return the left Jacobians J of rotation vectors w, (s, 3, 3).

    .. math:: J = I + \frac{1 - \cos\theta}{\theta^2} [w]_\times
        + \frac{\theta - \sin\theta}{\theta^3} [w]_\times^2

    They map the rate of w to the angular velocity in the fixed frame. :math:`\theta` is the length
    of w.
    """
    angle, cross = _angle_and_cross(vectors)
    small = angle < _SMALL_ANGLE
    safe = np.where(small, 1.0, angle)
    first = np.where(small, 0.5, (1.0 - np.cos(safe)) / safe**2)
    second = np.where(small, 1.0 / 6.0, (safe - np.sin(safe)) / safe**3)
    result: Matrix = np.eye(3) + first * cross + second * (cross @ cross)
    return result


def left_jacobian_inverse(vectors: Vector) -> Matrix:
    r"""Return the inverse of :func:`left_jacobian`, (s, 3, 3).

    .. math:: J^{-1} = I - \frac{1}{2} [w]_\times
        + \left(\frac{1}{\theta^2} - \frac{\cot(\theta / 2)}{2 \theta}\right) [w]_\times^2

    with the rotation vector w of length :math:`\theta`.
    """
    angle, cross = _angle_and_cross(vectors)
    # For small angles, the series avoids the difference of two large quotients.
    small = angle < 1e-3
    safe = np.where(small, 1.0, angle)
    exact = 1.0 / safe**2 - 1.0 / (2.0 * safe * np.tan(safe / 2.0))
    second = np.where(small, 1.0 / 12.0 + angle**2 / 720.0, exact)
    result: Matrix = np.eye(3) - 0.5 * cross + second * (cross @ cross)
    return result


def _angle_and_cross(vectors: Vector) -> tuple[Vector, Matrix]:
    angle = np.sqrt((vectors * vectors).sum(-1))[..., None, None]
    return angle, skew(vectors)


WORLD_FRAME = "world"
POSE_SIZE = 6
"""Number of variables of a movable object: position, then rotation vector from its start
orientation."""


class Scene:
    r"""Arms and objects of a plan, with the variables of a slice.

    A slice has the variables of all arms and movable objects at one time,

    .. math:: x = (q_1, \ldots, q_N, p_1, w_1, \ldots).

    q are the joint positions of the arms. Each movable object has a position p in the world [m]
    and a rotation vector w [rad] with less than a full turn. Its orientation is
    :math:`R = R_0 \exp [w]_\times`, with the initial orientation :math:`R_0`.

    Frames are ``world``, objects, frames of :meth:`add_frame`, the controlled frame ``left/tool``
    of the arm ``left``, and its links such as ``left/link7``.

    Args:
        arms: Descriptions of the arms, with their bases in the world.
        objects: Objects. Those with a mass are movable.
        configurations: Joint positions at the start by arm, (n,) each [rad, m]; ``ready`` by
            default.

    Attributes:
        arms: Descriptions of the arms, by name.
        objects: Objects, by name.
        columns: Columns of each arm and movable object in a slice.
        size: Number of variables of a slice, d.
        start: Slice at the start of a plan, (d,), read-only.
        lower: Lower joint limits, -inf for objects, (d,).
        upper: Upper joint limits, inf for objects, (d,).
        velocity: Maximum speeds, inf for objects, (d,).
        acceleration: Maximum accelerations, inf for objects, (d,).
        units: Unit of every variable, rad or m, (d,).
        frames: Parent frame and pose in it, by name of an added frame or attached object.

    Raises:
        ConfigurationError: If there is no arm, or two have the same name.
        PlanRejected: If a joint configuration has the wrong size or is not finite.
    """

    def __init__(
        self,
        arms: Sequence[ArmDescription],
        objects: Sequence[SceneObject] = (),
        configurations: Mapping[str, ArrayLike] | None = None,
    ) -> None:
        names = [
            WORLD_FRAME,
            *(arm.name for arm in arms),
            *(scene_object.name for scene_object in objects),
        ]
        if not arms:
            raise ConfigurationError("scene: got no arm, allowed one or more")
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ConfigurationError(f"scene: got the name {twice} twice, allowed each name once")
        self.arms = {arm.name: arm for arm in arms}
        self.objects = {scene_object.name: scene_object for scene_object in objects}
        self.columns: dict[str, slice] = {}
        self.size = 0
        movable = [scene_object for scene_object in objects if scene_object.mass > 0.0]
        for name, numbers in [
            *((arm.name, arm.n_joints) for arm in arms),
            *((scene_object.name, POSE_SIZE) for scene_object in movable),
        ]:
            self.columns[name] = slice(self.size, self.size + numbers)
            self.size += numbers
        bounds = np.full((4, self.size), np.inf)
        bounds[0] *= -1.0
        self.lower, self.upper, self.velocity, self.acceleration = bounds
        for arm in arms:
            at, limits = self.columns[arm.name], arm.limits
            self.lower[at], self.upper[at] = limits.lower, limits.upper
            self.velocity[at], self.acceleration[at] = limits.velocity, limits.acceleration
        slides = [joint for arm in arms for joint in arm.limits.slides]
        self.units = (
            *("m" if joint else "rad" for joint in slides),
            *(("m",) * 3 + ("rad",) * 3) * len(movable),
        )
        self.frames: dict[str, tuple[str, Pose]] = {}
        self._models: dict[str, Any] = {}
        self.start = np.zeros(self.size)
        for arm in arms:
            self.start[self.columns[arm.name]] = arm.robot.ready
        for obj in movable:
            self.start[self.columns[obj.name]][:3] = obj.position
        self.start = self.configuration(configurations or {})

    @classmethod
    def of(
        cls, config: CellConfig, configurations: Mapping[str, ArrayLike] | None = None
    ) -> Scene:
        """Create the scene of a cell file.

        Args:
            config: Configuration of the cell.
            configurations: Joint positions by arm, (n,) [rad, m]. Other arms start at ``ready``.
        """
        return cls(describe_arms(config), describe_objects(config), configurations)

    def carrying(self, held: Mapping[str, tuple[str, Pose]]) -> Scene:
        """Return a copy in which objects are fixed to tools, so their poses are no variables.

        Args:
            held: Frame ``ARM/tool`` and pose of the object in it, by name of the object.
        """
        for obj, (tool, _) in held.items():
            self.known("object", obj, [*self.objects])
            self.frame(tool)
        result = Scene(
            [*self.arms.values()],
            [
                replace(scene_object, mass=0.0) if name in held else scene_object
                for name, scene_object in self.objects.items()
            ],
            {arm: self.arm_configuration(self.start, arm) for arm in self.arms},
        )
        result.frames = {**self.frames, **held}
        return result

    def starting_at(self, configurations: Mapping[str, ArrayLike]) -> Scene:
        """Return a copy with other joint positions at the start, by arm, (n,) [rad, m]."""
        result = copy(self)
        result.start = self.configuration(configurations)
        return result

    def configuration(
        self, configurations: Mapping[str, ArrayLike], poses: Mapping[str, Pose] | None = None
    ) -> Vector:
        """Return the variables at the start with some of them replaced, (d,), read-only.

        Args:
            configurations: Joint positions by arm, (n,) [rad, m].
            poses: Poses in the world, by movable object.

        Raises:
            UnknownName: If there is no such arm or movable object.
            PlanRejected: If a joint configuration has the wrong size or is not finite.
        """
        x = self.start.copy()
        for name, configuration in configurations.items():
            at = self.columns[self.known("arm", name, [*self.arms])]
            try:
                q = np.asarray(configuration, dtype=np.float64)
            except (TypeError, ValueError):
                raise PlanRejected(
                    f"configuration of {name}: got {configuration!r:.60}, allowed numbers only"
                ) from None
            n = at.stop - at.start
            if q.shape != (n,) or not np.isfinite(q).all():
                raise PlanRejected(f"configuration of {name}: got {q}, allowed {n} finite numbers")
            x[at] = q
        for name, pose in (poses or {}).items():
            at = self.columns[self.known("movable object", name, self.movable)]
            rotation = self.objects[name].rotation.T @ pose.rotation
            x[at] = [*pose.position, *log3(rotation[None])[0]]
        x.flags.writeable = False
        return x

    @property
    def movable(self) -> list[str]:
        """Names of the movable objects, whose poses are variables of a plan."""
        return [name for name in self.columns if name in self.objects]

    def arm_configuration(self, x: Vector, arm: str) -> Vector:
        """Return the joint positions of an arm, (..., n) [rad, m].

        Args:
            x: Variables of all arms and objects at one or more time steps, (..., d).
            arm: Name of the arm.
        """
        return x[..., self.columns[self.known("arm", arm, [*self.arms])]]

    def pose(self, x: Vector, object_name: str) -> Pose:
        """Return the pose of a movable object in the world at one time step.

        Args:
            x: Variables of all arms and objects, (d,).
            object_name: Name of the object.
        """
        pose = x[self.columns[self.known("movable object", object_name, self.movable)]]
        return Pose(pose[:3], self.objects[object_name].rotation @ exp3(pose[None, 3:])[0])

    def add_frame(self, name: str, on: str, pose: Pose) -> None:
        """Add a frame, such as ``box/left_side``.

        Args:
            name: Name of the new frame.
            on: Name of the parent frame.
            pose: Pose in the parent frame.

        Raises:
            ConfigurationError: If the name exists already.
            UnknownName: If there is no such parent frame.
        """
        if name in self.frame_names:
            raise ConfigurationError(f"frame {name}: exists already. Choose another name")
        self.frames[self._check(name)] = (self.frame(on), pose)

    @property
    def frame_names(self) -> tuple[str, ...]:
        links = [
            f"{arm.name}/{link.removeprefix(arm.prefix)}"
            for arm in self.arms.values()
            for link in arm.link_names
        ]
        tools = [f"{arm}/tool" for arm in self.arms]
        return tuple(dict.fromkeys([WORLD_FRAME, *tools, *links, *self.objects, *self.frames]))

    def frame(self, name: str) -> str:
        """Check that a frame exists, and return its name.

        Raises:
            UnknownName: If there is no such frame.
        """
        return self.known("frame", name, self.frame_names)

    def model(self, arm: str) -> Any:
        """Return the pinocchio model of an arm, with its base at its pose in the world."""
        if arm not in self._models:
            self._models[arm] = build_pinocchio(self.arms[arm], base_in_world=True)
        return self._models[arm]

    def body(self, frame: str) -> str:
        """Return the name of the arm or object that carries a frame, or ``world``.

        Raises:
            UnknownName: If there is no such frame.
        """
        on = self.frame(frame)
        while on in self.frames:
            on = self.frames[on][0]
        return on if on in self.objects else on.partition("/")[0]

    @staticmethod
    def _check(name: str) -> str:
        if not name:
            raise ConfigurationError("frame: got an empty name. Give one")
        return name

    @staticmethod
    def known(kind: str, name: str, known: Sequence[str]) -> str:
        """Check that a name is among the known names, and return it.

        Args:
            kind: Kind of the name for the message, such as ``arm``.
            name: Name to check.
            known: Known names.

        Raises:
            UnknownName: If the name is not among them.
        """
        if name not in known:
            raise UnknownName(kind, name, tuple(known))
        return name
