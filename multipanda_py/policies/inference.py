# SPDX-License-Identifier: Apache-2.0
"""Where a policy is asked and when its answer comes: in lockstep, beside it in real time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from numbers import Real
from typing import Any

from multipanda_py.exceptions import ConfigurationError, PolicyFailed

Policy = Callable[[dict[str, Any]], Any]
"""From an observation to actions, (n, k): of the instant at which it was seen, and after it."""
_ROUNDING = 1e-6
"""By how much an answer may be early [s]."""


class Inference(ABC):
    """Ask a policy one thing at a time, and never wait for it.

    Thread: one, always the same; the policy's own may be another.
    """

    @abstractmethod
    def ask(self, observation: dict[str, Any], now: float) -> None:
        """Hand over an observation; only if the last answer has been taken.

        Raises:
            PolicyFailed: If nobody is there to ask.
        """

    @abstractmethod
    def answer(self, now: float) -> Any:
        """Return the answer, once, or None if it has not come yet.

        Raises:
            PolicyFailed: If the policy has raised, or is no more.
        """

    @abstractmethod
    def forget(self) -> None:
        """Drop the question that is open, and its answer whenever it comes."""

    def close(self) -> None:
        """End what was started; safe to call twice."""


class LockstepInference(Inference):
    """Ask at once, and answer after a time that is told: the same run whatever the machine does.

    Args:
        policy: To be asked.
        latency: How long an answer takes [s], or a function of the question's number, from 0.

    Raises:
        ConfigurationError: If the latency is negative or no number.
    """

    def __init__(self, policy: Policy, latency: float | Callable[[int], float] = 0.0) -> None:
        if not callable(latency) and not is_time(latency):
            raise ConfigurationError(f"latency: got {latency!r}, allowed 0 s or more")
        self.policy, self.latency = policy, latency
        self._asked = 0
        self._due: float | None = None
        self._said: Any = None

    def ask(self, observation: dict[str, Any], now: float) -> None:
        """Ask, and keep the answer until it is due."""
        takes = self.latency(self._asked) if callable(self.latency) else self.latency
        if not is_time(takes):
            raise PolicyFailed(f"latency: got {takes!r}, allowed 0 s or more")
        self._asked += 1
        self._due, self._said = now + takes, said(self.policy, observation)

    def answer(self, now: float) -> Any:
        """Return the answer when its time has come."""
        if self._due is None or now < self._due - _ROUNDING:
            return None
        self._due = None
        return unless_raised(self._said)

    def forget(self) -> None:
        """Drop the answer."""
        self._due = None


class Raised:
    """What a policy has raised, as a sentence; crosses threads and processes.

    Args:
        text: The sentence.
    """

    def __init__(self, text: str) -> None:
        self.text = text


def said(policy: Policy, observation: dict[str, Any]) -> Any:
    """Return what a policy answers, or what it has raised."""
    try:
        answer = policy(observation)
    except Exception as error:  # whatever it is, arms are to hold
        return Raised(f"policy: raised {in_a_line(error)}")
    return Raised("policy: got None, allowed actions") if answer is None else answer


def in_a_line(error: BaseException) -> str:
    """Return an exception's kind and what it says, in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def unless_raised(answer: Any) -> Any:
    """Return an answer.

    Raises:
        PolicyFailed: If it is what the policy has raised.
    """
    if isinstance(answer, Raised):
        raise PolicyFailed(answer.text)
    return answer


def is_time(value: object) -> bool:
    """Return whether a value is a time, or a rate: a real number of at least 0."""
    return isinstance(value, Real) and float(value) >= 0.0
