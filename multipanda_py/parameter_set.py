# SPDX-License-Identifier: Apache-2.0
"""The parameters of a law together: by name, checked, and as the flat vector of a mailbox."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import ParameterRejected
from multipanda_py.parameter_spec import Spec, frozen_vector
from multipanda_py.parameters import Robots, specs_by_field

_P = TypeVar("_P")


class ParameterSet(Generic[_P]):
    """The named parameters of one ``Params`` class, and their flat form.

    Args:
        params: The dataclass.
        prefix: Put before every name (``nullspace.`` for a feature).
        robots: Arms that vectors of joints are for.
    """

    def __init__(self, params: type[_P], prefix: str = "", robots: Robots | None = None) -> None:
        self.params = params
        self._fields = specs_by_field(params, prefix, robots)
        self.specs = tuple(spec for specs in self._fields.values() for spec in specs)
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
        for field, specs in self._fields.items():
            values = []
            for spec in specs:
                values.append(_typed_value(spec, flat[start : start + spec.width]))
                start += spec.width
            arguments[field] = values[0] if len(values) == 1 else tuple(values)
        return self.params(**arguments)


def _typed_value(spec: Spec, part: NDArray[np.float64]) -> Any:
    """Return the value that a part of a flat vector stands for."""
    if spec.kind == "vector":
        return frozen_vector(part)
    if spec.kind == "choice":
        return spec.options[int(part[0])]
    return {"flag": bool, "integer": int}.get(spec.kind, float)(part[0])


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
            faults.append(f"{where}: {_unknown(name, value, known)}")
            continue
        try:
            accepted[name] = known[name].check(value, where)
        except ParameterRejected as error:
            faults.append(str(error))
    return accepted, faults


def _unknown(name: str, value: object, known: Mapping[str, Spec]) -> str:
    """Say that a parameter does not exist, and what does."""
    own = [spec for spec in known.values() if spec.per_joint and spec.name.startswith(f"{name}.")]
    if not own:
        return f"parameter {name!r} does not exist; known: {', '.join(known) or 'none'}"
    got = f"{len(value)} numbers" if isinstance(value, (list, tuple, np.ndarray)) else repr(value)
    each = ", ".join(f"{spec.name} with {spec.width} numbers" for spec in own)
    return f"{name}: got {got:.80} for all arms, allowed one per arm, as they differ: {each}"
