# SPDX-License-Identifier: Apache-2.0
"""Which joints have springs that give laws less than the arm's limits, in sentences."""

from __future__ import annotations

import numpy as np
import pinocchio as pin

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arm
from multipanda_py.dynamics.gravity import heavy_model
from multipanda_py.state import Vector

POSTURES = 400
"""At which the weight of an arm is looked at."""


def weak_springs(config: CellConfig) -> list[str]:
    """Say, once for an arm, which springs leave laws less torque than a rigid arm has."""
    found = []
    for name, arm in config.arms.items():
        rigid, whole = arm.rigid_robot.limits.torque, arm.robot.limits.whole_torque
        if not arm.robot.limits.bears_weight:
            continue
        most, here = _weights(config, name)
        weak = np.flatnonzero(whole < rigid + most).tolist()
        parts = [
            f"{arm.robot.joints[joint].name} {whole[joint]:.3g} Nm in place of {rigid[joint]:.3g} "
            f"Nm, of which its weight takes {here[joint]:.2g} Nm at q_start and up to "
            f"{most[joint]:.2g} Nm"
            + (", more than there is" if most[joint] > whole[joint] else "")
            for joint in weak
        ]
        if parts:
            found.append(
                f"arms.{name}.actuators: springs and motors exert less than the arm's torques and "
                f"its weight together, and laws have what that leaves: {'; '.join(parts)}"
            )
    return found


def _weights(config: CellConfig, name: str) -> tuple[Vector, Vector]:
    """Return what carries an arm's joints at the most, and at its start, (n,) each [Nm]."""
    arm = config.arms[name]
    model = heavy_model(describe_arm(name, arm))
    data, (low, high) = model.createData(), arm.robot.limits.span
    rng, most = np.random.default_rng(0), np.zeros(arm.robot.n_joints)

    def weight(q: Vector) -> Vector:
        found: Vector = np.abs(pin.computeGeneralizedGravity(model, data, q)).round(6)
        return found

    for _ in range(POSTURES):
        np.maximum(most, weight(rng.uniform(low, high)), out=most)
    here = weight(np.array(arm.q_start))
    return np.maximum(most, here), here
