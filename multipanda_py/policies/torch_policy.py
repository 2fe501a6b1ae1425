# SPDX-License-Identifier: Apache-2.0
"""A module of torch as a policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from multipanda_py.extras import needed
from multipanda_py.policies.inference import Policy


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
