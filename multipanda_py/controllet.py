# SPDX-License-Identifier: Apache-2.0
"""The contract of a control law."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from multipanda_py.context import Context, Handover
from multipanda_py.parameters import NoParams
from multipanda_py.state import INTERFACES, REPORT, ArmState, Vector
from multipanda_py.targets import Report, Target

if TYPE_CHECKING:
    from multipanda_py.robots import ArmDescription


class JointVectors(tuple[Vector, ...]):
    """A vector per arm, (n,), that others read where it is.

    ``vectors[arm][:] = ...`` and ``vectors[arm] += ...`` write in place as ever; so does
    ``vectors[arm] = ...``, where a list would take another array of whatever width.
    """

    __slots__ = ()

    def __setitem__(self, arm: int, value: ArrayLike) -> None:
        """Write the vector of one arm.

        Raises:
            ValueError: If it has another shape.

        Thread: control.
        """
        kept = self[arm]
        if value is kept:
            return
        if np.shape(value) != kept.shape:
            raise ValueError(
                f"what is commanded to arm {arm} of a law: got shape {np.shape(value)}, "
                f"allowed {kept.shape}"
            )
        kept[:] = value

    @classmethod
    def of(cls, name: str, found: object, joints: tuple[int, ...]) -> JointVectors:
        """Return the arrays that a law has made, as vectors that stay.

        Args:
            name: Of the attribute, for the sentence.
            found: The arrays, one per arm.
            joints: Number of joints of each arm.

        Raises:
            TypeError: If they are not what the loop can read.

        Thread: any, before the loop runs.
        """
        vectors = found if isinstance(found, (list, tuple)) else ()
        if [_shape(vector) for vector in vectors] != [(n,) for n in joints]:
            raise TypeError(
                f"{name}: got {_words(found)}, allowed a float64 array per arm, of "
                f"{' and '.join(map(str, joints))} joints, as "
                "Controllet.__init__ makes them: super().__init__(context, params)"
            )
        return vectors if isinstance(vectors, cls) else cls(vectors)


def _shape(vector: object) -> tuple[int, ...] | None:
    """Return the shape of an array of floats, and None of anything else."""
    if isinstance(vector, np.ndarray) and vector.dtype == np.float64:
        shape: tuple[int, ...] = vector.shape
        return shape
    return None


def _words(found: object) -> str:
    """Say what is there instead."""
    if isinstance(found, (list, tuple)):
        return f"[{', '.join(map(_words, found))}]"
    if isinstance(found, np.ndarray):
        return f"{found.dtype} array {found.shape}"
    return "nothing" if found is None else type(found).__name__


TargetT = TypeVar("TargetT", bound=Target)
ParamsT = TypeVar("ParamsT")


class Pacer(Protocol):
    """Bound on the speed of a reference, such as a :class:`.Feature`."""

    @property
    def may_slow(self) -> bool:
        """Whether :meth:`pace` could return less than 1 in this cycle."""

    def foresee(self, ahead: float, speed: float) -> None:
        """Take note of a reference that is ``ahead`` [m] of its tool, at a speed [m/s]."""

    def pace(self, arm: int, dq: Vector, ahead: Vector | None = None) -> float:
        """Return the allowed fraction of a joint velocity, (n,) [rad/s]."""

    def in_the_way(self, arm: int, dq: Vector, ahead: Vector | None = None) -> str:
        """Return the reason for a small fraction, or an empty string."""


class Controllet(ABC, Generic[TargetT, ParamsT]):
    """One control law that owns one or more arms while it is active.

    A subclass names its ``Params`` dataclass and its ``Target`` type, seeds the
    target in :meth:`on_activate` and writes torques in :meth:`update`. It sees
    states and targets and nothing else: no ROS, no clock, no files. The number of
    arms is ``len(states)``; a law for one arm is written for all by a loop.

    Attributes:
        params: Current parameters; replaced as a whole between two cycles.
        tau: Where :meth:`update` writes, per arm (n,) [Nm], gravity excluded.
        command: The same; a law with another ``command_interface`` writes joint positions (n,)
            [rad] or velocities (n,) [rad/s] there, and ``tau`` means nothing.
        context: Its arms and what is around them.
        followed: What a law that plans its motion follows instead of its target, by channel, as a
            target has it: arrays that stay the same. Rows then have it as the reference.
        report: Numbers to publish each cycle, named by ``report_names``, (12,).
        pacers: Its features that bound how fast a reference may move.
        is_free: Whether the tool of an arm has a direction that no spring holds, per arm. Terms
            that are kept from the tool must not drive such a direction, as nothing brakes it.
            Written at the activation and in :meth:`update`.
        softest: Number of the arm that the report :data:`.KEPT` is of; -1 for all together.
    """

    Params: ClassVar[type[Any]] = NoParams
    Target: ClassVar[type[Any]] = Target
    command_interface: ClassVar[str] = INTERFACES[0]
    """What it writes: one of :data:`.INTERFACES`. Whatever it is, it is bounded afterwards."""
    commands_actuators: ClassVar[bool] = False
    """Whether it commands motors and springs of its arms, in :attr:`.ArmState.actuators`; for arms
    with compliant actuators only. Other joints still execute the torques that it writes."""
    min_arms: ClassVar[int] = 1
    max_arms: ClassVar[int | None] = None
    report_names: ClassVar[tuple[Report | str, ...]] = ()
    """What :attr:`report` says, at most twelve; plain texts are reports that nothing reads."""
    default_features: ClassVar[tuple[str, ...]] = ()
    """Features of an instance whose configuration does not name any."""
    for_features: ClassVar[tuple[str, ...]] = ()
    """Channels of its target that only features read; without such a feature they are refused."""
    plans_motion: ClassVar[bool] = False
    """Whether the law itself bounds how it moves to its targets; else they are governed."""
    touches: ClassVar[tuple[str, ...]] = ()
    """What its hands are meant to come near to: ``things`` that stand around, each other's
    ``hands``. Collision avoidance does not keep them away from that by default."""
    led: ClassVar[tuple[int, ...]] = ()
    """Numbers of its arms that a hand leads and its others follow. Where they come near each
    other, collision avoidance moves the others only."""

    def __init__(self, context: Context, params: ParamsT) -> None:
        """Allocate everything that :meth:`update` needs. Thread: any, before the loop runs."""
        self.context = context
        self.params = params
        self.tau = JointVectors(context.joint_zeros())
        self.command = self.tau
        if self.command_interface != INTERFACES[0]:
            self.command = JointVectors(context.joint_zeros())
        self.followed: Mapping[str, Sequence[Vector]] = {}
        self.report: Vector = np.zeros(REPORT)
        self.pacers: Sequence[Pacer] = ()
        self.softest = 0
        self.is_free = [False] * context.n_arms
        self.on_parameters()

    @classmethod
    def refuse(
        cls, values: Mapping[str, Any], arms: Mapping[str, ArmDescription]
    ) -> Iterable[str]:
        """Return what is wrong with parameters each of which is allowed by itself.

        Args:
            values: Some of them by name, as they are declared.
            arms: Its own, by name.

        Returns:
            Sentences that begin with the name of a parameter.

        Thread: any.
        """
        return ()

    def on_parameters(self) -> None:
        """Recompute what depends on ``params`` only, such as square roots of gains.

        Thread: control, between two cycles.
        """

    def on_target(self, channel: str, place: int, target: TargetT) -> None:
        """Prepare what follows from a new target, which ``target`` has already.

        Args:
            channel: Which kind arrived.
            place: Number of the arm; 0 for channels of the whole instance.
            target: The target.

        Thread: control, before the update of the same cycle.
        """

    @abstractmethod
    def on_activate(self, states: Sequence[ArmState], target: TargetT) -> None:
        """Fill ``target`` from the measured states, so that taking over moves nothing.

        Thread: control, at the start of the first cycle.
        """

    def on_handover(
        self, states: Sequence[ArmState], target: TargetT, handovers: Sequence[Handover]
    ) -> str:
        """Go on with what the arms were pressing with, right after :meth:`on_activate`.

        A law that can moves its seeded target so that its own torque at rest is that of
        ``handovers``: nothing moves, and no force is lost. By default the arms let go.

        Args:
            states: As for :meth:`on_activate`.
            target: Seeded already.
            handovers: One per arm; zero for a free arm.

        Returns:
            What goes on, in words for the answer to the switch; empty if there was nothing.

        Thread: control, at the start of the first cycle.
        """
        return "; ".join(
            filter(None, (h.words(state.name, 0.0) for state, h in zip(states, handovers)))
        )

    def requested_force(
        self, arm: int, states: Sequence[ArmState], target: TargetT
    ) -> Vector | None:
        """Return the contact force that users request of an arm, even if it is not reached.

        The next law receives it as long as the arm is in contact. The loop reports a measured
        force that stays too small.

        Args:
            arm: Index of the arm.
            states: As for :meth:`update`.
            target: The newest target.

        Returns:
            Wrench on the environment along the axes of the base, (6,) [N, Nm]; zero for none. None
            if the law has no force target: the previous request then stays until a user moves the
            target of this law.

        Thread: control, between two updates.
        """
        return None

    @abstractmethod
    def update(self, states: Sequence[ArmState], target: TargetT, period: float) -> None:
        """Write the torques of this cycle to ``tau``, or what else it commands to ``command``.

        Args:
            states: One per arm, in the order of the configuration.
            target: The newest target.
            period: Time since the last update [s].

        Thread: control, every cycle. Allocate little, never block.
        """

    def free_velocity(self, arm: int, state: ArmState) -> Vector:
        """Return the joint velocity that belongs to the free motion of a tool, (n,) [rad/s].

        By default all motion of the tool is free. It is called while ``is_free`` is set.

        Args:
            arm: Index of the arm in this controllet.
            state: State of the arm.

        Thread: control, every cycle, after the update.
        """
        space = state.operational_space()
        inertia = space.projection_inertia() if space.damping else space.inertia
        velocity: Vector = space.minv_jt.dot(inertia.dot(state.twist_ee_in_base))
        return velocity

    def pace(self, arm: int, dq: Vector) -> float:
        """Return the share of a reference's joint velocity (n,) [rad/s] that it may have."""
        return min((pacer.pace(arm, dq) for pacer in self.pacers), default=1.0)

    def in_the_way(self, arm: int, dq: Vector) -> str:
        """Return in words what :meth:`pace` keeps a reference from, or that nobody knows."""
        words = filter(None, (pacer.in_the_way(arm, dq) for pacer in self.pacers))
        return "; ".join(words) or "something that a feature knows of"

    def on_deactivate(self) -> None:
        """Forget what must not survive until the next activation. Thread: control."""
