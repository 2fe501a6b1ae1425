# SPDX-License-Identifier: Apache-2.0
"""Have a policy act in an environment that goes on while the policy thinks."""

from __future__ import annotations

import math
from typing import Any

from multipanda_py.exceptions import ActionRejected, ConfigurationError, PolicyFailed
from multipanda_py.gym import CellEnv
from multipanda_py.policies.action_chunk import ActionChunk, checked
from multipanda_py.policies.chunk_player import ChunkPlayer
from multipanda_py.policies.inference import Inference, is_time
from multipanda_py.policies.run_log import RunLog
from multipanda_py.state import Vector

PAST = 3
"""So many answers in a row whose actions have all passed are no accident."""


class PolicyRunner:
    """Ask for chunks, play them at the environment's rate, and hold where there is none.

    A question is asked with what is seen at that step; its actions are meant for the instants from
    there on, and those that have passed when the answer comes are left out. Absolute actions are
    interpolated, so that policy and environment have rates of their own. When chunks run out
    targets stay where they are, until the next answer.

    A policy that raises, answers with what is no chunk, stays silent for ``timeout``, or has
    :data:`PAST` chunks in a row that are over when they come, has failed: it is not asked again in
    this episode, and the arms hold.

    Args:
        env: Where to act; in lockstep or in real time.
        inference: Where to ask.
        rate: Of the actions of a chunk [Hz].
        replan: Time between questions [s]; by default the next one follows an answer at once.
        blend: Time in which a chunk takes over from the one before [s].
        timeout: For an answer [s].

    Attributes:
        fault: Why the policy has failed, or None.
        log: Of this episode.
        observation: Observation after the last step.

    Raises:
        ConfigurationError: If the rate is another one than the environment's and actions are
            steps, which mean something else then, or a time is negative.

    Thread: the environment's.
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
                f"rate: got {rate:g} Hz, allowed {env.rate:g} Hz as the environment's, "
                "as actions are steps"
            )
        if not (rate > 0.0 and math.isfinite(rate)):
            raise ConfigurationError(f"rate: got {rate!r}, allowed more than 0 Hz")
        self.env, self.inference, self.rate = env, inference, rate
        self.replan, self.timeout = replan, timeout
        self._player = ChunkPlayer(blend)
        self._asked: float | None = None
        self._last_asked = -math.inf
        self._past, self._why = 0, ""
        self.fault: str | None = None
        self.log = RunLog(env.controls)
        self._info: dict[str, Any] = {}

    def reset(self, seed: int | None = None) -> None:
        """Begin an episode, without anything of the last one."""
        self.observation, self._info = self.env.reset(seed=seed)
        self.inference.forget()
        self._player.clear()
        self._asked, self._last_asked, self.fault, self._past = None, -math.inf, None, 0
        self.log = RunLog(self.env.controls)

    def step(self) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Act for one step of the environment, and return what that returns.

        Raises:
            ActionRejected: If no episode has begun.
        """
        if not self._info:
            raise ActionRejected("step: got no episode, allowed after reset()")
        now = float(self._info["time"])
        hold: Vector = self.env.hold_action().astype(float)
        if self.fault is None:
            try:
                self._hear(now, hold)
                self._ask(now)
                self._hear(now, hold)  # what needed no time
            except PolicyFailed as error:
                self.fault = str(error)
                self._player.clear()
                self.inference.forget()
        action = self._player.at(now)
        chunk = self._player.chunk
        age = now - chunk.begin if chunk is not None and action is not None else math.nan
        sent = hold if action is None else action
        self.observation, reward, ends, cut, self._info = self.env.step(sent)
        self.log.add(time=now, action=sent, age=age, held=action is None, seen=self.observation)
        return self.observation, reward, ends, cut, self._info

    def run(self, seed: int | None = None) -> dict[str, Any]:
        """Run an episode to its end, or until the policy has failed and the arms hold.

        Returns:
            The last step's information, and ``policy``: why it has failed, or an empty text.
        """
        self.reset(seed)
        is_over = False
        while not is_over and self.fault is None:
            _, _, ends, cut, _ = self.step()
            is_over = ends or cut
        if self.fault is None and self._past and self._player.chunk is None:
            self.fault = self._why  # too short an episode for more of them
        return {**self._info, "policy": self.fault or ""}

    def _hear(self, now: float, hold: Vector) -> None:
        if self._asked is None:
            return
        answer = self.inference.answer(now)
        if answer is None:
            if now - self._asked > self.timeout:
                raise PolicyFailed(
                    f"policy: silent for {now - self._asked:.2f} s, allowed {self.timeout:g} s"
                )
            return
        actions = checked(answer, len(hold))
        chunk = ActionChunk(actions, self._asked, 1.0 / self.rate, self._is_absolute)
        self._asked = None
        if not chunk.is_over(now):
            self._past = 0
            self._player.take(chunk, now, hold)
            return
        self._past += 1
        self._why = (
            f"policy: chunks end before they come: {self._past} in a row, the last of "
            f"{len(actions)} actions over {chunk.end - chunk.begin:.2f} s after "
            f"{now - chunk.begin:.2f} s"
        )
        if self._past >= PAST:
            raise PolicyFailed(self._why)

    def _ask(self, now: float) -> None:
        if self._asked is None and now - self._last_asked >= self.replan - 1e-6:
            self.inference.ask(self.observation, now)
            self._asked = self._last_asked = now
