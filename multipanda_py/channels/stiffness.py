# SPDX-License-Identifier: Apache-2.0
"""How stiff the tool is to be."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from multipanda_py.channel import AskedOfArm, Channel
from multipanda_py.control.cartesian_gains import MAX_STIFFNESS
from multipanda_py.exceptions import TargetRejected
from multipanda_py.state import ArmSnapshot, Vector


def check_stiffness(stiffness: ArrayLike, state: ArmSnapshot) -> Vector:
    """Return the record of channel ``stiffness`` for six diagonal elements or a 6 x 6 matrix.

    Raises:
        TargetRejected: If it is not symmetric and positive semidefinite, or too stiff.
    """
    try:
        matrix = np.array(stiffness, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise TargetRejected(f"{state.name}: stiffness: got {stiffness!r:.60}") from None
    if matrix.shape == (6,):
        matrix = np.diag(matrix)
    elif matrix.shape == (36,):
        matrix = matrix.reshape(6, 6)
    where = f"{state.name}: stiffness"
    if matrix.shape != (6, 6):
        raise TargetRejected(f"{where}: got shape {matrix.shape}, allowed 6 or 6 x 6 numbers")
    if not np.isfinite(matrix).all():
        wrong = matrix[~np.isfinite(matrix)][0]
        raise TargetRejected(f"{where}: got {wrong}, allowed finite numbers")
    if np.abs(matrix - matrix.T).max() > 1e-9 * max(1.0, np.abs(matrix).max()):
        raise TargetRejected(f"{where}: got a matrix that is not symmetric")
    moments = np.linalg.eigvalsh(matrix)
    if moments[0] < -1e-9 * max(1.0, moments[-1]):
        raise TargetRejected(
            f"{where}: got smallest eigenvalue {moments[0]:.4g}, allowed 0 or more "
            "(positive semidefinite)"
        )
    # With both blocks bounded and the whole positive semidefinite, what couples them is too.
    for what, bound, unit in (("translational", 0, "N/m"), ("rotational", 3, "Nm/rad")):
        block = matrix[bound : bound + 3, bound : bound + 3]
        stiffest, most = float(np.linalg.eigvalsh(block)[-1]), MAX_STIFFNESS[bound]
        if stiffest > most * (1.0 + 1e-9):
            raise TargetRejected(
                f"{where}: got {stiffest:.4g} {unit} in the stiffest {what} direction, "
                f"allowed up to {most:g}"
            )
    return matrix.reshape(-1)


def _stiffness_record(stiffness: ArrayLike, asked: AskedOfArm) -> Vector:
    return check_stiffness(stiffness, asked.state)


STIFFNESS = Channel(
    "stiffness",
    36,
    "six diagonal elements or a symmetric 6 x 6 matrix, along the axes of the gains",
    check=_stiffness_record,
    method="set_target(arm, stiffness=...)",
)
"""6 x 6 row by row [N/m, Nm/rad], along the axes of the gains."""
