# SPDX-License-Identifier: Apache-2.0
"""Scenes of validation tasks for real arms, and forces that only an arm measures."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
import yaml

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arm
from multipanda_py.exceptions import ValidationRejected
from multipanda_py.identification.validation import make_task, run_task, validate
from multipanda_py.identification.validation.task import tool_in_world
from multipanda_py.identification.validation.tasks import (
    in_task,
    setup_instructions,
    with_tools_of,
)
from multipanda_py.identification.validation.validate import check_thresholds, with_measured_force
from multipanda_py.simulation.fci.scene import world_of
from multipanda_py.simulation.fci.world import Physics

pytestmark = [pytest.mark.sim, pytest.mark.inline]
TWO = {"left": {"position": [0.0, 0.3, 0.0]}, "right": {"position": [0.0, -0.3, 0.0]}}


def simulated(**own):
    return CellConfig.from_dict({"arms": {name: {**arm, **own} for name, arm in TWO.items()}})


def real(**own):
    own_backend = {"backend": "franka", "robot_ip": "127.0.0.1", **own}
    ips = {"left": {}, "right": {"robot_ip": "127.0.0.2"}}
    return CellConfig.from_dict(
        {"arms": {name: {**arm, **own_backend, **ips[name]} for name, arm in TWO.items()}}
    )


@pytest.mark.parametrize("number", [3, 4, 5])
def test_objects_are_at_same_position_for_plant_and_twin(number):
    """Compare the scenes of the plant, of its twin and of simulated robots."""
    plant = real()
    twin = with_tools_of(plant, simulated())
    robots = in_task(simulated(), number)
    positions, tips = [], []
    for config in (plant, twin):
        task = make_task(number)
        scene = task.scene(config)
        positions.append(
            {name: scene_object.position for name, scene_object in task.objects.items()}
        )
        arm = describe_arm("left", scene.arms["left"])
        tips.append(tool_in_world(arm, np.array(scene.arms["left"].q_start)).position)
    positions.append(
        {name: scene_object.position for name, scene_object in robots.objects.items()}
    )
    for other in positions[1:]:
        assert other.keys() == positions[0].keys()
        for name, place in positions[0].items():
            np.testing.assert_allclose(other[name], place, atol=2e-4)
    np.testing.assert_allclose(tips[0], tips[1], atol=2e-4)


def test_twin_gets_tool_of_plant_unless_it_has_own_tool():
    tool = {"mass": 0.3, "position": [0.0, 0.0, 0.2]}
    given = with_tools_of(real(), simulated())
    assert given.arms["left"].gripper is False
    assert given.arms["left"].tool.mass == pytest.approx(0.76, abs=0.1)  # of a Franka Hand
    own = simulated(tool=tool)
    assert with_tools_of(real(), own).arms["left"].tool == own.arms["left"].tool
    assert with_tools_of(simulated(), simulated()).arms == simulated().arms


def test_setup_instructions_have_sizes_and_positions():
    tasks = [make_task(1), make_task(3, "ufic"), make_task(3, "plain_pi"), make_task(5)]
    table, under, box = setup_instructions(tasks, real())
    assert re.match(r"task 3\b.*\btable\b.*\b0\.36 x 0\.36 x 0\.04 m, fixed", table)
    assert re.match(r"task 5\b.*\btable\b", under)
    assert re.search(r"\b0\.12 x 0\.19 x 0\.2 m\b.*\b0\.8 kg\b.*\(0\.500, 0\.000, 0\.400\)", box)
    assert list(setup_instructions(tasks, simulated())) == []


def test_robots_of_task_share_its_objects():
    config = in_task(simulated(), 5)
    assert set(config.objects) == {"table", "box"}
    made = world_of(config, ["left", "right"])
    robots = [Physics(made, place) for place in (0, 1)]
    assert made.object_positions()["box"] == pytest.approx([0.5, 0.0, 0.4], abs=1e-3)
    for _ in range(300):
        for robot in robots:
            robot.rest()
    assert made.object_positions()["box"] == pytest.approx(
        [0.5, 0.0, 0.4], abs=1e-3
    )  # it rests on the table
    with pytest.raises(ValidationRejected, match="task: got 7"):
        in_task(simulated(), 7)


def test_force_without_simulation_is_estimate_of_arm():
    config = CellConfig.from_dict({"arms": {"arm": {"rpy": [0.0, 0.0, 0.8]}}})
    task = make_task(3, "ufic", 1.0)
    run = run_task(task, config)
    arms = {"arm": describe_arm("arm", task.scene(config).arms["arm"])}
    assert with_measured_force(task, run, arms) is run
    blind = replace(run, force=np.zeros((0, 1)), force_time=np.zeros(0))
    found = with_measured_force(task, blind, arms)
    assert found.force_is_measured
    true = np.interp(found.force_time, run.force_time, run.force[:, 0])
    assert np.sqrt(np.mean((found.force[20:-5, 0] - true[20:-5]) ** 2)) < 1.0
    assert np.ptp(true) > 20.0
    free = make_task(1)
    assert with_measured_force(free, blind, arms) is blind


def test_collision_thresholds_below_task_forces_are_rejected():
    """Thresholds of 20 N and 20 Nm would stop the arm at 30 N with a lever arm of 0.46 m."""
    with pytest.raises(ValidationRejected) as caught:
        validate(real(), simulated(), [3], seconds=1.0)
    reported = str(caught.value)
    assert "task 3: left " in reported
    assert "arms.left.franka" in reported
    assert "upper_force_thresholds: [45.0, 45.0, 45.0, 25.0, 25.0, 25.0]" in reported
    needed = yaml.safe_load(reported.split("upper_torque_thresholds: ")[1].split(" or more")[0])
    assert needed[1] == pytest.approx(1.5 * 30.0 * 0.463, abs=1.0)
    assert needed[6] == 12.0
    enough = {"upper_force_thresholds": [45.0] * 6, "upper_torque_thresholds": needed}
    for number, config in ((3, real(franka=enough)), (4, real()), (1, real())):
        task = make_task(number)
        check_thresholds(task, task.scene(config))
    with pytest.raises(ValidationRejected, match=r"^task 5: left\b.*\b20 N"):
        validate(real(), simulated(), [5], seconds=1.0)
