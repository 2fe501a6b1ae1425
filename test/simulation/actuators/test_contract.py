# SPDX-License-Identifier: Apache-2.0
"""Contract of actuators: built-in actuators keep it, and faults are detected."""

from __future__ import annotations

import json

import numpy as np
import pytest

from multipanda_py import registry
from multipanda_py.actuator import ElasticTorque
from multipanda_py.apps.cli import main
from multipanda_py.simulation.actuators.compliant_actuators import Awas2, Qbmove, Sea
from multipanda_py.testing import ContractViolation, check_actuator

pytestmark = pytest.mark.inline

ODD = {
    "sea": {"stiffness": [1.0, 1e2, 1e4, 3.0], "max_deflection": [0.1, 0.2, 0.8, 3.0]},
    "qbmove": {"a_1": [6.257, 3.383, 9.0, 2.0], "k_1": 0.01, "k_2": [0.1, 0.05, 0.01, 1.0]},
    "bavs": {"a": 2e-6, "coupling": 4.0, "preset_low": 0.05},
    "awas2": {"spring_stiffness": [10.0, 100.0, 1.0, 0.1], "preset_low": 0.001, "lever": 0.06},
}


@pytest.mark.parametrize("name", registry.built_in("actuators"))
def test_built_in_actuator_keeps_contract(name):
    check_actuator(name)
    check_actuator(name, ODD[name], seed=1)


@pytest.mark.parametrize("name", registry.built_in("actuators"))
def test_built_in_actuator_names_its_source(name):
    found = registry.find("actuators", name)
    assert "2021" in found.source
    assert found.identified
    assert found.kind() == name


def test_actuator_list_has_parameters_units_and_sources(capsys):
    assert main(["list", "actuators", "--json"]) == 0
    found = {item["name"]: item for item in json.loads(capsys.readouterr().out)["actuators"]}
    sea, awas2 = found["sea"], found["awas2"]
    assert (sea["motors"], sea["preset"], awas2["motors"], awas2["preset"]) == (1, "", 2, "m")
    assert awas2["source"].startswith("Jafari")
    (high,) = (one for one in awas2["parameters"] if one["name"] == "preset_high")
    assert (high["unit"], high["low"], high["default"]) == ("m", 0, 0.04)
    assert not any(one["name"].startswith("preset") for one in sea["parameters"])


class Stiffer(Qbmove):
    def link_stiffness(self, q, theta_1, theta_2):
        return 1.01 * super().link_stiffness(q, theta_1, theta_2)


class ForceBeyond(Awas2):
    def elastic_torque(self, q, theta_1, theta_2):
        found = super().elastic_torque(q, theta_1, theta_2)
        return found._replace(motor_2=0.5 * found.motor_2)


class Scalar(Sea):
    def elastic_torque(self, q, theta_1, theta_2):
        found = super().elastic_torque(q, theta_1, theta_2)
        return ElasticTorque(found.link, found.motor_1, np.zeros(1))


class Endless(Sea):
    def elastic_torque(self, q, theta_1, theta_2):
        torque = self.of["stiffness"] * (theta_1 - q)
        return ElasticTorque(torque, torque, np.zeros_like(torque))


class OneBuffer(Sea):
    def on_parameters(self):
        self.buffer = {}

    def elastic_torque(self, q, theta_1, theta_2):
        buffer = self.buffer.setdefault(q.shape, np.zeros(q.shape))
        buffer[:] = super().elastic_torque(q, theta_1, theta_2).link
        return ElasticTorque(buffer, buffer, np.zeros_like(buffer))


class Sticky(Sea):
    calls = 0

    def elastic_torque(self, q, theta_1, theta_2):
        type(self).calls += 1
        torque = super().elastic_torque(q, theta_1, theta_2).link + 1e-3 * self.calls
        return ElasticTorque(torque, torque, np.zeros_like(torque))


class Backward(Sea):
    def elastic_torque(self, q, theta_1, theta_2):
        torque = -super().elastic_torque(q, theta_1, theta_2).link
        return ElasticTorque(torque, torque, np.zeros_like(torque))

    def link_stiffness(self, q, theta_1, theta_2):
        return -super().link_stiffness(q, theta_1, theta_2)


class Crosswise(Sea):
    def elastic_torque(self, q, theta_1, theta_2):
        torque = super().elastic_torque(q, theta_1, theta_2).link
        return ElasticTorque(torque + 0.1 * np.roll(torque, 1, -1), torque, np.zeros_like(torque))


class Filled(Sea):
    def elastic_torque(self, q, theta_1, theta_2):
        torque = np.nan_to_num(super().elastic_torque(q, theta_1, theta_2).link)
        return ElasticTorque(torque, torque, np.zeros_like(torque))


class OtherMap(Qbmove):
    def references(self, equilibrium, preset):
        return equilibrium + 0.5 * preset, equilibrium - 0.5 * preset


class Unitless(Sea):
    preset_unit = "rad"


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (Stiffer, r"link_stiffness .*0\.15\d\b.*15\.3"),
        (ForceBeyond, r"link .*\bmotor_2\b.*\b1\.4e\+05"),
        (Scalar, r"motor_2: .*\(1,\).*\(50, 4\)"),
        (Endless, r"max_deflection\b.*\b72\b.*\b80"),
        (OneBuffer, "results of one call"),
        (Sticky, "keeps state"),
        (Backward, "torque .*equilibrium"),
        (Crosswise, "joint .*deflection"),
        (Filled, "NaN torques"),
        (OtherMap, r"preset_of\b.*\b1$"),
        (Unitless, "preset_unit: .*''"),
    ],
)
def test_faulty_actuator_violates_contract(kind, reason):
    with pytest.raises(ContractViolation, match=reason):
        check_actuator(kind)
