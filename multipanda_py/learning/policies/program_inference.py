# SPDX-License-Identifier: Apache-2.0
"""A policy that LeRobot has trained on recorded episodes, asked in LeRobot's own environment."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Timer
from typing import IO, Any, BinaryIO, cast
from zipfile import BadZipFile

import numpy as np

from multipanda_py.exceptions import PolicyFailed
from multipanda_py.learning.datasets.features import IMAGES, features_of, numbers_of
from multipanda_py.learning.gym import CellEnv
from multipanda_py.learning.policies.inference import Inference, Raised, ThreadInference
from multipanda_py.learning.policies.server import serve as serving
from multipanda_py.learning.policies.server.lerobot_policy import BEGINS

FOLDER = Path(serving.__file__).parent


class ProgramInference(Inference):
    """Ask a policy that another Python runs, whose packages are not this environment's.

    Pipes are read and written by a thread: a program that stalls, in the middle of an answer too,
    holds no step up. What it prints goes to the standard error.

    Args:
        python: Of the environment that has what the policy needs, and numpy.
        make: ``module:function`` there; see :mod:`.server.serve`.
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
        command = [os.path.abspath(python), str(FOLDER / "serve.py"), make, *arguments]
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


class LeRobotInference(ProgramInference):
    """Show a policy what a data set of the environment would have, under the same keys.

    Before anything moves, shapes are compared with those that it was trained on.

    Args:
        path: Folder that LeRobot has saved the policy to (``pretrained_model``).
        env: Where it is to act.
        python: Of the environment that has LeRobot, such as ``.lerobot/env/bin/python``.
        instruction: What is to be done, in a sentence, for policies that read.
        device: Of torch.
        timeout: Until the policy is loaded [s].

    Attributes:
        MAKE: What makes the policy there, and
        FOLDERS: where it is looked for; others for a library of the same kind.

    Raises:
        PolicyFailed: If it cannot be loaded, was trained on other numbers than the environment
            has, or asks for a history of observations.
        ConfigurationError: If episodes of the environment could not be recorded either.
    """

    MAKE = "lerobot_policy:make"
    FOLDERS: Sequence[str | Path] = ()

    def __init__(
        self,
        path: str | Path,
        env: CellEnv,
        *,
        python: str | Path,
        instruction: str = "",
        device: str = "cpu",
        timeout: float = 120.0,
    ) -> None:
        features = features_of(env)
        sizes = {key: [len(names)] for key, names in features.vectors.items()}
        sizes |= {IMAGES + name: [3, *size] for name, size in features.cameras.items()}
        self._env, self._begins = env, True
        arguments = [str(Path(path).resolve()), json.dumps(sizes), instruction, device]
        super().__init__(python, self.MAKE, arguments, folders=self.FOLDERS, timeout=timeout)

    def ask(self, observation: dict[str, Any], now: float) -> None:
        """Have what a recorded frame would hold sent."""
        seen: dict[str, Any] = dict(numbers_of(self._env, observation))
        for name, picture in observation.get("images", {}).items():
            seen[IMAGES + name] = picture
        seen[BEGINS] = np.array(self._begins)
        self._begins = False
        super().ask(seen, now)

    def forget(self) -> None:
        """Have the next question be the first one of an episode."""
        super().forget()
        self._begins = True
