# SPDX-License-Identifier: Apache-2.0
"""Load-time parameters, as set by the spawner and ``ros2 control load_controller``."""

from __future__ import annotations

import os

import parameters_of
import pytest
from controller_manager_msgs.srv import ConfigureController, LoadController, UnloadController

from multipanda_py.files import MAX_REMOTE_SIZE

pytestmark = pytest.mark.node

LAW, NODE = "joint_impedance_controller", "/left/joint_impedance_controller"
MANAGER = "/left/controller_manager"
OTHERS, STRICT = "cartesian_impedance_controller", 2
PREVIOUS, GIVEN = [0.7] * 7, [0.6] * 7
FILE = f"""
{NODE}:
  ros__parameters:
    type: joint_impedance
    use_sim_time: false
    damping_ratio: {GIVEN}
"""


def damping(client):
    [value] = parameters_of.get(client, "damping_ratio", node=NODE)
    return list(value.double_array_value)


def load(client):
    return client.call(LoadController, f"{MANAGER}/load_controller", name=LAW).ok


def set_load_parameters(client, **leaves):
    values = {f"{LAW}.{leaf}": value for leaf, value in leaves.items()}
    return parameters_of.put(client, MANAGER, **values)


@pytest.fixture
def unloaded(cell, client):
    """The shared node with the joint controllet unloaded, after a client changed its damping."""
    assert parameters_of.put(client, NODE, damping_ratio=PREVIOUS).successful
    assert client.call(UnloadController, f"{MANAGER}/unload_controller", name=LAW).ok
    yield cell
    assert set_load_parameters(client, params_file=[""], node_options_args=[""]).successful
    assert parameters_of.put(client, NODE, damping_ratio=PREVIOUS).successful
    load(client)
    assert client.call(ConfigureController, f"{MANAGER}/configure_controller", name=LAW).ok
    assert client.switch([LAW], [OTHERS], 4, "/left").ok


def test_controllet_is_loaded_with_file_and_arguments(unloaded, client, tmp_path):
    file = tmp_path / "law.yaml"
    file.write_text(FILE)
    assert set_load_parameters(client, params_file=[str(file)]).successful
    assert damping(client) == PREVIOUS, "no effect before loading"
    assert load(client)
    assert damping(client) == GIVEN
    assert client.call(UnloadController, f"{MANAGER}/unload_controller", name=LAW).ok
    more = ["--ros-args", "-p", f"{LAW}:damping_ratio:={PREVIOUS}", "-p", "other:x:=1"]
    assert set_load_parameters(client, node_options_args=more).successful
    assert load(client)
    assert damping(client) == PREVIOUS, "arguments override files"


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        (FILE.replace("0.6", "60.0"), "damping_ratio"),
        (FILE.replace("damping_ratio", "damping_ration"), "near: damping_ratio"),
        (FILE.replace("/left", "/right"), "got sections of 1 other nodes"),
        (FILE.replace("0.6]", "0.6, 0.6]"), "damping_ratio"),
        (FILE.replace(str(GIVEN), "{}"), None),
        (FILE.replace(":", ""), "got sections of 0 other nodes"),
        ("{", "not valid YAML"),
        (None, "cannot be read"),
    ],
)
def test_invalid_params_file_prevents_load(unloaded, client, tmp_path, text, reported):
    """An invalid file was ignored before."""
    file = tmp_path / "law.yaml"
    if text is not None:
        file.write_text(text)
    assert set_load_parameters(client, params_file=[str(file)]).successful
    before = len(unloaded.log)
    assert load(client) == (reported is None)
    if reported is not None:
        line = unloaded.log[before:]
        assert f"cannot load {LAW}" in line
        assert reported in line
        assert load(client), "without the file"
    assert damping(client) == PREVIOUS


@pytest.mark.parametrize("kind", ["fifo", "device", "large"])
def test_special_or_large_params_file_blocked_or_killed_node(unloaded, client, tmp_path, kind):
    path = tmp_path / kind
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "large":
        path.write_text("# " + "x" * MAX_REMOTE_SIZE)
    else:
        path = "/dev/zero"
    assert set_load_parameters(client, params_file=[str(path)]).successful
    before = len(unloaded.log)
    assert not load(client)
    assert f"{path}: cannot be read" in unloaded.log[before:]
    assert load(client), "without the file"


@pytest.mark.parametrize(
    "text",
    [
        "-----BEGIN KEY-----\nhunter2: : hunter2\n",
        "user: hunter2\nhunter2: x\n",
        "hunter2:\n  ros__parameters:\n    a: hunter2\nhunter2: {}\n",
        f"/hunter2:\n  ros__parameters:\n    a: hunter2\n{NODE}: hunter2\n",
        f"{NODE}:\n  ros__parameters:\n    hunter2: 1\n",
        f"{NODE}:\n  ros__parameters:\n    damping_ratio: hunter2\n",
        f"{NODE}:\n  ros__parameters:\n    damping_ratio: [1.0, hunter2]\n",
        f"{NODE}:\n  ros__parameters:\n    damping_ratio: {{hunter2: 1}}\n",
        f"{NODE}:\n  ros__parameters: [hunter2]\n",
    ],
)
def test_content_of_private_file_was_logged(unloaded, client, tmp_path, text):
    path = tmp_path / "private"
    path.write_text(text)
    assert set_load_parameters(client, params_file=[str(path)]).successful
    before = len(unloaded.log)
    assert not load(client)
    reported = unloaded.log[before:]
    assert f"cannot load {LAW}" in reported
    assert "hunter2" not in reported


@pytest.mark.parametrize(
    "words",
    [["-r", "target_joint:=/x"], ["-p"], ["-p", "x"], ["--params-file"], ["--enclave", "/a"]],
)
def test_unsupported_arguments_prevent_load(unloaded, client, words):
    assert set_load_parameters(client, node_options_args=["--ros-args", *words]).successful
    before = len(unloaded.log)
    assert not load(client)
    assert f"arguments: got '{words[0]}" in unloaded.log[before:]


def test_wildcard_section_applies_to_controllet(unloaded, client, tmp_path):
    file = tmp_path / "all.yaml"
    file.write_text(f"/**:\n  ros__parameters:\n    x: 1\n    damping_ratio: {GIVEN}\n")
    assert set_load_parameters(client, params_file=[str(file)]).successful
    assert load(client)
    assert damping(client) == GIVEN


def test_different_type_is_rejected_with_logged_reason(cell, client):
    answer = set_load_parameters(client, type="joint_velocity")
    assert not answer.successful
    explanation = (
        f"{LAW}.type: got 'joint_velocity', but it is read-only with value 'joint_impedance'"
    )
    assert explanation in answer.reason
    cell.wait_for(f"parameter rejected: {MANAGER}: {explanation}")
    name = "joint_trajectory_controller"
    known = f"{name}/JointTrajectoryController"
    assert parameters_of.put(client, MANAGER, **{f"{name}.type": known}).successful
    [value] = parameters_of.get(client, f"{name}.type", node=MANAGER)
    assert value.string_value == "joint_trajectory"
