# SPDX-License-Identifier: Apache-2.0
"""Robots in the shared world of a cell file: contacts and perturbed arms."""

from __future__ import annotations

import mujoco
import numpy as np
import pinocchio as pin
import pytest

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.robots.dynamics.arm_dynamics import model_with_gravity
from multipanda_py.simulation.fci.requests import handle
from multipanda_py.simulation.fci.robot import FciRobot
from multipanda_py.simulation.fci.scene import ignored_delays, robots_of, world_of
from multipanda_py.simulation.fci.wire import MOVE, Controller, Generator, Mode, RobotRequest
from multipanda_py.simulation.fci.world import PERIOD, Physics, RobotWorld, default_arm

pytestmark = pytest.mark.inline

STILL = (np.zeros(7), np.zeros(7), np.zeros(6), np.zeros(3))
"""Inputs without torque and external push."""
TWO = {"left": {"position": [0.0, 0.3, 0.0]}, "right": {"position": [0.0, -0.3, 0.0]}}
PERTURBED = {
    "link_mass": [1.2, 0.8, 1.1, 0.9, 1.2, 0.85, 1.15], "coulomb": [0.3] * 7,
    "viscous": [0.5] * 7, "friction_offset": [0.1] * 7,
}  # fmt: skip


def world(arms, **more):
    config = CellConfig.from_dict({"arms": arms, **more})
    return world_of(config, list(arms))


def robots(made):
    return [FciRobot(lambda *answer: None, Physics(made, k)) for k in range(len(made.arms))]


def test_world_steps_once_per_period_for_any_robots():
    made = world(TWO)
    left, right = (Physics(made, index) for index in (0, 1))
    for _ in range(50):
        left.step(*STILL)
        right.step(*STILL)
    assert made.data.time == pytest.approx(50 * PERIOD)
    for _ in range(50):  # The other robot is off.
        right.step(*STILL)
    assert made.data.time == pytest.approx(100 * PERIOD, abs=1.5 * PERIOD)
    left.rest()
    for _ in range(50):
        right.step(*STILL)
        left.rest()
    assert made.data.time == pytest.approx(150 * PERIOD, abs=2.5 * PERIOD)


def test_table_carries_pushed_tool():
    """A spring of some kN/m holds the gripper; the table takes the rest of 40 N."""
    arms = {"arm": {"position": [0.0, 0.0, 0.0]}}
    height = Physics(world(arms)).flange()[2, 3] - 0.1034
    index = [0.307, 0.0, height - 0.0205]
    table = {"table": {"shape": "box", "size": [0.2, 0.2, 0.02], "position": index}}
    sunk, estimated = [], []
    for scene_objects in ({}, table):
        (robot,) = robots(world(arms, objects=scene_objects))
        before = robot.pose_ee[2, 3]
        robot.wrench_push[2] = -40.0
        for _ in range(1500):
            robot.cycle(None)
        sunk.append(before - robot.pose_ee[2, 3])
        estimated.append(-robot.wrench_base[2])
    assert estimated[0] == pytest.approx(-40.0, abs=0.1)
    assert sunk[1] < 1.5e-3 < 0.5 * sunk[0]
    assert estimated[1] == pytest.approx(-40.0 * sunk[1] / sunk[0], rel=0.25)


def test_robots_share_world_with_falling_objects():
    made = world(
        TWO, objects={"box": {"shape": "box", "size": [0.1, 0.1, 0.1], "mass": 0.5,
                              "position": [2.0, 0.0, 0.1]}},
    )  # fmt: skip
    left, right = robots(made)
    assert made.object_positions()["box"] == pytest.approx([2.0, 0.0, 0.1])
    made.data.qpos[-7:-4] = (2.0, 0.0, 0.6)
    for robot in (left, right) * 600:
        robot.cycle(None)
    assert made.object_positions()["box"][2] == pytest.approx(0.1, abs=5e-3)  # The box falls.
    made.data.qpos[-7] = 3.0
    made.put_back()
    assert made.object_positions()["box"] == pytest.approx([2.0, 0.0, 0.1])
    for robot in (left, right):
        np.testing.assert_allclose(robot.physics.q, default_arm().q_start, atol=1e-6)


def test_hanging_robot_measures_in_its_base():
    """Poses, pushes and gravity equal those of an upright robot, rotated."""
    mounting = {"position": [0.4, -0.2, 1.5], "rpy": [3.0, 0.4, -0.7]}
    upright, hanging = (robots(world({"arm": arm}))[0] for arm in ({}, mounting))
    for robot in (upright, hanging):
        robot.wrench_push[:] = (5.0, -3.0, 8.0, 0.5, 0.2, -0.4)
        for _ in range(200):
            robot.cycle(None)
    np.testing.assert_allclose(hanging.pose_ee, upright.pose_ee, atol=1e-6)
    np.testing.assert_allclose(hanging.wrench_base, upright.wrench_base, atol=1e-4)
    down = hanging.state.datagram.fields["O_ddP_O"][:]
    np.testing.assert_allclose(np.linalg.norm(down), 9.81, rtol=1e-6)
    rotation = hanging.physics.world.arms[0].described.rotation_base_in_world
    np.testing.assert_allclose(rotation @ down, (0.0, 0.0, -9.81), atol=1e-6)


def test_perturbation_of_arm_is_estimated():
    """At rest the estimate is the gravity error that pinocchio computes."""
    made = world({"arm": {"perturbation": {"link_mass": [1.2] * 7, "friction_offset": [0.1] * 7}}})
    (robot,) = robots(made)
    for _ in range(1500):
        robot.cycle(None)
    arm, q = made.arms[0], robot.physics.q
    weights = []
    for description in (arm.described, arm.real):
        model = model_with_gravity(description)
        weights.append(pin.computeGeneralizedGravity(model, model.createData(), q))
    expected = weights[0] - weights[1] - 0.1  # The friction offset.
    assert np.abs(expected).max() > 1.0
    np.testing.assert_allclose(robot.physics.tau_ext, expected, atol=0.02)
    np.testing.assert_allclose(robot.physics.tau_J, weights[1] + 0.1, atol=0.6)


def test_arm_friction_stops_motion_sooner():
    final_speeds = []
    for wrong in ({}, {"perturbation": PERTURBED}):
        physics = Physics(world({"arm": wrong}))
        physics.world.data.qvel[6] = 1.0
        for _ in range(300):
            physics.step(*STILL)
        final_speeds.append(abs(physics.world.data.qvel[6]))
    assert final_speeds[1] < 0.1 * final_speeds[0]


def test_robot_without_cell_file_is_static_single_arm():
    """The world has one arm with its gripper and nothing that a step moves."""
    made = RobotWorld([default_arm()])
    assert made.is_static
    physics = Physics(made)
    assert physics.q.base is made.data.qpos or np.shares_memory(physics.q, made.data.qpos)
    assert int(made.model.nv) == 7
    assert mujoco.mj_name2id(made.model, mujoco.mjtObj.mjOBJ_BODY, "robot_fr3_tool") > 0


@pytest.mark.parametrize(
    ("addresses", "expected"),
    [
        ([], {"127.0.0.1": "left", "127.0.0.2": "right"}),
        (["127.0.0.9"], {"127.0.0.9": "left"}),
    ],
)
def test_arms_get_named_or_consecutive_addresses(addresses, expected):
    assert robots_of(CellConfig.from_dict({"arms": TWO}), addresses) == expected


def test_arms_of_real_cell_keep_their_addresses():
    arms = {"a": {"backend": "franka", "robot_ip": "127.0.0.7"}, "b": {}}
    assert robots_of(CellConfig.from_dict({"arms": arms}), []) == {"127.0.0.7": "a"}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: world({"arm": {"model": "ur5e"}}), r"arms\.arm\.model: .*\bur5e\b.*\bfr3\b"),
        (
            lambda: world({"arm": {"transmission": {"stiffness": [1e4] * 7}}}),
            r"arms\.arm: .*elastic joints",
        ),
        (lambda: world({"arm": {"compensates_gravity": False}}), "got false, allowed true"),
        (
            lambda: robots_of(CellConfig.from_dict({"arms": TWO}), ["1", "2", "3"]),
            r"addresses: .*\b3\b.*\b2\b.*left, right",
        ),
        (
            lambda: robots_of(CellConfig.from_dict({"arms": TWO}), ["1", "1"]),
            "allowed each once",
        ),
    ],
)
def test_unsupported_cells_are_rejected(call, words):
    with pytest.raises(ConfigurationError, match=words):
        call()


def test_unsupported_keys_of_cell_are_reported():
    arms = {"arm": {"perturbation": {"command_delay": 0.001}}}
    (reported,) = ignored_delays(CellConfig.from_dict({"arms": arms}))
    assert reported.startswith("arms.arm.perturbation: command_delay: ignored")


def test_objects_reset_when_motion_begins_and_others_rest():
    config = CellConfig.from_dict({
        "arms": TWO, "objects": {"box": {"shape": "box", "size": [0.1, 0.1, 0.1], "mass": 0.5,
                                         "position": [2.0, 0.0, 0.1]}},
    })  # fmt: skip
    made = world_of(config, ["left", "right"], reset_objects=True)
    left, right = robots(made)
    made.data.qpos[-7] = 3.0
    for robot in (left, right):
        move(robot)
        assert made.object_positions()["box"][0] == pytest.approx(2.0, abs=1e-3)
    made.data.qpos[-7] = 3.0
    left.fault("joint_reflex")
    left.mode = Mode.IDLE
    move(left)  # The other robot moves, so the objects stay.
    assert made.data.qpos[-7] == pytest.approx(3.0)


def test_objects_are_not_reset_into_arm():
    config = CellConfig.from_dict({
        "arms": {"arm": {}}, "objects": {"box": {
            "shape": "box", "size": [0.1, 0.1, 0.1], "mass": 0.5, "position": [0.4, 0.0, 0.1]}},
    })  # fmt: skip
    made = world_of(config, ["arm"])
    robots(made)
    made.data.qpos[-7] = 2.0
    made.model.qpos0[-5] = 0.5  # Position of the gripper.
    assert not made.put_back()
    assert made.data.qpos[-7] == pytest.approx(2.0)


def move(robot):
    body = MOVE.pack(Controller.EXTERNAL, Generator.NONE, *[1.0] * 6, False, *[1.0] * 7)
    assert handle(robot, RobotRequest.MOVE, 7, body) is None
