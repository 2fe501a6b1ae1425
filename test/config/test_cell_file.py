# SPDX-License-Identifier: Apache-2.0
"""Refusal of a cell file with all its faults: path, received value and allowed value."""

from __future__ import annotations

import copy
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import ConfigurationError

pytestmark = pytest.mark.inline

GOOD: dict[str, Any] = {
    "cell": {"name": "lab", "rate": 500.0},
    "gate": {"position": 0.1},
    "arms": {
        "left": {"position": [0.0, 0.3, 0.0], "tool": {"mass": 0.5, "com": [0.0, 0.0, 0.05]}},
        "right": {"backend": "mock", "model": "fer"},
    },
    "objects": {
        "table": {"shape": "box", "size": [0.1, 0.1, 0.1], "position": [1.0, 0.0, 0.0]},
        "ball": {"shape": "sphere", "size": [0.1], "position": [1.0, 0.0, 1.0], "mass": 1.0},
    },
    "controllets": {
        "soft": {
            "type": "cartesian_impedance",
            "params": {"stiffness": [100.0] * 6, "nullspace": {"stiffness": [5.0] * 7}},
        },
        "stiff": {"type": "joint_impedance", "target_timeout": 0.5},
        "both": {"type": "cartesian_impedance", "arms": ["left", "right"],
                 "features": ["coriolis"]},
    },
    "active": ["left/soft", "right/stiff"],
}  # fmt: skip
DELETE = object()
OBJECT = {"shape": "sphere", "size": [0.1], "position": [1.0, 1.0, 1.0]}
FAULTS: list[tuple[str, Any, str]] = [
    ("arms", DELETE, "arms: "),
    ("arms", {}, r"arms: .*\{\}"),
    ("arms", {f"a{i}": {} for i in range(9)}, "arms: "),
    ("arms.left.positon", [0, 0, 0], "arms.left.positon: .*backend, model, pos"),
    ("arms.left.tool.weight", 1.0, "arms.left.tool.weight: .*mass, com"),
    ("arms.left.noise.bias", 1.0, "arms.left.noise.bias: .*q, dq, tau, tau_b"),
    ("arms.left.transmission.gear", 1, "arms.left.transmission.gear: .*stiffness, damping"),
    ("arms.left.perturbation.lag", 1, "arms.left.perturbation.lag: .*delay"),
    ("arms.left.transmission.stiffness", [-1.0] * 7, "arms.left.transmission.stiffness.0: .*-1.0"),
    ("speed", 1.0, "speed: .*cell, realtime, gate, recorder, arms"),
    ("cell.freq", 1.0, "cell.freq: .*name, rate"),
    ("objects.table.colour", "red", "objects.table.colour: .*shape, size"),
    ("controllets.soft.gains", 1, "controllets.soft.gains: .*type, arms"),
    ("arms.left.position", [0.0, 1.0], r"arms.left.position: .*\[0.0, 1.0\]"),
    ("arms.left.position", [0.0, math.nan, 0.0], "arms.left.position.1: .*nan"),
    ("arms.left.rpy", [math.inf, 0.0, 0.0], "arms.left.rpy.0: .*inf"),
    ("arms.left.position", "here", "arms.left.position: .*'here'"),
    ("arms.left.model", "panda", "arms.left.model: .*'panda'.*fr3, fer, iiwa"),
    ("arms.left.backend", "gazebo", "arms.left.backend: .*'gazebo'"),
    ("arms.left.q_start", [0.0] * 7, r"arms.left.q_start: joint 4: .*\b0 rad\b.*\[-3"),
    ("arms.left.q_start", [0.0] * 6, "arms.left.q_start: (?!joint)"),
    ("arms.left.joint_damping", [-1.0] * 7, "arms.left.joint_damping.0: .*-1.0"),
    ("arms.left.tool.mass", -1, "arms.left.tool.mass: .*-1"),
    ("arms.left.tool.mass", DELETE, "arms.left.tool.mass: "),
    ("arms.Left", {}, "arms.Left: .*'Left'"),
    ("cell.rate", 50.0, "cell.rate: .*50.0"),
    ("cell.rate", "fast", "cell.rate: .*'fast'"),
    ("cell.rate", math.nan, "cell.rate: .*nan"),
    ("cell.placement", "cloud", "cell.placement: .*'cloud'"),
    ("gate.position", 0.0, "gate.position: .*0.0"),
    ("realtime.priority", 99, "realtime.priority: .*99"),
    ("objects.table.size", [0.1], r"objects.table.size: .*\b1\b.*\b3\b.*box"),
    ("objects.table.size", [0.1, 0.1, -0.1], "objects.table.size.2: .*-0.1"),
    ("objects.table.shape", "torus", "objects.table.shape: .*'torus'"),
    ("objects.left", {"shape": "sphere", "size": [1.0], "position": [0.0] * 3},
     "objects.left: .*arm"),
    ("controllets.left", {"type": "joint_impedance"}, "controllets.left: "),
    ("controllets.hold", {"type": "hold"}, "controllets.hold: "),
    ("controllets.multimode_controller", {"type": "cartesian_impedance", "arms": ["left"]},
     "controllets.multimode_controller: "),
    ("controllets.multimode_controller_stop", {"type": "joint_impedance"},
     "controllets.multimode_controller_stop: "),
    ("objects.left_fr3_link5", OBJECT, "objects.left_fr3_link5: .*parts"),
    ("objects.left_fr3_hand", OBJECT, "objects.left_fr3_hand: .*parts"),
    ("objects.world", OBJECT, "objects.world: .*scene"),
    ("objects.ball.mass", 1e-300, r"objects.ball.mass: .*1e-300.*\b0\b"),
    ("cell.clock_rate", 100.0, r"cell.clock_rate: .*\b100\b.*right.backend: mock"),
    ("cell.joint_state_rate", 1e-300, "cell.joint_state_rate: .*1e-300"),
    ("controllets.soft.type", "cartesian_impedence",
     "controllets.soft.type: .*'cartesian_impedence'"),
    ("controllets.both.arms", ["left", "middle"],
     "controllets.both.arms: .*'middle'.*left, right"),
    ("controllets.both.arms", ["left", "left"], r"controllets.both.arms: .*\['left', 'left'\]"),
    ("controllets.both.arms", [], r"controllets.both.arms: .*\[\]"),
    ("controllets.both.features", ["nulspace"],
     "controllets.both.features: .*'nulspace'"),
    ("controllets.stiff.features", ["nullspace"],
     "controllets.stiff.features: nullspace .*joint_impedance"),
    ("controllets.soft.params.stiffness", [1.0] * 5, r"controllets.soft.params: stiffness: .*\[1"),
    ("controllets.soft.params.stiffness", [math.nan] * 6, "controllets.soft.params: stiff.*nan"),
    ("controllets.soft.params.stifness", 1.0,
     "controllets.soft.params: .*'stifness'.*stiffness, "),
    ("controllets.soft.params.gain_frame", "flange",
     "controllets.soft.params: gain_frame: .*'flange'.*base, tool"),
    ("controllets.soft.params.nullspace.stiffness", [-1.0] * 7,
     r"controllets.soft.params: nullspace.stiffness: .*\[-1.0, "),
    ("controllets.soft.target_timeout", -1.0, "controllets.soft.target_timeout: .*-1.0"),
    ("controllets.path", {"type": "joint_trajectory", "target_timeout": 0.5},
     r"controllets.path.target_timeout: .*0.5 s.*\b0\b.*joint_trajectory"),
    ("active", ["left/sofd"], "active: .*'left/sofd'.*left/hold, "),
    ("active", ["left/soft", "left/stiff"], "active: .*left/stiff.*left/soft"),
    ("active", ["left/soft", "both"], "active: both .*left/soft.*left"),
]  # fmt: skip


def changed(path: str, value: Any) -> dict[str, Any]:
    """Return the valid cell with one change."""
    cell = copy.deepcopy(GOOD)
    *parents, last = path.split(".")
    part = cell
    for key in parents:
        part = part.setdefault(key, {})
    if value is DELETE:
        del part[last]
    else:
        part[last] = value
    return cell


def faults_of(cell: dict[str, Any]) -> tuple[str, ...]:
    with pytest.raises(ConfigurationError) as refusal:
        CellConfig.from_dict(cell, "file")
    return refusal.value.faults


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_valid_cell_survives_round_trip() -> None:
    config = CellConfig.from_dict(GOOD)
    assert [instance.name for instance in config.instances()] == [
        "left/hold", "right/hold", "left/soft", "right/soft", "left/stiff", "right/stiff", "both"
    ]  # fmt: skip
    assert CellConfig.model_validate_json(config.model_dump_json()) == config
    assert CellConfig.from_dict(config.model_dump()) == config


@pytest.mark.parametrize(("path", "value", "reported"), FAULTS)
def test_fault_is_reported_with_key_path(path: str, value: Any, reported: str) -> None:
    faults = faults_of(changed(path, value))
    assert any(re.match(f"file: {reported}", fault) for fault in faults), faults


NO_NUMBERS: list[tuple[str, Any, str]] = [
    ("arms.left.franka.load_mass", True, "number"),
    ("arms.left.franka.load_mass", "0.5", "number"),
    ("arms.left.franka.load_com.1", [0.0, True, 0.0], "number"),
    ("arms.left.tool.mass", True, "number"),
    ("arms.left.tool.com.0", ["0.0", 0.0, 0.0], "number"),
    ("cell.rate", "500", "number"),
    ("gate.position", True, "number"),
    ("realtime.priority", True, "integer"),
    ("realtime.priority", "80", "integer"),
    ("arms.left.gripper", 1, "boolean"),
    ("arms.left.gripper", "yes", "boolean"),
    ("cell.viewer", 0, "boolean"),
]


@pytest.mark.parametrize(("path", "value", "kind"), NO_NUMBERS)
def test_booleans_and_quoted_numbers_were_accepted_as_numbers(
    path: str, value: Any, kind: str
) -> None:
    key, _, element = path.rpartition(".") if isinstance(value, list) else (path, "", "")
    wrong = value[int(element)] if element else value
    assert faults_of(changed(key, value)) == (
        f"file: {path}: got {wrong!r}; input should be a valid {kind}",
    )


def test_integers_tuples_and_arrays_are_accepted_as_numbers_and_lists() -> None:
    cell = changed("cell.rate", 500)
    cell["arms"]["left"] |= {"position": (0, 1, np.float64(2)), "rpy": np.zeros(3)}
    cell["arms"]["left"]["franka"] = {"load_mass": 1, "load_com": (0, 0, 0)}
    cell["realtime"] = {"priority": np.int64(7)}
    config = CellConfig.from_dict(cell)
    left = config.arms["left"]
    assert (config.cell.rate, config.realtime.priority) == (500.0, 7)
    assert (left.position, left.rpy) == ([0.0, 1.0, 2.0], [0.0] * 3)
    assert left.settings.load is not None
    assert left.settings.load.mass == 1.0


UNUSABLE: list[tuple[str, Any]] = [
    ("cell.name", "a" * 240),
    ("arms." + "a" * 240, {}),
    ("controllets." + "a" * 240, {"type": "joint_impedance"}),
    ("arms.left.position", [2e19, 0.0, 0.0]),
    ("arms.left.rpy", [9e18, 0.0, 0.0]),
    ("arms.left.tool.com", [1e9, 0.0, 0.0]),
    ("arms.left.tool.inertia", [1e30, 1e30, 1e30, 0.0, 0.0, 0.0]),
    ("arms.left.noise.tau_drift", [1e300] * 7),
    ("arms.left.perturbation.torque_bias", [1e300] * 7),
    ("arms.left.joint_friction", [1e300] * 7),
    ("arms.left.transmission.damping", [1e300] * 7),
    ("arms.left.franka.tolerance_mass", 1e308),
    ("arms.left.franka.stiffness_position", [1e308, 0.0, 0.0]),
    ("objects.table.size", [1e308, 0.1, 0.1]),
    ("objects.table.size", [1e-300, 0.1, 0.1]),
    ("objects.table.position", [2e19, 0.0, 0.0]),
    ("objects.table.rgba", [1e300, 0.0, 0.0, 1.0]),
    ("realtime.cpu", 2147483648),
    ("gate.position", 1e308),
    ("gate.force", 1e308),
]


@pytest.mark.parametrize(("path", "value"), UNUSABLE)
def test_unusable_value_is_refused(path: str, value: Any) -> None:
    fault = faults_of(changed(path, value))[0]
    assert fault.startswith(f"file: {path}")
    assert "got" in fault
    assert "should" in fault  # the allowed range


def test_largest_allowed_cell_runs(make_cell: Any) -> None:
    cell = make_cell(
        arms={"a" * 64: {"position": [100.0, -100.0, 100.0], "rpy": [6.283, -6.283, 6.283],
                         "tool": {"mass": 20, "com": [0.0, 0.0, 2.0]},
                         "joint_friction": [100.0] * 7, "joint_damping": [100.0] * 7}},
        objects={"b" * 64: {"shape": "box", "size": [1e-4, 100.0, 1.0],
                            "position": [-100.0, 0.0, -100.0]},
                 "c" * 64: {"shape": "sphere", "size": [100.0], "mass": 1000.0,
                            "position": [-100.0, 100.0, -100.0]}},
    )  # fmt: skip
    before = cell.state("a" * 64).q.copy()
    cell.step(200)
    assert np.isfinite(cell.state("a" * 64).q).all()
    assert np.abs(cell.state("a" * 64).q - before).max() < 0.2


def test_all_faults_of_one_kind_are_reported_at_once() -> None:
    cell = changed("arms.left.position", [0.0])
    cell["cell"]["rate"] = 5
    cell["arms"]["right"]["colour"] = "red"
    assert len(faults_of(cell)) == 3
    cell = changed("arms.left.q_start", [0.0] * 7)
    cell["controllets"]["soft"]["params"] = {"stiffness": 1.0, "nonsense": 2}
    cell["controllets"]["stiff"]["type"] = "nothing"
    cell["active"] = ["nobody"]
    assert len(faults_of(cell)) >= 5


def test_every_fault_is_one_line() -> None:
    for path, value, _ in FAULTS:
        assert not any("\n" in fault for fault in faults_of(changed(path, value)))


def test_empty_feature_list_can_be_written_for_ros() -> None:
    config = CellConfig.from_dict(changed("controllets.stiff.features", [""]))
    assert config.controllets["stiff"].features == []


def test_configuration_is_immutable() -> None:
    config = CellConfig.from_dict(GOOD)
    with pytest.raises(ValueError, match="frozen"):
        config.cell.rate = 1.0  # type: ignore[misc]


_keys = st.sampled_from(
    [*GOOD, *GOOD["arms"], *GOOD["controllets"], "size", "type", "params", "position", "features",
     "tool", "q_start", "shape", "", "x.y"]
)  # fmt: skip
_scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.binary(max_size=2),
    st.sampled_from(["left", "soft", "joint_impedance", "box", "fr3", 10**400]),
)
_garbage = st.recursive(
    _scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(_keys | st.text(max_size=3), inner, max_size=4),
    ),
    max_leaves=12,
)
PATHS = sorted({path for path, _, _ in FAULTS})


@given(_garbage)
@settings(suppress_health_check=[HealthCheck.too_slow])
@example({"arms": {1: {}}})
def test_garbage_is_refused_with_faults(garbage: Any) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        CellConfig.from_dict(garbage)
    assert refusal.value.faults


@given(st.sampled_from(PATHS), _garbage)
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_garbage_in_valid_cell_is_accepted_or_refused_with_faults(path: str, garbage: Any) -> None:
    config, faults = None, ()
    try:
        config = CellConfig.from_dict(changed(path, garbage))
    except ConfigurationError as refusal:
        faults = refusal.faults
    assert (config is None) == bool(faults)
    if config is not None:
        assert CellConfig.model_validate_json(config.model_dump_json()) == config


def test_faults_name_their_file(tmp_path: Path) -> None:
    path = write(
        tmp_path / "cell.yaml",
        "/**:\n  ros__parameters:\n    arms:\n      left: {position: [0, 0.5, 0.0]}\n"
        "    controllets: {}\n    speed: 1\n",
    )
    with pytest.raises(ConfigurationError) as refusal:
        CellConfig.from_yaml(path)
    faults = refusal.value.faults
    assert all(fault.startswith(f"{path}: ") for fault in faults)
    assert [fault.split(": ")[1] for fault in faults] == [
        "arms.left.position",
        "controllets",
        "speed",
    ]
    assert "write 0 as 0.0" in faults[0]


@pytest.mark.parametrize(
    ("text", "reason"),
    [("", "not a ROS 2 parameter file"), ("a: 1", "not a ROS 2 parameter file"),
     ("[1, 2]", "not a ROS 2 parameter file"), ("/**: {x: 1}", "not a ROS 2 parameter file"),
     ("a: [", "not valid YAML"), ("\x00", "not valid YAML"), ("a: &b 1\nc: *b", "aliases "),
     ("/**: {ros__parameters: {cell: {rate: 1" + "0" * 400 + "}}}", "401 digits"),
     ("/**: {ros__parameters: {cell: {rate: 1" + "0" * 9000 + "}}}", "9001 digits"),
     ("/**: {ros__parameters: {cell: {rate: 0x" + "f" * 900 + "}}}", "902 digits")],
)  # fmt: skip
def test_file_of_wrong_form_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        CellConfig.from_yaml(write(tmp_path / "cell.yaml", text))


def test_unreadable_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="No such file"):
        CellConfig.from_yaml(tmp_path / "nothing.yaml")
    with pytest.raises(ConfigurationError, match="directory"):
        CellConfig.from_yaml(tmp_path)
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(ConfigurationError, match="UTF-8"):
        CellConfig.from_yaml(tmp_path / "binary.yaml")


def test_feature_that_would_act_twice_is_refused():
    with pytest.raises(ConfigurationError, match="takes wrench targets itself"):
        CellConfig.from_dict(
            {
                "arms": {"left": {}},
                "controllets": {"force": {"type": "force_impedance", "features": ["wrench"]}},
            }
        )


@pytest.mark.parametrize("key", ["other_node:", "/lab/other_node:", "multimode:"])
def test_parameters_of_another_node_passed_check_only(tmp_path, key):
    """The node reported a missing cell."""
    text = (Path(__file__).parents[2] / "config" / "dual_sim.yaml").read_text(encoding="utf-8")
    file = write(tmp_path / "cell.yaml", text.replace("/**:", key))
    with pytest.raises(ConfigurationError, match=rf"'{key[:-1]}'.*'/"):
        CellConfig.from_yaml(file)
    for allowed in ("multimode_controller:", "/lab/multimode_controller:", "/*:"):
        CellConfig.from_yaml(write(file, text.replace("/**:", allowed)))


@pytest.mark.parametrize(
    "line", ["! Two arms: []", "left: [1, 2]", "\u202eactive: [left/hold]", "a: 1"]
)
def test_text_refused_by_ros_passed_check_only(tmp_path, line):
    """The node failed with an rcl error on files that `multipanda check` accepted."""
    text = (Path(__file__).parents[2] / "config" / "dual_sim.yaml").read_text(encoding="utf-8")
    other = "other:\n  node: {ros__parameters: {x: 1}}\n"
    file = tmp_path / "cell.yaml"
    file.write_text(f"{other}{text}", encoding="utf-8")
    CellConfig.from_yaml(file)
    file.write_text(f"{text}{line}\n", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="'ros__parameters:'"):
        CellConfig.from_yaml(file)
