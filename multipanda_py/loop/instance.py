# SPDX-License-Identifier: Apache-2.0
"""A controllet at work: its law, features, target and mail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from multipanda_py.context import Context
from multipanda_py.feature import Feature
from multipanda_py.handover import Handover
from multipanda_py.loop.blueprint import Blueprint
from multipanda_py.loop.mailbox import Mailbox
from multipanda_py.loop.safety import is_finite
from multipanda_py.state import ArmState, Vector


class NonFiniteTorque(ArithmeticError):
    """A law or feature wrote a torque that is not a finite number."""


class Instance:
    """One controllet on its arms.

    Attributes:
        plan: What it is made of.
        states: Live states of its arms, in its own order.
        active: Whether it owns its arms now.
        is_new: Whether it has not been updated since its activation.
        tau: Torques of the last update, per arm (7,) [Nm].
        notices: What the law or a feature wants reported, until it has been.

    Thread: control.
    """

    def __init__(
        self,
        plan: Blueprint,
        context: Context,
        states: Sequence[ArmState],
        mailbox: Mailbox,
        report: Vector,
    ) -> None:
        self.plan = plan
        self.states = [states[arm] for arm in plan.arms]
        self.active = False
        self.is_new = False
        self._period = context.period
        self.notices: list[str] = context.notices
        values = plan.decode(plan.encode(plan.initial_values()))
        self._law = plan.law(context, values[0])
        self._law.report = report
        self._features = [
            feature(context, params) for feature, params in zip(plan.features.values(), values[1:])
        ]
        self._listening = _with(self._features, "on_target")
        self._preparing = _with(self._features, "prepare")
        self._law.pacers = _with(self._features, "pace")
        self._adding = sorted(_with(self._features, "add"), key=lambda feature: feature.last)
        self._target: Any = plan.law.Target(len(plan.arms), plan.channels)
        self.tau: list[Vector] = self._law.tau
        self._parameter_mail = mailbox.parameters[plan.index]
        self._target_mail = [
            (slot, self._target.data[channel][place], channel, place)
            for channel, slots in mailbox.targets[plan.index].items()
            for place, slot in enumerate(slots)
        ]
        self._timeout_ns = int(plan.config.target_timeout * 1e9)
        self._newest_ns = 0

    def activate(self, handovers: Sequence[Handover] | None = None) -> str:
        """Seed the target from the measured state and forget older targets.

        Args:
            handovers: What its arms were pressing with; None is nothing.

        Returns:
            What of that goes on, in words.
        """
        for slot, *_ in self._target_mail:
            slot.skip()
        self._target.clear()
        self._law.report[:] = 0.0
        self.notices.clear()
        self._newest_ns = 0
        self.is_new = True
        self._law.on_activate(self.states, self._target)
        words = ""
        if handovers is not None:
            words = self._law.on_handover(self.states, self._target, handovers)
        for feature in self._features:
            feature.on_activate(self.states, self._target)
            if handovers is not None:
                feature.on_handover(self.states, self._target, handovers)
        return words

    def deactivate(self) -> None:
        """Let the law forget what must not survive."""
        self._law.on_deactivate()

    def take_parameters(self) -> None:
        """Apply new parameters, law and features together."""
        flat = self._parameter_mail.take()
        if flat is None:
            return
        parts: list[Any] = [self._law, *self._features]
        for part, params in zip(parts, self.plan.decode(flat)):
            part.params = params
            part.on_parameters()

    def take_targets(self, now_ns: int) -> bool:
        """Copy new targets in; return False if one was not finite and was left out.

        Raises:
            Exception: Whatever the law or a feature raises on a new target.
        """
        sound = True
        for slot, data, channel, place in self._target_mail:
            values = slot.take()
            if values is None:
                continue
            if is_finite(values):
                data[:] = values
                self._newest_ns = now_ns
                for feature in self._listening:
                    feature.on_target(channel, place, self._target)
                self._law.on_target(channel, place, self._target)
            else:
                sound = False
        return sound

    def is_stale(self, now_ns: int) -> bool:
        """Return whether a stream of targets has paused for longer than allowed."""
        return (
            self._timeout_ns > 0
            and self._newest_ns > 0
            and now_ns - self._newest_ns > self._timeout_ns
        )

    def update(self) -> None:
        """Compute the torques of this cycle.

        Raises:
            NonFiniteTorque: If a torque is not finite.
            Exception: Whatever the law or a feature raises.
        """
        self.is_new = False
        states, target, tau, period = self.states, self._target, self.tau, self._period
        for feature in self._preparing:
            feature.prepare(states, target, period)
        self._law.update(states, target, period)
        for feature in self._adding:
            feature.add(states, target, tau, period)
        for torque in tau:
            if not is_finite(torque):
                raise NonFiniteTorque(
                    f"{self.plan.name} wrote torque {torque.tolist()}, allowed finite numbers"
                )


def _with(features: Sequence[Feature[Any]], method: str) -> list[Feature[Any]]:
    """Return the features that have a method of their own, so that others cost nothing."""
    return [f for f in features if getattr(type(f), method) is not getattr(Feature, method)]
