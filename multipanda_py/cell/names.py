# SPDX-License-Identifier: Apache-2.0
"""Lookup of the arms and controllet instances of a cell by name."""

from __future__ import annotations

from collections.abc import Sequence

from multipanda_py.config.arm_section import ArmConfig
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arms
from multipanda_py.config.instance_spec import InstanceSpec, instance_specs
from multipanda_py.exceptions import UnknownName
from multipanda_py.state import ArmLimits


class CellNames:
    """Lookup of arms and controllet instances by name.

    Attributes:
        config: Checked cell file.
        specs: Specifications of all controllet instances, by index.
        arms: Names of the arms, by index.
        descriptions: Descriptions of the arms, by name.
    """

    def __init__(self, config: CellConfig) -> None:
        self.config = config
        self.specs: list[InstanceSpec] = instance_specs(config)
        self.arms = tuple(config.arms)
        self.descriptions = dict(zip(self.arms, describe_arms(config)))
        self._arm_index = {name: index for index, name in enumerate(self.arms)}
        self._spec_index = {spec.name: spec.index for spec in self.specs}
        self._specs_of = {
            name: [spec for spec in self.specs if index in spec.arms]
            for name, index in self._arm_index.items()
        }

    def arm_index(self, arm: str) -> int:
        """Return the index of an arm in the cell.

        Raises:
            UnknownName: If there is no such arm.
        """
        if arm not in self._arm_index:
            raise UnknownName("arm", arm, self.arms)
        return self._arm_index[arm]

    def arm_config(self, arm: str) -> ArmConfig:
        """Return the section of an arm in the cell file.

        Raises:
            UnknownName: If there is no such arm.
        """
        return self.config.arms[self.arms[self.arm_index(arm)]]

    def limits(self, arm: str) -> ArmLimits:
        """Return the joint limits of an arm.

        Raises:
            UnknownName: If there is no such arm.
        """
        return self.descriptions[self.arms[self.arm_index(arm)]].limits

    def specs_of(self, arm: str) -> Sequence[InstanceSpec]:
        """Return the controllet instances that may control an arm, beginning with its ``hold``.

        Raises:
            UnknownName: If there is no such arm.
        """
        return self._specs_of[self.arms[self.arm_index(arm)]]

    def spec(self, name: str) -> InstanceSpec:
        """Return the specification of a controllet instance.

        Raises:
            UnknownName: If there is no such instance.
        """
        if name not in self._spec_index:
            raise UnknownName("controllet", name, list(self._spec_index))
        return self.specs[self._spec_index[name]]
