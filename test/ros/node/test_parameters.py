# SPDX-License-Identifier: Apache-2.0
"""Parameters of controllets through the standard services."""

from __future__ import annotations

import math
import re
from functools import partial

import parameters_of
import pytest
from rcl_interfaces.msg import Parameter as ParameterMsg
from rcl_interfaces.msg import ParameterType, ParameterValue
from rcl_interfaces.srv import (
    DescribeParameters,
    ListParameters,
    SetParameters,
)
from rclpy.parameter import Parameter

from multipanda_py.parameters import Spec
from multipanda_py.ros.node.parameters import descriptor_of

pytestmark = pytest.mark.node

NODE = "/left/cartesian_impedance_controller"
GAINS = [400.0, 400.0, 400.0, 20.0, 20.0, 20.0]
get, put = partial(parameters_of.get, node=NODE), partial(parameters_of.put, node=NODE)


@pytest.fixture(autouse=True)
def _restored(cell, client):
    yield
    assert put(client, stiffness=GAINS, gain_frame="base").successful


def test_every_spec_is_listed(client):
    names = client.call(ListParameters, f"{NODE}/list_parameters").result.names
    assert {"stiffness", "damping_ratio", "gain_frame", "nullspace.stiffness"} <= set(names)


def test_dual_arm_controllet_has_node_in_cell_namespace(client):
    values = get(client, "stiffness", node="/dual_cartesian_impedance_controller")
    assert list(values[0].double_array_value) == GAINS


def test_initial_value_of_cell_file_can_be_changed(client):
    assert list(get(client, "stiffness")[0].double_array_value) == GAINS
    stiffer = [500.0, 500.0, 500.0, 30.0, 30.0, 30.0]
    assert put(client, stiffness=stiffer, gain_frame="tool").successful
    stiffness, frame = get(client, "stiffness", "gain_frame")
    assert list(stiffness.double_array_value) == stiffer
    assert frame.string_value == "tool"


def test_integers_are_accepted_as_doubles(client):
    assert put(client, stiffness=[300, 300, 300, 20, 20, 20]).successful
    value = get(client, "stiffness")[0]
    assert value.type == ParameterType.PARAMETER_DOUBLE_ARRAY
    assert value.double_array_value[0] == 300.0


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ([400.0] * 5, "allowed 6 numbers, 3 in [0, 5000], then 3 in [0, 300]"),
        (
            [400.0, 400.0, 400.0, 20.0, 20.0, 6000.0],
            "allowed 6 numbers, 3 in [0, 5000], then 3 in [0, 300]",
        ),
        ([400.0, math.nan, 400.0, 20.0, 20.0, 20.0], "nan"),
    ],
    ids=["length", "range", "nan"],
)
def test_invalid_value_rejects_whole_request(client, value, reason):
    answer = put(client, gain_frame="tool", stiffness=value)
    assert not answer.successful
    assert reason in answer.reason
    assert "left/cartesian_impedance_controller: stiffness" in answer.reason
    stiffness, frame = get(client, "stiffness", "gain_frame")
    assert list(stiffness.double_array_value) == GAINS
    assert frame.string_value == "base"


def test_unknown_option_wrong_type_unknown_name_and_removal_are_rejected(client):
    assert "one of base, tool" in put(client, gain_frame="elbow").reason
    assert put(client, stiffness=1.0).reason.startswith(f"{NODE}: stiffness: got double, ")
    assert "stiffness: got 'stiff'" in put(client, stiffness="stiff").reason
    mixed = put(client, stiffness="[400, 400, 400.5, 20, 20, 20]").reason
    assert "(a string: " in mixed
    unknown = put(client, stifness=1.0).reason
    assert re.match(rf"{NODE}: .*'stifness'.*\bstiffness\b", unknown)
    unset = ParameterMsg(name="stiffness", value=ParameterValue())
    answer = client.call(SetParameters, f"{NODE}/set_parameters", parameters=[unset])
    assert not answer.results[0].successful
    assert list(get(client, "stiffness")[0].double_array_value) == GAINS


def test_every_rejection_is_counted(cell, client):
    """Rejections by rclpy were not counted, and an empty name was accepted."""
    refused = lambda: int(client.diagnosis(cell.name)[1]["rejected parameters"])  # noqa: E731
    client.forget_statuses()  # a stored status may lack the counts of earlier tests
    before = refused()
    one = ParameterValue(type=3, double_value=1.0)
    wrong = [
        ParameterMsg(name="", value=one),
        ParameterMsg(name="no_such_gain", value=one),
        ParameterMsg(name="stiffness", value=ParameterValue(type=4, string_value="stiff")),
        ParameterMsg(name="stiffness", value=ParameterValue()),
        ParameterMsg(name="stiffness", value=ParameterValue(type=255)),
        ParameterMsg(name="gain_frame", value=ParameterValue(type=4, string_value="elbow")),
    ]
    answer = client.call(SetParameters, f"{NODE}/set_parameters", parameters=wrong)
    assert not any(result.successful for result in answer.results)
    assert all(result.reason for result in answer.results)
    assert "name: " in answer.results[0].reason
    client.until(lambda: refused() >= before + len(wrong), 5.0, "counted rejections")
    assert refused() == before + len(wrong)


def test_description_has_unit_and_bounds(client):
    described = client.call(
        DescribeParameters, f"{NODE}/describe_parameters", names=["stiffness", "gain_frame"]
    ).descriptors
    assert "[N/m, Nm/rad]" in described[0].description
    assert described[0].additional_constraints == (
        "6 numbers, 3 in [0, 5000], then 3 in [0, 300] N/m, Nm/rad"
    )
    assert described[1].additional_constraints == "one of base, tool"


def test_cell_parameters_are_read_only(cell, client):
    node = "/multimode_controller"
    refused = lambda: int(client.diagnosis(cell.name)[1]["rejected parameters"])  # noqa: E731
    client.forget_statuses()
    before = refused()
    assert get(client, "cell.rate", node=node)[0].double_value == 1000.0
    answer = client.call(
        SetParameters,
        f"{node}/set_parameters",
        parameters=[Parameter("cell.rate", value=500.0).to_parameter_msg()],
    )
    assert not answer.results[0].successful
    client.until(lambda: refused() == before + 1, 5.0, "a counted rejection")


@pytest.mark.parametrize("bounds", [(0, 20), (0.0, 20.0)])
def test_descriptor_range_equals_declared_bounds(bounds):
    """Integer bounds need a conversion to the doubles of the message."""
    low, high = bounds
    (found,) = descriptor_of(Spec("gain", "number", 1.0, low=low, high=high)).floating_point_range
    assert (found.from_value, found.to_value) == (0.0, 20.0)


def test_stiffness_reduction_at_joint_configuration_is_reported(cell, client):
    assert put(client, stiffness=[5000.0] * 3 + [300.0] * 3).successful
    reported, name = "left: cartesian_impedance keeps", "left/cartesian_impedance_controller"
    cell.wait_for(f"notice ({name}): {reported}")
    answer = client.switch([name], [name], strictness=4)
    assert reported in getattr(answer, "message", reported)  # absent in some distributions
    diagnosis = partial(client.diagnosis, f"{cell.name}/{name}")
    client.until(
        lambda: "reduced to" in diagnosis()[0].message and diagnosis()[1]["notices"] == "2",
        10.0,
        "notices in /diagnostics",
    )
    assert diagnosis()[1]["last notice"].startswith(reported)


def test_use_sim_time_of_controllet_was_accepted_without_effect(cell, client):
    for node in (NODE, "/left/controller_manager", "/controller_manager"):
        answer = parameters_of.put(client, node, use_sim_time=True)
        assert not answer.successful
        assert "multimode_controller" in answer.reason
        [value] = parameters_of.get(client, "use_sim_time", node=node)
        assert value.bool_value is False
        assert parameters_of.put(client, node, use_sim_time=False).successful, "as in a dump"
