# SPDX-License-Identifier: Apache-2.0
"""What is known of an arm at one instant.

One cycle of the loop fills one *row* (:mod:`multipanda_py.realtime.cycle_record`): a fixed-size
record with the cycle's times and every arm's state. The arrays that laws read are views of that
row, so recording a cycle is a single copy and nothing is gathered twice.
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
"""Fraction of the torque limits that a wrench of a law may take; the rest is for dampers and
features."""
NAMES = ("lower", "upper", "velocity", "acceleration", "jerk", "torque", "torque_rate")


@dataclass(frozen=True, eq=False)
class ArmLimits:
    """Limits of the n joints of an arm, each a read-only array of shape (n,).

    Of a joint that slides, read m for rad and N for Nm.

    Attributes:
        lower: Smallest position [rad]; -inf for a joint that turns without end.
        upper: Largest position [rad]; inf likewise.
        velocity: Largest speed [rad/s].
        acceleration: Largest acceleration [rad/s^2].
        jerk: Largest jerk [rad/s^3].
        torque: Largest torque [Nm].
        torque_rate: Largest change of a commanded torque [Nm/s].
        slides: Which joints slide; by default none.
        whole_torque: Of an arm that carries itself: largest torque with what carries it in it
            [Nm], as where springs end; by default inf, for a robot sees to that.

    Raises:
        ConfigurationError: If an array is not (n,), a number is not finite where it has to be,
            bounds are reversed, or a joint slides without end.
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
        """Copy the arrays, check them and make them read-only."""
        joints = np.size(self.lower)
        for name in NAMES:
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
                f"limits: lower and upper: got none for joint {int(slides.argmax()) + 1}, which "
                "slides; allowed finite numbers"
            )
        if (self.lower >= self.upper).any():
            raise ConfigurationError(
                f"limits: lower must be below upper, got {self.lower} and {self.upper}"
            )

    @property
    def n_joints(self) -> int:
        """Number of joints, n."""
        return self.lower.size

    @property
    def bears_weight(self) -> bool:
        """Whether what carries the arm is counted in a limit of its torque."""
        return bool(np.isfinite(self.whole_torque).any())

    def unit(self, joint: SupportsIndex, of: str = "rad") -> str:
        """Return a unit such as ``rad/s`` as it is for one joint, counted from 0."""
        return of.replace("Nm", "N").replace("rad", "m") if self.slides[joint] else of

    @property
    def endless(self) -> NDArray[np.bool_]:
        """Which joints turn without end, (n,)."""
        return np.isneginf(self.lower) & np.isposinf(self.upper)

    @property
    def span(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Positions that are all different, lowest and highest, (n,) each: at most one turn."""
        lower = np.where(self.endless, -np.pi, self.lower)
        return lower, np.where(self.endless, np.pi, self.upper)

    def nearest(self, q: NDArray[np.float64], here: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return q with joints that turn without end within half a turn of ``here``, (n,)."""
        turns = np.round((here - q) / math.tau)
        return q + np.where(self.endless, math.tau * turns, 0.0)

    def with_torque_rate(self, rate: float | None) -> ArmLimits:
        """Return the same limits, with a torque rate that is nowhere above ``rate`` [Nm/s]."""
        if rate is None:
            return self
        return replace(self, torque_rate=np.minimum(self.torque_rate, rate))


@dataclass(frozen=True)
class GateLimits:
    """Limits of a target when it arrives.

    Attributes:
        position: Distance of a pose from the measured one [m].
        rotation: Angle between the two [rad].
        joint: Distance of a joint from its measured position [rad, m].
        force: Largest force [N]; joints may allow less.
        torque: Largest torque [Nm].
        speed: Largest linear velocity [m/s].
        turn: Largest angular velocity [rad/s].
    """

    position: float
    rotation: float
    joint: float
    force: float
    torque: float
    speed: float
    turn: float


LAWS = -1
"""In place of an operation mode: springs exert the torque that a law commands."""


class ActuatorState:
    """Live state of the compliant actuators of an arm with n joints.

    Every array is a view of the row. In a cell without such actuators there is no room for them,
    and n is 0 here; joints without springs have zeros.

    Attributes:
        command: What a controllet asks for, (4, n): the number of an operation mode, or
            :data:`LAWS`; the first and the second command of that mode, NaN for what it is
            already; a torque that pushes the joint from outside [Nm].
        mode: Number of the operation mode that a joint is in, (n,).
        reference: Where both motors are asked to be, (2, n) [rad, or m where that is their unit].
        position: Where they are, (2, n).
        velocity: How fast, (2, n).
        torque: What they exert, (2, n) [Nm].
        load: What springs exert on them, (2, n) [Nm].
        carried: What the robot adds to the torque of a law, its weight first of all, (n,) [Nm].

    Thread: control.
    """

    __slots__ = (
        "carried", "command", "load", "mode", "position", "reference", "torque", "velocity",
    )  # fmt: skip

    def __init__(self, record: NDArray[np.void], joints: int) -> None:
        """Bind the views.

        Args:
            record: One element of ``row["arms"]``, shape ().
            joints: Of the arm, n.
        """
        self.command: NDArray[np.float64] = record["actuator_command"][:, :joints]
        self.mode: NDArray[np.int64] = record["actuator_mode"][:joints]
        self.reference: NDArray[np.float64] = record["motor_reference"][:, :joints]
        self.position: NDArray[np.float64] = record["motor_position"][:, :joints]
        self.velocity: NDArray[np.float64] = record["motor_velocity"][:, :joints]
        self.torque: NDArray[np.float64] = record["motor_torque"][:, :joints]
        self.load: NDArray[np.float64] = record["motor_load"][:, :joints]
        self.carried: NDArray[np.float64] = record["tau_carried"][:joints]

    def leave_to_laws(self) -> None:
        """Ask for what laws of torques command, and for no push from outside."""
        self.command[:] = np.nan
        self.command[0], self.command[3] = LAWS, 0.0

    def for_readers(self) -> ActuatorState:
        """Return this state for those who must not write to it; but ``command`` is a law's."""
        reader = copy(self)
        for name in self.__slots__:
            view = getattr(self, name).view()
            view.flags.writeable = name == "command"
            setattr(reader, name, view)
        return reader


Vector: TypeAlias = NDArray[np.float64]
Matrix: TypeAlias = NDArray[np.float64]

JOINTS = 7
"""Of an arm where nobody says how many it has; see :attr:`ArmState.n_joints`."""
INTERFACES = ("effort", "position", "velocity")
"""What an arm may be commanded, joint by joint: torques, positions, velocities; in the words of
ros2_control. Records carry the place in this list."""
REPORT = 12
"""Numbers that a controllet may report each cycle."""


class TaskSpaceDynamics(Protocol):
    r"""Terms of the dynamics at the tool that task-space laws share; see :class:`.TaskInertia`.

    With the Jacobian J (6, n) and the joint-space inertia M (n, n):

    .. math:: \Lambda^{-1} = J M^{-1} J^T

    Attributes:
        minv_jt: :math:`M^{-1} J^T`, (n, 6).
        inertia_inv: :math:`\Lambda^{-1}`, (6, 6).
        inertia: Damped inertia :math:`\Lambda_d`, (6, 6), symmetric.
        damping: Squared damping :math:`\lambda^2`; zero away from singularities.
    """

    minv_jt: Matrix
    inertia_inv: Matrix
    inertia: Matrix
    damping: float

    def update(self, mass: Matrix, jacobian: Matrix) -> None:
        """Recompute all terms from M (n, n) and J (6, n)."""

    def projection_inertia(self) -> Matrix:
        """Return the inertia for the projection of joint torques, (6, 6), symmetric."""

    def lost_inertia(self) -> Matrix:
        r"""Return the difference :math:`\Lambda - \Lambda_d`, (6, 6), symmetric."""

    def slowed_inertia(self, slower: float) -> Matrix:
        r"""Return the inertia for a damping of ``slower`` :math:`\lambda^2`, (6, 6)."""

    @property
    def manipulability(self) -> float:
        r"""Smallest eigenvalue of :math:`\Lambda^{-1}` [1/kg]."""

    def eigen(self) -> tuple[Vector, Matrix]:
        r"""Return ascending eigenvalues (6,) and eigenvectors (6, 6) of :math:`\Lambda^{-1}`."""

    def apply_inertia(self, acceleration: Vector, out: Vector) -> Vector:
        r"""Write :math:`\Lambda_d a` for a task acceleration (6,) into ``out`` (6,)."""


class ArmState:
    """Live state of one arm with n joints, as the laws see it.

    Every array is a view that the loop refills each cycle: read it, copy what
    must outlive the cycle, never write to it. Poses, twists, wrenches and the
    Jacobian belong to the same frame (``description.ee_frame``), are expressed
    along the axes of the arm's base and taken at the tool's point.

    Attributes:
        name: Arm name in the cell.
        limits: Joint limits of the robot model.
        n_joints: Number of its joints, n.
        q: Joint positions, (n,) [rad].
        dq: Joint velocities, (n,) [rad/s].
        joint_state: Both, (2, n).
        q_dq: Both one after the other, each with room for the joints of the cell's arm that has
            most of them; zero where there is none.
        tau_J: Measured joint torques, gravity included, (n,) [Nm].
        tau_ext: Estimated external joint torques, (n,) [Nm].
        tau: Torques commanded in the last cycle, gravity excluded, (n,) [Nm].
        tau_gravity: What the loop adds to them to carry an arm that does not compensate gravity
            itself; zero for one that does, (n,) [Nm].
        weight: Torques that carry it and count in what its joints can exert, whoever commands
            them: the former, or those of an arm on springs; else zero, (n,) [Nm].
        joint_command: Positions commanded in the last cycle, their velocities and accelerations,
            (3, n) [rad, rad/s, rad/s^2]. Of an arm under torque control they mean nothing.
        position_ee_in_base: (3,) [m].
        rotation_ee_in_base: (3, 3).
        pose_ee_in_base: Both one after the other, the rotation row by row, (12,).
        twist_ee_in_base: Linear then angular velocity, (6,) [m/s, rad/s].
        wrench_ext_in_base: Force and torque that the world exerts on the tool, (6,) [N, Nm].
        fingers: Finger positions, (2,) [m].
        gripper: Number of the last command, its outcome, whether an object is held, (3,).
        actuators: What is asked of its compliant actuators, and what they do; empty without any.
        holds: Number of the movable object that its hand holds, from 1; 0 for none, ().
        robot_time: Clock of its robot; 0 of a simulated arm, () [s].
        robot_mode: Operating mode of its robot, as libfranka numbers it; 0 of a simulated arm, ().
        robot_errors: Bits of its robot's current errors and of those that ended the previous
            motion, (2,).
        jacobian: Geometric Jacobian J, (6, n).
        jacobian_gram: :math:`J J^T`, (6, 6).
        mass: Joint-space inertia with reflected rotor inertia, (n, n) [kg m^2].
        coriolis: Coriolis and centrifugal torques C(q, dq) dq, (n,) [Nm].
        hessian: Returns dJ/dq; element [k, j, r] is the derivative of ``jacobian[r, j]`` with
            respect to joint k, (n, n, 6). Computed when it is called.

    Thread: control.
    """

    __slots__ = (
        "_reader",
        "_space",
        "_space_is_asked",
        "_space_is_fresh",
        "actuators",
        "coriolis",
        "dq",
        "fingers",
        "gripper",
        "hessian",
        "holds",
        "jacobian",
        "jacobian_gram",
        "joint_command",
        "joint_state",
        "limits",
        "mass",
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
        "twist_ee_in_base",
        "weight",
        "wrench_ext_in_base",
    )

    def __init__(self, name: str, limits: ArmLimits, record: NDArray[np.void]) -> None:
        """Bind the views.

        Args:
            name: Arm name in the cell.
            limits: Joint limits of its model.
            record: One element of ``row["arms"]``, shape (); q and dq are neighbours in it, and
                so are position and rotation of the tool.
        """
        self.name = name
        self.limits = limits
        self.n_joints = joints = limits.n_joints  # the slot has room for the arm with most
        self.q: Vector = record["q"][:joints]
        self.dq: Vector = record["dq"][:joints]
        self.q_dq: Vector = _together(record, "q", "dq")
        self.joint_state: Matrix = self.q_dq.reshape(2, -1)[:, :joints]
        self.tau_J: Vector = record["tau_J"][:joints]
        self.tau_ext: Vector = record["tau_ext"][:joints]
        self.tau: Vector = record["tau"][:joints]
        self.tau_gravity: Vector = record["tau_gravity"][:joints]
        self.weight: Vector = self.tau_gravity
        self.joint_command: Matrix = record["joint_command"][:, :joints]
        self.position_ee_in_base: Vector = record["position_ee_in_base"]
        self.rotation_ee_in_base: Matrix = record["rotation_ee_in_base"]
        self.pose_ee_in_base: Vector = _together(
            record, "position_ee_in_base", "rotation_ee_in_base"
        )
        self.twist_ee_in_base: Vector = record["twist_ee_in_base"]
        self.wrench_ext_in_base: Vector = record["wrench_ext_in_base"]
        self.fingers: Vector = record["fingers"]
        self.gripper: NDArray[np.int64] = record["gripper"]
        self.holds: NDArray[np.int64] = record["holds"]
        self.robot_time: Vector = record["robot_time"]
        self.robot_mode: NDArray[np.int64] = record["robot_mode"]
        self.robot_errors: NDArray[np.int64] = record["robot_errors"]
        self.actuators = ActuatorState(record, joints)
        self.jacobian: Matrix = np.zeros((6, joints))
        self.jacobian_gram: Matrix = np.zeros((6, 6))
        self.mass: Matrix = np.eye(joints)
        self.coriolis: Vector = np.zeros(joints)
        self.hessian: Callable[[], Matrix] = partial(np.zeros, (joints, joints, 6))  # no model yet
        self._space: TaskSpaceDynamics
        self._space_is_fresh = self._space_is_asked = False
        self._reader: ArmState | None = None

    def for_readers(self) -> ArmState:
        """Return this state for those who must not write to it; a model is attached already.

        Its arrays are the same and refuse to be written to; only ``jacobian``, which is another
        array in every cycle, does not.

        Thread: any, before the loop runs.
        """
        if self._reader is None:
            reader = copy(self)
            for name in self.__slots__:
                found = getattr(self, name, None)
                if isinstance(found, np.ndarray):
                    setattr(reader, name, found.view())
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
        """Take live views of a model's terms, which it fills every cycle. Thread: any, once."""
        self.mass, self.coriolis, self.hessian, self._space = mass, coriolis, hessian, space

    def check_in_place(self, row: Vector) -> None:
        """Look whether a plug-in has put arrays of its own in the place of those of the row.

        Raises:
            TypeError: If so; nobody else would see what is written there.

        Thread: any, before the loop runs.
        """
        for name in ("q", "dq", "tau_J", "tau_ext", "tau", "fingers", "gripper", "holds"):
            found = getattr(self, name)
            if not isinstance(found, np.ndarray) or not np.may_share_memory(found, row):
                raise TypeError(
                    f"state.{name} of {self.name}: got another array, allowed what is written in "
                    f"place, state.{name}[...]"
                )

    def invalidate(self) -> None:
        """Mark the cached operational-space terms as belonging to an older state.

        Readers see the new Jacobian from here on.
        """
        self._space_is_fresh = False
        reader = self._reader
        if reader is not None:
            reader.jacobian = self.jacobian
            reader._space_is_fresh = False

    def operational_space(self) -> TaskSpaceDynamics:
        """Return the operational-space terms of this state, computed at most once a cycle."""
        if not self._space_is_fresh:
            self._space.update(self.mass, self.jacobian)
            self._space_is_fresh = self._space_is_asked = True
        return self._space

    def look_ahead(self) -> None:
        """Compute for a law what it has asked of earlier states: it will ask again.

        For whoever has time now and will not have it then. Thread: control.
        """
        reader = self._reader
        if reader is not None and reader._space_is_asked:
            reader.operational_space()

    def change_law(self) -> None:
        """Forget what a law has asked for. Thread: control."""
        if self._reader is not None:
            self._reader._space_is_asked = False


def _together(record: NDArray[np.void], first: str, second: str) -> Vector:
    """Return two neighbouring fields of a record as one vector."""
    numbers, place = ("f8", record[first].size + record[second].size), record.dtype.fields
    begin, size = place[first][1] if place else 0, record.dtype.itemsize
    view = np.dtype(
        {"names": ["both"], "formats": [numbers], "offsets": [begin], "itemsize": size}
    )
    both: Vector = record.view(view)["both"]
    return both


@dataclass(frozen=True, eq=False)
class ArmSnapshot:
    """A copy of one arm's state that stays as it is; fields as in :class:`ArmState`.

    Attributes:
        time: Time of the controlled world at which it was taken [s].
        owner: Name of the controllet that owned the arm.
        fault: Name of the latched fault, or an empty string.
        interface: What it is commanded, one of :data:`INTERFACES`.
        joint_command: Commanded positions, velocities and accelerations, (3, n); without meaning
            under torque control.
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
    fingers: Vector
    owner: str
    fault: str
    interface: str = INTERFACES[0]
    joint_command: Matrix = field(default_factory=lambda: np.zeros((3, 0)))

    @property
    def is_commanded_to_move(self) -> bool:
        """Whether positions or velocities of an arm are commanded that move it."""
        return self.interface != INTERFACES[0] and bool(self.joint_command[1].any())
