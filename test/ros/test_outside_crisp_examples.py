# SPDX-License-Identifier: Apache-2.0
"""Examples of crisp_py, unmodified, one process for each of two arms at the same time.

What the arms do is told by MuJoCo, from the joints that were measured meanwhile.
"""

from __future__ import annotations

import contextlib
import itertools
import shutil
import subprocess
import time
from pathlib import Path

import mujoco
import numpy as np
import parameters_of
import pytest
import yaml
from geometry_msgs.msg import WrenchStamped
from processes import PATIENCE
from sensor_msgs.msg import JointState

from multipanda_py.cell import Cell

ARMS = ("left", "right")
CELL, SPACE = Path(__file__).with_name("crisp_cell.yaml"), "/crisp"
OURS = Path(__file__).resolve().parents[2] / "config" / "crisp"
LAW = "cartesian_impedance_controller"
HOME = np.array([0.0, -np.pi / 4, 0.0, -3 * np.pi / 4, 0.0, np.pi / 2, np.pi / 4])
pytestmark = [pytest.mark.slow, pytest.mark.clock, pytest.mark.node]


class Arms:
    """What was measured of both arms, and where MuJoCo has their tools then."""

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
        """Return what was measured, (m, 7) [rad]."""
        return np.array(self.rows[arm])

    def widths(self):
        """Return how wide the hands were, left and right, (m,) each [m]."""
        rows = np.array([message.position for message in self.all])
        return rows[:, 7:9].sum(axis=1), rows[:, 16:18].sum(axis=1)

    def tool(self, arm, q):
        """Return the position of a tool in its arm's base [m], both turned alike."""
        for number in range(7):
            self._data.joint(f"{arm}_fr3_joint{number + 1}").qpos[0] = q[number]
        mujoco.mj_forward(self._model, self._data)
        return (
            self._data.site(f"{arm}_fr3_hand_tcp").xpos - self._data.body(f"{arm}_fr3_link0").xpos
        )

    def rest(self, arm):
        """Wait until an arm is at rest; return its joints, (7,)."""
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


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A folder of configurations for each arm: where "fr3" and "gripper_franka" are its own."""
    made = {}
    for arm in ARMS:
        made[arm] = folder = tmp_path_factory.mktemp(arm)
        shutil.copytree(OURS, folder, dirs_exist_ok=True)
        for kind, name in (("robots", "fr3"), ("grippers", "gripper_franka")):
            entry = yaml.safe_load((OURS / kind / f"{arm}.yaml").read_text())
            entry["namespace"] = f"{SPACE[1:]}/{arm}"
            if kind == "robots":
                # As its prefix for joints is the whole namespace: names that it finds by itself.
                entry.update(time_to_home=2, use_prefix=False)
            else:
                entry["gripper_config"]["joint_state_topic"] = f"{SPACE}/joint_states"
            (folder / kind / f"{name}.yaml").write_text(yaml.safe_dump(entry))
    return made


@pytest.fixture
def run(outside, client, node, arms, folders, crisp_examples, tmp_path):
    """A function that runs examples on both arms, all at once, to their ends."""

    def run_all(*names, prompts=0, turns=4):
        for rows in (arms.all, *arms.rows.values()):
            rows.clear()
        started, prompted, logs = [], [], []
        for name, arm in itertools.product(names, ARMS):
            [file] = crisp_examples.glob(f"{name}_*.py")
            logs.append(tmp_path / f"{name}_{arm}.log")
            started.append(outside.example(file, folders[arm], logs[-1]))
            prompted += [(started[-1], logs[-1], count) for count in range(1, prompts + 1)]
        asked = {}

        def said():
            return "\n".join(log.read_text() for log in logs)

        def answer():
            """Press Enter as a user does, some time after being asked to."""
            for process, log, count in prompted:
                if log.read_text().count("Press Enter") >= count:
                    since = asked.setdefault((log, count), time.monotonic())
                    if since and time.monotonic() > since + 0.4:
                        asked[log, count] = 0.0
                        process.stdin.write("\n")
                        process.stdin.flush()

        def are_done():  # the end of its threads may take long, or never come
            answer()
            return said().count("came to its end") == len(started) or all(
                process.poll() is not None for process in started
            )

        try:
            client.until(are_done, 40.0, f"end of {names}")
        finally:
            # Not killed at once: who is while it makes a port leaves whoever meets that waiting.
            for process in started:
                process.terminate()
            for process in started:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(3.0)
                process.kill()
                process.wait(PATIENCE)
        if "is not ready, have you started the node" in said() and turns > 1:
            # crisp_py asks for parameters without waiting until their services are found. The
            # node announces states last, so that it rarely sees a pose before (it did 15 of 22
            # times, now 2 of 22), but the middleware promises no order.
            return run_all(*names, prompts=prompts, turns=turns - 1)
        assert said().count("came to its end") == len(started), said() + node.log[-3000:]
        return said()

    return run_all


@pytest.mark.timeout(300)
def test_02_turns_the_first_joint(run, arms):
    before = {arm: arms.rest(arm) for arm in ARMS}
    run("02")
    for arm in ARMS:
        turned = (arms.rest(arm) - before[arm])[:7]
        np.testing.assert_allclose(turned, [0.2, 0, 0, 0, 0, 0, 0], atol=0.01)
        q = before[arm].copy()
        q[0] += 0.2
        assert np.linalg.norm(arms.tool(arm, arms.rest(arm)) - arms.tool(arm, q)) < 0.005


@pytest.mark.timeout(300)
def test_01_draws_its_figure_while_06_opens_and_closes_the_hands(run, arms):
    run("01", "06")
    for arm in ARMS:
        joints = arms.joints(arm)
        path = np.array([arms.tool(arm, q) for q in joints[::5]])
        # A figure of 0.2 m about (0.4, 0, 0.4), at half the frequency in z: seen whole.
        drawn = path[np.abs(path[:, 0] - 0.4) < 0.02]
        np.testing.assert_allclose(drawn.min(0)[1:], [-0.2, 0.2], atol=0.03)
        np.testing.assert_allclose(drawn.max(0)[1:], [0.2, 0.6], atol=0.03)
        assert np.abs(joints[:, :7] - HOME).max(axis=1).min() < 0.02
        np.testing.assert_allclose(arms.rest(arm)[:7], HOME, atol=0.02)
    for width in arms.widths():
        widest = width.argmax()
        assert width[widest] > 0.075
        assert width[widest:].min() < width[widest] - 0.02, (
            "it closes as long as the example goes on"
        )


def push_until(client, arms, force, far):
    """Push both tools up [N] until they have risen so far [m]."""
    start = {arm: arms.tool(arm, arms.rows[arm][-1])[2] for arm in ARMS}
    wrench = WrenchStamped()
    wrench.wrench.force.z = force

    def risen(arm):
        return arms.tool(arm, arms.rows[arm][-1])[2] - start[arm]

    for arm in ARMS:
        topic = f"{SPACE}/{arm}/target_wrench"
        client.stream(topic, wrench, lambda arm=arm: risen(arm) > far, f"{arm} gives way")


def let_go(client):
    """Take the push back."""
    for arm in ARMS:
        topic, sent = f"{SPACE}/{arm}/target_wrench", itertools.count()
        client.stream(topic, WrenchStamped(), lambda sent=sent: next(sent) > 20, "no push")


@pytest.mark.timeout(300)
def test_21_leaves_the_last_of_three_stiffnesses(run, arms, client):
    assert "Setting LOW stiffness" in run("21", prompts=3)
    start = {arm: arms.tool(arm, arms.rest(arm))[2] for arm in ARMS}
    push_until(client, arms, 3.0, 0.04)
    for arm in ARMS:
        risen = arms.tool(arm, arms.rest(arm))[2] - start[arm]
        assert risen == pytest.approx(3.0 / 50.0, abs=0.01)
    let_go(client)


@pytest.mark.timeout(300)
def test_00_lets_the_arms_float(run, arms, client):
    run("00")
    for arm in ARMS:
        [stiffness] = parameters_of.get(client, "stiffness", node=f"{SPACE}/{arm}/{LAW}")
        assert list(stiffness.double_array_value) == [0.0] * 6
    # Seven times as far as the law's own spring would give way, which nothing else holds up.
    push_until(client, arms, 3.0, 0.05)
    let_go(client)
