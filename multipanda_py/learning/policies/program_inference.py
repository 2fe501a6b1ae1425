# SPDX-License-Identifier: Apache-2.0
"""Policy inference in another Python environment, for example policies trained with LeRobot."""

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
from multipanda_py.learning.datasets.features import IMAGE_PREFIX, features_of, observation_vectors
from multipanda_py.learning.gym import CellEnv
from multipanda_py.learning.policies.inference import Inference, PolicyError, ThreadInference
from multipanda_py.learning.policies.server import serve as serving
from multipanda_py.learning.policies.server.lerobot_policy import EPISODE_START_KEY

SERVER_FOLDER = Path(serving.__file__).parent


class ProgramInference(Inference):
    """Inference by a program in another Python environment with its own packages.

    Printed text of the program goes to the standard error of the caller.

    Args:
        python: Interpreter of the environment, which has numpy and the packages of the policy.
        make: Function that returns the policy, as ``module:function``, in the other environment or
            in ``folders``; see :mod:`.server.serve`.
        arguments: Arguments of the function.
        folders: Additional folders in which the program searches modules.
        timeout: Timeout for creating the policy [s].

    Raises:
        PolicyFailed: If the policy cannot be created in time.
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
        # The path of an interpreter determines its environment. Unlike resolve, abspath keeps
        # symbolic links.
        command = [os.path.abspath(python), str(SERVER_FOLDER / "serve.py"), make, *arguments]
        path = os.pathsep.join(map(str, folders))
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": path},
            )  # fmt: skip
        except OSError as error:
            raise PolicyFailed(f"policy: {python} cannot be run: {error.strerror}") from None
        self._thread = ThreadInference(self._exchange)
        started = time.monotonic()
        late = Timer(timeout, self._process.kill)
        late.start()
        response = self._received()
        late.cancel()
        if isinstance(response, PolicyError):
            self.close()
            is_late = time.monotonic() - started > timeout
            reason = f"no answer for {timeout:g} s" if is_late else response.text
            raise PolicyFailed(f"policy: cannot be created, {reason}")

    def request(self, observation: dict[str, Any], now: float) -> None:
        """Send the observation to the program, with keys such as ``left/q``."""
        self._thread.request(flat(observation), now)

    def receive(self, now: float) -> Any:
        return self._thread.receive(now)

    def discard(self) -> None:
        self._thread.discard()

    def close(self) -> None:
        """Kill the program."""
        self._process.kill()
        self._process.wait()
        self._thread.close()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):  # Closing fails if a part of a request is still unsent.
                    pipe.close()

    def _exchange(self, obs: dict[str, Any]) -> Any:
        try:
            serving.send(_open(self._process.stdin), obs)
        except (OSError, ValueError):  # The pipe was closed by the program or by this process.
            return PolicyError(f"policy: {self._end()}")
        response = self._received()
        return (
            PolicyError(f"policy: {response.text}")
            if isinstance(response, PolicyError)
            else response
        )

    def _received(self) -> Any:
        try:
            response = serving.receive(_open(self._process.stdout))
        except (EOFError, OSError):
            return PolicyError(self._end())
        except (ValueError, BadZipFile) as error:
            # After an invalid message, it is unknown where the next one starts in the pipe.
            self._process.kill()
            return PolicyError(f"its program sent an invalid message: {error}")
        if serving.ERROR_KEY in response:
            return PolicyError(f"raised {' '.join(str(response[serving.ERROR_KEY]).split())}")
        return response.get(serving.ACTIONS_KEY)

    def _end(self) -> str:
        try:
            code = self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            return "its program has closed its pipes"
        return "its program has ended" + (f", exit code {code}" if code else "")


def flat(observation: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return an observation without nested dictionaries, with keys such as ``left/q``.

    Args:
        observation: Observation with nested dictionaries.
        prefix: Prefix of all keys.
    """
    result: dict[str, Any] = {}
    for key, value in observation.items():
        if isinstance(value, Mapping):
            result |= flat(value, f"{prefix}{key}/")
        else:
            result[prefix + key] = value
    return result


def _open(pipe: IO[bytes] | None) -> BinaryIO:
    if pipe is None:
        raise OSError("the program has no pipe")
    return cast(BinaryIO, pipe)


class LeRobotInference(ProgramInference):
    """Inference with a LeRobot policy that was trained on recorded data sets.

    Args:
        path: Folder saved by LeRobot (``pretrained_model``).
        env: Environment in which the policy acts.
        python: Interpreter of the environment with LeRobot, such as ``.lerobot/env/bin/python``.
        instruction: Task instruction for language-conditioned policies.
        device: Torch device.
        timeout: Timeout for loading the policy [s].

    Attributes:
        MAKE: Function that loads the policy, as ``module:function``.
        FOLDERS: Additional folders in which the module of ``MAKE`` is searched.

    Raises:
        PolicyFailed: If the policy cannot be loaded, its shapes differ from those of the
            environment, or it needs a history of observations.
        ConfigurationError: If the rate of the environment is not an integer, or an image has an
            odd height or width.
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
        sizes |= {IMAGE_PREFIX + name: [3, *size] for name, size in features.cameras.items()}
        self._env, self._begins = env, True
        arguments = [str(Path(path).resolve()), json.dumps(sizes), instruction, device]
        super().__init__(python, self.MAKE, arguments, folders=self.FOLDERS, timeout=timeout)

    def request(self, observation: dict[str, Any], now: float) -> None:
        """Send the observation to the program, with keys of the LeRobot format."""
        obs: dict[str, Any] = dict(observation_vectors(self._env, observation))
        for name, image in observation.get("images", {}).items():
            obs[IMAGE_PREFIX + name] = image
        obs[EPISODE_START_KEY] = np.array(self._begins)
        self._begins = False
        super().request(obs, now)

    def discard(self) -> None:
        """Discard the pending request. The next request begins an episode for the policy."""
        super().discard()
        self._begins = True
