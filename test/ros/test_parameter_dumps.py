# SPDX-License-Identifier: Apache-2.0
"""A parameter dump is a valid cell file: checked, loaded and run."""

from __future__ import annotations

import parameters_of
import pytest
import yaml
from cell_names import LEFT_CARTESIAN
from parameters_of import CELL_NODE, NODES
from rcl_interfaces.srv import DescribeParameters, SetParameters
from rclpy.parameter import Parameter, parameter_value_to_python

from multipanda_py.apps.commands import check
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.instance_spec import instance_specs

pytestmark = pytest.mark.node

STIFFNESS = [350.0, 350.0, 350.0, 15.0, 15.0, 15.0]


@pytest.fixture
def changed(cell, client):
    """The shared node with one parameter that differs from its file."""
    [before] = parameters_of.get(client, "stiffness", node=f"/{LEFT_CARTESIAN}")
    assert parameters_of.put(client, f"/{LEFT_CARTESIAN}", stiffness=STIFFNESS).successful
    yield cell
    value = parameter_value_to_python(before)
    assert parameters_of.put(client, f"/{LEFT_CARTESIAN}", stiffness=value).successful


@pytest.mark.slow
def test_dump_failed_check_and_lost_controllets_for_new_node(
    changed, client, start, tmp_path, capsys
):
    file = tmp_path / "dumped.yaml"
    parts = [parameters_of.dump(client, f"/{name}") for name in NODES]
    file.write_text("".join(yaml.safe_dump(part) for part in parts))
    assert check.run_check(type("Options", (), {"files": [str(file)]})) == 0, (
        capsys.readouterr().err
    )
    assert "no effect" not in capsys.readouterr().out
    config = CellConfig.from_yaml(file)
    values = {spec.name: spec.initial_values() for spec in instance_specs(config)}
    assert list(values[LEFT_CARTESIAN]["stiffness"]) == STIFFNESS
    assert list(values[LEFT_CARTESIAN.replace("left", "right")]["stiffness"]) != STIFFNESS
    again = tmp_path / "again.yaml"
    again.write_text(file.read_text().replace("\n/", "\n/again/").replace("/", "/again/", 1))
    node = start(file=again, remap=["__ns:=/again"]).wait_for("is active")
    assert "no effect" not in node.log
    found = parameters_of.get(client, "stiffness", node=f"/again/{LEFT_CARTESIAN}")
    assert list(found[0].double_array_value) == STIFFNESS


def test_loading_dump_failed_at_read_only_parameters(changed, client):
    """Clients also set unchanged values when they load a file."""
    client.switch([], [LEFT_CARTESIAN], strictness=1)  # robot settings require rest
    for name in NODES:
        names = client.call(parameters_of.ListParameters, f"/{name}/list_parameters").result.names
        values = parameters_of.get(client, *names, node=f"/{name}")
        parameters = [
            Parameter(one, value=parameter_value_to_python(value)).to_parameter_msg()
            for one, value in zip(names, values, strict=True)
        ]
        kind, service = SetParameters, f"/{name}/set_parameters"
        results = client.call(kind, service, parameters=parameters).results
        assert len(results) == len(names) > 10
        assert [one.reason for one in results if not one.successful] == []


def test_every_cell_parameter_was_described_as_last_one(cell, client):
    names = ["cell.rate", "arms.left.position", "active"]
    described = client.call(
        DescribeParameters, f"{CELL_NODE}/describe_parameters", names=names
    ).descriptors
    assert [one.name for one in described] == names
    assert all(one.read_only for one in described)
