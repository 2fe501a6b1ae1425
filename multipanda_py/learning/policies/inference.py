# SPDX-License-Identifier: Apache-2.0
"""A module of torch as a policy."""

from __future__ import annotations

import signal
from abc import ABC, abstractmethod
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from numbers import Real
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

import numpy as np

from multipanda_py.exceptions import ConfigurationError, PolicyFailed
from multipanda_py.registry import needed

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


class ThreadInference(Inference):
    """Ask a policy in a thread; for one that releases the interpreter while it computes.

    One that does not, holds the environment's steps up: :class:`.ProcessInference` is for it.

    Args:
        policy: Called in that thread only.
    """

    def __init__(self, policy: Policy) -> None:
        self._questions: SimpleQueue[Any] = SimpleQueue()
        self._answers: SimpleQueue[tuple[int, Any]] = SimpleQueue()
        self._number = 0
        # A daemon, as nobody can end a policy that stalls.
        self._thread = Thread(target=self._serve, args=(policy,), name="policy", daemon=True)
        self._thread.start()

    def _serve(self, policy: Policy) -> None:
        while (question := self._questions.get()) is not None:
            number, observation = question
            try:
                answer = said(policy, observation)
            except BaseException as error:  # as sys.exit: it would end the thread without a word
                answer = Raised(f"policy: raised {in_a_line(error)}")
            self._answers.put((number, answer))

    def ask(self, observation: dict[str, Any], now: float) -> None:
        """Hand the observation to the thread.

        Raises:
            PolicyFailed: If it was closed.
        """
        if not self._thread.is_alive():
            raise PolicyFailed("policy: its thread has ended")
        self._number += 1
        self._questions.put((self._number, observation))

    def answer(self, now: float) -> Any:
        """Return the answer to the newest question, if it is there."""
        while True:
            try:
                number, answer = self._answers.get_nowait()
            except Empty:
                return None
            if number == self._number:
                return unless_raised(answer)

    def forget(self) -> None:
        """Have the answer, when it comes, be that of an old question."""
        self._number += 1

    def close(self) -> None:
        """Let the thread end when its policy has answered."""
        self._questions.put(None)
        self._thread.join(1.0)


class ProcessInference(Inference):
    """Ask a policy in a process: its load, and what kills it, are not the environment's.

    Args:
        make: Function of a module that returns the policy; called in that process, which loads
            what the policy needs.
        timeout: For that [s].

    Raises:
        PolicyFailed: If the policy cannot be made, or not in time.
    """

    def __init__(self, make: Callable[[], Policy], timeout: float = 60.0) -> None:
        context = get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, make), daemon=True)
        self._process.start()
        theirs.close()
        self._number = 0
        self._is_asked = False
        self._waiting: tuple[int, dict[str, Any]] | None = None
        try:
            if not self._pipe.poll(timeout):
                raise PolicyFailed(f"policy: not made after {timeout:g} s")
            unless_raised(self._received()[1])
        except PolicyFailed:
            self.close()
            raise

    def ask(self, observation: dict[str, Any], now: float) -> None:
        """Send the observation to the process, once that has answered all else.

        A pipe takes large observations only while they are read, so one is sent to a process
        that reads, and not to one that stalls.
        """
        self._number += 1
        self._waiting = (self._number, observation)
        if not self._is_asked:
            self._send()

    def answer(self, now: float) -> Any:
        """Return the answer to the newest question, if it is there."""
        while self._pipe.poll():
            number, answer = self._received()
            self._is_asked = False
            if number == self._number:
                return unless_raised(answer)
            self._send()
        return None

    def forget(self) -> None:
        """Have the answer, when it comes, be that of an old question."""
        self._number += 1
        self._waiting = None

    def close(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        self._process.join()
        self._pipe.close()

    def _send(self) -> None:
        if self._waiting is None:
            return
        try:
            self._pipe.send(self._waiting)
        except OSError as error:
            raise PolicyFailed(self._end()) from error
        self._waiting, self._is_asked = None, True

    def _received(self) -> Any:
        try:
            return self._pipe.recv()
        except (EOFError, OSError) as error:
            raise PolicyFailed(self._end()) from error
        except Exception as error:  # of a kind that this process does not know
            raise PolicyFailed(f"policy: answer not read, {in_a_line(error)}") from error

    def _end(self) -> str:
        self._process.join(0.2)  # or its exit code is not known yet
        code = self._process.exitcode
        return "policy: its process has ended" + (f", exit code {code}" if code else "")


def _serve(pipe: Connection, make: Callable[[], Policy]) -> None:
    """Answer until nobody asks any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever asks ends this, after the arms hold
    try:
        policy = make()
    except Exception as error:  # told to whoever waits
        pipe.send((0, Raised(f"policy: not made, {in_a_line(error)}")))
        return
    pipe.send((0, "made"))
    while True:
        try:
            number, observation = pipe.recv()
        except EOFError:
            return
        answer = said(policy, observation)
        try:
            pipe.send((number, answer))
        except OSError:
            return
        except Exception as error:  # what cannot be pickled: nothing of it was sent
            pipe.send((number, Raised(f"policy: answer not sent, {in_a_line(error)}")))


def torch_policy(
    module: Callable[[Any], Any],
    inputs: Callable[[dict[str, Any]], Any],
    *,
    outputs: Callable[[Any, dict[str, Any]], Any] | None = None,
    device: str = "cpu",
) -> Policy:
    """Return a policy that asks a module, without gradients.

    Args:
        module: From a batch of one, (1, m), to (1, n, k) or (1, k); put to evaluation.
        inputs: From an observation to the numbers that it was trained on, (m,).
        outputs: From what it answers, (n, k), and the observation to actions: whatever was
            normalised or relative in training.
        device: Where the module and what it sees are put.

    Raises:
        MissingExtra: If there is no torch.
    """
    torch = needed("torch")
    if isinstance(module, torch.nn.Module):
        module.to(device).eval()

    def policy(seen: dict[str, Any]) -> Any:
        given = torch.as_tensor(np.asarray(inputs(seen), np.float32), device=device)
        with torch.inference_mode():
            answer = module(given[None])[0].float().cpu().numpy()
        return answer if outputs is None else outputs(answer, seen)

    return policy
