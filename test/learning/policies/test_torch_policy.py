# SPDX-License-Identifier: Apache-2.0
"""A torch module as a policy."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.learning.policies import LockstepInference, torch_policy

torch = pytest.importorskip("torch")


def test_torch_module_is_evaluated_without_gradients():
    layer = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Dropout(0.9))
    with torch.no_grad():
        layer[0].weight[:] = torch.arange(24.0).reshape(8, 3)
        layer[0].bias[:] = 1.0
    policy = torch_policy(
        torch.nn.Sequential(layer, torch.nn.Unflatten(1, (4, 2))),
        lambda observed: observed["arm"]["q"],
        outputs=lambda answer, observed: answer + observed["arm"]["q"][0],
    )
    inference = LockstepInference(policy)
    q = np.array([1.0, 2.0, 3.0])
    inference.request({"arm": {"q": q}}, 0.0)
    expected = (np.arange(24.0).reshape(8, 3) @ q + 1.0).reshape(4, 2) + 1.0
    assert inference.receive(0.0) == pytest.approx(expected)
