# SPDX-License-Identifier: Apache-2.0
"""Names of a cell's arms and controllet instances, and what they stand for."""

from __future__ import annotations

from collections.abc import Sequence

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arms
from multipanda_py.config.instance_spec import InstanceSpec, instance_specs
from multipanda_py.config.sections import ArmConfig
from multipanda_py.exceptions import UnknownName
from multipanda_py.state import ArmLimits


class CellNames:
    """Look up arms and instances by name.

    Args:
        config: The checked cell file.

    Attributes:
        config: The checked cell file.
        specs: What every controllet instance is made of, by index.
        arms: Names of the arms, by index.
        descriptions: What the arms are, by name.
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
        """Return the place of an arm in the cell.

        Raises:
            UnknownName: If it does not exist.
        """
        if arm not in self._arm_index:
            raise UnknownName("arm", arm, self.arms)
        return self._arm_index[arm]

    def arm_config(self, arm: str) -> ArmConfig:
        """Return what the cell file says of an arm.

        Raises:
            UnknownName: If it does not exist.
        """
        return self.config.arms[self.arms[self.arm_index(arm)]]

    def limits(self, arm: str) -> ArmLimits:
        """Return the limits of an arm's joints.

        Raises:
            UnknownName: If it does not exist.
        """
        return self.descriptions[self.arms[self.arm_index(arm)]].limits

    def specs_of(self, arm: str) -> Sequence[InstanceSpec]:
        """Return the instances that may own an arm, its hold first.

        Raises:
            UnknownName: If it does not exist.
        """
        return self._specs_of[self.arms[self.arm_index(arm)]]

    def spec(self, name: str) -> InstanceSpec:
        """Return what an instance is made of.

        Raises:
            UnknownName: If it does not exist.
        """
        if name not in self._spec_index:
            raise UnknownName("controllet", name, list(self._spec_index))
        return self.specs[self._spec_index[name]]
