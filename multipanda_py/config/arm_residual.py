# SPDX-License-Identifier: Apache-2.0
"""Trained residuals of the arms of a cell: loading and checks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from multipanda_py.config.describe import describe_arms
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.residual.runtime import LiveResidual
from multipanda_py.robots.residual.weights import load_residual

if TYPE_CHECKING:
    from multipanda_py.config.cell_sections import CellSections


def residual_of(
    arm: ArmDescription, use: str, file: str, period: float, phase: int = 0
) -> LiveResidual:
    """Load a residual that a cell file names for an arm.

    Args:
        arm: Description of the arm.
        use: Key in the arm's section ``residual``.
        file: Path of the weights.
        period: Cycle time [s].
        phase: Number of the cycle in which the residual is evaluated first.

    Raises:
        ConfigurationError: If the file cannot be read, or is for another robot or cycle rate.
    """
    joints = tuple(joint.name for joint in arm.robot.joints)
    try:
        return LiveResidual(load_residual(Path(file)), period, arm.robot.name, joints, phase)
    except ConfigurationError as error:
        raise ConfigurationError(f"arms.{arm.name}.residual.{use}: {error}") from None


def check_residuals(config: CellSections) -> None:
    """Check that all residuals of a cell exist and fit their arms.

    Raises:
        ConfigurationError: If a residual is missing or does not fit; the error lists all faults.
    """
    faults: list[str] = []
    for arm in describe_arms(config):
        for use, file in config.arms[arm.name].residual.model_dump().items():
            try:
                if file:
                    residual_of(arm, use, file, 1.0 / config.cell.rate)
            except ConfigurationError as error:
                faults += error.faults
    for name, law in config.controllets.items():
        faults += [
            f"controllets.{name}.features: residual: arm {arm} has no residual file. Set "
            f"arms.{arm}.residual.torque, or remove the feature"
            for arm in law.arms or config.arms
            if "residual" in (law.features or ()) and not config.arms[arm].residual.torque
        ]
    if faults:
        raise ConfigurationError(*faults)
