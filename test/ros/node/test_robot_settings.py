# SPDX-License-Identifier: Apache-2.0
"""Settings of robots through the parameters of ``<arm>/franka``."""

from __future__ import annotations

import math
from functools import partial

import parameters_of
import pytest
from cell_names import LEFT_CARTESIAN
from rcl_interfaces.msg import ParameterType
from rcl_interfaces.srv import (
    DescribeParameters,
    ListParameters,
    SetParameters,
)
from rclpy.parameter import Parameter
from requirements import needs_pylibfranka
from robots import unused_address

from multipanda_py.hardware.franka.settings import FrankaSettings
from multipanda_py.parameters import declared
from multipanda_py.simulation.fci import FciSim

pytestmark = pytest.mark.node

NODE = "/left/franka"
get, put = partial(parameters_of.get, node=NODE), partial(parameters_of.put, node=NODE)


@pytest.fixture
def held(cell, client):
    """Left arm in hold and right arm under a controllet; teardown clears the payload."""
    assert client.switch([], [LEFT_CARTESIAN]).ok
    yield cell
    client.switch([], [LEFT_CARTESIAN], strictness=1)
    assert put(client, load_mass=0.0, load_com=[0.0, 0.0, 0.0]).successful


def test_every_option_is_listed_and_described(cell, client):
    names = client.call(ListParameters, f"{NODE}/list_parameters").result.names
    assert {spec.name for spec in declared(FrankaSettings)} <= set(names)
    mass, torques, budget = client.call(
        DescribeParameters,
        f"{NODE}/describe_parameters",
        names=["load_mass", "upper_torque_thresholds", "answer_budget"],
    ).descriptors
    assert mass.description.startswith("Mass of the load of the arm beyond its tool; ")
    assert mass.description.endswith(" [kg]")
    assert mass.floating_point_range[0].to_value == 5.0
    assert torques.additional_constraints == "7 numbers in (0, 1000] Nm"
    assert not torques.read_only
    assert budget.read_only
    thresholds = get(client, "upper_torque_thresholds", node="/right/franka")[0]
    assert list(thresholds.double_array_value) == FrankaSettings().upper_torque_thresholds


def test_arm_in_hold_accepts_several_settings_at_once(held, client):
    answer = put(client, load_mass=1, load_com=[0.0, 0.02, 0.1])  # an integer is accepted
    assert answer.successful, answer.reason
    mass, com = get(client, "load_mass", "load_com")
    assert mass.type == ParameterType.PARAMETER_DOUBLE
    assert mass.double_value == 1.0
    assert list(com.double_array_value) == [0.0, 0.02, 0.1]
    assert get(client, "load_mass", node="/right/franka")[0].double_value == 0.0
    held.wait_for("settings_applied (left): changed: load_mass, load_com")


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"load_mass": 0.5, "load_inertia": [1.0, 0.1, 0.1, 0.0, 0.0, 0.0]}, "no rigid body has"),
        ({"load_mass": 0.5, "load_com": [0.0, 0.0]}, "at least 3 items"),
        ({"load_mass": 0.5, "upper_force_thresholds": [math.nan] * 6}, "nan"),
        ({"load_mass": 0.5, "priority": 1}, "read-only"),
    ],
    ids=["inertia", "length", "nan", "start-only"],
)
def test_one_invalid_value_rejects_all_settings(held, client, values, reason):
    answer = put(client, **values)
    assert not answer.successful
    assert reason in answer.reason
    assert get(client, "load_mass")[0].double_value == 0.0
    assert put(client, load_mass=0.25).successful


def test_arm_under_controllet_rejects_settings_with_reason(cell, client):
    answer = put(client, load_mass=0.5)
    assert not answer.successful
    assert f"left follows {LEFT_CARTESIAN}" in answer.reason
    assert get(client, "load_mass")[0].double_value == 0.0


def test_settings_of_one_request_are_set_one_by_one(held, client):
    parameters = [
        Parameter("load_mass", value=0.5).to_parameter_msg(),
        Parameter("load_mass", value=-1.0).to_parameter_msg(),
    ]
    results = client.call(SetParameters, f"{NODE}/set_parameters", parameters=parameters).results
    assert [result.successful for result in results] == [True, False]
    assert get(client, "load_mass")[0].double_value == 0.5


CELL = """
/**:
  ros__parameters:
    arms:
      left:
        backend: franka
        robot_ip: "{ip}"
        gripper: false
        franka: {{answer_budget: 0.4, priority: 0, model_check: "off", load_mass: 0.2}}
    realtime: {{priority: 0, cpu: -2}}
    cell: {{heartbeat_timeout: 5.0}}
"""


@pytest.mark.slow
@needs_pylibfranka
def test_real_arm_receives_settings_and_reports_rejection(start, client, tmp_path):
    ip, space = unused_address(), f"/told_{tmp_path.name.strip('_')}"
    file = tmp_path / "cell.yaml"
    file.write_text(CELL.format(ip=ip))
    with FciSim([ip], lockstep=True) as sim:
        node = start(file=file, remap=[f"__ns:={space}"]).wait_for("is active")
        client.until(lambda: sim.admin(ip, "stats")["mode"] == "move", 15.0, "torque")
        node_name = f"{space}/left/franka"
        assert get(client, "load_mass", node=node_name)[0].double_value == 0.2
        answer = put(client, node=node_name, load_mass=0.5, load_com=[0.0, 0.0, 0.1])
        assert answer.successful, answer.reason
        settings = sim.admin(ip, "settings")
        assert settings["load_mass"] == 0.5
        assert settings["load_com"] == [0.0, 0.0, 0.1]
        answer = put(client, node=node_name, load_mass=0.7, cartesian_impedance=[1.0] * 6)
        assert not answer.successful
        assert f"left: robot {ip}: cartesian_impedance" in answer.reason
        assert sim.admin(ip, "settings")["load_mass"] == 0.5
        assert get(client, "load_mass", node=node_name)[0].double_value == 0.5
        stats = sim.admin(ip, "stats")
        assert (stats["mode"], stats["errors"]) == ("move", [])
        node.end()
    assert "client_silent" not in node.log
