# SPDX-License-Identifier: Apache-2.0
"""The arrays that a law writes what it commands into: they stay the same ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from multipanda_py.state import Vector


class JointVectors(tuple[Vector, ...]):
    """A vector per arm, (n,), that others read where it is.

    ``vectors[arm][:] = ...`` and ``vectors[arm] += ...`` write in place as ever; so does
    ``vectors[arm] = ...``, where a list would take another array of whatever width.
    """

    __slots__ = ()

    def __setitem__(self, arm: int, value: ArrayLike) -> None:
        """Write the vector of one arm.

        Raises:
            ValueError: If it has another shape.

        Thread: control.
        """
        kept = self[arm]
        if value is kept:
            return
        if np.shape(value) != kept.shape:
            raise ValueError(
                f"what is commanded to arm {arm} of a law: got shape {np.shape(value)}, "
                f"allowed {kept.shape}"
            )
        kept[:] = value

    @classmethod
    def of(cls, name: str, found: object, joints: tuple[int, ...]) -> JointVectors:
        """Return the arrays that a law has made, as vectors that stay.

        Args:
            name: Of the attribute, for the sentence.
            found: The arrays, one per arm.
            joints: Number of joints of each arm.

        Raises:
            TypeError: If they are not what the loop can read.

        Thread: any, before the loop runs.
        """
        vectors = found if isinstance(found, (list, tuple)) else ()
        if [_shape(vector) for vector in vectors] != [(n,) for n in joints]:
            raise TypeError(
                f"{name}: got {_words(found)}, allowed a float64 array per arm, of "
                f"{' and '.join(map(str, joints))} joints, as "
                "Controllet.__init__ makes them: super().__init__(context, params)"
            )
        return vectors if isinstance(vectors, cls) else cls(vectors)


def _shape(vector: object) -> tuple[int, ...] | None:
    """Return the shape of an array of floats, and None of anything else."""
    if isinstance(vector, np.ndarray) and vector.dtype == np.float64:
        shape: tuple[int, ...] = vector.shape
        return shape
    return None


def _words(found: object) -> str:
    """Say what is there instead."""
    if isinstance(found, (list, tuple)):
        return f"[{', '.join(map(_words, found))}]"
    if isinstance(found, np.ndarray):
        return f"{found.dtype} array {found.shape}"
    return "nothing" if found is None else type(found).__name__
