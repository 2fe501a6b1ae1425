# SPDX-License-Identifier: Apache-2.0
"""``ros2 launch``, unmodified, on the launch files: started and remaining processes."""

from __future__ import annotations

import json
import os
import runpy
import signal
import sys
from pathlib import Path

import pytest
from outside import require_clients
from processes import descendants, is_running, wait_until
from repository import ROOT

from multipanda_py.planning.moveit_files import move_group_parameters, read_files

require_clients()

TOOLS = ROOT / "tools" / "make_env.py"
FILES = ROOT / "config" / "moveit" / "dual_moveit"


class Launch:
    """A running ``ros2 launch`` with packages in a prefix as of ``make env``."""

    def __init__(
        self, outside, folder, *arguments, package=("multipanda_py",), file="sim.launch.py"
    ):
        self._log, self._observed = folder / "launch.log", set()
        runpy.run_path(str(TOOLS))["link_into"](folder / "prefix")
        with self._log.open("wb") as output:
            self.process = outside.beside(
                "launch", *package, file, *arguments,
                prefixes=[folder / "prefix"], stdout=output, start_new_session=True,
            )  # fmt: skip

    @property
    def log(self):
        return self._log.read_text(encoding="utf-8", errors="replace")

    def processes(self):
        """Return all processes started so far, including orphaned ones."""
        self._observed.update(descendants(self.process.pid))
        return self._observed

    def wait_for(self, text):
        """Wait until the log holds a text, or the launch has ended."""
        wait_until(
            lambda: text in self.log or self.process.poll() is not None, 20.0, lambda: self.log
        )
        assert text in self.log, self.log


@pytest.fixture
def launch(outside, tmp_path):
    """A function that launches; teardown kills the remaining processes."""
    if not TOOLS.exists():
        pytest.skip("needs the tools of the repository")
    started = []

    def start(*arguments, **options):
        started.append(Launch(outside, tmp_path, *arguments, **options))
        return started[-1]

    yield start
    for one in started:
        for pid in filter(is_running, [one.process.pid, *one.processes()]):
            os.kill(pid, signal.SIGKILL)
        one.process.wait()


@pytest.mark.inline
def test_missing_rviz_left_controller_running(launch):
    it = launch("use_rviz:=true")
    wait_until(lambda: it.process.poll() is not None, 20.0, lambda: it.log)
    assert it.process.returncode != 0
    assert "package rviz2 " in it.log
    assert "process started" not in it.log


@pytest.mark.inline
@pytest.mark.parametrize(
    ("file", "word", "reported"),
    [
        ("sim", "conifg_file:=single_sim.yaml", "unknown argument; near: config_file"),
        ("sim", "namespace:=2nd", "namespace: got '2nd', allowed names of letters"),
        ("sim", "cell_name:=a/b", "cell.name: got 'a/b'"),
        ("real", "robot_ips:=left=172.16.0.2", "robot_ips: got 'left=172.16.0.2', allowed ARM:"),
        ("real", "robot_ips:=middle:172.16.0.2", "got 'middle:172.16.0.2', allowed ARM:ADDRESS"),
    ],
)
def test_misspelt_argument_started_another_cell(launch, file, word, reported):
    """An unknown name started the default cell; an unknown arm was added to the cell."""
    it = launch(word, file=f"{file}.launch.py")
    wait_until(lambda: it.process.poll() is not None, 20.0, lambda: it.log)
    assert it.process.returncode != 0
    assert reported in it.log
    assert "process started" not in it.log


PARENT = """
from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource
def generate_launch_description():
    source = PythonLaunchDescriptionSource({file!r})
    arguments = {{"use_rviz": "true", "confg_file": "quad_sim.yaml"}}.items()
    return LaunchDescription([DeclareLaunchArgument("rig"),
                              IncludeLaunchDescription(source, launch_arguments=arguments)])
"""


@pytest.mark.inline
def test_arguments_of_including_launch_file_are_accepted(launch, tmp_path):
    parent = tmp_path / "parent.launch.py"
    parent.write_text(PARENT.format(file=str(ROOT / "launch" / "sim.launch.py")))
    it = launch("rig:=a", package=(), file=str(parent))
    wait_until(lambda: it.process.poll() is not None, 20.0, lambda: it.log)
    assert "package rviz2 " in it.log
    assert "rig: unknown argument" not in it.log
    assert "near: config_file" in it.log


@pytest.mark.clock
@pytest.mark.node
def test_launched_processes_outlived_launch(launch, client):
    """A cell given by its bare name was not found; robot_state_publisher is optional."""
    it = launch("config_file:=single_sim.yaml", "namespace:=launched", "cell_name:=another")
    it.wait_for("cell 'another' is active")
    assert "[multimode_controller-1]" in it.log, "process name in each line"

    def sends_tf():
        found = client.node.get_publishers_info_by_topic("/tf")
        return "/launched" in {one.node_namespace for one in found}

    client.until(sends_tf, what="/tf of the node")
    left = it.processes()
    assert len(left) >= 2, it.log  # the node and its loop
    it.process.kill()
    wait_until(lambda: not any(map(is_running, left)), 10.0, lambda: f"end of {left}: {it.log}")


@pytest.mark.inline
def test_launch_returned_0_after_node_was_killed(launch):
    it = launch("namespace:=killed", "cell_name:=killed")
    it.wait_for("cell 'killed' is active")
    node = next(
        pid for pid in it.processes()
        if b"multimode_controller" in Path(f"/proc/{pid}/cmdline").read_bytes()
    )  # fmt: skip
    os.kill(node, signal.SIGKILL)
    wait_until(lambda: it.process.poll() is not None, 30.0, lambda: it.log)
    assert it.process.returncode == 1, it.log
    assert "multimode_controller was killed by signal 9" in it.log


@pytest.mark.inline
def test_interrupted_launch_does_not_report_kill(launch):
    it = launch("namespace:=ended", "cell_name:=ended")
    it.wait_for("cell 'ended' is active")
    it.process.send_signal(signal.SIGINT)
    wait_until(lambda: it.process.poll() is not None, 30.0, lambda: it.log)
    assert "was killed" not in it.log


@pytest.mark.inline
def test_missing_moveit_is_reported_without_traceback(launch):
    it = launch(file="moveit.launch.py")
    wait_until(lambda: it.process.poll() is not None, 20.0, lambda: it.log)
    assert it.process.returncode != 0
    assert "package moveit_ros_move_group " in it.log
    assert "No process was started" in it.log
    assert "process started" not in it.log
    assert "Traceback" not in it.log


MOVE_GROUP = """#!{python}
import json, rclpy
rclpy.init()
node = rclpy.create_node("move_group", automatically_declare_parameters_from_overrides=True)
values = {{name: one.value for name, one in node.get_parameters_by_prefix("").items()}}
with open("{observed}", "w") as file:
    json.dump([node.get_namespace(), values], file, default=list)
print("move_group has read its parameters", flush=True)
rclpy.spin(node)
"""


SCENE_PUBLISHER = """#!/bin/sh
cp "$1" "{observed}"
echo "$1" > "{path}"
echo "a scene of $2"
"""


@pytest.mark.inline
def test_move_group_receives_files_of_cell(launch, tmp_path):
    """A stand-in node reads its parameters from rcl, as move_group does.

    A second stand-in receives the scene, without which plans passed through the table.
    """
    package(tmp_path, "moveit_ros_move_group", "move_group", MOVE_GROUP.format(
        python=sys.executable, observed=tmp_path / "seen.json"
    ))  # fmt: skip
    scene, path = tmp_path / "seen.scene", tmp_path / "path"
    program = SCENE_PUBLISHER.format(observed=scene, path=path)
    package(tmp_path, "moveit_ros_planning", "moveit_publish_scene_from_text", program)
    it = launch(
        "namespace:=lab", "start_cell:=false", f"moveit_folder:={FILES}", "controllers:=simple",
        file="moveit.launch.py",
    )  # fmt: skip
    it.wait_for("move_group has read its parameters")
    namespace, observed = json.loads((tmp_path / "seen.json").read_text())
    assert namespace == "/lab"
    assert observed["robot_description"] == (FILES / "cell.urdf").read_text()
    assert observed["robot_description_semantic"] == (FILES / "cell.srdf").read_text()
    for name, value in flat(move_group_parameters(read_files(FILES), "simple", "lab")).items():
        assert observed[name] == value, name
    it.wait_for("a scene of --ros-args")
    wait_until(lambda: not Path(path.read_text().strip()).exists(), 10.0, lambda: "no scene file")
    assert scene.read_text() == (FILES / "cell.scene").read_text()


def flat(table, before=""):
    found = {}
    for name, value in table.items():
        nested = isinstance(value, dict)
        found.update(flat(value, f"{before}{name}.") if nested else {before + name: value})
    return found


def package(folder, name, program, text):
    """Make an ament package of one program in the prefix of a launch."""
    path = folder / "prefix" / "lib" / name / program
    path.parent.mkdir(parents=True)
    path.write_text(text)
    path.chmod(0o755)
    marker = folder / "prefix/share/ament_index/resource_index/packages" / name
    marker.parent.mkdir(parents=True, exist_ok=True)
    marker.touch()


@pytest.mark.clock
@pytest.mark.node
def test_robot_state_publisher_replaces_tf_of_node(launch, client, tmp_path):
    text = "#!/bin/sh\necho takes over\nexec sleep 60\n"
    package(tmp_path, "robot_state_publisher", "robot_state_publisher", text)
    it = launch("config_file:=single_sim.yaml", "namespace:=with_publisher")
    it.wait_for("is active")
    it.wait_for("takes over")
    topic = "/with_publisher/joint_states"
    client.until(lambda: client.node.count_publishers(topic) == 1, what="the node")
    names = [info.node_namespace for info in client.node.get_publishers_info_by_topic("/tf")]
    assert "/with_publisher" not in names
