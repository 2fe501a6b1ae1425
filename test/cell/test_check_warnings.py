# SPDX-License-Identifier: Apache-2.0
"""Warnings of ``Cell.warnings`` and ``run`` agree with the notes of ``multipanda check``."""

from __future__ import annotations

import re

import pytest
import yaml
from repository import CONFIG
from springs_of_fr3 import springs

from multipanda_py.apps.cli import main
from multipanda_py.cell import Cell
from multipanda_py.cell.checks import WARNING_CHECKS, notes_of
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.realtime.events import Event

pytestmark = pytest.mark.inline

SHIPPED = sorted(path for path in CONFIG.glob("*_sim.yaml"))
IN_BOX = {"shape": "box", "size": [0.1, 0.1, 0.3], "position": [0.35, 0.0, 0.3]}
LINK = """<link name="{name}"><inertial><origin xyz="0 0 0.1"/><mass value="2"/><inertia ixx="0.02"
iyy="0.02" izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial><collision><origin xyz="{at}"/><geometry>
<box size="{size}"/></geometry></collision></link>"""
JOINT = """<joint name="{name}" type="revolute"><parent link="{parent}"/><child link="{child}"/>
<origin xyz="0 0 {up}"/><axis xyz="{axis}"/><limit lower="-2" upper="2" effort="30" velocity="2"/>
</joint>"""


def short(groups):
    """Return springs with motor ranges smaller than the joint ranges."""
    for group in groups.values():
        group["motor"] = {**group.get("motor", {}), "min_position": -0.5, "max_position": 0.5}
    return groups


def weak(groups):
    """Return springs with less torque than the arm."""
    groups["shoulder"]["params"] |= {"k_1": 1.0, "k_2": 1.0}
    return groups


ONE = {"a": {"backend": "mujoco"}}
CASES = {
    "check_overlapping_bases": {"arms": {**ONE, "b": {"position": [0.05, 0.0, 0.0]}}},
    "check_initial_contacts": {"arms": ONE, "objects": {"box": IN_BOX}},
    "check_allowed_contacts": {
        "arms": ONE,
        "controllets": {"law": {"type": "cartesian_impedance"}},
    },
    "check_latency": {"arms": {"a": {"perturbation": {"state_delay": 0.02}}}},
    "check_rates": {
        "arms": ONE,
        "cell": {"rate": 500, "joint_state_rate": 1000},
    },
    "check_spring_torques": {"arms": {"a": {"actuators": weak(springs())}}},
    "check_motor_ranges": {"arms": {"a": {"actuators": short(springs())}}},
}


def write(path, data):
    path.write_text(yaml.safe_dump({"/**": {"ros__parameters": data}}))
    return path


def checked(path, capsys):
    """Return the notes of ``multipanda check``."""
    assert main(["check", str(path)]) == 0
    head = f"{path}: note: "
    lines = capsys.readouterr().out.splitlines()
    return [line.removeprefix(head) for line in lines if line.startswith(head)]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_cell_warnings_equal_notes_of_check(path, capsys):
    assert Cell.from_yaml(path).warnings == checked(path, capsys)


@pytest.mark.parametrize("kind", CASES)
def test_every_kind_of_note_is_warning_of_cell(kind, tmp_path, capsys):
    path = write(tmp_path / "cell.yaml", CASES[kind])
    (check,) = [one for one in WARNING_CHECKS if one.__name__ == kind]
    expected = check(CellConfig.from_yaml(path))
    assert expected
    warnings = Cell.from_yaml(path).warnings
    assert set(expected) <= set(warnings)
    assert warnings == checked(path, capsys)


def test_every_check_has_case():
    named = {check.__name__ for check in WARNING_CHECKS}
    assert named - set(CASES) == {"check_robots"}  # test/robots/test_description_warnings.py


def test_unused_section_is_warning_of_cell(tmp_path, capsys):
    data = {"/**": {"ros__parameters": {"arms": ONE}}}
    data["a/missing"] = {"ros__parameters": {"stiffness": 1.0}}
    path = tmp_path / "cell.yaml"
    path.write_text(yaml.safe_dump(data))
    warnings = Cell.from_yaml(path).warnings
    assert any("a/missing" in text for text in warnings)
    assert warnings == checked(path, capsys)


@pytest.fixture
def in_floor(tmp_path):
    """Return a cell whose first link is in the floor and cannot leave it."""
    robot = "".join([
        '<robot name="in_floor"><link name="base"/>',
        LINK.format(name="l1", at="0.1 0 0", size="0.3 0.1 0.2"),
        LINK.format(name="l2", at="0 0 0.2", size="0.05 0.05 0.2"),
        JOINT.format(name="j1", parent="base", child="l1", up=0.05, axis="0 0 1"),
        JOINT.format(name="j2", parent="l1", child="l2", up=0.15, axis="0 1 0"),
        "</robot>",
    ])  # fmt: skip
    (tmp_path / "in_floor.urdf").write_text(robot)
    main(["robot", "import", str(tmp_path / "in_floor.urdf"), "--output", str(tmp_path)])
    arm = {"model": {"extra": str(tmp_path / "in_floor.yaml")}}
    laws = {"jt": {"type": "joint_trajectory"}}
    return write(
        tmp_path / "cell.yaml",
        {"cell": {"name": "in_floor"}, "arms": {"arm": arm}, "controllets": laws,
         "active": ["arm/jt"]},
    )  # fmt: skip


def test_arm_in_floor_was_jammed_without_warning(in_floor, capfd):
    (sentence,) = checked(in_floor, capfd)
    assert re.match(r"arm .*\bfloor: .*\barm_in_floor_l1\b.* 6\d mm", sentence)
    assert main(["run", str(in_floor), "--placement", "inline", "--duration", "0.01"]) == 0
    reported = capfd.readouterr()
    assert f"warning: {sentence}" in reported.err
    assert f"event: notice: {sentence}" in reported.out
    with Cell.from_yaml(in_floor, placement="inline") as cell:
        assert cell.warnings == [sentence]
        cell.step(5)
        assert [(e.event, e.text) for e in cell.events()] == [(Event.NOTICE, sentence)]


def test_notes_are_computed_once(monkeypatch):
    cell, found = Cell.from_yaml(CONFIG / "dual_sim.yaml"), []
    monkeypatch.setattr(
        "multipanda_py.cell.cell.notes_of", lambda config: found.append(1) or notes_of(config)
    )
    assert cell.warnings == cell.warnings
    assert found == [1]
