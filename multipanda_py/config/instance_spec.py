# SPDX-License-Identifier: Apache-2.0
"""Specification of a controllet instance, which node and loop each create from the cell file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from multipanda_py import registry
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arms
from multipanda_py.config.renamed_keys import check_parameters
from multipanda_py.config.rules import flatten
from multipanda_py.config.sections import InstanceConfig
from multipanda_py.controllet import Controllet
from multipanda_py.exceptions import ParameterRejected
from multipanda_py.feature import Feature, Switch, feature_names
from multipanda_py.parameters import ParameterSet, Spec
from multipanda_py.robots import ArmDescription, Robot
from multipanda_py.state import Vector
from multipanda_py.targets import Channel, channel_table


@dataclass(frozen=True)
class InstanceSpec:
    """Specification of a controllet instance: class, arms, features, parameters and channels.

    Attributes:
        index: Index of the instance in the cell.
        config: Configuration of the instance with its name and start-up parameters.
        features: Feature classes by name, in the order of ``parameter_sets``.
        arms: Indices of the instance's arms in the cell.
        robots: Robot model of each arm of the instance, by arm name, in the order of ``arms``.
        descriptions: Description of each arm of the instance, by arm name.
    """

    index: int
    config: InstanceConfig
    controllet_class: type[Controllet[Any, Any]]
    features: dict[str, type[Feature[Any]]]
    arms: tuple[int, ...]
    robots: Mapping[str, Robot]
    descriptions: Mapping[str, ArmDescription]

    @cached_property
    def name(self) -> str:
        return self.config.name

    @cached_property
    def is_hold(self) -> bool:
        """True for instances of ``hold``, which own the arms that no other controllet owns."""
        return self.config.type == "hold"

    @property
    def channels(self) -> tuple[str, ...]:
        """Names of the channels that users can write to."""
        return tuple(self.channel_table)

    @property
    def joints(self) -> tuple[int, ...]:
        return tuple(robot.n_joints for robot in self.robots.values())

    @cached_property
    def channel_table(self) -> dict[str, Channel]:
        """Channels by name: those of the controllet, then those of its features."""
        extra = (channel for part in self.features.values() for channel in part.channels)
        return channel_table((*self.controllet_class.Target.channels, *extra))

    @cached_property
    def controllet_channels(self) -> frozenset[str]:
        """Names of the channels that the controllet itself reads; features read the others."""
        law = self.controllet_class
        return frozenset(map(str, law.Target.channels)).difference(law.feature_channels)

    @cached_property
    def ungated_channels(self) -> tuple[str, ...]:
        """Names of channels whose targets may be far from the measured state.

        These are the channels that the controllet declares as ``ungated``, and all channels of
        features.
        """
        law = self.controllet_class.Target
        return (*law.ungated, *(name for name in self.channel_table if name not in law.channels))

    @cached_property
    def parameter_sets(self) -> tuple[ParameterSet[Any], ...]:
        """Parameter sets: one of the controllet, then two of each feature.

        The first set of a feature has its parameter ``enabled``, the second has its other
        parameters. The feature's name is the prefix of both.
        """
        sets: list[ParameterSet[Any]] = [
            ParameterSet(self.controllet_class.Params, robots=self.robots)
        ]
        for name, feature in self.features.items():
            own = ParameterSet(feature.Params, f"{name}.", self.robots)
            sets += ParameterSet(Switch, f"{name}."), own
        return tuple(sets)

    @cached_property
    def parameter_specs(self) -> tuple[Spec, ...]:
        """Specifications of all parameters, those of the controllet first."""
        return tuple(spec for part in self.parameter_sets for spec in part.specs)

    @property
    def parameter_width(self) -> int:
        """Number of floats that encode all parameters."""
        return sum(part.width for part in self.parameter_sets)

    def checked(self, values: Mapping[str, object]) -> dict[str, Any]:
        """Check parameter values by name, and return them in their canonical types.

        Raises:
            ParameterRejected: If a value is invalid; it contains one line per fault.
        """
        accepted, faults = check_parameters(self.parameter_specs, values, self.name)
        if not faults:
            faults = [
                f"{self.name}: {reason}"
                for reason in self.controllet_class.check_params(accepted, self.descriptions)
            ]
        if faults:
            raise ParameterRejected("\n".join(faults))
        return accepted

    def initial_values(self) -> dict[str, Any]:
        """Return the parameters at start-up: defaults overridden by the cell file."""
        values = {spec.name: spec.default for spec in self.parameter_specs}
        return values | self.checked(flatten(self.config.params))

    def encode(self, values: Mapping[str, Any]) -> Vector:
        """Encode checked values of all parameters, by name, as one vector for the loop."""
        return np.concatenate([part.encode(values) for part in self.parameter_sets])

    def decode(self, flat: Vector) -> list[Any]:
        """Decode a vector from :meth:`encode`.

        Returns:
            ``Params`` of the controllet, followed by two items for each feature: a ``Switch`` with
            the parameter ``enabled``, and the ``Params`` of the feature.
        """
        parts, start = [], 0
        for part in self.parameter_sets:
            parts.append(part.decode(flat[start : start + part.width]))
            start += part.width
        return parts


def instance_specs(config: CellConfig) -> list[InstanceSpec]:
    """Build the specification of every instance of a checked cell."""
    arm_index = {name: index for index, name in enumerate(config.arms)}
    described = dict(zip(config.arms, describe_arms(config)))
    result = []
    for index, instance in enumerate(config.instances()):
        law = registry.find("controllets", instance.type)
        names = feature_names(law, instance.features)
        features = {name: registry.find("features", name) for name in names}
        arms = tuple(arm_index[name] for name in instance.arms)
        robots = {name: config.arms[name].robot for name in instance.arms}
        own = {name: described[name] for name in instance.arms}
        result.append(InstanceSpec(index, instance, law, features, arms, robots, own))
    return result
