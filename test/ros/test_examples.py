# SPDX-License-Identifier: Apache-2.0
"""Example nodes on a running cell, judged by the motion of the arms."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import parameters_of
import pytest
from cell_names import ARMS
from geometry_msgs.msg import PoseStamped, TwistStamped
from processes import TIMEOUT_SCALE
from repository import ROOT
from scipy.spatial.transform import Rotation

pytestmark = [pytest.mark.sim, pytest.mark.clock, pytest.mark.node]


class Watch:
    """Recorded poses and twists of both arms."""

    def __init__(self, client):
        self._client = client
        self.poses, self.twists = {arm: [] for arm in ARMS}, {arm: [] for arm in ARMS}
        for arm in ARMS:
            for kind, topic, rows in (
                (PoseStamped, "current_pose", self.poses[arm]),
                (TwistStamped, "current_twist", self.twists[arm]),
            ):
                client.node.create_subscription(kind, f"/{arm}/{topic}", rows.append, 10)

    def times(self, arm):
        """Return the stamps of the poses, (m,) [s]."""
        stamps = [message.header.stamp for message in self.poses[arm]]
        return np.array([stamp.sec + 1e-9 * stamp.nanosec for stamp in stamps])

    def positions(self, arm):
        """Return positions in the base frame of the arm, (m, 3) [m]."""
        points = [message.pose.position for message in self.poses[arm]]
        return np.array([(p.x, p.y, p.z) for p in points])

    def rotation(self, arm, index):
        """Return the orientation of a recorded pose."""
        q = self.poses[arm][index].pose.orientation
        return Rotation.from_quat([q.x, q.y, q.z, q.w])

    def speeds(self, arm):
        """Return end-effector speeds, (m,) [m/s]."""
        parts = [message.twist.linear for message in self.twists[arm]]
        return np.linalg.norm([(v.x, v.y, v.z) for v in parts], axis=1)

    def until_at_rest(self):
        """Wait until both arms are at rest."""

        def rests():
            rows = [self.twists[arm][-10:] for arm in ARMS]
            return all(rows) and max(
                max(map(abs, (m.twist.linear.x, m.twist.linear.y, m.twist.linear.z)))
                for arm_rows in rows for m in arm_rows
            ) < 1e-3  # fmt: skip

        self._client.until(rests, 15.0, "rest")

    def begin(self):
        """Clear the records once both arms are at rest, so that the first pose is at rest."""
        self.until_at_rest()
        for rows in (*self.poses.values(), *self.twists.values()):
            rows.clear()
        self._client.until(lambda: all(self.poses.values()), 10.0, "poses")


@pytest.fixture
def watch(client):
    return Watch(client)


@pytest.fixture(scope="module")
def contact(tmp_path_factory, node_process):
    """A cell with a table, in addition to the shared one."""
    made = node_process(
        tmp_path_factory.mktemp("contact"), file=ROOT / "config" / "contact_sim.yaml",
        remap=["__ns:=/contact"],
    )  # fmt: skip
    try:
        yield made.wait_for("is active")
    finally:
        made.end()


@pytest.fixture
def run(client, watch):
    """A function that runs an example to its end while the arms are recorded."""

    def run_it(name, *words, rests=True):
        if rests:
            watch.begin()
        [file] = (ROOT / "examples").glob(f"{name}_*.py")
        example = subprocess.Popen(
            [sys.executable, str(file), *words], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        try:
            client.until(lambda: example.poll() is not None, 40.0, f"end of {file.name}")
        finally:
            example.kill()
            reported = example.communicate(timeout=TIMEOUT_SCALE)[0]
        assert example.returncode == 0, reported
        return reported

    return run_it


@pytest.mark.slow
def test_hello_lifts_both_end_effectors(cell, run, watch):
    run("06")
    watch.until_at_rest()
    for arm in ARMS:
        moved = watch.positions(arm)[-1] - watch.positions(arm)[0]
        np.testing.assert_allclose(moved, [0.0, 0.0, 0.05], atol=0.003)


def speeds(client):
    nodes = [f"/{arm}/cartesian_impedance_controller" for arm in ARMS]
    return [parameters_of.get(client, "governor.linear_speed", node=node) for node in nodes]


@pytest.mark.long
def test_action_chunks_become_one_smooth_motion(cell, run, watch, client):
    """The example restores the speed limits, which it once left reduced."""
    before = speeds(client)
    reported = run("07", "--steps", "50")
    assert speeds(client) == before
    actions, chunks, _ = map(int, re.findall(r"\d+", reported))
    assert (actions, 5 <= chunks <= 8) == (50, True), reported
    for arm in ARMS:
        at = watch.positions(arm)
        radius = np.linalg.norm(at[:, 1:] - at[0, 1:] - [0.0, 0.05], axis=1)
        assert np.abs(radius - 0.05).max() < 0.004
        speed = watch.speeds(arm)
        moving = speed[(speed > 0.02).argmax() :][50:300]  # at 0.079 m/s without stops
        assert np.percentile(moving, 10) > 0.03
        assert moving.max() < 0.12


@pytest.mark.long
def test_clutch_accumulates_operator_motion_while_closed(cell, run, watch):
    run("08", "--scripted", "--seconds", "8.2")
    watch.until_at_rest()
    at = watch.positions("left")
    np.testing.assert_allclose(at[-1] - at[0], [0.0, 0.0, 0.1], atol=0.004)
    assert np.diff(at[:, 2]).min() > -1e-3  # the operator returns, the end effector does not
    relative_rotation = watch.rotation("left", -1) * watch.rotation("left", 0).inv()
    np.testing.assert_allclose(relative_rotation.as_rotvec(), [0.0, 0.0, 0.4], atol=0.02)


@pytest.mark.long
def test_circles_at_1_khz_are_round(cell, run, watch):
    reported = run("09", "--seconds", "5")
    assert "targets/s for each arm" in reported
    for arm in ARMS:
        time, at = watch.times(arm), watch.positions(arm)[:, 1:] - watch.positions(arm)[0, 1:]
        full = at[time > time[-1] - 3.0]  # the circles have full size
        radius = np.linalg.norm(full, axis=1)
        angle = np.unwrap(np.arctan2(full[:, 1], full[:, 0]))
        speed = abs(np.polyfit(time[time > time[-1] - 3.0], angle, 1)[0])
        # Half a revolution per second, and more where simulated time lags the wall clock.
        # A tracking lag of 0.2 s reduces the radius.
        assert speed > 0.9 * np.pi
        assert 0.06 / np.hypot(1.0, 0.21 * speed) < radius.min() < radius.max() < 0.066
        assert np.ptp(full, axis=0).min() > 0.1, "full circle"


@pytest.mark.long
def test_task_example_passes_four_phases_with_their_controllets(contact, run):
    reported = run("10", "--ros-args", "-r", "__ns:=/contact", rests=False)
    number = r"(-?\d+\.\d+)"
    line = rf"(\w+): (left|right) at x {number} z {number} m with {number} N"
    at = {(phase, arm): np.array(list(map(float, rest))) for phase, arm, *rest in
          re.findall(line, reported)}  # fmt: skip
    for arm in ARMS:
        assert at["approach", arm][1] == pytest.approx(0.305, abs=0.003)
        x, z, force = at["contact", arm]
        assert (z, force) == (pytest.approx(0.3, abs=0.001), pytest.approx(10.0, abs=2.5))
        assert at["slide", arm][1] == pytest.approx(0.3, abs=0.001)
        assert at["slide", arm][2] == pytest.approx(10.0, abs=1.0)
        assert at["slide", arm][0] - x == pytest.approx(0.078, abs=0.004)
        assert at["lift", arm][1] > 0.37
        assert at["lift", arm][2] < 1.0
    assert reported.count("deactivated: left/") >= 2, reported
