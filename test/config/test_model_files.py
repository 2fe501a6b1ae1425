# SPDX-License-Identifier: Apache-2.0
"""Arms whose model is in files next to the cell file."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml

from multipanda_py.apps.cli import main
from multipanda_py.cell import Cell
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.model_section import relative_to
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.robots.models import DATA_FOLDER, MODELS

pytestmark = [pytest.mark.inline, pytest.mark.workspace]


@pytest.fixture
def write(tmp_path):
    """Write a cell file next to a robot's files in a folder."""
    (tmp_path / "robots").mkdir()
    for kind in ("yaml", "urdf"):
        shutil.copy(DATA_FOLDER / f"ur5e.{kind}", tmp_path / "robots" / f"own.{kind}")
    text = (tmp_path / "robots" / "own.yaml").read_text().replace("ur5e.urdf", "own.urdf")
    (tmp_path / "robots" / "own.yaml").write_text(text)

    def write(model, **cell):
        data = {
            "cell": {"name": "files", **cell},
            "arms": {
                "left": {"model": model, "position": [0.0, 0.3, 0.0]},
                "right": {"position": [0.0, -0.3, 0.0]},
            },
        }
        path = tmp_path / "cell.yaml"
        path.write_text(yaml.safe_dump({"/**": {"ros__parameters": data}}))
        return path

    return write


@pytest.mark.parametrize("placement", ["inline", "thread", "process"])
def test_robot_from_files_runs_in_any_placement(write, placement):
    with Cell.from_yaml(write({"extra": "robots/own.yaml"}), placement=placement) as cell:
        if placement == "inline":
            cell.step(20)
        np.testing.assert_allclose(cell.state("left").q, MODELS["ur5e"].ready, atol=1e-3)
        assert cell.state("right").q.shape == (7,)


def test_paths_are_relative_to_cell_file_and_mapping_overrides_yaml(write):
    model = {"extra": "robots/own.yaml", "urdf": "robots/own.urdf", "tip": "tool0", "name": "mine"}
    arm = CellConfig.from_yaml(write(model)).arms["left"]
    assert arm.robot.name == "mine"
    assert [joint.name for joint in arm.robot.joints] == [
        joint.name for joint in MODELS["ur5e"].joints
    ]
    assert arm.q_start == MODELS["ur5e"].ready.tolist()
    assert not arm.gripper


def test_cell_with_files_survives_round_trip(write):
    config = CellConfig.from_yaml(write({"extra": "robots/own.yaml"}))
    assert CellConfig.model_validate_json(config.model_dump_json()) == config
    assert CellConfig.from_dict(config.model_dump()) == config


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        ({"extra": "missing.yaml"}, r"left\.model: .*missing\.yaml: "),
        ({"extra": "robots/own.yaml", "tip": "hand"},
         r"left\.model: .*tip: .*'hand'"),
        ({"extra": "robots/own.yaml", "base": 3}, r"left\.model\.base: .*\b3\b.*string"),
        ({"file": "robots/own.yaml"}, r"left\.model\.file: .*\burdf\b"),
        ({"extra": "cell.yaml"}, r"left\.model: .*cell\.yaml: /\*\*: "),
        ({"base": "base_link"}, r"left\.model: .*\burdf\b.*\bmjcf\b"),
        (["fr3"], r"left\.model: .*\['fr3'\].*string"),
    ],
)  # fmt: skip
def test_invalid_robot_files_are_refused_with_key(write, model, sentence):
    with pytest.raises(ConfigurationError, match=sentence):
        CellConfig.from_yaml(write(model))


def test_check_names_robot_of_files(write, capsys):
    assert main(["check", str(write({"extra": "robots/own.yaml"}))]) == 0
    assert "left own mujoco" in capsys.readouterr().out


def test_node_parameters_resolve_paths_against_their_parameter_file(write, tmp_path):
    file = write({"extra": "robots/own.yaml"})
    args = ["node", "--params-file", "/elsewhere/others.yaml", "--params-file", str(file)]
    folders = [Path(path).parent for path in args[2::2]]
    data = {"arms": {"left": {"model": {"extra": "robots/own.yaml", "base": ""}}, "right": {}}}
    model = relative_to(folders, data)["arms"]["left"]["model"]
    assert model == {"extra": str(tmp_path / "robots" / "own.yaml"), "base": ""}
    assert (
        CellConfig.from_dict({"arms": {"left": {"model": model}}}).arms["left"].robot.n_joints == 6
    )


@pytest.mark.parametrize("key", ["state", "wrench", "torque"])
def test_residual_files_are_relative_to_cell_file(tmp_path, key):
    data = {"arms": {"left": {"residual": {key: "weights.npz"}}}}
    residual = relative_to([tmp_path], data)["arms"]["left"]["residual"]
    assert residual == {key: str(tmp_path / "weights.npz")}


def test_same_part_name_in_two_arms_is_refused(write, tmp_path):
    """Arm a with robot b_c and arm a_b with robot c: the check missed what MuJoCo refused."""
    extra = str(tmp_path / "robots" / "own.yaml")
    write({})
    arms = {
        "a": {"model": {"extra": extra, "name": "b_c"}, "position": [0.0, 1.0, 0.0]},
        "a_b": {"model": {"extra": extra, "name": "c"}},
    }
    with pytest.raises(ConfigurationError, match=r"arms\.a_b: .*\ba_b_c_base_link\b.*\ba\b"):
        CellConfig.from_dict({"arms": arms})


def test_link_name_of_tool_is_refused_only_with_tool(write, tmp_path):
    write({})
    for kind in ("yaml", "urdf"):
        path = tmp_path / "robots" / f"own.{kind}"
        path.write_text(path.read_text().replace("tool0", "tool"))
    arm = {"model": {"extra": str(tmp_path / "robots" / "own.yaml")}}
    CellConfig.from_dict({"arms": {"left": arm}})
    with pytest.raises(ConfigurationError, match=r"arms\.left: .*\btool\b"):
        CellConfig.from_dict({"arms": {"left": arm | {"tool": {"mass": 0.5}}}})


def test_real_franka_with_foreign_model_named_fr3_is_refused():
    """A six-joint arm named fr3 was accepted as an FR3."""
    urdf = Path(__file__).parents[2] / "examples" / "bench_arm" / "bench_arm.urdf"
    model = {"urdf": str(urdf), "base": "base_link", "tip": "tool0", "name": "fr3"}
    arm = {"backend": "franka", "robot_ip": "127.0.0.1", "model": model}
    with pytest.raises(ConfigurationError, match=r"arms\.a\.model: .*'fr3'.*\bfr3\b"):
        CellConfig.from_dict({"cell": {"name": "c"}, "arms": {"a": arm}})


@pytest.fixture
def with_hand(write, tmp_path):
    """Return a function that writes a cell file next to a gripper's files."""
    example = Path(__file__).parents[2] / "examples" / "wide_gripper"
    shutil.copytree(example, tmp_path / "grippers")

    def make(hand, **arm):
        path = write("ur5e")
        data = yaml.safe_load(path.read_text())
        data["/**"]["ros__parameters"]["arms"]["left"] |= {"gripper": hand, **arm}
        path.write_text(yaml.safe_dump(data))
        return path

    return make


@pytest.mark.parametrize("placement", ["inline", "process"])
def test_gripper_from_files_moves_in_any_placement(with_hand, placement):
    hand = {"extra": "grippers/wide_gripper.yaml"}
    with Cell.from_yaml(with_hand(hand), placement=placement) as cell:
        gripper = cell.gripper("left")
        assert gripper.move(0.03).wait().width == pytest.approx(0.03, abs=2e-4)


def test_cell_with_gripper_survives_round_trip_and_urdf_overrides_yaml(with_hand):
    hand = {"urdf": "grippers/wide_gripper.urdf", "extra": "grippers/wide_gripper.yaml"}
    config = CellConfig.from_yaml(with_hand(hand))
    assert CellConfig.model_validate_json(config.model_dump_json()) == config
    assert CellConfig.from_dict(config.model_dump()) == config
    assert config.arms["left"].gripper.gripper.max_width == pytest.approx(0.11)
    assert config.arms["right"].gripper is True


@pytest.mark.parametrize(
    ("hand", "arm", "sentence"),
    [
        ({"extra": "no.yaml"}, {}, r"left\.gripper: .*\bno\.yaml: "),
        ({"urdf": "grippers/wide_gripper.urdf"}, {},
         r"left\.gripper: .*tcp: .*'tcp'"),
        ({}, {}, r"left\.gripper: .*gripper: urdf: "),
        ({"file": "x"}, {}, r"left\.gripper\.file: .*\burdf\b"),
        ({"urdf": 3}, {}, r"left\.gripper\.urdf: .*\b3\b.*string"),
        ("wide", {}, r"left\.gripper: .*'wide'.*boolean"),
        (True, {}, r"left\.gripper: .*\btrue\b.*\bur5e\b"),
        ({"extra": "grippers/wide_gripper.yaml"},
         {"backend": "franka", "model": "fr3", "robot_ip": "10.0.0.1"},
         r"left\.gripper: .*\bbackend franka\b"),
    ],
)  # fmt: skip
def test_invalid_gripper_files_are_refused_with_key(with_hand, hand, arm, sentence):
    with pytest.raises(ConfigurationError, match=sentence):
        CellConfig.from_yaml(with_hand(hand, **arm))
