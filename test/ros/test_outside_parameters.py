# SPDX-License-Identifier: Apache-2.0
"""``ros2 param`` and parameter files, unmodified: what is dumped is checked, loaded and run."""

from __future__ import annotations

import sys

import parameters_of
import pytest
import yaml
from outside import Outside
from rcl_interfaces.srv import DescribeParameters

from multipanda_py.commands import check
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.instance_spec import instance_specs

pytestmark = pytest.mark.node

LAW, CELL_NODE = "left/cartesian_impedance_controller", "/multimode_controller"
NODES = ("multimode_controller", LAW, "right/joint_impedance_controller", "left/franka",
         "dual_cartesian_impedance_controller")  # fmt: skip
STIFFNESS = [350.0, 350.0, 350.0, 15.0, 15.0, 15.0]


def lines(verb, *words):
    return [f"param {verb} --no-daemon --timeout 20 {word}" for word in words]


@pytest.fixture(scope="module")
def dumped(shared_node, client, outside):
    """All parameters of the shared node's nodes, after one has changed: node, file."""
    assert parameters_of.put(client, node=f"/{LAW}", stiffness=STIFFNESS).successful
    said = outside.ros2_beside(*lines("dump", *(f"/{name}" for name in NODES)))
    parts = {f"/{name}": yaml.safe_load(text) for name, text in zip(NODES, said)}
    for name, part in parts.items():  # or every test and every try would go by half a dump
        assert list(part) == [name], part
    return parts


@pytest.mark.clock
def test_what_is_dumped_was_no_cell_for_check_and_lost_the_laws_for_a_new_node(
    dumped, client, start, tmp_path, capsys
):
    file = tmp_path / "dumped.yaml"
    file.write_text("".join(yaml.safe_dump(part) for part in dumped.values()))
    assert check.run(type("Options", (), {"files": [str(file)]})) == 0, capsys.readouterr().err
    assert "no effect" not in capsys.readouterr().out
    config = CellConfig.from_yaml(file)
    values = {spec.name: spec.initial_values() for spec in instance_specs(config)}
    assert list(values[LAW]["stiffness"]) == STIFFNESS
    assert list(values[LAW.replace("left", "right")]["stiffness"]) != STIFFNESS
    again = tmp_path / "again.yaml"
    again.write_text(file.read_text().replace("\n/", "\n/again/").replace("/", "/again/", 1))
    node = start(file=again, remap=["__ns:=/again"]).wait_for("is active")
    assert "no effect" not in node.log
    found = parameters_of.get(client, "stiffness", node=f"/again/{LAW}")
    assert list(found[0].double_array_value) == STIFFNESS


@pytest.mark.clock
def test_loading_what_was_dumped_failed_at_what_is_read_only(
    dumped, cell, client, outside, tmp_path
):
    """``/**``, for the client stumbles over a file of a single node after it has set it."""
    client.switch([], [LAW], strictness=1)  # a robot is told things at rest only
    pairs = []
    for number, (name, part) in enumerate(dumped.items()):
        file = tmp_path / f"{number}.yaml"
        file.write_text(yaml.safe_dump({"/**": part[name]}))
        pairs.append(f"{name} {file}")
    for said in outside.ros2_beside(*lines("load", *pairs)):
        assert said.count("successful") == len(said.splitlines()) > 10, said


@pytest.mark.clock
def test_every_parameter_of_the_cell_was_described_as_its_last(cell, client, outside):
    [said] = outside.ros2(*lines("describe", f"{CELL_NODE} cell.rate"))
    assert said.startswith("Parameter name: cell.rate\n  Type: double\n")
    names = ["cell.rate", "arms.left.position", "active"]
    described = client.call(
        DescribeParameters, f"{CELL_NODE}/describe_parameters", names=names
    ).descriptors
    assert [one.name for one in described] == names
    assert all(one.read_only for one in described)


CLI = """
turns = []
def main():
    import sys
    turns.append(sys.argv[1])
    if sys.argv[1] == "b" and turns.count("b") < 3:
        print("Wait for service timed out waiting for parameter services for node /b")
    else:
        print(f"/{sys.argv[1]}: {len(turns)}")
"""


def test_what_was_not_found_once_was_taken_for_a_dump_by_every_test_and_every_try(tmp_path):
    """A third of what a node announced was lost at a client's socket, and the client gave up."""
    site = tmp_path / "ros2cli"
    site.mkdir()
    (site / "cli.py").write_text(CLI)
    (site / "__init__.py").touch()
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "python"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path} exec {sys.executable} "$@"\n')
    program.chmod(0o755)
    clients = Outside(tmp_path)
    # In their order: what follows may need what was asked for again.
    assert clients.ros2("a", "b", "c") == ["/a: 1\n", "/b: 4\n", "/c: 5\n"]
    assert "timed out" in clients.ros2("b", turns=2)[0]
