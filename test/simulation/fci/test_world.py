# SPDX-License-Identifier: Apache-2.0
"""Robots in one world, as a cell file describes it: what touches, what is wrong with an arm."""

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
from multipanda_py.simulation.fci.scene import left_out, robots_of, world_of
from multipanda_py.simulation.fci.wire import MOVE, Controller, Generator, Mode, RobotRequest
from multipanda_py.simulation.fci.world import PERIOD, Physics, RobotWorld, default_arm

pytestmark = pytest.mark.inline

STILL = (np.zeros(7), np.zeros(7), np.zeros(6), np.zeros(3))
"""No torque, and nobody who pushes."""
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


def test_a_world_moves_on_once_a_period_whichever_robots_come():
    made = world(TWO)
    left, right = (Physics(made, place) for place in (0, 1))
    for _ in range(50):
        left.step(*STILL)
        right.step(*STILL)
    assert made.data.time == pytest.approx(50 * PERIOD)
    for _ in range(50):  # the other one is switched off
        right.step(*STILL)
    assert made.data.time == pytest.approx(100 * PERIOD, abs=1.5 * PERIOD)
    left.rest()
    for _ in range(50):
        right.step(*STILL)
        left.rest()
    assert made.data.time == pytest.approx(150 * PERIOD, abs=2.5 * PERIOD)


def test_a_table_carries_a_tool_that_is_pushed_down():
    """A hand above it is held by a spring of some kN/m; the table takes the rest of 40 N."""
    arms = {"arm": {"position": [0.0, 0.0, 0.0]}}
    height = Physics(world(arms)).flange()[2, 3] - 0.1034
    place = [0.307, 0.0, height - 0.0205]
    table = {"table": {"shape": "box", "size": [0.2, 0.2, 0.02], "position": place}}
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


def test_two_robots_share_a_world_in_which_things_fall():
    made = world(
        TWO, objects={"box": {"shape": "box", "size": [0.1, 0.1, 0.1], "mass": 0.5,
                              "position": [2.0, 0.0, 0.1]}},
    )  # fmt: skip
    left, right = robots(made)
    assert made.object_positions()["box"] == pytest.approx([2.0, 0.0, 0.1])
    made.data.qpos[-7:-4] = (2.0, 0.0, 0.6)
    for robot in (left, right) * 600:
        robot.cycle(None)
    assert made.object_positions()["box"][2] == pytest.approx(0.1, abs=5e-3)  # it fell
    made.data.qpos[-7] = 3.0
    made.put_back()
    assert made.object_positions()["box"] == pytest.approx([2.0, 0.0, 0.1])
    for robot in (left, right):
        np.testing.assert_allclose(robot.physics.q, default_arm().q_start, atol=1e-6)


def test_a_robot_that_hangs_measures_in_its_own_base():
    """Poses, pushes and gravity are those of one that stands, turned."""
    turn = {"position": [0.4, -0.2, 1.5], "rpy": [3.0, 0.4, -0.7]}
    stands, hangs = (robots(world({"arm": arm}))[0] for arm in ({}, turn))
    for robot in (stands, hangs):
        robot.wrench_push[:] = (5.0, -3.0, 8.0, 0.5, 0.2, -0.4)
        for _ in range(200):
            robot.cycle(None)
    np.testing.assert_allclose(hangs.pose_ee, stands.pose_ee, atol=1e-6)
    np.testing.assert_allclose(hangs.wrench_base, stands.wrench_base, atol=1e-4)
    down = hangs.state.datagram.fields["O_ddP_O"][:]
    np.testing.assert_allclose(np.linalg.norm(down), 9.81, rtol=1e-6)
    rotation = hangs.physics.world.arms[0].described.rotation_base_in_world
    np.testing.assert_allclose(rotation @ down, (0.0, 0.0, -9.81), atol=1e-6)


def test_an_arm_that_is_not_as_it_is_described_is_felt():
    """At rest its robot feels what is wrong with its weight, as pinocchio computes it."""
    made = world({"arm": {"perturbation": {"link_mass": [1.2] * 7, "friction_offset": [0.1] * 7}}})
    (robot,) = robots(made)
    for _ in range(1500):
        robot.cycle(None)
    arm, q = made.arms[0], robot.physics.q
    weights = []
    for description in (arm.described, arm.real):
        model = model_with_gravity(description)
        weights.append(pin.computeGeneralizedGravity(model, model.createData(), q))
    expected = weights[0] - weights[1] - 0.1  # and the friction's offset
    assert np.abs(expected).max() > 1.0
    np.testing.assert_allclose(robot.physics.tau_ext, expected, atol=0.02)
    np.testing.assert_allclose(robot.physics.tau_J, weights[1] + 0.1, atol=0.6)


def test_friction_of_an_arm_stops_it_sooner():
    coasted = []
    for wrong in ({}, {"perturbation": PERTURBED}):
        physics = Physics(world({"arm": wrong}))
        physics.world.data.qvel[6] = 1.0
        for _ in range(300):
            physics.step(*STILL)
        coasted.append(abs(physics.world.data.qvel[6]))
    assert coasted[1] < 0.1 * coasted[0]


def test_a_robot_without_a_file_is_what_it_was():
    """One arm with its hand; nothing around it that a step would have to move."""
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
def test_arms_have_the_addresses_that_are_named_or_those_behind_one_another(addresses, expected):
    assert robots_of(CellConfig.from_dict({"arms": TWO}), addresses) == expected


def test_arms_of_a_real_cell_have_the_addresses_of_their_file():
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
def test_cells_that_are_no_such_robots_are_refused(call, words):
    with pytest.raises(ConfigurationError, match=words):
        call()


def test_what_robots_do_not_have_of_a_cell_is_said():
    arms = {"arm": {"perturbation": {"command_delay": 0.001}}}
    (reported,) = left_out(CellConfig.from_dict({"arms": arms}))
    assert reported.startswith("arms.arm.perturbation: command_delay: ignored")


def test_things_are_put_back_when_a_robot_begins_and_no_other_one_moves():
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
    move(left)  # while the other one moves: nobody comes near
    assert made.data.qpos[-7] == pytest.approx(3.0)


def test_nothing_is_put_back_into_an_arm():
    config = CellConfig.from_dict({
        "arms": {"arm": {}}, "objects": {"box": {
            "shape": "box", "size": [0.1, 0.1, 0.1], "mass": 0.5, "position": [0.4, 0.0, 0.1]}},
    })  # fmt: skip
    made = world_of(config, ["arm"])
    robots(made)
    made.data.qpos[-7] = 2.0
    made.model.qpos0[-5] = 0.5  # where the hand is
    assert not made.put_back()
    assert made.data.qpos[-7] == pytest.approx(2.0)


def move(robot):
    body = MOVE.pack(Controller.EXTERNAL, Generator.NONE, *[1.0] * 6, False, *[1.0] * 7)
    assert handle(robot, RobotRequest.MOVE, 7, body) is None
