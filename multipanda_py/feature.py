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

    :meth:`add` adds torques after the update of the controllet. Two more methods are called only
    if a subclass defines them: :meth:`on_target` when a target arrives, and :meth:`prepare` at the
    start of every cycle. Both may modify the target before the controllet reads it.

    Every feature also has the parameter ``enabled``. When it changes, torques fade in or out. In a
    disabled feature, :meth:`prepare` is called until :attr:`settled` is True.

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

        Called for the features in :data:`AUTOMATIC_FEATURES` only.

        Args:
            controllet_class: Class of the controllet.
        """
        return False

    def __init__(self, context: Context, params: ParamsT) -> None:
        """Allocate everything that :meth:`add` needs, before the loop runs.

        Args:
            context: Own arms and their environment.
            params: Initial parameters.
        """
        self.context = context
        self.params = params
        self.reference_limiters: list[Feature[Any]] = []
        self.controllet: Controllet[Any, Any] | None = None
        self.on_parameters()

    def on_parameters(self) -> None:
        """Recompute values that depend on ``params`` only. Called between two cycles."""

    def on_activate(self, states: Sequence[ArmState], target: Any) -> None:
        """Reset the state of an earlier activation.

        Args:
            states: Measured states, one per arm of the controllet.
            target: Target, already set by the controllet.
        """

    def on_transfer(
        self, states: Sequence[ArmState], target: Any, transfers: Sequence[BumplessTransfer]
    ) -> None:
        """Continue torques of the previous controllet that the new one does not continue itself.

        Called right after :meth:`on_activate`. By default the feature continues nothing.

        Args:
            states: States as for :meth:`on_activate`.
            target: Target, already set by the controllet.
            transfers: Torques and wrenches of the previous controllet, one per arm.
        """

    def on_enable(self, states: Sequence[ArmState], target: Any) -> None:
        """Start the feature when it is enabled; by default the same as :meth:`on_activate`.

        Args:
            states: States of the current cycle, one per arm of the controllet.
            target: Current target of the controllet.
        """
        self.on_activate(states, target)

    def is_free(self, arm: int) -> bool:
        """Return True if the controllet has no stiffness in some direction of an arm's tool.

        Args:
            arm: Index of the arm in the controllet.
        """
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
        """Process a new target. ``target`` already contains it.

        Args:
            channel: Name of the channel that received a value.
            arm_index: Index of the arm; 0 for channels of the whole controllet.
            target: Target, which may be changed before the controllet reads it.

        Called before ``on_target`` of the controllet.
        """

    def prepare(self, states: Sequence[ArmState], target: Any, period: float) -> None:
        """Modify ``target`` before the update of the controllet.

        Features are called one after another, by :attr:`order`. In every cycle, the first one
        receives the target as the user requested it, without modifications of earlier cycles.

        Args:
            states: States, one per arm of the controllet.
            target: Target of the controllet, modified in place.
            period: Time since the last update [s].

        Called in every cycle.
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

        Called by controllets and features before they move a reference.

        Args:
            arm: Index of the arm in its controllet.
            dq: Intended velocity of the reference, (n,) [rad/s].
            ahead: Distance from the measured joint positions to the reference, (n,) [rad]; None:
                zero.

        Called in the update of the controllet, before :meth:`add` of the same cycle.
        """
        return 1.0

    def blocked_by(self, arm: int, dq: Vector, ahead: Vector | None = None) -> str:
        """Return the reason why :meth:`velocity_scale` slows a reference, as a text for users.

        The text is empty without a reason. Called once, after a reference has stopped or a motion
        has ended.

        Args:
            arm: Index of the arm in its controllet.
            dq: Intended velocity of the reference, (n,) [rad/s].
            ahead: Distance from the measured joint positions to the reference, (n,) [rad]; None:
                zero.
        """
        return ""

    @property
    def is_projected(self) -> bool:
        """True if :meth:`add` projects all its torques to the dynamically consistent nullspace.

        If several projected features of a controllet override :meth:`before_projection`, the loop
        calls that method instead of :meth:`add`, and projects the sum of their torques once.
        The value may depend on the parameters.
        """
        return False

    def before_projection(self, states: Sequence[ArmState], target: Any) -> list[Vector | None]:
        """Return the torques of the feature before their projection to the nullspace.

        The result has one array (n,) per arm [Nm], or None for an arm without torque. The caller
        may overwrite these arrays, so do not return an array that has to keep its values.

        Args:
            states: States, one per arm of the controllet.
            target: Target of the controllet.

        Called in every cycle, instead of :meth:`add`.
        """
        return [None] * len(states)

    def add(
        self, states: Sequence[ArmState], target: Any, tau: Sequence[Vector], period: float
    ) -> None:
        """Add the torques of this feature to those of the controllet.

        Args:
            states: States, one per arm of the controllet.
            target: Target of the controllet.
            tau: Torques, modified in place, (n,) per arm [Nm].
            period: Time since the last update [s].

        Called in every cycle.
        """


AUTOMATIC_FEATURES = ("governor",)
"""Features added to every controllet that they suit, without an entry in the cell file."""


@dataclass(frozen=True)
class Switch:
    """Parameter ``enabled`` that every feature has in addition to its ``Params``."""

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
    """Return the names of all features of a controllet in a cell.

    They are the features of the cell file, and those of :data:`AUTOMATIC_FEATURES` that suit the
    controllet.

    Args:
        law: Class of the controllet.
        chosen: Features that the cell file lists for the controllet; None: default features of
            the class.
    """
    names = law.default_features if chosen is None else chosen
    standing = (n for n in AUTOMATIC_FEATURES if registry.find("features", n).is_implicit_for(law))
    return tuple(dict.fromkeys((*names, *standing)))
