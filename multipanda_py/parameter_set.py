# SPDX-License-Identifier: Apache-2.0
"""The parameters of a law together: by name, checked, and as the flat vector of a mailbox."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import ParameterRejected
from multipanda_py.parameter_spec import Spec, frozen_vector
from multipanda_py.parameters import Jointed, specs_of

_P = TypeVar("_P")


class ParameterSet(Generic[_P]):
    """The named parameters of one ``Params`` class, and their flat form.

    Args:
        params: The dataclass.
        prefix: Put before every name (``nullspace.`` for a feature).
        robot: That vectors of joints are for.
    """

    def __init__(self, params: type[_P], prefix: str = "", robot: Jointed | None = None) -> None:
        self.params = params
        self.specs = specs_of(params, prefix, robot)
        self.names = tuple(spec.name for spec in self.specs)
        self.width = sum(spec.width for spec in self.specs)

    def encode(self, values: Mapping[str, Any]) -> NDArray[np.float64]:
        """Return checked values as one flat vector, (width,)."""
        flat: list[float] = []
        for spec in self.specs:
            value = values[spec.name]
            if spec.kind == "vector":
                flat.extend(value)
            else:
                flat.append(spec.options.index(value) if spec.kind == "choice" else float(value))
        return np.array(flat, dtype=np.float64)

    def decode(self, flat: NDArray[np.float64]) -> _P:
        """Return the dataclass that a flat vector describes."""
        arguments, start = {}, 0
        for spec, field in zip(self.specs, dataclasses.fields(self.params)):  # type: ignore[arg-type]
            part = flat[start : start + spec.width]
            start += spec.width
            if spec.kind == "vector":
                value: Any = frozen_vector(part)
            elif spec.kind == "flag":
                value = bool(part[0])
            else:
                value = spec.options[int(part[0])] if spec.kind == "choice" else float(part[0])
            if spec.kind == "integer":
                value = int(part[0])
            arguments[field.name] = value
        return self.params(**arguments)


def check_values(
    specs: Sequence[Spec], values: Mapping[str, object], where: str
) -> tuple[dict[str, Any], list[str]]:
    """Check values against specs and collect every fault.

    Returns:
        The accepted values by name, and one sentence per fault.
    """
    known = {spec.name: spec for spec in specs}
    accepted: dict[str, Any] = {}
    faults: list[str] = []
    for name, value in values.items():
        if name not in known:
            names = ", ".join(known) or "none"
            faults.append(f"{where}: parameter {name!r} does not exist; known: {names}")
            continue
        try:
            accepted[name] = known[name].check(value, where)
        except ParameterRejected as error:
            faults.append(str(error))
    return accepted, faults
