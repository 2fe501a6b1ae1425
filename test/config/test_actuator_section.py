# SPDX-License-Identifier: Apache-2.0
"""Compliant actuators of an arm in the cell file: allowed values and files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import yaml

from multipanda_py import Cell
from multipanda_py.config import actuator_section
from multipanda_py.config.actuator_section import LinkPidConfig, MotorConfig
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.registry import find
from multipanda_py.robots import MODELS
from multipanda_py.robots.actuated_joints import OperationMode
from multipanda_py.robots.measured_files import actuator_text
from multipanda_py.simulation.actuators.arm import CompliantGroups, elastic_of
from multipanda_py.simulation.actuators.motors import LinkPid, Motors

pytestmark = pytest.mark.inline

FOLDER = Path(__file__).parents[2] / "config" / "compliant"
GROUP = {"type": "qbmove", "joints": ["joint1", "joint3"]}


def arm_with(actuators, **arm):
    config = CellConfig.from_dict({"arms": {"left": {"actuators": actuators, **arm}}})
    return config.arms["left"]


@pytest.mark.parametrize(
    ("changed", "arm", "message"),
    [
        ({"type": "rubber"}, {}, "a.type: .*'rubber'.*awas2"),
        ({"type": None}, {}, "a.type:.*None"),
        ({"spring": 1}, {}, "a.spring:.*type, joints, params"),
        ({"joints": ["elbow"]}, {}, "a.joints:.*'elbow'.*joint1"),
        ({"joints": []}, {}, r"b.joints: .*\bjoint7\b.*\ba\b"),
        ({"params": {"k": 1.0}}, {}, "a.params: qbmove: parameter 'k'"),
        ({"params": {"k_1": [1.0] * 3}}, {}, r"a.params: qbmove: k_1:.*\b3\b"),
        ({"params": {"k_1": -1.0}}, {}, r"a.params: qbmove: k_1"),
        ({"preset": 0.9}, {}, r"a.preset: qbmove: .*joint 1:.*0.9.*\b0\b.*0.6 rad"),
        ({"type": "awas2", "preset": 0.2}, {}, "a.preset:.*0.2.*0.04 m"),
        ({"preset": float("nan")}, {}, "a.preset:.*nan"),
        ({"type": "awas2", "preset": 0.0}, {},
         r"a.preset: .*\bjoint 1\b"),
        ({"mode": "equilibrium_pid"}, {}, r"a.motor: .*\bequilibrium_pid\b"),
        ({"mode": "springs"}, {}, "a.mode:.*'springs'"),
        (
            {"type": "sea", "motor": {"p": 1.0}, "motor_2": {"p": 1.0}},
            {},
            r"a.motor_2: .*\bsea\b",
        ),
        ({"params": {"a_1": 0.0}}, {}, r"a_1: .*\b0\.0\b.*\(0, inf\]"),
        ({"params": {"max_deflection": 1e6}}, {}, "a.params: qbmove: max_deflection.*joint 1"),
        ({"motor": {"inertia": 0.0}}, {}, "a.motor.inertia:.*0.0"),
        ({"motor": {"p": [1.0] * 5}}, {}, r"a.motor.p:.*\b5\b.*\b2\b"),
        ({"motor": {"min_position": 1.0, "max_position": 0.0}}, {},
         r"a.motor.min_position: .*\b1\b.*joint 1\b"),
        ({"motor": {"min_position": [-1.0, 2.0], "max_position": [1.0, -2.0]}}, {},
         r"a.motor.min_position: .*\b2\b.*joint 2\b.* -2$"),
        ({"motor_2": {"min_position": 0.5, "max_position": [1.0, 0.5]}}, {},
         r"a.motor_2.min_position: .*\b0\.5 .*joint 2\b.* 0\.5$"),
        ({"link_pid": {"p": -1.0}}, {}, "a.link_pid.p:.*-1.0"),
        ({"link_pid": {"d": float("nan")}}, {}, "a.link_pid.d:.*nan"),
        ({"link_pid": {"max_torque": 0.0}}, {}, "a.link_pid.max_torque:.*0.0"),
        ({"link_pid": {"i": [0.1] * 3}}, {}, r"a.link_pid.i:.*\b3\b.*\b2\b"),
        ({"link_pid": {"k": 1.0}}, {}, r"a.link_pid.k: .*\bp, i, d, max_torque"),
        ({"mode": "link_pid", "link_pid": {"p": [5.0, 0.0]}}, {},
         r"a.link_pid.p: .*\[5\.0, 0\.0\].*\b0\b.*\blink_pid\b"),
        ({"output_inertia": [0.1]}, {}, r"a.output_inertia:.*\b1\b.*\b2\b"),
        ({}, {"transmission": {"stiffness": [9000.0] * 7}},
         r": .*arms.left.transmission\b"),
        ({}, {"backend": "mock"}, r": .*\bbackend mock\b"),
    ],
)  # fmt: skip
def test_invalid_actuators_are_refused(changed, arm, message):
    groups = {"a": {**GROUP, **changed}, "b": {"type": "sea", "joints": ["joint7"]}}
    with pytest.raises(ConfigurationError, match=rf"arms\.left\.actuators.*{message}"):
        arm_with(groups, **arm)


def test_motor_mode_of_arm_without_motors_was_accepted():
    actuators = {"actuators": {"a": {"type": "sea"}}}
    controllet = {"type": "actuator_commands", "arm_params": {"right": {"mode": "motor_pid"}}}
    cell = {
        "arms": {"left": actuators, "right": actuators}, "controllets": {"springs": controllet},
    }  # fmt: skip
    with pytest.raises(ConfigurationError) as error:
        CellConfig.from_dict(cell)
    (fault,) = error.value.faults
    assert fault.startswith("cell: controllets.springs.arm_params.right.mode: motor_pid ")


def test_motor_defaults_and_mode_names_agree_with_simulation():
    assert [mode.name.lower() for mode in OperationMode] == list(get_args(actuator_section.Mode))
    assert [mode.name.lower() for mode in OperationMode if mode.has_motors] == list(
        actuator_section.WITH_MOTORS
    )
    own, springs = MotorConfig(), find("actuators", "sea")(1)
    motors = Motors.of([(springs, [0])])
    for name in MotorConfig.model_fields:
        if name not in ("min_position", "max_position"):  # infinite in the simulation
            assert getattr(own, name) == getattr(motors, name)[0, 0], name


def test_link_controllers_have_toolbox_defaults_unless_set():
    own, of_links = LinkPidConfig(), LinkPid.from_config(1)
    assert [own.p, own.i, own.d] == [of_links.p[0], of_links.i[0], of_links.d[0]]
    arm = arm_with(
        {
            "wrist": {"type": "sea", "joints": ["joint7", "joint6"], "mode": "link_pid",
                      "link_pid": {"p": [70.0, 60.0], "i": 2.0, "max_torque": 3.0}},
            "base": {"type": "sea", "joints": ["joint1"]},
        }
    )  # fmt: skip
    found = CompliantGroups([arm]).link_pid
    np.testing.assert_array_equal(found.p, [0.8, 60.0, 70.0])
    np.testing.assert_array_equal(found.i, [0.0, 2.0, 2.0])
    np.testing.assert_array_equal(found.d, 0.2)
    np.testing.assert_array_equal(found.max_torque, [arm.robot.limits.torque[0], 3.0, 3.0])


def test_groups_assign_values_to_their_joints():
    arm = arm_with(
        {
            "wrist": {
                "type": "sea", "joints": ["joint7", "joint6"], "output_inertia": [0.01, 0.02],
                "params": {"stiffness": [70.0, 60.0]}, "motor": {"inertia": [0.7, 0.6]},
            },
            "base": {"type": "qbmove", "joints": ["joint1"], "preset": 0.3,
                     "motor_2": {"p": 5.0}, "motor": {"p": 4.0}},
        }
    )  # fmt: skip
    assert elastic_of(arm) == [0, 5, 6]
    groups = CompliantGroups([arm])
    springs = groups.springs
    assert [indices for _, indices in springs] == [[1, 2], [0]]
    np.testing.assert_array_equal(springs[0][0].of["stiffness"], [60.0, 70.0])
    np.testing.assert_array_equal(groups.presets, [0.3, 0.0, 0.0])
    motors = groups.motors
    np.testing.assert_array_equal(motors.inertia[0], [0.0233, 0.6, 0.7])
    np.testing.assert_array_equal(motors.p[:, 0], [4.0, 5.0])
    expected = np.array(MODELS["fr3"].armature)
    expected[5:] = 0.02, 0.01
    np.testing.assert_array_equal(arm.robot.armature, expected)
    assert arm.robot is arm.robot  # controllets and bodies compare robots by identity


def test_toolbox_urdf_is_read_unchanged():
    arm = CellConfig.from_yaml(FOLDER / "two_joints.yaml").arms["arm"]
    (group,) = arm.actuators.values()
    assert (group.type, group.joints) == ("qbmove", ["joint_1", "joint_2"])
    assert group.mode == "equilibrium_pid"
    assert group.motor.friction == [0.02, 0.02]
    assert group.motor_2.inertia == 0.0233


def rewritten(tmp_path, change):
    for name in ("two_joints.yaml", "two_joints.urdf", "two_joints_extra.yaml"):
        (tmp_path / name).write_text(change((FOLDER / name).read_text(encoding="utf-8")))
    return tmp_path / "two_joints.yaml"


@pytest.mark.slow
@pytest.mark.sim
@pytest.mark.parametrize("kind", ["sea", "bavs", "awas_ii"])
def test_awas_ii_urdf_was_refused_for_weak_motor(tmp_path, kind):
    def change(text):
        return re.sub("<mot_.*>", "", text.replace("libqbmove_plugin", f"lib{kind}_plugin"))

    file = rewritten(tmp_path, change)
    with Cell.from_yaml(file, placement="inline") as cell:
        cell.switch(["arm/actuator_commands_controller"], strictness="force_auto")
        cell.command_actuators("arm", equilibrium_position=0.3)
        if kind == "awas_ii":
            cell.command_actuators("arm", stiffness_preset=0.01)
        cell.step(1500)
        assert not cell.state("arm").fault
        np.testing.assert_allclose(cell.state("arm").q, 0.3, atol=0.05)


def test_unknown_tag_is_reported_for_model(tmp_path):
    file = rewritten(tmp_path, lambda text: text.replace("mot_1_tauFric", "mot_1_rust"))
    with pytest.raises(ConfigurationError, match=r"arm\.model: .*\bmot_1_rust: "):
        CellConfig.from_yaml(file)


def test_joints_in_different_modes_form_separate_groups(tmp_path):
    file = rewritten(tmp_path, lambda text: re.sub("mode>6<", "mode>3<", text, count=1))
    groups = CellConfig.from_yaml(file).arms["arm"].actuators
    assert {name: (group.joints, group.mode) for name, group in groups.items()} == {
        "qbmove": (["joint_1"], "equilibrium"),
        "qbmove_2": (["joint_2"], "equilibrium_pid"),
    }


def test_cell_file_overrides_urdf(tmp_path):
    text = "        actuators: {mine: {type: sea, joints: [joint_2]}}\n        gripper: false"
    file = rewritten(tmp_path, lambda old: old.replace("        gripper: false", text))
    assert list(CellConfig.from_yaml(file).arms["arm"].actuators) == ["mine"]


FOUND = {"a_1": [5.0, 6.0], "k_1": 0.5, "a_2": 5.5, "k_2": [0.4, 0.3]}
IDENTIFIED_GROUP = {"type": "qbmove", "joints": ["joint1", "joint3"], "identified": "springs.yaml"}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "springs.yaml").write_text(actuator_text("qbmove", FOUND, {"samples": 300}))
    return tmp_path


def read(folder, **changed):
    arm = {"actuators": {"a": {**IDENTIFIED_GROUP, **changed}}}
    path = folder / "cell.yaml"
    path.write_text(yaml.safe_dump({"/**": {"ros__parameters": {"arms": {"left": arm}}}}))
    return CellConfig.from_yaml(path).arms["left"].actuators["a"]


def test_cell_file_overrides_identified_springs_of_file(folder, monkeypatch):
    monkeypatch.chdir("/")
    springs = read(folder, params={"k_1": 0.7, "max_deflection": 0.9}).actuator(2)
    assert springs.of["a_1"].tolist() == [5.0, 6.0]
    assert springs.of["k_2"].tolist() == [0.4, 0.3]
    assert springs.of["k_1"].tolist() == [0.7, 0.7]
    assert springs.of["max_deflection"].tolist() == [0.9, 0.9]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"identified": "none.yaml"}, r"a\.identified: .*none\.yaml:"),
        ({"type": "sea"}, r"a\.identified: .*type: .*\bqbmove\b.*\bsea\b"),
        ({"joints": ["joint1"]}, r"a\.params: qbmove: a_1:.*\b2\b.*\b1\b"),
        ({"identified": 3}, r"a\.identified:.*\b3\b"),
    ],
)
def test_file_that_does_not_match_group_is_refused(folder, changed, reason):
    with pytest.raises(ConfigurationError, match=rf"arms\.left\.actuators\.{reason}"):
        read(folder, **changed)
