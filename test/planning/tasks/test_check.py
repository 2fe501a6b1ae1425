# SPDX-License-Identifier: Apache-2.0
"""Task check: plan of every subtask, with subtask, body and distance in the error."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from long_form import every_nth
from repository import CONFIG

from multipanda_py.apps.cli import main
from multipanda_py.cell.tasks import TaskFile, check_task
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import TaskFailed

pytestmark = pytest.mark.inline

TASKS = sorted((CONFIG / "tasks").glob("*.yaml"))
CARRY = CONFIG / "tasks" / "carry_box.yaml"
UNKNOWN = {"relocate_box": ["reposition", "press", "carry"]}
"""Subtasks after one that drags their object, whose pose is then unknown in advance."""


def checked(change=None):
    data = copy.deepcopy(TaskFile.from_yaml(CARRY).model_dump())
    if change is not None:
        change(data)
    task = TaskFile.from_dict(data)
    return check_task(CellConfig.from_yaml(task.cell), task)


def subtask(data, name):
    return next(one for one in data["subtasks"] if one["name"] == name)


def carry_to(*position):
    return lambda data: subtask(data, "carry")["goals"][0].update(position=list(position))


def tool_first(*position):
    goal = {"frame": "left/tool", "position": list(position)}
    return lambda data: data["subtasks"].insert(0, {"name": "tip", "goals": [goal]})


def contact_at(*at):
    return lambda data: data["contacts"]["sides"].update(offset=list(at))


def downwards(data):
    subtask(data, "lift")["goals"][0].update(offset=[0.0, 0.0, -0.05])


def in_no_time(data):
    subtask(data, "carry").update(duration=0.2)


BAD = {
    "goal out of reach": (carry_to(1.6, 0.0, 0.5), r"^carry: .*\bbox\b.* 0\.531 m"),
    "goal a little out of reach": (
        carry_to(0.95, 0.0, 0.5),
        r"^carry: .*\bbox\b.* 0\.1\d",
    ),
    "goal within the table": (carry_to(0.56, 0.0, 0.25), r"^carry: box .*\btable\b.* 0\.090 m "),
    "goal 2 cm within the table": (
        carry_to(0.56, 0.0, 0.38),
        r"^carry: box .*\btable\b.* 0\.020 m ",
    ),
    "lift into the table": (downwards, r"^lift: box .*\btable\b.* 0\.050 m "),
    "hand within the table": (
        contact_at(0.0, 0.0, -0.09),
        r"approach: left and table .* 0\.030 m",
    ),
    "tool within the table": (tool_first(0.5, 0.2, 0.28), r"^tip: .*left/tool .*\d m .*\btable"),
    "no time": (in_no_time, r"carry: no path: .* m off"),
}


@pytest.mark.parametrize("name", BAD)
def test_infeasible_task_failed_only_after_grasp_and_lift(name):
    change, reported = BAD[name]
    with pytest.raises(TaskFailed, match=reported):
        checked(change)


@pytest.mark.slow
@pytest.mark.parametrize("file", every_nth(3, TASKS), ids=lambda file: file.stem)
def test_shipped_tasks_pass_check(file):
    task = TaskFile.from_yaml(file)
    received = []
    found = check_task(CellConfig.from_yaml(task.cell), task, on_subtask=received.append)
    assert [one.subtask for one in found] == [one.name for one in task.subtasks]
    assert received == found
    assert [one.subtask for one in found if not one.is_checked] == UNKNOWN.get(task.name, [])


def test_force_beyond_joint_torques_is_refused():
    """Grasp forces of 60 N and 199 N, with a gate that allows 200 N."""
    task = TaskFile.from_yaml(CARRY)
    data = CellConfig.from_yaml(task.cell).model_dump()
    data["gate"]["force"] = 200.0
    config = CellConfig.model_validate(data)
    steps = task.model_dump()
    steps["subtasks"] = steps["subtasks"][:2]
    for force, fits in ((60.0, True), (199.0, False)):
        steps["subtasks"][1]["force"] = force
        if fits:
            assert check_task(config, TaskFile.from_dict(steps))
            continue
        with pytest.raises(TaskFailed, match=r"^squeeze:.*\bjoint \d\b.*\d Nm"):
            check_task(config, TaskFile.from_dict(steps))


def written(tmp_path, change):
    import yaml

    data = TaskFile.from_yaml(CARRY).model_dump(exclude_none=True)
    data["cell"] = str(CONFIG / "box_task_sim.yaml")
    change(data)
    file = tmp_path / "task.yaml"
    file.write_text(yaml.safe_dump(data))
    return str(file)


def test_command_prints_subtasks_and_fails_with_one_line(tmp_path, capsys):
    file = written(tmp_path, carry_to(1.6, 0.0, 0.5))
    assert main(["task", file, "--check"]) == 1
    received = capsys.readouterr()
    assert [line.split(":")[0] for line in received.out.splitlines()] == [
        "approach",
        "squeeze",
        "lift",
    ]
    (line,) = received.err.splitlines()
    assert line.startswith("multipanda task: carry: ")
    assert "0.531 m" in line


@pytest.mark.sim
def test_infeasible_task_is_refused_before_motion(tmp_path, capsys):
    file = written(tmp_path, carry_to(1.6, 0.0, 0.5))
    assert main(["task", file, "--lockstep"]) == 1
    received = capsys.readouterr()
    assert received.out == ""
    assert received.err.startswith("multipanda task: carry: ")


def test_start_of_check_agrees_with_cell_file():
    from multipanda_py.planning.tasks.check import start_of

    task = TaskFile.from_yaml(CARRY)
    config = CellConfig.from_yaml(task.cell)
    observed = start_of(config, ["left", "right"])
    np.testing.assert_allclose(observed.postures["left"], config.arms["left"].q_start)
    np.testing.assert_allclose(observed.object_poses["box"].position, [0.5, 0.0, 0.4])


def shipped(name, force):
    """Check a shipped task with another contact force [N]."""
    steps = TaskFile.from_yaml(CONFIG / "tasks" / f"{name}.yaml").model_dump()
    for one in steps["subtasks"]:
        if one["force"]:
            one["force"] = force
    task = TaskFile.from_dict(steps)
    return check_task(CellConfig.from_yaml(task.cell), task)


@pytest.mark.parametrize(("force", "off"), [(25.0, 0.0), (40.0, 0.013), (90.0, 0.030)])
def test_friction_kept_tool_from_goal_until_timeout(force, off):
    """Friction of 0.2 and 600 N/m; at 40 N, the guided tool stopped 13 mm short."""
    if not off:
        assert len(shipped("polish", force)) == 6
        return
    with pytest.raises(TaskFailed, match=rf"^stroke: arm:.*\bplate\b.*\b{off:.3f} m\b"):
        shipped("polish", force)


def test_force_beyond_torques_along_path_is_refused():
    with pytest.raises(TaskFailed, match=r"^tilt_60: joint 6\b.*\bleft:.*\b100 N\b.*1\d"):
        shipped("insert_post", 100.0)
