# SPDX-License-Identifier: Apache-2.0
"""Enabled features of a controllet, with smooth transitions when they are switched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy import add

from multipanda_py.context import BumplessTransfer
from multipanda_py.control.impedance.joint_spring import NullspaceProjector
from multipanda_py.feature import Feature
from multipanda_py.state import ArmState, Vector


class SharedNullspace:
    r"""One nullspace projection for the summed torques of several features.

    .. math:: \sum_k N_{dyn}\, \tau_k = N_{dyn} \sum_k \tau_k.

    Here :math:`\tau_k` is the torque of feature k, and :math:`N_{dyn}` is the dynamically
    consistent nullspace projector.

    Args:
        features: Features of one controllet that all project their torques
            (:attr:`.is_projected`).

    Attributes:
        steps: One object per feature, which adds its projected torque. To record the torque of
            each feature, call ``add`` of these objects in order instead of :meth:`add`.

    Thread: control.
    """

    def __init__(self, features: Sequence[Feature[Any]]) -> None:
        self._features = list(features)
        arms = features[0].context.arms
        self._projectors = [NullspaceProjector(arm.n_joints) for arm in arms]
        self._parts: list[list[Vector | None]] = []
        self._before: list[Vector] = []
        self.steps = [SharedNullspaceStep(self, 1 + index) for index in range(len(features))]

    def add(
        self, states: Sequence[ArmState], target: Any, tau: Sequence[Vector], period: float
    ) -> None:
        """Add the projected torques of all features to ``tau``.

        The arguments are those of :meth:`.Feature.add`.
        """
        self._project(self._unprojected_torques(states, target), states, tau)

    def add_first(
        self, count: int, states: Sequence[ArmState], target: Any, tau: Sequence[Vector]
    ) -> None:
        """Set ``tau`` to its initial value plus the projected torques of ``count`` features.

        Call it with 1, 2, ... in each cycle. The call with 1 stores the initial value of ``tau``.

        Args:
            count: Number of features whose torques are added, from the first one on.
            states: States, one per arm of the controllet.
            target: Target of the controllet.
            tau: Torques, modified in place, (n,) per arm [Nm].
        """
        if count == 1:
            self._parts = self._unprojected_torques(states, target)
            self._before = [torque.copy() for torque in tau]
        for torque, before in zip(tau, self._before):
            torque[:] = before
        parts = [[None if own is None else own.copy() for own in part] for part in self._parts]
        self._project(parts[:count], states, tau)

    def _unprojected_torques(
        self, states: Sequence[ArmState], target: Any
    ) -> list[list[Vector | None]]:
        return [feature.before_projection(states, target) for feature in self._features]

    def _project(
        self,
        torques_by_feature: Sequence[Sequence[Vector | None]],
        states: Sequence[ArmState],
        tau: Sequence[Vector],
    ) -> None:
        # The sums overwrite the torques of the features.
        first, *others = torques_by_feature
        for arm, total in enumerate(first):
            for other in others:
                part = other[arm]
                if part is not None:
                    total = part if total is None else add(total, part, total)
            if total is not None:
                torque = tau[arm]
                add(torque, self._projectors[arm].dynamic(states[arm], total), torque)


class SharedNullspaceStep:
    """Step of a :class:`SharedNullspace`, which adds the projected torque of one feature.

    After the last step, the torques are bit-identical to those of :meth:`SharedNullspace.add`.

    Args:
        nullspace: Nullspace projection to which the step belongs.
        count: Number of features whose torques are added after this step.

    Thread: control.
    """

    def __init__(self, nullspace: SharedNullspace, count: int) -> None:
        self._nullspace, self._count = nullspace, count

    def add(
        self, states: Sequence[ArmState], target: Any, tau: Sequence[Vector], period: float
    ) -> None:
        self._nullspace.add_first(self._count, states, target, tau)


FADE_TIME = 0.1
"""Time over which the torque of a feature fades in or out [s]."""


class _Fade:
    r"""Feature whose torque fades in or out: :math:`\tau + s\,\Delta\tau`, s from 0 to 1."""

    def __init__(self, feature: Feature[Any], scale: float) -> None:
        self.feature, self.weight = feature, scale
        self.step = 0.0
        self._before: list[Vector] = feature.context.joint_zeros()

    @property
    def done(self) -> bool:
        return self.weight >= 1.0 if self.step > 0.0 else self.weight <= 0.0

    def add(
        self, states: Sequence[ArmState], target: Any, tau: Sequence[Vector], period: float
    ) -> None:
        self.weight = min(1.0, max(0.0, self.weight + self.step))
        for before, torque in zip(self._before, tau):
            before[:] = torque
        self.feature.add(states, target, tau, period)
        for before, torque in zip(self._before, tau):
            torque -= before
            torque *= self.weight
            torque += before


_Adder = Feature[Any] | _Fade | SharedNullspace | SharedNullspaceStep


class FeatureSet:
    """Features of one controllet: enabled, disabled or fading.

    When a feature is enabled, its torque fades in. When it is disabled, its torque fades out, and
    the feature modifies the target until it can stop without a step (:attr:`.Feature.settled`).
    While the controllet is inactive, changes apply at once.

    Args:
        features: All features, in the order of the cell file.
        enabled: True for each feature that is enabled at the start.
        period: Cycle time [s].

    Attributes:
        requested: Requested state of each feature: True for enabled, False for disabled.
        listening: Features that process new targets with ``on_target``.
        preparing: Features that modify the target with ``prepare``, in the order of execution.
        pacing: Features that limit the speed of references with ``velocity_scale``; always the
            same list object.
        adding: Features that add torques. A wrapper that scales the torques replaces a fading
            feature.
        working: Same as ``adding``, but one :class:`SharedNullspace` replaces all features that it
            projects.
        steps: Same as ``working``, but with one entry per feature; a new list after every change.
        feature_indices: Index in ``features`` that belongs to each entry of ``steps``.
        changing: True while a torque fades, or a disabled feature still modifies the target. Call
            :meth:`remove_settled` in every cycle then.

    Thread: control.
    """

    def __init__(
        self, features: Sequence[Feature[Any]], enabled: Sequence[bool], period: float
    ) -> None:
        self.features, self.requested = list(features), list(enabled)
        self._step = period / FADE_TIME
        self._fades: dict[int, _Fade] = {}
        self._leaving: set[int] = set()
        self._active = False
        self.pacing: list[Feature[Any]] = []
        for feature in features:
            feature.reference_limiters = self.pacing
        self._list_features_of_cycle()

    def activate(
        self,
        states: Sequence[ArmState],
        target: Any,
        handovers: Sequence[BumplessTransfer] | None = None,
    ) -> None:
        """Activate the enabled features.

        Args:
            states: Measured states, one per arm.
            target: Target, already set by the controllet.
            handovers: Contact force and torque that each arm transfers; None for no transfer.
        """
        self.deactivate()
        self._active = True
        for feature, desired in zip(self.features, self.requested):
            if desired:
                feature.on_activate(states, target)
                if handovers is not None:
                    feature.on_transfer(states, target, handovers)

    def deactivate(self) -> None:
        """End all fades at once."""
        self._active = False
        if self.changing:
            self._fades.clear()
            self._leaving.clear()
            self._list_features_of_cycle()

    def set_parameters(self, params: Sequence[Any]) -> None:
        for feature, own in zip(self.features, params):
            feature.params = own
            feature.on_parameters()
        self._list_adding_steps()  # The changed parameters may select another projector.

    def switch(self, enabled: Sequence[bool], states: Sequence[ArmState], target: Any) -> None:
        """Enable and disable features; torques fade in or out if the controllet is active.

        Args:
            enabled: True for each feature to be enabled, in the order of ``features``.
            states: States of the current cycle, one per arm.
            target: Target with the values that the user requested.
        """
        changed = [i for i, (old, new) in enumerate(zip(self.requested, enabled)) if old != new]
        self.requested = list(enabled)
        for index in changed if self._active else ():
            feature = self.features[index]
            if enabled[index]:
                if index in self._leaving:
                    self._leaving.discard(index)
                elif index not in self._fades:
                    feature.on_enable(states, target)
            elif _overrides(feature, "prepare"):
                # The feature modifies the target until it has settled and remove_settled()
                # removes it.
                self._leaving.add(index)
            if _overrides(feature, "add"):
                fade = self._fades.get(index) or _Fade(feature, 0.0 if enabled[index] else 1.0)
                fade.step = self._step if enabled[index] else -self._step
                self._fades[index] = fade
        self._list_features_of_cycle()

    def remove_settled(self) -> None:
        """Remove completed fades, and disabled features that no longer modify the target."""
        gone = [i for i in self._leaving if self.features[i].settled]
        done = [i for i, fade in self._fades.items() if fade.done]
        if gone or done:
            self._leaving.difference_update(gone)
            for index in done:
                del self._fades[index]
            self._list_features_of_cycle()

    def _list_features_of_cycle(self) -> None:
        # Disabled features take part while they fade out or still modify the target.
        there = [
            (index, feature)
            for index, feature in enumerate(self.features)
            if self.requested[index] or index in self._leaving or index in self._fades
        ]
        listed = [feature for _, feature in there]
        self.listening = [f for f in listed if _overrides(f, "on_target")]
        self.preparing = sorted(
            (f for f in listed if _overrides(f, "prepare")), key=lambda feature: feature.order
        )
        self.pacing[:] = [f for f in listed if _overrides(f, "velocity_scale")]
        adding = sorted(
            (p for p in there if _overrides(p[1], "add")), key=lambda part: part[1].runs_last
        )
        self._numbers = [index for index, _ in adding]
        self.adding: list[Feature[Any] | _Fade] = [
            self._fades.get(index, feature) for index, feature in adding
        ]
        self.changing = bool(self._fades or self._leaving)
        self._list_adding_steps()

    def _list_adding_steps(self) -> None:
        parts = list(zip(self._numbers, self.adding))
        shared = {
            number: part
            for number, part in parts
            if isinstance(part, Feature)
            and part.is_projected
            and _overrides(part, "before_projection")
        }
        if len(shared) < 2:
            shared = {}
        self.working: list[_Adder] = []
        self.steps: list[_Adder] = []
        self.feature_indices: list[int] = []
        for number, part in parts:
            if number not in shared:
                self.working.append(part)
                self.steps.append(part)
                self.feature_indices.append(number)
            elif number == next(iter(shared)):
                together = SharedNullspace(list(shared.values()))
                self.working.append(together)
                self.steps += together.steps
                self.feature_indices += shared


def _overrides(feature: Feature[Any], method: str) -> bool:
    return getattr(type(feature), method) is not getattr(Feature, method)
