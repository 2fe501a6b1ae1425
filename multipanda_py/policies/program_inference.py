# SPDX-License-Identifier: Apache-2.0
"""A policy in a program of another environment."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Timer
from typing import IO, Any, BinaryIO, cast
from zipfile import BadZipFile

from multipanda_py.exceptions import PolicyFailed
from multipanda_py.policies.elsewhere import serving
from multipanda_py.policies.inference import Inference, Raised
from multipanda_py.policies.thread_inference import ThreadInference

FOLDER = Path(serving.__file__).parent


class ProgramInference(Inference):
    """Ask a policy that another Python runs, whose packages are not this environment's.

    Pipes are read and written by a thread: a program that stalls, in the middle of an answer too,
    holds no step up. What it prints goes to the standard error.

    Args:
        python: Of the environment that has what the policy needs, and numpy.
        make: ``module:function`` there; see :mod:`.elsewhere.serving`.
        arguments: Of the function.
        folders: Where modules are looked for, beside those of that environment.
        timeout: Until the policy is made [s].

    Raises:
        PolicyFailed: If the policy cannot be made, or not in time.
    """

    def __init__(
        self,
        python: str | Path,
        make: str,
        arguments: Sequence[str] = (),
        *,
        folders: Sequence[str | Path] = (),
        timeout: float = 60.0,
    ) -> None:
        # As given: a link to an interpreter is how an environment is told from others.
        command = [os.path.abspath(python), str(FOLDER / "serving.py"), make, *arguments]
        path = os.pathsep.join(map(str, folders))
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": path},
            )  # fmt: skip
        except OSError as error:
            raise PolicyFailed(f"policy: {python} cannot be run: {error.strerror}") from None
        self._thread = ThreadInference(self._converse)
        begun = time.monotonic()
        late = Timer(timeout, self._process.kill)
        late.start()
        said = self._received()
        late.cancel()
        if isinstance(said, Raised):
            self.close()
            is_late = time.monotonic() - begun > timeout
            reason = f"silent for {timeout:g} s" if is_late else said.text
            raise PolicyFailed(f"policy: not made, {reason}")

    def ask(self, observation: dict[str, Any], now: float) -> None:
        """Have the observation sent; dictionaries in it become keys, ``left/q``."""
        self._thread.ask(flat(observation), now)

    def answer(self, now: float) -> Any:
        """Return the answer to the newest question, if it is there."""
        return self._thread.answer(now)

    def forget(self) -> None:
        """Have the answer, when it comes, be that of an old question."""
        self._thread.forget()

    def close(self) -> None:
        """End the program, whatever it does."""
        self._process.kill()
        self._process.wait()
        self._thread.close()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):  # the rest of a question that nobody reads any more
                    pipe.close()

    def _converse(self, seen: dict[str, Any]) -> Any:
        """Ask the program, and wait for what it says. Thread: the policy's."""
        try:
            serving.send(_open(self._process.stdin), seen)
        except (OSError, ValueError):  # a pipe that nobody reads, or that was closed here
            return Raised(f"policy: {self._end()}")
        said = self._received()
        return Raised(f"policy: {said.text}") if isinstance(said, Raised) else said

    def _received(self) -> Any:
        """Return the actions that come next, or why there are none."""
        try:
            said = serving.receive(_open(self._process.stdout))
        except (EOFError, OSError):
            return Raised(self._end())
        except (ValueError, BadZipFile) as error:
            self._process.kill()  # where the next message begins nobody knows
            return Raised(f"its program says what is no message: {error}")
        if serving.ERROR in said:
            return Raised(f"raised {' '.join(str(said[serving.ERROR]).split())}")
        return said.get(serving.ACTIONS)

    def _end(self) -> str:
        try:
            code = self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            return "its program has closed its pipes"
        return "its program has ended" + (f", exit code {code}" if code else "")


def flat(observation: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Return the arrays of nested dictionaries by keys such as ``left/q``."""
    found: dict[str, Any] = {}
    for key, value in observation.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{before}{key}/")
        else:
            found[before + key] = value
    return found


def _open(pipe: IO[bytes] | None) -> BinaryIO:
    if pipe is None:
        raise OSError("there is no pipe")
    return cast(BinaryIO, pipe)
