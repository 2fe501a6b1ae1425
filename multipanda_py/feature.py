# SPDX-License-Identifier: Apache-2.0
"""Contract of a feature, an add-on for any compatible controllet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic

from multipanda_py import registry
from multipanda_py.context import BumplessTransfer, Context
from multipanda_py.controllet import Controllet, ParamsT
from multipanda_py.parameters import NoParams, Robots, Spec, flag, specs_of
from multipanda_py.state import ArmState, Vector
from multipanda_py.targets import Channel


class Feature(Generic[ParamsT]):
    """Add-on of a controllet, which adds torques to its output or modifies its target.

    :meth:`add` adds torques after the update of the controllet. :meth:`on_target` and
    :meth:`prepare` may modify the target before the update.

    Every feature also has the parameter ``enabled``. When it changes, torques fade in or out.

    Attributes:
        context: Arms of the controllet and their environment.
        params: Current parameters; replaced as a whole between two cycles.
        requires: Attributes that the target of the controllet must have, such as
            ``nullspace_configuration``.
        reference_limiters: Features of the same controllet that limit the speed of a reference.
        controllet: Controllet to which the feature belongs; None in a test without a loop.

    Thread: control, except the constructor, which any thread may call.
    """

    Params: ClassVar[type[Any]] = NoParams
    requires: ClassVar[tuple[str, ...]] = ()
    channels: ClassVar[tuple[str | Channel, ...]] = ()
    """Channels that this feature adds to those of its controllet: names of built-in channels, or
    new declarations."""
    reads: ClassVar[tuple[str, ...]] = ()
    """Channels of the controllet that the feature uses, out of ``Controllet.feature_channels``."""
    runs_last: ClassVar[bool] = False
    """True if :meth:`add` uses the torques of all other features and so must run after them."""

    order: ClassVar[int] = 0
    """Order among the features that prepare the target, smaller first. The governor has 0:
    features that change goals run before it, features that limit the reference after it."""

    @classmethod
    def is_implicit_for(cls, controllet_class: type[Controllet[Any, Any]]) -> bool:
        """Return True if a controllet gets this feature without an entry in the cell file.

        Called only for :data:`AUTOMATIC_FEATURES`.
        """
        return False

    def __init__(self, context: Context, params: ParamsT) -> None:
        """Allocate everything that :meth:`add` needs, before the loop runs."""
        self.context = context
        self.params = params
        self.reference_limiters: list[Feature[Any]] = []
        self.controllet: Controllet[Any, Any] | None = None
        self.on_parameters()

    def on_parameters(self) -> None:
        """Recompute values that depend on ``params`` only. Called between two cycles."""

    def on_activate(self, states: Sequence[ArmState], target: Any) -> None:
        """Reset values of an earlier activation.

        Args:
            states: Measured states, one per arm of the controllet.
            target: Target, already set by the controllet.
        """

    def on_transfer(
        self, states: Sequence[ArmState], target: Any, transfers: Sequence[BumplessTransfer]
    ) -> None:
        """Continue torques of the previous controllet that the new controllet does not continue.

        Called right after :meth:`on_activate`. By default the feature continues no torque.

        Args:
            states: States as for :meth:`on_activate`.
            target: Target, already set by the controllet.
            transfers: Torques and wrenches of the previous controllet, one per arm.
        """

    def on_enable(self, states: Sequence[ArmState], target: Any) -> None:
        """Start the feature when it is enabled; by default the same as :meth:`on_activate`."""
        self.on_activate(states, target)

    def is_free(self, arm: int) -> bool:
        """Return True if the controllet has no stiffness in some direction of an arm's tool."""
        return self.controllet is not None and self.controllet.is_free[arm]

    @property
    def settled(self) -> bool:
        """True if the loop may stop calling :meth:`prepare` without a jump of the target.

        The loop reads it while the feature is disabled.
        """
        return True

    @property
    def idle(self) -> bool:
        """True if :meth:`prepare` has no work until a new target arrives.

        While all features of a controllet are idle, the loop skips :meth:`prepare` of all of them.
        """
        return False

    def on_target(self, channel: str, arm_index: int, target: Any) -> None:
        """Process a new target, before ``on_target`` of the controllet.

        Args:
            channel: Name of the channel that received a target.
            arm_index: Index of the arm; 0 for channels of the whole controllet.
            target: Target of the controllet, which already contains the new target; may be
                changed.
        """

    def prepare(self, states: Sequence[ArmState], target: Any, period: float) -> None:
        """Modify ``target`` in every cycle, before the update of the controllet.

        Features are called by :attr:`order`. The first one receives the target as the user
        requested it, without modifications of earlier cycles.

        Args:
            states: States, one per arm of the controllet.
            target: Target of the controllet, modified in place.
            period: Time since the last update [s].
        """

    @property
    def can_slow_down(self) -> bool:
        """True if :meth:`velocity_scale` could return less than 1 in this cycle."""
        return True

    def announce_reference(self, ahead: float, speed: float) -> None:
        """Receive distance and speed of a reference, before :meth:`velocity_scale` is called.

        Args:
            ahead: Distance of the reference from the tool [m].
            speed: Speed of the reference [m/s].

        Called in every cycle in which a reference is far ahead of the tool.
        """

    def velocity_scale(self, arm: int, dq: Vector, ahead: Vector | None = None) -> float:
        """Return the allowed fraction of a reference's joint velocity, 0 to 1.

        Controllets and other features call it before they move a reference, before :meth:`add`.

        Args:
            arm: Index of the arm in its controllet.
            dq: Intended velocity of the reference, (n,) [rad/s].
            ahead: Reference minus measured joint positions, (n,) [rad]; None for zero.
        """
        return 1.0

    def blocked_by(self, arm: int, dq: Vector, ahead: Vector | None = None) -> str:
        """Return the reason why :meth:`velocity_scale` slows a reference; empty if it does not.

        Called once, after a reference has stopped or a motion has ended.

        Args:
            arm: Index of the arm in its controllet.
            dq: Intended velocity of the reference, (n,) [rad/s].
            ahead: Reference minus measured joint positions, (n,) [rad]; None for zero.
        """
        return ""

    @property
    def is_projected(self) -> bool:
        """True if :meth:`add` projects all its torques to the dynamically consistent nullspace.

        For several such features with :meth:`before_projection`, the loop calls this method
        instead of :meth:`add`, and projects the sum of their torques. The value may depend on the
        parameters.
        """
        return False

    def before_projection(self, states: Sequence[ArmState], target: Any) -> list[Vector | None]:
        """Return the torques of the feature before their projection to the nullspace.

        The result has one array (n,) per arm [Nm], or None for an arm without torque. The caller
        may overwrite these arrays. Called in every cycle, instead of :meth:`add`.

        Args:
            states: States, one per arm of the controllet.
            target: Target of the controllet.
        """
        return [None] * len(states)

    def add(
        self, states: Sequence[ArmState], target: Any, tau: Sequence[Vector], period: float
    ) -> None:
        """Add the torques of this feature to those of the controllet, in every cycle.

        Args:
            states: States, one per arm of the controllet.
            target: Target of the controllet.
            tau: Torques, modified in place, (n,) per arm [Nm].
            period: Time since the last update [s].
        """


AUTOMATIC_FEATURES = ("governor",)
"""Features added to every controllet that they suit, without an entry in the cell file."""


@dataclass(frozen=True)
class Switch:
    """Declaration of the parameter ``enabled`` of every feature."""

    enabled: bool = flag(True, doc="enables the feature, which fades in and out")


def feature_specs(name: str, params: type, robots: Robots | None = None) -> tuple[Spec, ...]:
    """Return the specs (types, defaults, bounds) of ``enabled`` and of a feature's ``Params``.

    Args:
        name: Name of the feature, the prefix of the parameters.
        params: Class ``Params`` of the feature.
        robots: Robots of the controllet by name of the arm; None: the default robot.
    """
    return (*specs_of(Switch, f"{name}."), *specs_of(params, f"{name}.", robots))


def feature_names(
    law: type[Controllet[Any, Any]], chosen: Sequence[str] | None
) -> tuple[str, ...]:
    """Return the names of all features of a controllet, with those of :data:`AUTOMATIC_FEATURES`.

    Args:
        law: Class of the controllet.
        chosen: Features in the cell file; None for the default features of the class.
    """
    names = law.default_features if chosen is None else chosen
    standing = (n for n in AUTOMATIC_FEATURES if registry.find("features", n).is_implicit_for(law))
    return tuple(dict.fromkeys((*names, *standing)))
