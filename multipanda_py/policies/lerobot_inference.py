# SPDX-License-Identifier: Apache-2.0
"""A policy that LeRobot has trained on recorded episodes, asked in LeRobot's own environment."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from multipanda_py.datasets.features import IMAGES, features_of, numbers_of
from multipanda_py.gym import CellEnv
from multipanda_py.policies.elsewhere.lerobot_policy import BEGINS
from multipanda_py.policies.program_inference import ProgramInference


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
