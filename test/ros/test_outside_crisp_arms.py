# SPDX-License-Identifier: Apache-2.0
"""Unmodified crisp_py with two arms at once, one process for each.

MuJoCo computes the end-effector positions from the measured joint positions.
"""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import parameters_of
import pytest
from cell_names import ARMS, CARTESIAN
from sensor_msgs.msg import JointState

from multipanda_py.cell import Cell

CELL, SPACE = Path(__file__).with_name("crisp_cell.yaml"), "/crisp"
HOME = np.array([0.0, -np.pi / 4, 0.0, -3 * np.pi / 4, 0.0, np.pi / 2, np.pi / 4])
pytestmark = [pytest.mark.slow, pytest.mark.clock, pytest.mark.node]


class Arms:
    """Measured joint positions of both arms, with forward kinematics by MuJoCo."""

    def __init__(self, client):
        self._client, self.rows = client, {arm: [] for arm in ARMS}
        with Cell.from_yaml(CELL, placement="inline") as cell:
            self._model = cell.loop.backends[0].model
        self._data = mujoco.MjData(self._model)
        self.all = []
        merged = f"{SPACE}/joint_states"
        client.node.create_subscription(JointState, merged, self.all.append, 10)
        for arm in ARMS:
            topic = f"{SPACE}/{arm}/joint_states"
            client.node.create_subscription(
                JointState, topic, lambda m, arm=arm: self.rows[arm].append(list(m.position)), 10
            )

    def joints(self, arm):
        """Return the measured joint positions, (m, 7) [rad]."""
        return np.array(self.rows[arm])

    def widths(self):
        """Return the widths of the left and right gripper, (m,) each [m]."""
        rows = np.array([message.position for message in self.all])
        return rows[:, 7:9].sum(axis=1), rows[:, 16:18].sum(axis=1)

    def tool(self, arm, q):
        """Return the tool position relative to the base, along world axes [m]."""
        for number in range(7):
            self._data.joint(f"{arm}_fr3_joint{number + 1}").qpos[0] = q[number]
        mujoco.mj_forward(self._model, self._data)
        return (
            self._data.site(f"{arm}_fr3_hand_tcp").xpos - self._data.body(f"{arm}_fr3_link0").xpos
        )

    def rest(self, arm):
        """Wait until an arm is at rest; return its joint positions, (7,) [rad]."""
        get = self._client.listen(JointState, f"{SPACE}/{arm}/joint_states")
        self._client.until(lambda: get() and max(map(abs, get().velocity)) < 2e-3, 10.0, "rest")
        return np.array(get().position)


@pytest.fixture(scope="module")
def node(tmp_path_factory, node_process):
    made = node_process(
        tmp_path_factory.mktemp("crisp"), "plain_joint_names:=true",
        file=CELL, remap=[f"__ns:={SPACE}"],
    )  # fmt: skip
    try:
        yield made.wait_for("is active")
    finally:
        made.end()


@pytest.fixture(scope="module")
def arms(node, client):
    return Arms(client)


@pytest.fixture
def run(crisp, client, node, arms):
    """A function that runs a script for both arms at once and waits for both ends."""

    def run_all(script):
        for rows in (arms.all, *arms.rows.values()):
            rows.clear()
        programs = [crisp(script, SPACE[1:], arm) for arm in ARMS]
        for program in programs:  # in any order of their ends
            client.until(program.has_come_to_its_end, 60.0, "the end of each program")
        for program in programs:
            program.stop()
        return programs

    return run_all


# Discovered joint names, as the joint prefix of crisp_py is the whole namespace.
READY = """
space, arm = sys.argv[1:]
robot = make_robot(arm, namespace=f"{space}/{arm}", use_prefix=False, time_to_home=2)
robot.wait_until_ready()
rate = robot.node.create_rate(50)
switch = robot.controller_switcher_client.switch_controller

def push_up(newtons, seconds):
    start = robot.end_effector_pose.position[2]
    robot.set_target_wrench(force=[0.0, 0.0, newtons])
    stay(robot, seconds)
    risen = float(robot.end_effector_pose.position[2] - start)
    robot.set_target_wrench()
    stay(robot, 1.0)
    return risen
"""
JOINTS = f"""{READY}
switch("joint_impedance_controller")
start = robot.joint_values
for part in np.linspace(0.0, 1.0, 75):
    goal = start.copy()
    goal[0] += 0.2 * part
    robot.set_target_joint(goal)
    rate.sleep()
stay(robot, 1.5)
"""
FIGURE = f"""{READY}
import yaml
from crisp_py.config.path import find_config
from crisp_py.gripper.gripper import make_gripper
from crisp_py.gripper.gripper_config import GripperConfig
entry = yaml.safe_load(find_config(f"grippers/{{arm}}.yaml").read_text())["gripper_config"]
config = GripperConfig(**{{**entry, "joint_state_topic": f"/{{space}}/joint_states"}})
hand = make_gripper(None, config, namespace=f"{{space}}/{{arm}}")
hand.wait_until_ready()
robot.home()
switch("{CARTESIAN}")
center = np.array([0.4, 0.0, 0.4])
robot.move_to(position=center, speed=0.15)
hand.open()
for phase in np.linspace(0.0, 2.0 * np.pi, 600):
    robot.set_target(position=center + [0.0, 0.2 * np.sin(2.0 * phase), 0.2 * np.sin(phase)])
    if phase > np.pi:
        hand.close()
    rate.sleep()
while hand.value > 0.05:
    rate.sleep()
robot.home()
"""
STIFFNESSES = f"""{READY}
switch("{CARTESIAN}")
found = []
for stiffness in (800.0, 200.0, 50.0):
    for _ in range(25):
        robot.set_stiffness([stiffness] * 3, [20.0] * 3)
        rate.sleep()
    found.append(push_up(3.0, 3.0))
print("found", json.dumps(found))
"""
FLOAT = f"""{READY}
from crisp_py.config.path import find_config
switch("{CARTESIAN}")
law = wait_for_parameters(robot.cartesian_controller_parameters_client)
law.load_param_config(find_config("control/gravity_compensation.yaml"))
print("found", json.dumps(push_up(3.0, 3.0)))
"""


@pytest.mark.timeout(300)
def test_streamed_joint_targets_rotate_first_joint(run, arms):
    before = {arm: arms.rest(arm) for arm in ARMS}
    run(JOINTS)
    for arm in ARMS:
        joint_motion = (arms.rest(arm) - before[arm])[:7]
        np.testing.assert_allclose(joint_motion, [0.2, 0, 0, 0, 0, 0, 0], atol=0.01)
        q = before[arm].copy()
        q[0] += 0.2
        assert np.linalg.norm(arms.tool(arm, arms.rest(arm)) - arms.tool(arm, q)) < 0.005


@pytest.mark.timeout(300)
def test_arms_draw_figure_between_homings_while_grippers_move(run, arms):
    run(FIGURE)
    for arm in ARMS:
        joints = arms.joints(arm)
        path = np.array([arms.tool(arm, q) for q in joints[::5]])
        drawn = path[np.abs(path[:, 0] - 0.4) < 0.02]  # the plane of the figure
        np.testing.assert_allclose(drawn.min(0)[1:], [-0.2, 0.2], atol=0.03)
        np.testing.assert_allclose(drawn.max(0)[1:], [0.2, 0.6], atol=0.03)
        assert np.abs(joints[:, :7] - HOME).max(axis=1).min() < 0.02
        np.testing.assert_allclose(arms.rest(arm)[:7], HOME, atol=0.02)
    for width in arms.widths():
        widest = width.argmax()
        assert width[widest] > 0.075
        assert width[widest:].min() < 0.005


@pytest.mark.long
@pytest.mark.timeout(300)
def test_deflection_follows_streamed_stiffness(run, client):
    for program in run(STIFFNESSES):
        expected = 3.0 / np.array([800.0, 200.0, 50.0])
        np.testing.assert_allclose(program.found(), expected, rtol=0.15, atol=1e-3)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_zero_gains_of_gravity_compensation_file_let_arms_float(run, client):
    for arm, program in zip(ARMS, run(FLOAT), strict=True):
        [stiffness] = parameters_of.get(client, "stiffness", node=f"{SPACE}/{arm}/{CARTESIAN}")
        assert list(stiffness.double_array_value) == [0.0] * 6
        # Several times the deflection at the default stiffness.
        assert program.found() > 0.05
