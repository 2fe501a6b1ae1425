# SPDX-License-Identifier: Apache-2.0
"""Policy inference in lockstep, in a thread or in a process, and torch modules as policies."""

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
"""Map from an observation to actions, (n, k). The first action belongs to the time of the
observation."""
_ROUNDING = 1e-6
"""Tolerance for rounding errors of the time at which a latency has passed [s]."""


class Inference(ABC):
    """Interface for policy inference that does not block the caller.

    Only one request can be pending until its answer is received or discarded.

    Thread: one, always the same. The policy may run in another.
    """

    @abstractmethod
    def request(self, observation: dict[str, Any], now: float) -> None:
        """Send an observation to the policy.

        The answer to an earlier request must have been received or discarded.

        Args:
            observation: Observation of the environment.
            now: Time of the observation [s].

        Raises:
            PolicyFailed: If the policy has ended.
        """

    @abstractmethod
    def receive(self, now: float) -> Any:
        """Return the answer to the pending request, or None if it is not available yet.

        Args:
            now: Current time [s].

        Raises:
            PolicyFailed: If the policy has raised an exception or ended.
        """

    @abstractmethod
    def discard(self) -> None:
        """Discard the pending request, so that its answer is never returned."""

    def close(self) -> None:
        """Stop the policy. Repeated calls have no effect."""


class LockstepInference(Inference):
    """Inference in the calling thread with a simulated latency, for reproducible runs.

    Args:
        policy: Policy to evaluate.
        latency: Time from a request to its answer [s], or a function from the number of the
            request, from 0, to this time.

    Raises:
        ConfigurationError: If the latency is negative or not a number.
    """

    def __init__(self, policy: Policy, latency: float | Callable[[int], float] = 0.0) -> None:
        if not callable(latency) and not is_time(latency):
            raise ConfigurationError(f"latency: got {latency!r}, allowed 0 s or more")
        self.policy, self.latency = policy, latency
        self._request_count = 0
        self._response_time: float | None = None
        self._response: Any = None

    def request(self, observation: dict[str, Any], now: float) -> None:
        """Evaluate the policy now; :meth:`receive` returns its answer after the latency."""
        takes = self.latency(self._request_count) if callable(self.latency) else self.latency
        if not is_time(takes):
            raise PolicyFailed(f"latency: got {takes!r}, allowed 0 s or more")
        self._request_count += 1
        self._response_time, self._response = (
            now + takes,
            evaluate_policy(self.policy, observation),
        )

    def receive(self, now: float) -> Any:
        if self._response_time is None or now < self._response_time - _ROUNDING:
            return None
        self._response_time = None
        return raise_if_failed(self._response)

    def discard(self) -> None:
        self._response_time = None


class PolicyError:
    """Answer of a policy that has failed, for transfer from another thread or process.

    Args:
        text: Message.
    """

    def __init__(self, text: str) -> None:
        self.text = text


def evaluate_policy(policy: Policy, observation: dict[str, Any]) -> Any:
    """Return the answer of a policy, or a :class:`PolicyError` if it raises or returns None."""
    try:
        answer = policy(observation)
    except Exception as error:  # The runner receives every error, and lets the arms hold.
        return PolicyError(f"policy: raised {one_line(error)}")
    return PolicyError("policy: got None, allowed actions") if answer is None else answer


def one_line(error: BaseException) -> str:
    """Return type and message of an exception in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def raise_if_failed(answer: Any) -> Any:
    """Return an answer of :func:`evaluate_policy`, or raise the error that it contains.

    Raises:
        PolicyFailed: If the answer is a :class:`PolicyError`.
    """
    if isinstance(answer, PolicyError):
        raise PolicyFailed(answer.text)
    return answer


def is_time(value: object) -> bool:
    """Return True if a value is a valid duration [s], a real number of 0 or more."""
    return isinstance(value, Real) and float(value) >= 0.0


class ThreadInference(Inference):
    """Inference in a thread, for policies that release the GIL while they compute.

    Other policies would delay the environment; they need :class:`.ProcessInference`.

    Args:
        policy: Policy, called only in this thread.
    """

    def __init__(self, policy: Policy) -> None:
        self._questions: SimpleQueue[Any] = SimpleQueue()
        self._answers: SimpleQueue[tuple[int, Any]] = SimpleQueue()
        self._number = 0
        # The thread of a stalled policy cannot be stopped. A daemon thread lets the program end.
        self._thread = Thread(target=self._serve, args=(policy,), name="policy", daemon=True)
        self._thread.start()

    def _serve(self, policy: Policy) -> None:
        while (question := self._questions.get()) is not None:
            number, observation = question
            try:
                answer = evaluate_policy(policy, observation)
            # A policy that calls sys.exit must not end the thread without an answer.
            except BaseException as error:
                answer = PolicyError(f"policy: raised {one_line(error)}")
            self._answers.put((number, answer))

    def request(self, observation: dict[str, Any], now: float) -> None:
        """Send the observation to the thread of the policy.

        Raises:
            PolicyFailed: If the thread has ended.
        """
        if not self._thread.is_alive():
            raise PolicyFailed("policy: its thread has ended")
        self._number += 1
        self._questions.put((self._number, observation))

    def receive(self, now: float) -> Any:
        while True:
            try:
                number, answer = self._answers.get_nowait()
            except Empty:
                return None
            if number == self._number:
                return raise_if_failed(answer)

    def discard(self) -> None:
        self._number += 1

    def close(self) -> None:
        """End the thread after the present inference, and wait up to 1 s for its end."""
        self._questions.put(None)
        self._thread.join(1.0)


class ProcessInference(Inference):
    """Inference in a separate process, so that the policy can neither delay nor crash the program.

    Args:
        make: Module-level function that loads and returns the policy. It runs in the separate
            process.
        timeout: Timeout for creating the policy [s].

    Raises:
        PolicyFailed: If the policy cannot be created in time.
    """

    def __init__(self, make: Callable[[], Policy], timeout: float = 60.0) -> None:
        context = get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, make), daemon=True)
        self._process.start()
        theirs.close()
        self._number = 0
        self._is_requested = False
        self._waiting: tuple[int, dict[str, Any]] | None = None
        try:
            if not self._pipe.poll(timeout):
                raise PolicyFailed(f"policy: not created after {timeout:g} s")
            raise_if_failed(self._received()[1])
        except PolicyFailed:
            self.close()
            raise

    def request(self, observation: dict[str, Any], now: float) -> None:
        """Send the observation to the process of the policy, without blocking.

        The observation is sent later, by :meth:`receive`, if an earlier answer is not available
        yet.
        """
        self._number += 1
        self._waiting = (self._number, observation)
        if not self._is_requested:
            self._send()

    def receive(self, now: float) -> Any:
        while self._pipe.poll():
            number, answer = self._received()
            self._is_requested = False
            if number == self._number:
                return raise_if_failed(answer)
            self._send()
        return None

    def discard(self) -> None:
        self._number += 1
        self._waiting = None

    def close(self) -> None:
        """Kill the process of the policy."""
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
        self._waiting, self._is_requested = None, True

    def _received(self) -> Any:
        try:
            return self._pipe.recv()
        except (EOFError, OSError) as error:
            raise PolicyFailed(self._end()) from error
        except Exception as error:
            # Unpickling can raise every type of error, for example for types unknown here.
            raise PolicyFailed(f"policy: answer cannot be read, {one_line(error)}") from error

    def _end(self) -> str:
        # The pipe closes shortly before the process ends and has an exit code.
        self._process.join(0.2)
        code = self._process.exitcode
        return "policy: its process has ended" + (f", exit code {code}" if code else "")


def _serve(pipe: Connection, make: Callable[[], Policy]) -> None:
    # Ctrl-C also reaches this process. It ignores the signal, because the client ends it after
    # the arms hold.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        policy = make()
    except Exception as error:  # The client waits for the policy or an error.
        pipe.send((0, PolicyError(f"policy: cannot be created, {one_line(error)}")))
        return
    pipe.send((0, "made"))
    while True:
        try:
            number, observation = pipe.recv()
        except EOFError:
            return
        answer = evaluate_policy(policy, observation)
        try:
            pipe.send((number, answer))
        except OSError:
            return
        # If an answer cannot be pickled, nothing was sent, and the pipe can take the error.
        except Exception as error:
            pipe.send((number, PolicyError(f"policy: answer cannot be sent, {one_line(error)}")))


def torch_policy(
    module: Callable[[Any], Any],
    inputs: Callable[[dict[str, Any]], Any],
    *,
    outputs: Callable[[Any, dict[str, Any]], Any] | None = None,
    device: str = "cpu",
) -> Policy:
    """Return a policy that evaluates a torch module without gradients.

    Args:
        module: Module from inputs, (1, m), to a chunk of n outputs, (1, n, k), or to one output,
            (1, k). It is set to evaluation mode.
        inputs: Function that maps an observation to the inputs of the module, (m,).
        outputs: Function that maps outputs, (n, k) or (k,), and observation to actions. None: the
            outputs are the actions.
        device: Torch device of the module and its inputs.

    Raises:
        MissingExtra: If torch is not installed.
    """
    torch = needed("torch")
    if isinstance(module, torch.nn.Module):
        module.to(device).eval()

    def policy(obs: dict[str, Any]) -> Any:
        inputs_tensor = torch.as_tensor(np.asarray(inputs(obs), np.float32), device=device)
        with torch.inference_mode():
            answer = module(inputs_tensor[None])[0].float().cpu().numpy()
        return answer if outputs is None else outputs(answer, obs)

    return policy
