# SPDX-License-Identifier: Apache-2.0
"""Task files: refusals and their messages, proposed mode, contact points."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
from repository import CONFIG

from multipanda_py.cell.tasks import TaskFile
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.planning.tasks.sections import (
    Contact,
    FailurePolicy,
    Goal,
    Subtask,
    proposed_mode,
)
from multipanda_py.planning.tasks.world_state import contact_points
from multipanda_py.robots import SceneObject

pytestmark = pytest.mark.inline

EXAMPLE = CONFIG / "tasks" / "carry_box.yaml"
GOOD = {
    "name": "carry",
    "controllet": "augmented",
    "contacts": {"sides": {"object": "box", "arms": ["left", "right"], "side": "+y"}},
    "subtasks": [
        {"name": "squeeze", "contacts": ["sides"], "force": 20.0},
        {
            "name": "lift", "contacts": ["sides"], "force": 20.0,
            "goals": [{"frame": "box", "offset": [0.0, 0.0, 0.1]}],
        },
    ],
}  # fmt: skip


def changed(change):
    data = deepcopy(GOOD)
    change(data)
    return data


def subtask(data, number=1):
    return data["subtasks"][number]


def test_example_matches_its_cell():
    task = TaskFile.from_yaml(EXAMPLE)
    task.check(CellConfig.from_yaml(task.cell))
    modes = [proposed_mode(one) for one in task.subtasks]
    assert modes == ["optimization", "force", "hybrid", "hybrid", "hybrid", "optimization"]


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        (lambda d: d.pop("controllet"), "controllet: missing"),
        (lambda d: d.update(speed=1), "speed: unknown key; known: name, cell, controllet"),
        (lambda d: subtask(d).update(tool=1), "subtasks.1.tool: unknown key; known: name, mode"),
        (lambda d: subtask(d)["goals"][0].update(to=1), "subtasks.1.goals.0.to: unknown key"),
        (lambda d: subtask(d).update(force=-1.0), "subtasks.1.force: got -1.0"),
        (lambda d: subtask(d).update(force=float("nan")), "subtasks.1.force: got nan"),
        (lambda d: subtask(d).update(force="20"), "subtasks.1.force: got '20'"),
        (lambda d: subtask(d).update(mode="plan"), "subtasks.1.mode: got 'plan'"),
        (lambda d: subtask(d).update(name="squeeze"), "got the name squeeze 2 times"),
        (lambda d: subtask(d).update(contacts=["ends"]), "contacts: got 'ends', allowed sides"),
        (lambda d: subtask(d).update(contacts=[]), "got 20 N without contacts"),
        (lambda d: d["subtasks"].append({"name": "rest"}), "got neither goals nor contacts"),
        (lambda d: subtask(d, 0).update(mode="hybrid"), "got hybrid without goals"),
        (lambda d: subtask(d).update(mode="optimization"), "got 20 N in mode optimization"),
        (lambda d: subtask(d).update(contacts=["sides", "sides"]), "got left 2 times"),
        (lambda d: subtask(d)["goals"][0].update(position=[0, 0, 0]), "got position and offset"),
        (lambda d: subtask(d)["goals"][0].pop("offset"),
         "got no component. Give position, offset, rpy"),
        (lambda d: subtask(d)["goals"][0].update(frame="left/tool"), "whose gripper presses"),
        (lambda d: subtask(d)["goals"][0].update(frame="table"), "got 'table', allowed a tool"),
        (lambda d: subtask(d)["goals"][0].update(base="box"), "got box, the frame itself"),
        (lambda d: subtask(d)["goals"][0].update(z_axis=[0, 0, 0]), "z_axis: got [0.0, 0.0, 0.0]"),
        (lambda d: d.update(subtasks=[]), "subtasks: got []"),
        (lambda d: d["contacts"]["sides"].update(side="y"), "contacts.sides.side: got 'y'"),
    ],
)  # fmt: skip
def test_fault_is_reported_with_key_path(change, reported):
    with pytest.raises(ConfigurationError) as error:
        TaskFile.from_dict(changed(change))
    assert reported in str(error.value)


def test_all_faults_are_reported_at_once():
    def change(data):
        subtask(data).update(contacts=["ends"])
        subtask(data, 0).update(mode="hybrid")

    with pytest.raises(ConfigurationError) as error:
        TaskFile.from_dict(changed(change))
    assert len(error.value.faults) >= 2


@pytest.mark.parametrize("data", [None, [], "task", 3.0])
def test_task_that_is_no_mapping_is_refused(data):
    with pytest.raises(ConfigurationError, match="name, cell, controllet"):
        TaskFile.from_dict(data)


@pytest.mark.parametrize("text", ["name: [", "a: &x 1\nb: *x", "name: a\nname: b", "\x00"])
def test_invalid_yaml_is_reported_in_one_line(tmp_path, text):
    file = tmp_path / "task.yaml"
    file.write_text(text)
    with pytest.raises(ConfigurationError) as error:
        TaskFile.from_yaml(file)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        (lambda d: d.update(controllet="hold"), "controllet: got 'hold', allowed augmented"),
        (lambda d: d["contacts"]["sides"].update(arms=["left", "third"]), "got 'third'"),
        (lambda d: d["contacts"].update(ends={**d["contacts"]["sides"], "object": "crate"}),
         "got 'crate', allowed table, box"),
        (lambda d: d["contacts"]["sides"].update(offset=[0.0, 0.0, 0.3]),
         "offset: got z 0.3 m, allowed"),
        (lambda d: d["contacts"]["sides"].update(offset=[0.0, 0.01, 0.0]), "offset: got y 0.01 m"),
        (lambda d: subtask(d)["goals"][0].update(base="crate"), "goals.0.base: got 'crate'"),
        (lambda d: subtask(d).update(allowed_contacts=["crate"]),
         "subtasks.1 (lift): allowed_contacts: got 'crate', allowed table, box"),
        (lambda d: subtask(d).update(force=200.0),
         "subtasks.1 (lift): force: got 200 N, allowed up to 100 N (gate.force of the cell)"),
        (lambda d: (d["contacts"]["sides"].update(object="table"),
                    subtask(d)["goals"][0].update(frame="table")), "table is fixed"),
    ],
)  # fmt: skip
def test_task_for_another_cell_is_refused(change, reported):
    config = CellConfig.from_yaml(CONFIG / "box_task_sim.yaml")
    with pytest.raises(ConfigurationError) as error:
        TaskFile.from_dict(changed(change)).check(config)
    assert reported in str(error.value)


def test_explicit_mode_overrides_proposal():
    goal = {"frame": "box", "offset": [0.0, 0.0, 0.1]}
    step = {"name": "lift", "contacts": ["sides"], "force": 20.0, "goals": [goal]}
    assert proposed_mode(Subtask(**step)) == "hybrid"
    assert proposed_mode(Subtask(**step, mode="force")) == "force"


@pytest.mark.parametrize("section", [TaskFile, Contact, Subtask, Goal, FailurePolicy])
def test_page_documents_every_key(section):
    page = (CONFIG.parent / "doc" / "tasks.md").read_text(encoding="utf-8")
    assert not [key for key in section.model_fields if f"`{key}`" not in page]


@pytest.mark.parametrize("side", ["+x", "-x", "+y", "-y", "+z", "-z"])
@pytest.mark.parametrize(
    ("shape", "size"), [("box", (0.1, 0.2, 0.3)), ("sphere", (0.1,)), ("cylinder", (0.1, 0.2))]
)
def test_two_contacts_press_along_one_line_from_surface(shape, size, side):
    """Forces and torques cancel; 0.5 mm along a force is inside the object."""
    scene_object = SceneObject("thing", shape, size)
    first, second = contact_points(
        Contact(object="thing", arms=["a", "b"], side=side), scene_object
    )
    assert np.allclose(first.inward + second.inward, 0.0)
    assert np.allclose(
        np.cross(first.point, first.inward) + np.cross(second.point, second.inward), 0.0
    )
    for one in (first, second):
        assert is_inside(shape, size, one.point + 5e-4 * one.inward)
        assert not is_inside(shape, size, one.point - 5e-4 * one.inward)


def is_inside(shape, size, point):
    if shape == "box":
        return bool((np.abs(point) <= size).all())
    if shape == "sphere":
        return float(np.linalg.norm(point)) <= size[0]
    return float(np.hypot(*point[:2])) <= size[0] and abs(point[2]) <= size[1]
