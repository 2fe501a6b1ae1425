# SPDX-License-Identifier: Apache-2.0
"""What the compliant actuators of arms do, out of a row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from multipanda_py.cell.names import CellNames
from multipanda_py.compliance.mode import OperationMode
from multipanda_py.compliance.springs import JointSprings
from multipanda_py.exceptions import ActuatorRefused
from multipanda_py.state import Matrix, Vector


@dataclass(frozen=True, eq=False)
class ActuatorSnapshot:
    """The m joints of an arm that have compliant actuators, as they were in one cycle.

    Attributes:
        joints: Their names, without the arm's prefix.
        modes: Their operation modes.
        q: Positions of links, (m,) [rad].
        dq: Their velocities, (m,) [rad/s].
        torque: On links: of springs, or of what drives rigid ones, (m,) [Nm].
        stiffness: Of springs at links, (m,) [Nm/rad]; zero without springs in between.
        reference: Where both motors are asked to be, (2, m) [rad, or m where that is their unit].
        position: Where they are, (2, m).
        velocity: How fast, (2, m).
        motor_torque: What they exert, (2, m) [Nm].
        load: What springs exert on them, (2, m) [Nm].
        equilibrium: Where springs would be at rest, (m,) [rad].
        preset: Of their stiffness, (m,).
    """

    joints: tuple[str, ...]
    modes: tuple[OperationMode, ...]
    q: Vector
    dq: Vector
    torque: Vector
    stiffness: Vector
    reference: Matrix
    position: Matrix
    velocity: Matrix
    motor_torque: Matrix
    load: Matrix
    equilibrium: Vector
    preset: Vector


class ActuatorReader:
    """Find the actuators of arms in rows, and compute what follows from where motors are.

    Args:
        names: Of the cell's arms.

    Thread: any.
    """

    def __init__(self, names: CellNames) -> None:
        self._names = names
        self._springs: dict[str, JointSprings] = {}

    def of(self, row: NDArray[np.void], arm: str) -> ActuatorSnapshot:
        """Return what the actuators of an arm do.

        Args:
            row: Of a cycle, shape ().
            arm: Name of the arm.

        Raises:
            UnknownName: If it does not exist.
            ActuatorRefused: If it has no compliant actuators.
        """
        record = row["arms"][self._names.arm_index(arm)]
        joints = self._names.descriptions[arm].actuated
        if joints is None:
            raise ActuatorRefused(f"{arm}: got no compliant actuators, allowed arms with some")
        q, dq, torque, numbers, reference, position, velocity, exerted, load = (
            record[name][..., joints.places]
            for name in (
                "q", "dq", "tau_J", "actuator_mode", "motor_reference", "motor_position",
                "motor_velocity", "motor_torque", "motor_load",
            )
        )  # fmt: skip
        modes, springs = tuple(map(OperationMode, numbers.tolist())), self._springs_of(arm)
        elastic = np.array([not mode.is_rigid for mode in modes])
        stiffness = np.where(elastic, springs.stiffness(q, position), 0.0)
        return ActuatorSnapshot(
            joints.names, modes, q, dq, torque, stiffness, reference, position, velocity,
            exerted, load, springs.equilibrium_of(position), springs.preset_of(position),
        )  # fmt: skip

    def _springs_of(self, arm: str) -> JointSprings:
        """Return the springs of an arm; made when first asked for."""
        if arm not in self._springs:
            # Needs mujoco, which whoever has such an arm has: cells of other arms do without.
            from multipanda_py.simulation.compliant_build import CompliantGroups

            groups = CompliantGroups([self._names.arm_config(arm)])
            self._springs[arm] = JointSprings(groups.springs, groups.count)
        return self._springs[arm]
