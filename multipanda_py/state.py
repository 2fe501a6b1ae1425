# SPDX-License-Identifier: Apache-2.0
"""State of an arm at one instant.

Each cycle of the loop fills one cycle record with its times and the state of every arm. The record
is an element of a NumPy structured array (:mod:`multipanda_py.realtime.cycle_record`). The arrays
in :class:`ArmState` are views of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol, SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import ConfigurationError

MAX_TORQUE_FRACTION = 0.9
"""Fraction of the torque limits that the wrench of a controllet may use. The rest is for damping
and features."""
LIMIT_NAMES = ("lower", "upper", "velocity", "acceleration", "jerk", "torque", "torque_rate")


@dataclass(frozen=True, eq=False)
class ArmLimits:
    """Limits of the n joints of an arm, each a read-only array of shape (n,).

    For a prismatic joint, the units are m instead of rad and N instead of Nm.

    Attributes:
        lower: Minimum position [rad]; -inf for a continuous joint.
        upper: Maximum position [rad]; inf for a continuous joint.
        velocity: Maximum speed [rad/s].
        acceleration: Maximum acceleration [rad/s^2].
        jerk: Maximum jerk [rad/s^3].
        torque: Maximum torque [Nm].
        torque_rate: Maximum rate of a commanded torque [Nm/s].
        slides: Mask of the prismatic joints; by default all False.
        whole_torque: Maximum of torque plus gravity compensation with compliant actuators [Nm]; by
            default inf.

    Raises:
        ConfigurationError: If a shape is wrong, a number is not finite, lower and upper bounds are
            reversed, or a prismatic joint has no position limits.
    """

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    velocity: NDArray[np.float64]
    acceleration: NDArray[np.float64]
    jerk: NDArray[np.float64]
    torque: NDArray[np.float64]
    torque_rate: NDArray[np.float64]
    slides: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=bool))
    whole_torque: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        joints = np.size(self.lower)
        for name in LIMIT_NAMES:
            array = np.array(getattr(self, name), dtype=np.float64)
            endless = self.endless if name in ("lower", "upper") else False
            if array.shape != (joints,) or not joints or not (np.isfinite(array) | endless).all():
                raise ConfigurationError(
                    f"limits: {name}: got {array}, allowed {joints or 'some'} finite numbers"
                )
            if name not in ("lower", "upper") and (array <= 0.0).any():
                raise ConfigurationError(f"limits: {name} must be positive, got {array}")
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        whole = np.array(self.whole_torque if np.size(self.whole_torque) else [np.inf] * joints)
        if whole.shape != (joints,) or not (whole > 0.0).all():
            raise ConfigurationError(f"limits: whole_torque must be positive, got {whole}")
        whole.flags.writeable = False
        object.__setattr__(self, "whole_torque", whole)
        slides = np.array(self.slides if np.size(self.slides) else [False] * joints)
        slides.flags.writeable = False
        object.__setattr__(self, "slides", slides)
        if (slides & self.endless).any():
            raise ConfigurationError(
                f"limits: lower and upper: joint {int(slides.argmax()) + 1} is prismatic and "
                "needs finite numbers"
            )
        if (self.lower >= self.upper).any():
            raise ConfigurationError(
                f"limits: lower must be below upper, got {self.lower} and {self.upper}"
            )

    @property
    def n_joints(self) -> int:
        return self.lower.size

    @property
    def bears_weight(self) -> bool:
        """True if ``whole_torque`` limits the sum of torque and gravity compensation."""
        return bool(np.isfinite(self.whole_torque).any())

    def unit(self, joint: SupportsIndex, of: str = "rad") -> str:
        """Return a unit for one joint: m instead of rad and N instead of Nm if it is prismatic.

        Args:
            joint: Index of the joint.
            of: Unit for a revolute joint, such as ``rad/s``.
        """
        return of.replace("Nm", "N").replace("rad", "m") if self.slides[joint] else of

    @property
    def endless(self) -> NDArray[np.bool_]:
        """Mask of the continuous joints, (n,)."""
        return np.isneginf(self.lower) & np.isposinf(self.upper)

    @property
    def span(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Minimum and maximum position of each joint, (n,) each [rad]; -pi, pi if continuous."""
        lower = np.where(self.endless, -np.pi, self.lower)
        return lower, np.where(self.endless, np.pi, self.upper)

    def nearest(self, q: NDArray[np.float64], here: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return equivalent joint positions, as near as possible to ``here``, (n,) [rad].

        Only continuous joints may differ from ``q``, by whole rotations.

        Args:
            q: Joint positions, (n,) [rad].
            here: Positions near which the result should be, (n,) [rad].
        """
        rotations = np.round((here - q) / math.tau)
        return q + np.where(self.endless, math.tau * rotations, 0.0)

    def with_torque_rate(self, rate: float | None) -> ArmLimits:
        """Return a copy with the torque rate limited to ``rate`` [Nm/s]; None for no change."""
        if rate is None:
            return self
        return replace(self, torque_rate=np.minimum(self.torque_rate, rate))


@dataclass(frozen=True)
class GateLimits:
    """Limits of the gate, which checks each target at its arrival.

    Attributes:
        position: Maximum distance of a pose from the measured one [m].
        rotation: Maximum angle to the measured orientation [rad].
        joint: Maximum distance of a joint from its measured position [rad, m].
        force: Maximum force [N].
        torque: Maximum torque [Nm].
        linear_speed: Maximum linear velocity [m/s].
        angular_speed: Maximum angular velocity [rad/s].
    """

    position: float
    rotation: float
    joint: float
    force: float
    torque: float
    linear_speed: float
    angular_speed: float


CONTROLLET_TORQUE_MODE = -1
"""Value of the operation mode if the springs exert the torque that a controllet commands."""


class ActuatorState:
    """Live state of the compliant actuators of an arm with n joints.

    Every array is a view of the cycle record, empty in a cell without compliant actuators. Joints
    without springs have zeros. Arrays (2, n) have one row per motor.

    Attributes:
        command: Command of a controllet, (4, n). Row 0 is the operation mode, or
            :data:`CONTROLLET_TORQUE_MODE`. Rows 1 and 2 are the two commands of this mode; NaN
            keeps the previous one. Row 3 is an external torque on the joint [Nm].
        mode: Index of the current operation mode, (n,).
        reference: Commanded motor positions, (2, n) [rad, or m for a linear motor].
        position: Measured motor positions, (2, n).
        velocity: Measured motor velocities, (2, n).
        torque: Motor torques, (2, n) [Nm].
        load: Spring torques on the motors, (2, n) [Nm].
        carried: Torque that the robot adds to that of a controllet, mainly for gravity
            compensation, (n,) [Nm].

    Thread: control.
    """

    __slots__ = (
        "carried", "command", "load", "mode", "position", "reference", "torque", "velocity",
    )  # fmt: skip

    def __init__(self, record: NDArray[np.void], joints: int) -> None:
        self.command: NDArray[np.float64] = record["actuator_command"][:, :joints]
        self.mode: NDArray[np.int64] = record["actuator_mode"][:joints]
        self.reference: NDArray[np.float64] = record["motor_reference"][:, :joints]
        self.position: NDArray[np.float64] = record["motor_position"][:, :joints]
        self.velocity: NDArray[np.float64] = record["motor_velocity"][:, :joints]
        self.torque: NDArray[np.float64] = record["motor_torque"][:, :joints]
        self.load: NDArray[np.float64] = record["spring_torque"][:, :joints]
        self.carried: NDArray[np.float64] = record["tau_weight"][:joints]

    def leave_to_controllet(self) -> None:
        """Set ``command`` so that all springs exert the torque ``tau`` of a controllet.

        External torques on the joints (row 3) become zero.
        """
        self.command[:] = np.nan
        self.command[0], self.command[3] = CONTROLLET_TORQUE_MODE, 0.0

    def for_readers(self) -> ActuatorState:
        """Return a read-only view of this state; only ``command`` stays writable."""
        reader = copy(self)
        for name in self.__slots__:
            view = getattr(self, name).view()
            view.flags.writeable = name == "command"
            setattr(reader, name, view)
        return reader


Vector: TypeAlias = NDArray[np.float64]
Matrix: TypeAlias = NDArray[np.float64]

JOINTS = 7
"""Default number of joints of an arm; see :attr:`ArmState.n_joints`."""
COMMAND_INTERFACES = ("effort", "position", "velocity")
"""Command interfaces of an arm, named as in ros2_control: joint torques, positions, velocities.
Records store the index in this tuple."""
MAX_REPORT_VALUES = 12
"""Maximum number of values that a controllet reports each cycle."""


class TaskSpaceDynamics(Protocol):
    r"""Task-space dynamics at the tool that controllets share; see :class:`.TaskInertia`.

    With the Jacobian J (6, n) and the joint-space inertia M (n, n):

    .. math:: \Lambda^{-1} = J M^{-1} J^T

    Attributes:
        minv_jt: :math:`M^{-1} J^T`, (n, 6).
        inertia_inv: :math:`\Lambda^{-1}`, (6, 6).
        inertia: Inertia :math:`\Lambda_d`, (6, 6): :math:`\Lambda`, bounded by damping near
            singularities.
        damping: Squared damping factor :math:`\lambda^2` of :math:`\Lambda_d`; zero far from
            singularities.
    """

    minv_jt: Matrix
    inertia_inv: Matrix
    inertia: Matrix
    damping: float

    def update(self, mass: Matrix, jacobian: Matrix) -> None:
        """Recompute all attributes from inertia matrix and Jacobian of a configuration.

        Args:
            mass: Inertia matrix M, (n, n) [kg m^2].
            jacobian: Jacobian J of the tool in the base, (6, n).
        """

    def projection_inertia(self) -> Matrix:
        r"""Return the inertia for nullspace projectors of joint torques, (6, 6), symmetric.

        It equals :math:`\Lambda` far from singularities.
        """

    def removed_inertia(self) -> Matrix:
        r"""Return the inertia that the damping removes, :math:`\Lambda - \Lambda_d`, (6, 6)."""

    def damped_inertia_with(self, slower: float) -> Matrix:
        r"""Return :math:`\Lambda_d` for a larger or smaller damping, (6, 6).

        Args:
            slower: Factor on the squared damping :math:`\lambda^2`.
        """

    @property
    def manipulability(self) -> float:
        r"""Smallest eigenvalue of :math:`\Lambda^{-1}` [1/kg]."""

    def eigen(self) -> tuple[Vector, Matrix]:
        r"""Return ascending eigenvalues (6,) and eigenvectors (6, 6) of :math:`\Lambda^{-1}`."""

    def apply_inertia(self, acceleration: Vector, out: Vector) -> Vector:
        r"""Compute :math:`\Lambda_d a` for a task acceleration a, and return the array ``out``.

        Args:
            acceleration: Task acceleration a, (6,) [m/s^2, rad/s^2].
            out: Output wrench, (6,) [N, Nm].
        """


class ArmState:
    """Live state of one arm with n joints, as controllets receive it.

    The loop refills every array each cycle. Copy data that must outlive the cycle, and do not
    write to an array. Pose, twist, wrench and Jacobian refer to the origin of the tool frame
    ``description.ee_frame``, along the axes of the arm's base.

    Attributes:
        name: Name of the arm in the cell.
        limits: Joint limits of the robot model.
        n_joints: Number of joints, n.
        q: Joint positions, (n,) [rad].
        dq: Joint velocities, (n,) [rad/s].
        joint_state: Joint positions and velocities, (2, n).
        q_dq: Joint positions, then joint velocities, (2 N,). N is the largest number of joints of
            an arm in the cell; unused elements are zero.
        tau_J: Measured joint torques, gravity included, (n,) [Nm].
        tau_ext: Estimated external joint torques, (n,) [Nm].
        tau: Torques commanded in the last cycle, gravity excluded, (n,) [Nm].
        tau_gravity: Gravity compensation that the loop adds, (n,) [Nm]; zero for an arm that
            compensates gravity itself.
        tau_weight: Gravity compensation for which the loop reserves a part of the torque limits,
            (n,) [Nm].
        joint_command: Positions, velocities and accelerations commanded in the last cycle, (3, n)
            [rad, rad/s, rad/s^2]. Undefined under torque control.
        position_ee_in_base: Position of the tool, (3,) [m].
        rotation_ee_in_base: Rotation matrix of the tool, (3, 3).
        pose_ee_in_base: Position, then the rotation matrix row by row, (12,).
        twist_ee_in_base: Linear then angular velocity, (6,) [m/s, rad/s].
        wrench_ext_in_base: Force and torque that the environment exerts on the tool, (6,) [N, Nm].
        finger_positions: Finger positions, (2,) [m].
        gripper: Number of the last gripper command, its :class:`.Outcome`, and 1 if an object is
            grasped, (3,).
        actuators: Commands and state of the compliant actuators; empty without such actuators.
        attached_object: Number of the movable object in the gripper, from 1, (); 0 if empty.
        robot_time: Clock of the robot; 0 for a simulated arm, () [s].
        robot_mode: Operating mode, as numbered by libfranka; 0 for a simulated arm, ().
        robot_errors: Bit masks of the robot's current errors and of those that ended the previous
            motion, (2,).
        jacobian: Geometric Jacobian J, (6, n).
        jacobian_gram: Gram matrix :math:`J J^T`, (6, 6).
        mass_matrix: Joint-space inertia with reflected rotor inertia, (n, n) [kg m^2].
        coriolis: Coriolis and centrifugal torques C(q, dq) dq, (n,) [Nm].
        hessian: Function that computes dJ/dq, (n, n, 6). Element [k, j, r] is the derivative of
            ``jacobian[r, j]`` with respect to joint k.

    Thread: control.
    """

    __slots__ = (
        "_reader",
        "_space",
        "_space_is_fresh",
        "_task_inertia_requested",
        "actuators",
        "attached_object",
        "coriolis",
        "dq",
        "finger_positions",
        "gripper",
        "hessian",
        "jacobian",
        "jacobian_gram",
        "joint_command",
        "joint_state",
        "limits",
        "mass_matrix",
        "n_joints",
        "name",
        "pose_ee_in_base",
        "position_ee_in_base",
        "q",
        "q_dq",
        "robot_errors",
        "robot_mode",
        "robot_time",
        "rotation_ee_in_base",
        "tau",
        "tau_J",
        "tau_ext",
        "tau_gravity",
        "tau_weight",
        "twist_ee_in_base",
        "wrench_ext_in_base",
    )

    def __init__(self, name: str, limits: ArmLimits, record: NDArray[np.void]) -> None:
        """Create a state whose arrays are views of a cycle record.

        Args:
            name: Name of the arm in the cell.
            limits: Joint limits of the robot model.
            record: Element of the field ``arms`` of the cycle record, shape (). Its fields ``q``
                and ``dq`` must be adjacent, as must position and rotation of the tool.
        """
        self.name = name
        self.limits = limits
        self.n_joints = joints = limits.n_joints  # The record is sized for the largest arm.
        self.q: Vector = record["q"][:joints]
        self.dq: Vector = record["dq"][:joints]
        self.q_dq: Vector = _view_of_both(record, "q", "dq")
        self.joint_state: Matrix = self.q_dq.reshape(2, -1)[:, :joints]
        self.tau_J: Vector = record["tau_J"][:joints]
        self.tau_ext: Vector = record["tau_ext"][:joints]
        self.tau: Vector = record["tau"][:joints]
        self.tau_gravity: Vector = record["tau_gravity"][:joints]
        self.tau_weight: Vector = self.tau_gravity
        self.joint_command: Matrix = record["joint_command"][:, :joints]
        self.position_ee_in_base: Vector = record["position_ee_in_base"]
        self.rotation_ee_in_base: Matrix = record["rotation_ee_in_base"]
        self.pose_ee_in_base: Vector = _view_of_both(
            record, "position_ee_in_base", "rotation_ee_in_base"
        )
        self.twist_ee_in_base: Vector = record["twist_ee_in_base"]
        self.wrench_ext_in_base: Vector = record["wrench_ext_in_base"]
        self.finger_positions: Vector = record["finger_positions"]
        self.gripper: NDArray[np.int64] = record["gripper"]
        self.attached_object: NDArray[np.int64] = record["attached_object"]
        self.robot_time: Vector = record["robot_time"]
        self.robot_mode: NDArray[np.int64] = record["robot_mode"]
        self.robot_errors: NDArray[np.int64] = record["robot_errors"]
        self.actuators = ActuatorState(record, joints)
        self.jacobian: Matrix = np.zeros((6, joints))
        self.jacobian_gram: Matrix = np.zeros((6, 6))
        self.mass_matrix: Matrix = np.eye(joints)
        self.coriolis: Vector = np.zeros(joints)
        # Default until ``attach`` sets the Hessian of a model.
        self.hessian: Callable[[], Matrix] = partial(np.zeros, (joints, joints, 6))
        self._space: TaskSpaceDynamics
        self._space_is_fresh = self._task_inertia_requested = False
        self._reader: ArmState | None = None

    def for_readers(self) -> ArmState:
        """Return a state with read-only views of the same arrays, after :meth:`attach`.

        Only ``jacobian`` is writable, because the dynamics model replaces it in every cycle.

        Thread: any, before the loop runs.
        """
        if self._reader is None:
            reader = copy(self)
            for name in self.__slots__:
                result = getattr(self, name, None)
                if isinstance(result, np.ndarray):
                    setattr(reader, name, result.view())
                    getattr(reader, name).flags.writeable = False
            reader.actuators = self.actuators.for_readers()
            self._reader = reader
        return self._reader

    def attach(
        self,
        mass: Matrix,
        coriolis: Vector,
        hessian: Callable[[], Matrix],
        space: TaskSpaceDynamics,
    ) -> None:
        """Set the arrays of the dynamics model, which the model refills every cycle.

        Args:
            mass: Inertia matrix, (n, n) [kg m^2].
            coriolis: Coriolis and centrifugal torques, (n,) [Nm].
            hessian: Function that returns the kinematic Hessian, (n, n, 6).
            space: Task-space dynamics of the tool.

        Thread: any, once.
        """
        self.mass_matrix, self.coriolis, self.hessian, self._space = mass, coriolis, hessian, space

    def check_in_place(self, row: Vector) -> None:
        """Check that no plug-in has replaced an array of this state, as by ``state.q = ...``.

        Args:
            row: Cycle record, of which all arrays must be views.

        Raises:
            TypeError: If an array was replaced.

        Thread: any, before the loop runs.
        """
        for name in (
            "q",
            "dq",
            "tau_J",
            "tau_ext",
            "tau",
            "finger_positions",
            "gripper",
            "attached_object",
        ):
            result = getattr(self, name)
            if not isinstance(result, np.ndarray) or not np.may_share_memory(result, row):
                raise TypeError(
                    f"state.{name} of {self.name}: the array was replaced. Write in place: "
                    f"state.{name}[...] = ..."
                )

    def invalidate(self) -> None:
        """Discard the cached result of :meth:`operational_space`, after an update of the model.

        The state from :meth:`for_readers` then receives the new Jacobian.
        """
        self._space_is_fresh = False
        reader = self._reader
        if reader is not None:
            reader.jacobian = self.jacobian
            reader._space_is_fresh = False

    def operational_space(self) -> TaskSpaceDynamics:
        """Return the task-space dynamics at the tool, computed at most once per cycle."""
        if not self._space_is_fresh:
            self._space.update(self.mass_matrix, self.jacobian)
            self._space_is_fresh = self._task_inertia_requested = True
        return self._space

    def look_ahead(self) -> None:
        """Compute :meth:`operational_space` in spare time, if the controllet has used it before.

        Thread: control.
        """
        reader = self._reader
        if reader is not None and reader._task_inertia_requested:
            reader.operational_space()

    def change_controllet(self) -> None:
        """Let :meth:`look_ahead` do nothing until the new controllet uses the dynamics.

        Thread: control.
        """
        if self._reader is not None:
            self._reader._task_inertia_requested = False


def _view_of_both(record: NDArray[np.void], first: str, second: str) -> Vector:
    # The fields are adjacent.
    numbers, fields = ("f8", record[first].size + record[second].size), record.dtype.fields
    start, size = fields[first][1] if fields else 0, record.dtype.itemsize
    view = np.dtype(
        {"names": ["both"], "formats": [numbers], "offsets": [start], "itemsize": size}
    )
    both: Vector = record.view(view)["both"]
    return both


@dataclass(frozen=True, eq=False)
class ArmSnapshot:
    """Immutable copy of one arm's state; fields as in :class:`ArmState`.

    Attributes:
        time: Time of the state [s]: simulated time, or robot time with real arms.
        owner: Name of the controllet that owns the arm.
        fault: Name of the latched fault, or an empty string.
        interface: Active command interface, one of :data:`COMMAND_INTERFACES`.
        joint_command: Commanded positions, velocities and accelerations, (3, n); undefined under
            torque control.
    """

    name: str
    time: float
    q: Vector
    dq: Vector
    tau_J: Vector
    tau_ext: Vector
    tau: Vector
    position_ee_in_base: Vector
    rotation_ee_in_base: Matrix
    twist_ee_in_base: Vector
    wrench_ext_in_base: Vector
    finger_positions: Vector
    owner: str
    fault: str
    interface: str = COMMAND_INTERFACES[0]
    joint_command: Matrix = field(default_factory=lambda: np.zeros((3, 0)))

    @property
    def is_commanded_to_move(self) -> bool:
        """True if position or velocity commands move the arm."""
        return self.interface != COMMAND_INTERFACES[0] and bool(self.joint_command[1].any())
