# SPDX-License-Identifier: Apache-2.0
"""Contract of a controllet, the control law of one or more arms."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from multipanda_py.context import BumplessTransfer, Context
from multipanda_py.parameters import NoParams
from multipanda_py.state import COMMAND_INTERFACES, MAX_REPORT_VALUES, ArmState, Vector
from multipanda_py.targets import Report, Target

if TYPE_CHECKING:
    from multipanda_py.robots import ArmDescription


class JointVectors(tuple[Vector, ...]):
    """Tuple of one joint vector per arm, (n,) each, whose arrays are never replaced.

    ``vectors[arm] = ...`` writes into the existing array, which the loop reads.
    """

    __slots__ = ()

    def __setitem__(self, arm: int, value: ArrayLike) -> None:
        """Copy numbers into the vector of one arm.

        Raises:
            ValueError: If the shape differs.
        """
        values = self[arm]
        if value is values:
            return
        if np.shape(value) != values.shape:
            raise ValueError(
                f"command of arm {arm} of a controllet: got shape {np.shape(value)}, "
                f"allowed {values.shape}"
            )
        values[:] = value

    @classmethod
    def from_values(cls, name: str, result: object, joints: tuple[int, ...]) -> JointVectors:
        """Convert the ``tau`` or ``command`` of a controllet to :class:`JointVectors`.

        Args:
            name: Name of the attribute, ``tau`` or ``command``, for error messages.
            result: Value of the attribute.
            joints: Number of joints of each arm.

        Raises:
            TypeError: If the value is not one float64 array of the right length per arm.

        Thread: any, before the loop runs.
        """
        vectors = result if isinstance(result, (list, tuple)) else ()
        if [_shape_of_floats(vector) for vector in vectors] != [(n,) for n in joints]:
            raise TypeError(
                f"{name}: got {_words(result)}, allowed one float64 array per arm with "
                f"{' and '.join(map(str, joints))} numbers. "
                "Call super().__init__(context, params), which allocates them."
            )
        return vectors if isinstance(vectors, cls) else cls(vectors)


def _shape_of_floats(vector: object) -> tuple[int, ...] | None:
    if isinstance(vector, np.ndarray) and vector.dtype == np.float64:
        shape: tuple[int, ...] = vector.shape
        return shape
    return None


def _words(words: object) -> str:
    if isinstance(words, (list, tuple)):
        return f"[{', '.join(map(_words, words))}]"
    if isinstance(words, np.ndarray):
        return f"{words.dtype} array {words.shape}"
    return "nothing" if words is None else type(words).__name__


TargetT = TypeVar("TargetT", bound=Target)
ParamsT = TypeVar("ParamsT")


class ReferenceLimiter(Protocol):
    """Object, such as a :class:`.Feature`, that limits the speed of a moving reference."""

    @property
    def can_slow_down(self) -> bool:
        """True if :meth:`velocity_scale` could return less than 1 in this cycle."""

    def announce_reference(self, ahead: float, speed: float) -> None:
        """Receive distance and speed of a reference, before :meth:`velocity_scale` is called.

        Args:
            ahead: Distance of the reference from the tool [m].
            speed: Speed of the reference [m/s].
        """

    def velocity_scale(self, arm: int, dq: Vector, ahead: Vector | None = None) -> float:
        """Return the allowed fraction of a reference's joint velocity, 0 to 1.

        Args:
            arm: Index of the arm in its controllet.
            dq: Intended velocity of the reference, (n,) [rad/s].
            ahead: Reference minus measured joint positions, (n,) [rad]; None for zero.
        """

    def blocked_by(self, arm: int, dq: Vector, ahead: Vector | None = None) -> str:
        """Return the reason why :meth:`velocity_scale` slows a reference; empty if it does not.

        Args:
            arm: Index of the arm in its controllet.
            dq: Intended velocity of the reference, (n,) [rad/s].
            ahead: Reference minus measured joint positions, (n,) [rad]; None for zero.
        """


class Controllet(ABC, Generic[TargetT, ParamsT]):
    """Control law that owns one or more arms while it is active.

    A subclass sets the initial target in :meth:`on_activate` and writes torques in :meth:`update`.
    It depends on states and targets only, not on ROS, clocks or files.

    Attributes:
        params: Current parameters; replaced as a whole between two cycles.
        tau: Output of :meth:`update`: torques without gravity, (n,) per arm [Nm].
        command: Output of :meth:`update` if ``command_interface`` is not effort: joint positions
            [rad] or velocities [rad/s], (n,) per arm. With effort, the same arrays as ``tau``.
        context: Own arms and their environment.
        followed: References that the controllet plans itself, by channel, one array per arm. The
            loop records them instead of the targets. Write to these arrays in place.
        report: Numbers that the loop publishes in each cycle, (12,), named by ``report_names``.
        reference_limiters: Features of the instance that limit the reference speed.
        is_free: True for each arm whose tool has a direction without a spring. Write it in
            :meth:`on_activate` and :meth:`update`; see :meth:`free_velocity`.
        min_scale_arm: Index of the arm whose stiffness is reduced most, for the report
            :data:`.STIFFNESS_SCALE`; -1 for the object that the arms hold.

    Thread: control, except the constructor and :meth:`check_params`, which any thread may call.
    """

    Params: ClassVar[type[Any]] = NoParams
    Target: ClassVar[type[Any]] = Target
    command_interface: ClassVar[str] = COMMAND_INTERFACES[0]
    """Command interface, one of :data:`.COMMAND_INTERFACES`. The loop limits every command."""
    commands_actuators: ClassVar[bool] = False
    """True if it commands motors and springs, in :attr:`.ArmState.actuators`; for arms with
    compliant actuators only. Joints without such an actuator still execute ``tau``."""
    min_arms: ClassVar[int] = 1
    max_arms: ClassVar[int | None] = None
    report_names: ClassVar[tuple[Report | str, ...]] = ()
    """Names of the values in :attr:`report`, up to 12. Use a :class:`.Report` for a value that
    other code reads, and plain text otherwise."""
    default_features: ClassVar[tuple[str, ...]] = ()
    """Features of an instance whose configuration does not name any."""
    feature_channels: ClassVar[tuple[str, ...]] = ()
    """Channels of its target that only features read. Their targets are rejected if no feature
    that reads them is present."""
    plans_motion: ClassVar[bool] = False
    """True if the controllet itself limits its motion to a target; otherwise a governor does."""
    contact_classes: ClassVar[tuple[str, ...]] = ()
    """Objects that its grippers are meant to approach.

    These are ``objects`` in the scene, or ``grippers`` of its other arms. By default, collision
    avoidance does not repel the grippers from these objects."""
    leader_arms: ClassVar[tuple[int, ...]] = ()
    """Indices of its arms that a person guides and that its other arms follow. If they come near
    each other, collision avoidance moves the other arms only."""

    def __init__(self, context: Context, params: ParamsT) -> None:
        """Allocate everything that :meth:`update` needs, before the loop runs."""
        self.context = context
        self.params = params
        self.tau = JointVectors(context.joint_zeros())
        self.command = self.tau
        if self.command_interface != COMMAND_INTERFACES[0]:
            self.command = JointVectors(context.joint_zeros())
        self.followed: Mapping[str, Sequence[Vector]] = {}
        self.report: Vector = np.zeros(MAX_REPORT_VALUES)
        self.reference_limiters: Sequence[ReferenceLimiter] = ()
        self.min_scale_arm = 0
        self.is_free = [False] * context.n_arms
        self.on_parameters()

    @classmethod
    def check_params(
        cls, values: Mapping[str, Any], arms: Mapping[str, ArmDescription]
    ) -> Iterable[str]:
        """Return the faults of a combination of parameters, after the check of each single value.

        Args:
            values: Parameters by name, not necessarily all.
            arms: Arms of the instance, by name.

        Returns:
            Messages that begin with the name of a parameter.
        """
        return ()

    def on_parameters(self) -> None:
        """Recompute values that depend on ``params`` only. Called between two cycles."""

    def on_target(self, channel: str, arm_index: int, target: TargetT) -> None:
        """Precompute values that depend on a new target, before the update of the same cycle.

        Args:
            channel: Name of the channel that received a target.
            arm_index: Index of the arm; 0 for channels of the whole instance.
            target: Target of the instance, which already contains the new target.
        """

    @abstractmethod
    def on_activate(self, states: Sequence[ArmState], target: TargetT) -> None:
        """Fill ``target`` from the measured states, so that the activation causes no motion.

        Args:
            states: Measured states, one per arm, in the order of the configuration.
            target: Target to fill.

        Called at the start of the first cycle.
        """

    def on_transfer(
        self, states: Sequence[ArmState], target: TargetT, transfers: Sequence[BumplessTransfer]
    ) -> str:
        """Continue the force of the previous controllet, right after :meth:`on_activate`.

        Move the initial target so that the torque at rest equals that of ``transfers``. By default
        the force is released.

        Args:
            states: States as for :meth:`on_activate`.
            target: Target, as set by :meth:`on_activate`.
            transfers: Transferred torques and wrenches, one per arm; zero for a free arm.

        Returns:
            Message to the user about the preserved force; empty if no force was transferred.
        """
        return "; ".join(
            filter(None, (h.describe(state.name, 0.0) for state, h in zip(states, transfers)))
        )

    def requested_force(
        self, arm: int, states: Sequence[ArmState], target: TargetT
    ) -> Vector | None:
        """Return the wrench that users request of an arm, even if it is not reached.

        The loop passes it to the next controllet, and reports a measured force that stays below
        it.

        Args:
            arm: Index of the arm.
            states: States as for :meth:`update`.
            target: Current target.

        Returns:
            Wrench on the environment along the base axes, (6,) [N, Nm]; zero without a request.
            None without a force target: the request to an earlier controllet stays valid.

        Called between two updates.
        """
        return None

    @abstractmethod
    def update(self, states: Sequence[ArmState], target: TargetT, period: float) -> None:
        """Write the torques of this cycle to ``tau``, or another command to ``command``.

        Args:
            states: States, one per arm, in the order of the configuration.
            target: Current target.
            period: Time since the last update [s].

        Called in every cycle. Allocate little memory, never block.
        """

    def free_velocity(self, arm: int, state: ArmState) -> Vector:
        """Return the joint velocity of tool motion in directions without a spring, (n,) [rad/s].

        By default, no direction has a spring: the result moves the tool with its measured twist.
        Called after each update while ``is_free`` of the arm is True.

        Args:
            arm: Index of the arm in this controllet.
            state: State of the arm.
        """
        space = state.operational_space()
        inertia = space.projection_inertia() if space.damping else space.inertia
        velocity: Vector = space.minv_jt.dot(inertia.dot(state.twist_ee_in_base))
        return velocity

    def velocity_scale(self, arm: int, dq: Vector) -> float:
        """Return the smallest fraction of a velocity that ``reference_limiters`` allow, 0 to 1.

        Args:
            arm: Index of the arm in this controllet.
            dq: Intended velocity of the reference, (n,) [rad/s].
        """
        return min(
            (limiter.velocity_scale(arm, dq) for limiter in self.reference_limiters), default=1.0
        )

    def blocked_by(self, arm: int, dq: Vector) -> str:
        """Return the reasons why ``reference_limiters`` stop a reference, as a text for users.

        Args:
            arm: Index of the arm in this controllet.
            dq: Intended velocity of the reference, (n,) [rad/s].
        """
        words = filter(None, (limiter.blocked_by(arm, dq) for limiter in self.reference_limiters))
        return "; ".join(words) or "a feature limits the speed"

    def on_deactivate(self) -> None:
        """Reset values that must not survive until the next activation."""
