# SPDX-License-Identifier: Apache-2.0
"""The features of an instance at work, switched on and off without a step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from multipanda_py.context import Handover
from multipanda_py.control.impedance.joint_spring import NullspaceProjector
from multipanda_py.feature import Feature
from multipanda_py.state import ArmState, Vector

_add = np.add


class ProjectedTogether:
    r"""Stand in for several features whose torques the task must not feel.

    .. math:: \sum_k N_{dyn}\, \tau_k = N_{dyn} \sum_k \tau_k

    One projection takes three products, whatever it projects.

    Args:
        features: All :attr:`.is_projected`, of one controllet.

    Attributes:
        steps: What does the same one feature at a time.

    Thread: control.
    """

    def __init__(self, features: Sequence[Feature[Any]]) -> None:
        self._features = list(features)
        arms = features[0].context.arms
        self._projectors = [NullspaceProjector(arm.n_joints) for arm in arms]
        self._parts: list[list[Vector | None]] = []
        self._before: list[Vector] = []
        self.steps = [ProjectedStep(self, 1 + place) for place in range(len(features))]

    def add(
        self, states: Sequence[ArmState], target: Any, tau: Sequence[Vector], period: float
    ) -> None:
        """Add what all of them add."""
        self._project(self._ask(states, target), states, tau)

    def add_first(
        self, count: int, states: Sequence[ArmState], target: Any, tau: Sequence[Vector]
    ) -> None:
        """Add what the first ``count`` of them add; counts of a cycle go from 1 up to all."""
        if count == 1:
            self._parts = self._ask(states, target)
            self._before = [torque.copy() for torque in tau]
        for torque, before in zip(tau, self._before):
            torque[:] = before
        parts = [[None if own is None else own.copy() for own in part] for part in self._parts]
        self._project(parts[:count], states, tau)

    def _ask(self, states: Sequence[ArmState], target: Any) -> list[list[Vector | None]]:
        return [feature.before_projection(states, target) for feature in self._features]

    def _project(
        self,
        parts: Sequence[Sequence[Vector | None]],
        states: Sequence[ArmState],
        tau: Sequence[Vector],
    ) -> None:
        """Add the projection of a sum; overwrites its parts."""
        first, *others = parts
        for arm, total in enumerate(first):
            for other in others:
                part = other[arm]
                if part is not None:
                    total = part if total is None else _add(total, part, total)
            if total is not None:
                torque = tau[arm]
                _add(torque, self._projectors[arm].dynamic(states[arm], total), torque)


class ProjectedStep:
    """Add one of several features that are projected together, for whoever notes each of them.

    After the last one the torques are those of :meth:`ProjectedTogether.add`, to the last bit: a
    controllet does the same whether somebody looks at its terms or not.

    Args:
        together: All of them.
        count: How many have added with this one.

    Thread: control.
    """

    def __init__(self, together: ProjectedTogether, count: int) -> None:
        self._together, self._count = together, count

    def add(
        self, states: Sequence[ArmState], target: Any, tau: Sequence[Vector], period: float
    ) -> None:
        """Add what this one adds."""
        self._together.add_first(self._count, states, target, tau)


FADE_TIME = 0.1
"""Over which the torque of a feature comes and goes [s]."""


class _Fade:
    r"""Stand in for a feature whose torque comes or goes: :math:`\tau + s\,\Delta\tau`."""

    def __init__(self, feature: Feature[Any], share: float) -> None:
        self.feature, self.share = feature, share
        self.step = 0.0
        self._before: list[Vector] = feature.context.joint_zeros()

    @property
    def done(self) -> bool:
        """Whether the torque has come or gone."""
        return self.share >= 1.0 if self.step > 0.0 else self.share <= 0.0

    def add(
        self, states: Sequence[ArmState], target: Any, tau: Sequence[Vector], period: float
    ) -> None:
        """Add the share of the feature's torques that is due."""
        self.share = min(1.0, max(0.0, self.share + self.step))
        for before, torque in zip(self._before, tau):
            before[:] = torque
        self.feature.add(states, target, tau, period)
        for before, torque in zip(self._before, tau):
            torque -= before
            torque *= self.share
            torque += before


_Adder = Feature[Any] | _Fade | ProjectedTogether | ProjectedStep


class FeatureSet:
    """Which features take part in a cycle.

    A feature that is switched on begins as at an activation, and its torque fades in; one that
    is switched off fades out, and goes on preparing the target until it is settled. Nothing
    fades while the instance is not active.

    Args:
        features: All of them, in the order of the cell file.
        enabled: Whether each takes part at first.
        period: Cycle time [s].

    Attributes:
        wanted: Whether each feature is to take part.
        listening: Those that want to know of new targets.
        preparing: Those that prepare the target, in their order.
        pacing: Those that bound how fast a reference may move; always the same list.
        adding: Those that add torques, or what stands in for them while they fade.
        working: The same, but what goes through one projector stands together.
        steps: What does the same as ``working``, to the last bit, one feature at a time; another
            list whenever that changes.
        places: Numbers of the features of ``steps`` among all features.
        changing: Whether :meth:`look` has something to do.
        features: All of them, in the order of the cell file.

    Thread: control.
    """

    def __init__(
        self, features: Sequence[Feature[Any]], enabled: Sequence[bool], period: float
    ) -> None:
        self.features, self.wanted = list(features), list(enabled)
        self._step = period / FADE_TIME
        self._fades: dict[int, _Fade] = {}
        self._leaving: set[int] = set()
        self._active = False
        self.pacing: list[Feature[Any]] = []
        for feature in features:
            feature.pacers = self.pacing
        self._arrange()

    def activate(
        self,
        states: Sequence[ArmState],
        target: Any,
        handovers: Sequence[Handover] | None = None,
    ) -> None:
        """Begin with those that take part; they may go on with torques of before."""
        self.deactivate()
        self._active = True
        for feature, wanted in zip(self.features, self.wanted):
            if wanted:
                feature.on_activate(states, target)
                if handovers is not None:
                    feature.on_handover(states, target, handovers)

    def deactivate(self) -> None:
        """Forget what is under way."""
        self._active = False
        if self.changing:
            self._fades.clear()
            self._leaving.clear()
            self._arrange()

    def set_parameters(self, params: Sequence[Any]) -> None:
        """Hand every feature its parameters."""
        for feature, own in zip(self.features, params):
            feature.params = own
            feature.on_parameters()
        self._gather()  # another projector, perhaps

    def switch(self, wanted: Sequence[bool], states: Sequence[ArmState], target: Any) -> None:
        """Let features come and go; ``target`` holds what was asked for."""
        changed = [i for i, (old, new) in enumerate(zip(self.wanted, wanted)) if old != new]
        self.wanted = list(wanted)
        for index in changed if self._active else ():
            feature = self.features[index]
            if wanted[index]:
                if index in self._leaving:
                    self._leaving.discard(index)
                elif index not in self._fades:
                    feature.on_enable(states, target)
            elif _has(feature, "prepare"):  # what it let through may come in this very cycle
                self._leaving.add(index)
            if _has(feature, "add"):
                fade = self._fades.get(index) or _Fade(feature, 0.0 if wanted[index] else 1.0)
                fade.step = self._step if wanted[index] else -self._step
                self._fades[index] = fade
        self._arrange()

    def look(self) -> None:
        """Find out which features have come or gone altogether."""
        gone = [i for i in self._leaving if self.features[i].settled]
        done = [i for i, fade in self._fades.items() if fade.done]
        if gone or done:
            self._leaving.difference_update(gone)
            for index in done:
                del self._fades[index]
            self._arrange()

    def _arrange(self) -> None:
        """Make the lists of the cycle, so that what takes no part costs nothing."""
        there = [
            (index, feature)
            for index, feature in enumerate(self.features)
            if self.wanted[index] or index in self._leaving or index in self._fades
        ]
        listed = [feature for _, feature in there]
        self.listening = [f for f in listed if _has(f, "on_target")]
        self.preparing = sorted(
            (f for f in listed if _has(f, "prepare")), key=lambda feature: feature.order
        )
        self.pacing[:] = [f for f in listed if _has(f, "pace")]
        adding = sorted((p for p in there if _has(p[1], "add")), key=lambda part: part[1].last)
        self._numbers = [index for index, _ in adding]
        self.adding: list[Feature[Any] | _Fade] = [
            self._fades.get(index, feature) for index, feature in adding
        ]
        self.changing = bool(self._fades or self._leaving)
        self._gather()

    def _gather(self) -> None:
        """Project once what is added to one nullspace, if that is several features."""
        parts = list(zip(self._numbers, self.adding))
        shared = {n: part for n, part in parts if isinstance(part, Feature) and part.is_projected}
        if len(shared) < 2:
            shared = {}
        self.working: list[_Adder] = []
        self.steps: list[_Adder] = []
        self.places: list[int] = []
        for number, part in parts:
            if number not in shared:
                self.working.append(part)
                self.steps.append(part)
                self.places.append(number)
            elif number == next(iter(shared)):
                together = ProjectedTogether(list(shared.values()))
                self.working.append(together)
                self.steps += together.steps
                self.places += shared


def _has(feature: Feature[Any], method: str) -> bool:
    """Return whether a feature has a method of its own."""
    return getattr(type(feature), method) is not getattr(Feature, method)
