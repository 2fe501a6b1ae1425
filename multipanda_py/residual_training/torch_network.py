# SPDX-License-Identifier: Apache-2.0
"""The networks of residuals in torch, for training, and their weights as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from multipanda_py.extras import needed
from multipanda_py.residual.network import LAYERS, PRECISE, Arrays

_SUFFIX = {False: "", True: "_reverse"}


def make_network(kind: str, size: int, units: int) -> Any:
    """Return an untrained module that maps states (b, k, size) to residuals of the same shape.

    Its second layer's directions are added where it has two.

    Raises:
        MissingExtra: If torch is missing.
    """
    torch = needed("torch")
    both = kind == PRECISE

    class Network(torch.nn.Module):  # type: ignore[misc,name-defined]  # torch is loaded late
        def __init__(self) -> None:
            super().__init__()
            self.first = torch.nn.LSTM(size, units, batch_first=True, bidirectional=both)
            hidden = units * (1 + both)
            self.second = torch.nn.LSTM(hidden, units, batch_first=True, bidirectional=both)
            self.dense = torch.nn.Linear(units, size)
            torch.nn.init.zeros_(self.dense.weight)  # the raw twin is where it begins
            torch.nn.init.zeros_(self.dense.bias)

        def forward(self, states: Any) -> Any:
            hidden = self.second(self.first(states)[0])[0]
            if both:
                hidden = hidden[..., :units] + hidden[..., units:]
            return self.dense(hidden)

    return Network()


def arrays_of(module: Any, kind: str) -> dict[str, np.ndarray[Any, np.dtype[np.float64]]]:
    """Return a module's weights as :mod:`multipanda_py.residual.network` names them."""
    found = {}
    for name in LAYERS[kind]:
        layer = getattr(module, name.partition("_")[0])
        suffix = _SUFFIX[name.endswith("backwards")]
        parts = {
            part: getattr(layer, f"{part}_l0{suffix}").detach().double().cpu().numpy()
            for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        }
        found[f"{name}.of_input"] = parts["weight_ih"].copy()
        found[f"{name}.of_output"] = parts["weight_hh"].copy()
        found[f"{name}.bias"] = parts["bias_ih"] + parts["bias_hh"]
    found["dense.weight"] = module.dense.weight.detach().double().cpu().numpy().copy()
    found["dense.bias"] = module.dense.bias.detach().double().cpu().numpy().copy()
    return found


def put_arrays(module: Any, kind: str, arrays: Arrays) -> None:
    """Give a module weights, to go on from."""
    torch = needed("torch")
    with torch.no_grad():
        for name in LAYERS[kind]:
            layer = getattr(module, name.partition("_")[0])
            suffix = _SUFFIX[name.endswith("backwards")]
            for part, value in (
                ("weight_ih", arrays[f"{name}.of_input"]),
                ("weight_hh", arrays[f"{name}.of_output"]),
                ("bias_ih", arrays[f"{name}.bias"]),
                ("bias_hh", np.zeros_like(arrays[f"{name}.bias"])),
            ):
                getattr(layer, f"{part}_l0{suffix}").copy_(torch.from_numpy(np.array(value)))
        module.dense.weight.copy_(torch.from_numpy(np.array(arrays["dense.weight"])))
        module.dense.bias.copy_(torch.from_numpy(np.array(arrays["dense.bias"])))
