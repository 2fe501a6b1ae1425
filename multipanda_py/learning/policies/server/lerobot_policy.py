# SPDX-License-Identifier: Apache-2.0
"""Loader of LeRobot policies. It runs in a Python environment with LeRobot but not this package.

Written for LeRobot 0.4.4 (``PreTrainedPolicy.predict_action_chunk``, processors saved with the
model).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

IMAGE_PREFIX, EPISODE_START_KEY = "observation.images.", "begins"


def make(path: str, sizes: str, task: str, device: str) -> Callable[[dict[str, Any]], Any]:
    """Load a policy saved by LeRobot, and return it as a function of an observation.

    Args:
        path: Folder with ``config.json``, ``model.safetensors`` and the processors.
        sizes: Shapes of observations and ``action`` in the environment by key of the data set, as
            JSON.
        task: Task instruction for language-conditioned policies.
        device: Torch device.

    Raises:
        ValueError: If the policy has other shapes than the environment, or needs a history of
            observations.
    """
    torch = import_module("torch")
    factory = import_module("lerobot.policies.factory")
    config = import_module("lerobot.configs.policies").PreTrainedConfig.from_pretrained(path)
    config.device = device
    check(config, json.loads(sizes))
    model = factory.get_policy_class(config.type).from_pretrained(path, config=config)
    model.to(device).eval()
    before, after = factory.make_pre_post_processors(
        config, pretrained_path=path,
        preprocessor_overrides={"device_processor": {"device": device}},
    )  # fmt: skip

    def answer(obs: dict[str, Any]) -> Any:
        if bool(obs.pop(EPISODE_START_KEY)):
            model.reset()
        batch: dict[str, Any] = {"task": [task]}
        for key in config.input_features:
            array = torch.from_numpy(np.ascontiguousarray(obs[key]))
            if key.startswith(IMAGE_PREFIX):
                array = array.permute(2, 0, 1).float() / 255.0
            batch[key] = array[None].float()
        with torch.inference_mode():
            return after(model.predict_action_chunk(before(batch)))[0].float().cpu().numpy()

    return answer


def check(config: Any, sizes: dict[str, list[int]]) -> None:
    """Check that a policy has observations and actions of the shapes of the environment.

    Args:
        config: Configuration of the policy.
        sizes: Shapes in the environment by key of the data set.

    Raises:
        ValueError: If shapes differ, or the policy needs a history of observations.
    """
    desired = {key: list(feature.shape) for key, feature in config.input_features.items()}
    desired |= {key: list(feature.shape) for key, feature in config.output_features.items()}
    faults = [
        f"{key}: trained with {shape}, the environment has {sizes.get(key, 'none')}"
        for key, shape in desired.items()
        if sizes.get(key) != shape
    ]
    if getattr(config, "n_obs_steps", 1) != 1:
        faults.append(f"n_obs_steps: got {config.n_obs_steps}, allowed 1 (no history is stored)")
    if faults:
        raise ValueError("; ".join(faults))
