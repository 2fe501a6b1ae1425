# SPDX-License-Identifier: Apache-2.0
"""Sections for controllets and robots have one meaning wherever a parameter file is read."""

from __future__ import annotations

import pytest

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.instance_spec import instance_specs
from multipanda_py.config.parameter_file import ParameterFile
from multipanda_py.exceptions import ConfigurationError

pytestmark = pytest.mark.inline

CELL = """
/**:
  ros__parameters:
    max_target_age: 0.5
    use_sim_time: false
    arms: {left: {backend: mock}, right: {backend: mock}}
    controllets:
      soft:
        type: cartesian_impedance
        params:
          damping_ratio: [0.5, 0.5, 0.5, 0.5, 0.5, 0.5]
          nullspace: {stiffness: [5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0]}
      both: {type: cartesian_impedance, arms: [left, right]}
"""


@pytest.fixture
def read(tmp_path):
    """Return a function that reads the cell with further sections."""

    def read_with(more, namespace=None):
        path = tmp_path / "cell.yaml"
        path.write_text(CELL + more)
        config = CellConfig.from_yaml(path, namespace)
        return {spec.name: spec.initial_values() for spec in instance_specs(config)}

    return read_with


def section(name, **values):
    lines = "".join(f"    {key}: {value}\n" for key, value in values.items())
    return f"{name}:\n  ros__parameters:\n{lines}"


SOFTER = [100.0] * 6


@pytest.mark.parametrize(
    ("key", "reached"),
    [
        ("/left/soft", ["left/soft"]),
        ("left/soft", ["left/soft"]),
        ("/both", ["both"]),
        ("/**/soft", ["left/soft", "right/soft"]),
        ("/*/soft", ["left/soft", "right/soft"]),
        ("/lab/left/soft", ["left/soft"]),
    ],
)
def test_section_of_controllet_was_ignored_silently(read, key, reached):
    values = read(section(key, stiffness=SOFTER))
    found = [name for name, own in values.items() if list(own.get("stiffness", ())) == SOFTER]
    assert found == reached


def test_section_overrides_cell_and_keeps_other_values(read):
    values = read(
        section("/left/soft", **{"nullspace": "{stiffness: [7.0, 7.0, 7.0, 7.0, 7.0, 7.0, 7.0]}"})
    )
    assert list(values["left/soft"]["nullspace.stiffness"]) == [7.0] * 7
    assert list(values["right/soft"]["nullspace.stiffness"]) == [5.0] * 7
    assert list(values["left/soft"]["damping_ratio"]) == [0.5] * 6


def test_only_own_namespace_applies_if_known(read):
    more = section("/lab/left/soft", stiffness=SOFTER)
    for namespace, is_reached in (("lab", True), ("/lab", True), ("", False), ("other", False)):
        found = list(read(more, namespace)["left/soft"]["stiffness"])
        assert (found == SOFTER) is is_reached


def test_node_parameters_are_ignored_in_controllet_section(read):
    given = {"use_sim_time": "false", "start_type_description_service": "true"}
    assert (
        list(read(section("/left/soft", stiffness=SOFTER, **given))["left/soft"]["stiffness"])
        == SOFTER
    )


def test_robot_receives_given_settings_without_defaults(tmp_path):
    """A dump has every default; given thresholds stop a simulated arm, defaults do not."""
    path = tmp_path / "cell.yaml"
    usual = [20.0, 20.0, 20.0, 25.0, 25.0, 25.0]
    parameters = {"load_mass": 0.5, "lower_force_thresholds": usual, "use_sim_time": "false"}
    file = CELL.replace("left: {backend: mock}", "left: {backend: mujoco}")
    path.write_text(file + section("/left/franka", **parameters))
    settings = CellConfig.from_yaml(path).arms["left"].settings
    assert (settings.load_mass, settings.given) == (0.5, {"load_mass"})


@pytest.mark.parametrize(
    ("more", "place"),
    [
        (section("/left/soft", stifness=1.0), r"arm_params\.left: .*'stifness'"),
        (section("/both", stiffness=[1.0]), r"controllets\.both\.params: stiffness: "),
        (section("/left/soft", stiffness="[1, 2.0]"), "/left/soft: stiffness: "),
        (section("multimode_controller", max_target_age=-1.0), r"max_target_age: .*-1\.0\b"),
        (section("multimode_controller", use_sim_time="maybe"), "use_sim_time: .*'maybe'"),
    ],
)
def test_faults_of_sections_are_reported_with_place(read, more, place):
    with pytest.raises(ConfigurationError, match=place):
        read(more)


def test_arm_params_are_checked_by_their_arm():
    soft = {"type": "joint_impedance", "arm_params": {"middle": {"stiffness": [1.0] * 7}}}
    cell = {"arms": {"left": {}, "right": {}}, "controllets": {"soft": soft}}
    with pytest.raises(ConfigurationError, match=r"arm_params:.*'middle'"):
        CellConfig.from_dict(cell)
    soft["arms"] = ["left"]
    with pytest.raises(ConfigurationError, match=r"arm_params: .*\['middle'\]"):
        CellConfig.from_dict(cell)


def test_section_that_matches_no_node_is_named(tmp_path):
    path = tmp_path / "cell.yaml"
    path.write_text(CELL + section("/left/sofd", stiffness=SOFTER) + section("rviz2", a=1))
    assert ParameterFile.read(path).unmatched_sections() == ["/left/sofd"]
