# SPDX-License-Identifier: Apache-2.0
"""Execution of a policy in an environment that continues during inference."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from multipanda_py.exceptions import ActionRejected, ConfigurationError, PolicyFailed
from multipanda_py.learning.gym import CellEnv
from multipanda_py.learning.gym.control import Control
from multipanda_py.learning.gym.spaces import real_numbers
from multipanda_py.learning.policies.inference import Inference, is_time
from multipanda_py.state import Matrix, Vector

_ROUNDING = 1e-6
"""Tolerance for the comparison of times with an action chunk, as fraction of its period."""


@dataclass(frozen=True)
class ActionChunk:
    """Actions of a policy at equidistant times, starting at the time of the observation.

    Attributes:
        actions: Actions, one per row, (n, k).
        start_time: Time of the observation [s].
        period: Time between two actions [s].
        is_between: True to interpolate linearly between actions, False to use the nearest action
            in time.
    """

    actions: Matrix
    start_time: float
    period: float
    is_between: bool

    @property
    def end(self) -> float:
        """Time up to which the chunk yields actions [s].

        It is one period after the last action, or half a period without interpolation.
        """
        return (
            self.start_time + (len(self.actions) - (0.0 if self.is_between else 0.5)) * self.period
        )

    def is_over(self, time: float) -> bool:
        """Return True if the chunk ends before a time [s]."""
        return time > self.end - _ROUNDING * self.period

    def sample(self, time: float) -> Vector:
        """Return the action at a time [s], (k,).

        Times before and after the chunk get its first and its last action.
        """
        index = np.clip((time - self.start_time) / self.period, 0.0, len(self.actions) - 1.0)
        if not self.is_between:
            nearest: Vector = self.actions[round(float(index))]
            return nearest
        before = int(index + _ROUNDING)
        fraction = max(0.0, float(index) - before)
        action: Vector = self.actions[before]
        if fraction < _ROUNDING:
            return action
        between: Vector = (1.0 - fraction) * action + fraction * self.actions[before + 1]
        return between


def checked(answer: Any, size: int) -> Matrix:
    """Check the answer of a policy and convert it to actions, (n, size).

    A single action, (size,), becomes a chunk of one action.

    Raises:
        PolicyFailed: If the answer has another shape or contains values that are not finite
            numbers.
    """
    allowed = f"allowed (n, {size}) with n >= 1"
    try:
        actions: Matrix = real_numbers(answer)
    except TypeError as error:
        description = f" of real numbers ({error})" if str(error) else ""
        kind = type(answer).__name__
        raise PolicyFailed(
            f"policy: returned a {kind}, allowed an array{description}, {allowed}"
        ) from error
    if actions.ndim == 1:
        actions = actions[None, :]
    if actions.ndim != 2 or actions.shape[1] != size or not len(actions):
        raise PolicyFailed(f"policy: got a chunk of shape {np.shape(answer)}, {allowed}")
    if not np.isfinite(actions).all():
        row, column = np.argwhere(~np.isfinite(actions))[0]
        raise PolicyFailed(
            f"policy: component {column} of action {row} is {actions[row, column]}, "
            "allowed finite numbers"
        )
    return actions


class ChunkPlayer:
    r"""Player of action chunks with linear blending from one to the next.

    .. math:: a(t) = c(t) + \max(0, 1 - (t - t_0) / T_b) \, (a(t_0^-) - c(t_0)).

    Symbols: played action a, new chunk c, its arrival time :math:`t_0` and blending time
    :math:`T_b`. :math:`a(t_0^-)` is the action played before, or the hold action without one.

    Args:
        blend: Blending time [s]. 0 disables blending.
    """

    def __init__(self, blend: float) -> None:
        self.blend = blend
        self.chunk: ActionChunk | None = None
        self._since = 0.0
        self._difference: Vector = np.zeros(0)

    def clear(self) -> None:
        """Discard the current chunk."""
        self.chunk = None

    def add_chunk(self, chunk: ActionChunk, now: float, hold: Vector) -> None:
        """Replace the chunk. Blend from the last action, or without one from ``hold``, (k,)."""
        playing = self.sample(now)
        self._difference = (hold if playing is None else playing) - chunk.sample(now)
        self.chunk, self._since = chunk, now

    def sample(self, now: float) -> Vector | None:
        """Return the blended action at a time [s], (k,), or None if no chunk covers this time."""
        if self.chunk is None or self.chunk.is_over(now):
            return None
        action = self.chunk.sample(now)
        passed = now - self._since
        if passed >= self.blend:
            return action
        return action + (1.0 - passed / self.blend) * self._difference


class RunLog:
    """Log of one episode: actions, targets and measured states of each step.

    Args:
        controls: Controls that convert actions to targets, by arm.

    Attributes:
        arms: Names of the arms.
    """

    def __init__(self, controls: Mapping[str, Control]) -> None:
        self.arms = tuple(controls)
        self._followed = {arm: control.followed for arm, control in controls.items()}
        self._rows: dict[str, list[Any]] = {}

    def add(
        self, *, time: float, action: Vector, age: float, held: bool, obs: Mapping[str, Any]
    ) -> None:
        """Add a step.

        Args:
            time: Time at the beginning of the step [s].
            action: Action sent in the step, (k,).
            age: Age of the observation from which the policy computed the action [s]; nan if
                ``held``.
            held: True if the hold action was sent instead of an action of the policy.
            obs: Observation after the step.
        """
        row: dict[str, Any] = {"time": time, "action": action, "age": age, "held": held}
        for arm in self.arms:
            row[f"{arm}/target"] = obs[arm]["target"]
            row[f"{arm}/measured"] = obs[arm][self._followed[arm]]
        for key, value in row.items():
            self._rows.setdefault(key, []).append(np.array(value))

    def __len__(self) -> int:
        return len(self._rows.get("time", ()))

    def __getitem__(self, key: str) -> Any:
        """Return a column with one row per step, for example ``time`` or ``left/target``."""
        return np.array(self._rows[key])

    def residual(self, arm: str) -> Matrix:
        """Return target minus measured state of an arm after each step, (n, m).

        Under pose control, m is 9: position [m] and two columns of the rotation matrix. Under
        joint control, m is the number of joints [rad, m].
        """
        measured = self[f"{arm}/measured"]
        difference: Matrix = self[f"{arm}/target"][:, : measured.shape[1]] - measured
        return difference

    def distance(self, arm: str) -> Vector:
        """Return the distance between target and measured state after each step, (n,).

        The distance is that of the tool position [m], or the largest joint error [rad, m].
        """
        residual = self.residual(arm)
        if self._followed[arm] == "pose":
            apart: Vector = np.linalg.norm(residual[:, :3], axis=1)
            return apart
        furthest: Vector = np.abs(residual).max(axis=1)
        return furthest

    def save(self, path: str | Path) -> None:
        """Write all columns and residuals to an ``.npz`` file."""
        columns: dict[str, Any] = {key: self[key] for key in self._rows}
        columns |= {f"{arm}/residual": self.residual(arm) for arm in self.arms}
        np.savez(path, **columns)


MAX_LATE_CHUNKS = 3
"""Number of consecutive chunks that arrive after their end before the policy counts as failed."""


class PolicyRunner:
    """Execution of a policy in an environment that continues while the policy computes.

    The policy returns chunks: sequences of actions, the first one for the time of the observation.
    Actions whose time has passed are skipped, absolute actions interpolated. If a chunk ends
    before the next one arrives, the targets stay constant.

    A policy fails if it raises an exception, returns an invalid chunk, exceeds ``timeout``, or
    sends :data:`MAX_LATE_CHUNKS` consecutive chunks that end before their arrival. After a
    failure, the policy is not called again in this episode, and the arms hold.

    Args:
        env: Environment in lockstep or in real time.
        inference: Inference of the policy.
        rate: Rate of the actions of a chunk [Hz].
        replan: Minimum time between two requests for a chunk [s]. With 0, the next request follows
            each answer immediately.
        blend: Blending time between chunks [s].
        timeout: Maximum time for an answer [s].

    Attributes:
        fault: Reason why the policy has failed in this episode, or None.
        log: Log of this episode.
        observation: Observation after the last step.

    Raises:
        ConfigurationError: If a time is negative, or ``rate`` is not above 0. With incremental
            actions, also if ``rate`` differs from the rate of the environment.

    Thread: that of the environment.
    """

    def __init__(
        self,
        env: CellEnv,
        inference: Inference,
        *,
        rate: float,
        replan: float = 0.0,
        blend: float = 0.1,
        timeout: float = 2.0,
    ) -> None:
        times = {"rate": rate, "replan": replan, "blend": blend, "timeout": timeout}
        if faults := [
            f"{name}: got {value!r}, allowed 0 or more"
            for name, value in times.items()
            if not is_time(value)
        ]:
            raise ConfigurationError(*faults)
        self._is_absolute = all(control.is_absolute for control in env.controls.values())
        if not self._is_absolute and not math.isclose(rate, env.rate):
            raise ConfigurationError(
                f"rate: got {rate:g} Hz, allowed {env.rate:g} Hz as in the environment, "
                "because actions are increments"
            )
        if not (rate > 0.0 and math.isfinite(rate)):
            raise ConfigurationError(f"rate: got {rate!r}, allowed more than 0 Hz")
        self.env, self.inference, self.rate = env, inference, rate
        self.replan, self.timeout = replan, timeout
        self._player = ChunkPlayer(blend)
        self._requested_at: float | None = None
        self._last_request_time = -math.inf
        self._late_count, self._reason = 0, ""
        self.fault: str | None = None
        self.log = RunLog(env.controls)
        self._info: dict[str, Any] = {}

    def reset(self, seed: int | None = None) -> None:
        """Reset the environment and start an episode; clear the fault of the last episode."""
        self.observation, self._info = self.env.reset(seed=seed)
        self.inference.discard()
        self._player.clear()
        self._requested_at, self._last_request_time, self.fault, self._late_count = (
            None,
            -math.inf,
            None,
            0,
        )
        self.log = RunLog(self.env.controls)

    def step(self) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Execute one step of the environment with the action of the policy or the hold action.

        Returns:
            Result of :meth:`.CellEnv.step`.

        Raises:
            ActionRejected: If no episode has begun.
        """
        if not self._info:
            raise ActionRejected("step: no episode has begun. Call reset() first.")
        now = float(self._info["time"])
        hold: Vector = self.env.hold_action().astype(float)
        if self.fault is None:
            try:
                self._receive(now, hold)
                self._ask(now)
                # In lockstep without latency, the answer is available now and used in this step.
                self._receive(now, hold)
            except PolicyFailed as error:
                self.fault = str(error)
                self._player.clear()
                self.inference.discard()
        action = self._player.sample(now)
        chunk = self._player.chunk
        age = now - chunk.start_time if chunk is not None and action is not None else math.nan
        sent = hold if action is None else action
        self.observation, reward, ends, cut, self._info = self.env.step(sent)
        self.log.add(time=now, action=sent, age=age, held=action is None, obs=self.observation)
        return self.observation, reward, ends, cut, self._info

    def run(self, seed: int | None = None) -> dict[str, Any]:
        """Run an episode until it ends or the policy fails.

        Returns:
            Info of the last step, extended by ``policy`` with the reason of a failure or an empty
            text.
        """
        self.reset(seed)
        is_over = False
        while not is_over and self.fault is None:
            _, _, ends, cut, _ = self.step()
            is_over = ends or cut
        if self.fault is None and self._late_count and self._player.chunk is None:
            # The arms have only held, because all chunks were late. Report this even for fewer
            # than MAX_LATE_CHUNKS chunks.
            self.fault = self._reason
        return {**self._info, "policy": self.fault or ""}

    def _receive(self, now: float, hold: Vector) -> None:
        if self._requested_at is None:
            return
        answer = self.inference.receive(now)
        if answer is None:
            if now - self._requested_at > self.timeout:
                raise PolicyFailed(
                    f"policy: no answer for {now - self._requested_at:.2f} s, allowed "
                    f"{self.timeout:g} s"
                )
            return
        actions = checked(answer, len(hold))
        chunk = ActionChunk(actions, self._requested_at, 1.0 / self.rate, self._is_absolute)
        self._requested_at = None
        if not chunk.is_over(now):
            self._late_count = 0
            self._player.add_chunk(chunk, now, hold)
            return
        self._late_count += 1
        self._reason = (
            f"policy: chunks end before they arrive: {self._late_count} consecutive ones, the "
            f"last with {len(actions)} actions over {chunk.end - chunk.start_time:.2f} s arrived "
            f"after {now - chunk.start_time:.2f} s. Use longer chunks or faster inference"
        )
        if self._late_count >= MAX_LATE_CHUNKS:
            raise PolicyFailed(self._reason)

    def _ask(self, now: float) -> None:
        if self._requested_at is None and now - self._last_request_time >= self.replan - 1e-6:
            self.inference.request(self.observation, now)
            self._requested_at = self._last_request_time = now
