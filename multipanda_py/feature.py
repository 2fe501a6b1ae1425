# SPDX-License-Identifier: Apache-2.0
"""The contract of a feature: what any fitting controllet can be given in addition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Generic

from multipanda_py.context import Context, Handover
from multipanda_py.controllet import Controllet, ParamsT
from multipanda_py.parameters import NoParams
from multipanda_py.state import ArmState, Vector
from multipanda_py.targets import Channel


class Feature(Generic[ParamsT]):
    """A term added to a law's torques after its update, or a limit on the target before it.

    What it does to the torques goes into :meth:`add`. Two more methods are called only if a
    subclass has them: :meth:`on_target` when a target arrives, and :meth:`prepare` at the start
    of every cycle, both before the law sees the target.

    Every feature has a live parameter ``enabled``, made for it: torques fade in and out, and a
    feature that prepares the target goes on until it is :attr:`settled`.

    Attributes:
        context: The arms of its controllet and what is around them.
        params: Current parameters; replaced as a whole between two cycles.
        needs: Names that the law's target must have, such as ``posture``.
        pacers: Features of the same controllet that bound how fast a reference may move.
        law: Controllet to which the feature belongs; None outside a loop.
    """

    Params: ClassVar[type[Any]] = NoParams
    needs: ClassVar[tuple[str, ...]] = ()
    channels: ClassVar[tuple[str | Channel, ...]] = ()
    """Kinds of targets that a controllet takes in addition with this feature: names of built-in
    channels, or its own."""
    reads: ClassVar[tuple[str, ...]] = ()
    """Channels of the law that it uses, of those that the law leaves to features."""
    last: ClassVar[bool] = False
    """Whether :meth:`add` judges the torques of all others, and so comes after them."""

    order: ClassVar[int] = 0
    """Place among the features that prepare the target, smaller first. The governor has 0: what
    reshapes goals comes before it, what bounds the reference after it."""

    @classmethod
    def stands_before(cls, law: type[Controllet[Any, Any]]) -> bool:
        """Whether every instance of a law has this feature, named in the cell file or not."""
        return False

    def __init__(self, context: Context, params: ParamsT) -> None:
        """Allocate everything that :meth:`add` needs. Thread: any, before the loop runs."""
        self.context = context
        self.params = params
        self.pacers: list[Feature[Any]] = []
        self.law: Controllet[Any, Any] | None = None
        self.on_parameters()

    def on_parameters(self) -> None:
        """Recompute what depends on ``params`` only. Thread: control, between two cycles."""

    def on_activate(self, states: Sequence[ArmState], target: Any) -> None:
        """Reset what must not survive from an earlier activation. Thread: control."""

    def on_handover(
        self, states: Sequence[ArmState], target: Any, handovers: Sequence[Handover]
    ) -> None:
        """Go on with torques of before that no law takes over, right after activation.

        Args:
            states: As for :meth:`on_activate`.
            target: Seeded by the law, which has taken over what it can.
            handovers: One per arm.

        Thread: control.
        """

    def on_enable(self, states: Sequence[ArmState], target: Any) -> None:
        """Begin while the law is at work; as an activation, if nothing else is said here.

        Thread: control.
        """
        self.on_activate(states, target)

    def is_free(self, arm: int) -> bool:
        """Return whether the tool of an arm has a direction that no spring of the law holds."""
        return self.law is not None and self.law.is_free[arm]

    @property
    def settled(self) -> bool:
        """Whether :meth:`prepare` may be left out from now on without a step in the target."""
        return True

    @property
    def idle(self) -> bool:
        """Whether :meth:`prepare` has nothing to do until something new is asked for.

        While all features of a controllet are idle, none is asked to prepare anything.
        """
        return False

    def on_target(self, channel: str, place: int, target: Any) -> None:
        """Take a new target in, which ``target`` has already.

        Args:
            channel: Which kind arrived.
            place: Number of the arm; 0 for channels of the whole controllet.
            target: The target, which may be changed before the law sees it.

        Thread: control, before the law's own ``on_target``.
        """

    def prepare(self, states: Sequence[ArmState], target: Any, period: float) -> None:
        """Change ``target`` before the law's update.

        Poses, postures and object poses in it are what was asked for at the start of every
        cycle; each feature sees what the one before has made of them.

        Thread: control, every cycle.
        """

    @property
    def may_slow(self) -> bool:
        """Whether :meth:`pace` could return less than 1 in this cycle."""
        return True

    def foresee(self, ahead: float, speed: float) -> None:
        """Take note of a reference that moves where its arm is not yet; :meth:`pace` comes later.

        Args:
            ahead: Its distance from the tool [m].
            speed: Of the reference [m/s].

        Thread: control, every cycle in which it is so.
        """

    def pace(self, arm: int, dq: Vector, ahead: Vector | None = None) -> float:
        """Return the share of a reference's joint velocity that it may have, 0 to 1.

        For laws and features that move a reference on by themselves, and ask before they do.

        Args:
            arm: Number of the arm in its controllet.
            dq: Velocity that the reference is about to have, (n,) [rad/s].
            ahead: How far it is ahead of the measured joints, (n,) [rad]; None is not at all.

        Thread: control, in the law's update; of this cycle :meth:`add` comes later.
        """
        return 1.0

    def in_the_way(self, arm: int, dq: Vector, ahead: Vector | None = None) -> str:
        """Return in words what lets :meth:`pace` return next to nothing; empty if it does not.

        Args:
            arm: As for :meth:`pace`.
            dq: The same.
            ahead: The same.

        Thread: control, once when a motion has ended because of it, or a reference is held back.
        """
        return ""

    @property
    def is_projected(self) -> bool:
        """Whether all that :meth:`add` adds went through the dynamically consistent projector.

        Then :meth:`before_projection` may be called instead, so that what several features add is
        projected once. It may change with the parameters.
        """
        return False

    def before_projection(self, states: Sequence[ArmState], target: Any) -> list[Vector | None]:
        """Return what :meth:`add` would project and add, per arm (n,) [Nm]; None is nothing.

        The arrays are the feature's own, and the caller may write to them.

        Thread: control, every cycle, instead of :meth:`add`.
        """
        return [None] * len(states)

    def add(
        self, states: Sequence[ArmState], target: Any, tau: Sequence[Vector], period: float
    ) -> None:
        """Add this term to ``tau``, per arm (n,) [Nm]. Thread: control, every cycle."""
