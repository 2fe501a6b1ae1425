# SPDX-License-Identifier: Apache-2.0
"""Panel as a client of a running node: use, and stall or kill during a drag."""

from __future__ import annotations

import itertools
import os
import re
import signal
import subprocess
import sys
import time
from functools import partial

import numpy as np
import pytest
from repository import DUAL_SIM

pytest.importorskip("viser", reason="viser is not installed: extra panel")
from browser import PROGRAM
from cell_names import CARTESIAN, IMPEDANCE, JOINT
from cell_names import LEFT_CARTESIAN as LEFT
from geometry_msgs.msg import PoseStamped, TwistStamped
from panel_node_rig import NodeRig
from panel_page import PanelPage, until
from panel_story import drags_switches_and_stops
from std_msgs.msg import String

from multipanda_py.apps.panel.session import STALL_TIME
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import bases_in_world
from multipanda_py.exceptions import ParameterRejected
from multipanda_py.pose import Pose
from multipanda_py.realtime.system.child_process import end_with_parent
from multipanda_py.ros.client.panel_cell import NodeCell
from multipanda_py.ros.node.settings import parameters_of

pytestmark = [pytest.mark.node, pytest.mark.clock]

UP = 0.13
"""Near the maximum distance of a target, with a motion of over 0.5 s [m]."""


@pytest.fixture(scope="module")
def one_rig(shared_node, client):
    """A panel; teardown restores the gains and the arm of the shared node."""
    assert client.switch(IMPEDANCE, IMPEDANCE, strictness=4).ok
    start, made = client.newest(PoseStamped, "left/current_pose"), NodeRig()
    made.until(lambda: LEFT in made.cell.active, "the controllet is active")
    gains = {"stiffness": [*made.cell.parameters(LEFT)["stiffness"]]}
    yield made
    assert client.switch(IMPEDANCE, IMPEDANCE, strictness=4).ok
    made.cell.set_parameters(LEFT, gains)
    made.until(lambda: [*made.cell.parameters(LEFT)["stiffness"]] == gains["stiffness"], "gains")
    made.close()
    start.header.stamp.sec = start.header.stamp.nanosec = 0
    low = start.pose.position.z
    while (height := z_of(client)) > low + 0.01:  # in steps, as a far target is rejected
        start.pose.position.z = to = max(low, height - 0.1)
        client.stream("left/target_pose", start, lambda to=to: z_of(client) < to + 0.005, "below")


@pytest.fixture
def rig(one_rig, cell):
    """The panel of the shared node, with both arms under Cartesian impedance."""
    one_rig.until(lambda: LEFT in one_rig.cell.active, "the controllet is active")
    yield one_rig
    for page in one_rig.pages:
        page.close()
    one_rig.pages.clear()
    one_rig.panel.session.notes = ()


def slide(rig, page, index, value):
    """Move a slider of the left controllet by uuid, as both arms have the same labels."""
    gains = rig.panel.tabs["left"].gains
    rig.until(lambda: len(gains.elements) == 6, "sliders of the controllet")
    uuid = gains.elements[index]._impl.uuid
    rig.until(lambda: uuid in page.elements, "sliders on the page")
    page.send(type="GuiUpdateMessage", uuid=uuid, updates={"value": value})


def holds(rig):
    return lambda: all(name.endswith("hold") for name in rig.cell.active)


@pytest.mark.slow
def test_drag_moves_arm_and_any_page_can_stop_it(rig, client):
    page, other, before = rig.page(in_command=True), rig.page(), rig.z()
    page.grasp_gizmo("left")
    page.drag("left", *rig.target(up=0.05))
    page.let_go("left")
    rig.until(lambda: rig.z() > before + 0.04, "the tool rises")
    page.use("law", f"left/{JOINT}")
    rig.until(lambda: f"left/{JOINT}" in rig.cell.active, "the new controllet")
    rig.until(lambda: page.find("joint 7 [Nm/rad]"), "the gains on the page")
    other.use("STOP")  # without the panel's thread, which may be slow
    until(lambda: holds(rig)(), "both arms hold")
    assert rig.panel.session.command.holder is None


@pytest.mark.slow
def test_arm_holds_on_panel_stall_and_queued_drag_is_dropped(rig, cell):
    page, rest, requested = rig.page(in_command=True), rig.z(), rig.target(up=UP)

    def follows():
        page.let_go("left")  # a rejected drag needs a new grasp
        page.grasp_gizmo("left")
        page.drag("left", *requested)
        return rig.z() > rest + 0.005

    rig.until(follows, "the arm follows")
    line = f"left holds: no heartbeat for 0.5 s from 'multipanda_panel_{os.getpid()}'"
    since = time.monotonic()
    until(lambda: line in cell.log, "hold by the node")  # the panel's thread is stalled
    until(partial(is_past, since), "stale input of the page")
    page.drag("left", *requested)
    held = rig.z()
    assert held < rest + UP - 0.01
    rig.until(rig.noted("blocked: repeat the request"), "the panel resumes")
    rig.until(partial(is_past, time.monotonic()), "time for a pending request")
    assert rig.z() < held + 2e-3
    assert cell.log.count(line) == 1


def test_drag_during_node_silence_was_executed_later(rig, cell):
    page, rest, requested = rig.page(in_command=True), rig.z(), rig.target(up=UP)
    os.kill(cell.process.pid, signal.SIGSTOP)
    try:
        # The panel works meanwhile. After a pause it would reject the drag for another reason.
        rig.until(lambda: rig.cell.states.message_age("left") > 0.6, "silence of the node")
        page.grasp_gizmo("left")
        page.drag("left", *requested)
        rig.until(rig.noted("no message from the node for"), "a rejection")
    finally:
        os.kill(cell.process.pid, signal.SIGCONT)
    rig.until(lambda: rig.cell.states.message_age("left") < 0.3, "messages of the node")
    page.drag("left", *requested)
    rig.until(partial(is_past, time.monotonic()), "time for a pending request")
    assert abs(rig.z() - rest) < 2e-3


@pytest.mark.long
def test_drag_continued_on_controllet_switched_by_others(rig, client):
    """Until the next ``/diagnostics``, the drag commanded the new controllet."""
    page, rest, requested = rig.page(in_command=True), rig.z(), rig.target(up=UP)
    page.grasp_gizmo("left")
    page.drag("left", rig.target(up=0.02)[0], requested[1])
    rig.until(lambda: rig.z() > rest + 0.01, "the arm follows")
    begun = rig.cell.activation_count("left")
    for law in (JOINT, CARTESIAN):
        assert client.switch([f"left/{law}"], strictness=4).ok
    rig.until(lambda: rig.cell.activation_count("left") >= begun + 2, "both switches")
    page.drag("left", *requested)
    rig.until(rig.noted("Grasp the gizmo again"), "the end of the drag")
    rig.until(partial(is_past, time.monotonic()), "time for a pending request")
    assert rig.z() < rest + 0.04
    page.let_go("left")


def test_page_reported_stop_before_silent_node_confirmed_it(rig, cell):
    page = rig.page()
    os.kill(cell.process.pid, signal.SIGSTOP)
    try:
        page.use("STOP")
        rig.until(rig.noted("has pressed STOP; no confirmation yet"), "the request")
        past = "no message from the node for 2 s; the page shows the last known state"
        rig.until(partial(is_reported, page, past), "the notice")
        assert not rig.noted("stopped by viewer")()
    finally:
        os.kill(cell.process.pid, signal.SIGCONT)
    rig.until(rig.noted("stopped by viewer"), "the response")
    rig.until(holds(rig), "both arms hold")
    rig.until(lambda: not is_reported(page, "the page shows the last known state"), "a live page")


def test_stop_is_repeated_after_pending_switch(rig):
    """The switch may reach the node after the stop, through another participant."""
    switch = rig.cell.request_switch([f"right/{JOINT}"], strictness="force_auto")
    rig.cell.request_hold()
    rig.until(lambda: switch.is_done, "the response")
    rig.until(holds(rig), "both arms hold")


def test_gains_gripper_and_rejections_are_those_of_node(rig, client):
    page = rig.page(in_command=True)
    slide(rig, page, 0, 650.0)
    rig.until(lambda: rig.cell.parameters(LEFT)["stiffness"][0] == 650.0, "the changed gain")
    with pytest.raises(ParameterRejected, match="stiffness: got"):
        rig.cell.set_parameters(LEFT, {"stiffness": [-1.0] * 6})
    page.use("gripper [m]", 0.02)
    page.use("Move gripper")
    rig.until(
        lambda: abs(rig.cell.state("left").finger_positions.sum() - 0.02) < 2e-3,
        "the gripper width",
    )
    before = rig.z()
    page.drag("left", *rig.target(up=2.0))
    rig.until(rig.noted("gate.position"), "rejection of a far target")
    far = PoseStamped()
    far.header.frame_id = "no_such_frame"
    far.pose.orientation.w = 1.0

    def is_shown():  # a single target may be lost
        client.publish("left/target_pose", far)
        return rig.noted("no_such_frame")()

    rig.until(is_shown, "rejection by the node on the page")
    assert rig.z() == pytest.approx(before, abs=1e-3)


@pytest.mark.long
def test_slider_reverted_change_of_another_client(rig):
    """A page receives the change one second later, and sets a vector as a whole."""
    page = rig.page(in_command=True)
    x, y, *_ = rig.cell.parameters(LEFT)["stiffness"]
    other = NodeCell("")
    try:
        change = other.set_parameters(
            LEFT, {"stiffness": [x - 100.0, *other.parameters(LEFT)["stiffness"][1:]]}
        )
        rig.until(lambda: change.poll() is not None, "the change in the node")
        rig.until(lambda: not rig.panel.session.stale_reason(), "a live panel")
        slide(rig, page, 1, float(y + 50.0))
        rig.until(
            lambda: rig.cell.parameters(LEFT)["stiffness"][1] == y + 50.0, "the changed gain"
        )
        values = parameters_of(other.link, f"/{LEFT}", ["stiffness"], 10.0)
        assert [*other.link.answer(values)["stiffness"]][:2] == [x - 100.0, y + 50.0]
    finally:
        other.close()


@pytest.mark.long
def test_two_panels_moved_one_arm_alternately(rig, client):
    page, rest, requested = rig.page(in_command=True), rig.z(), rig.target(up=0.03)
    client.publish("heartbeat", String(), listeners=2)  # the node and the panel
    left, heartbeat = itertools.count(), String(data="a_panel left")
    client.stream("heartbeat", heartbeat, lambda: next(left) > 5, "a known sender")
    page.grasp_gizmo("left")
    page.drag("left", *requested)

    def is_refused():
        client.publish("heartbeat", heartbeat)
        return rig.noted("left: target: 'a_panel' moves the arm now. Try again later")()

    rig.until(is_refused, "a rejection")
    client.publish("heartbeat", String(data="a_panel"))
    assert rig.z() < rest + 2e-3

    def follows():
        page.let_go("left")  # a rejected drag needs a new grasp
        page.grasp_gizmo("left")
        page.drag("left", *requested)
        return rig.z() > rest + 0.01

    rig.until(follows, "the arm is free")
    client.publish("heartbeat", String(data="zz_panel left"))  # the lower name has priority
    rig.panel.session.notes = ()
    page.drag("left", *requested)
    rig.until(partial(is_past, time.monotonic()), "time for a pending request")
    assert not rig.noted("moves the arm now")()
    client.publish("heartbeat", String(data="zz_panel"))
    page.let_go("left")


@pytest.mark.slow
def test_arm_holds_after_heartbeat_of_its_sender_stops(cell, client):
    def count():
        return cell.log.count("no heartbeat for 0.5 s from 'somebody'")

    left = itertools.count()
    heartbeat = String(data="somebody left no_such_arm")
    client.stream("heartbeat", heartbeat, lambda: next(left) > 20, "a known sender")
    client.until(lambda: count() == 1, 5.0, "hold of the arm")
    for words in ("", "somebody right", "somebody"):
        client.publish("heartbeat", String(data=words))
    client.publish("heartbeat", String(data="other right"))
    client.until(lambda: "from 'other'" in cell.log, 5.0, "timeout of another sender")
    assert count() == 1


def z_of(client):
    return client.newest(PoseStamped, "left/current_pose").pose.position.z


@pytest.mark.long
def test_arm_holds_when_panel_is_stopped_or_killed_during_drag(cell, client):
    process = subprocess.Popen(
        [sys.executable, "-m", "multipanda_py.apps.cli", "panel", "--node", "--port", "0"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=end_with_parent,
    )  # fmt: skip
    try:
        reported = ""
        while not (found := re.search(r"the panel is at (http\S+)", reported)):
            reported += (line := process.stdout.readline())
            assert line, reported
        line = f"left holds: no heartbeat for 0.5 s from 'multipanda_panel_{process.pid}'"
        for lines, end in enumerate((signal.SIGSTOP, signal.SIGKILL)):
            page, rest = begin_drag(found[1], client)
            process.send_signal(end)
            ended = time.monotonic()
            client.until(partial(report_times, cell, line, lines + 1), 5.0, "hold by the node")
            client.until(partial(is_still, client), 5.0, "rest")
            client.until(partial(is_past, ended), 5.0, "stale input of the page")
            held = z_of(client)
            assert held < rest + UP
            if end == signal.SIGSTOP:
                page.drag("left", *page.requested)  # queued in the socket
                process.send_signal(signal.SIGCONT)
                until(
                    partial(is_reported, page, "blocked: repeat the request"), "the panel resumes"
                )
                page.close()
                client.until(partial(is_past, time.monotonic()), 5.0, "time for a pending request")
                assert z_of(client) < held + 2e-3
    finally:
        process.kill()
        process.wait()


def begin_drag(address, client):
    """Drag an arm on a page until it moves; return the page and the initial tool height."""
    page = PanelPage(address)
    until(lambda: page.find("Grasp", 1), "the page")
    page.use("Take command")
    rest, pose = z_of(client), client.newest(PoseStamped, "left/current_pose").pose
    point, quaternion = pose.position, pose.orientation
    base = bases_in_world(CellConfig.from_yaml(DUAL_SIM))["left"]
    tool = base @ Pose.from_quaternion(
        [point.x, point.y, point.z], [quaternion.x, quaternion.y, quaternion.z, quaternion.w]
    )
    page.requested = (
        (tool.position + [0.0, 0.0, UP]).tolist(),
        np.roll(tool.quaternion_xyzw, 1).tolist(),
    )

    def has_moved():
        page.let_go("left")  # a rejected drag needs a new grasp
        page.grasp_gizmo("left")
        page.drag("left", *page.requested)
        return z_of(client) > rest + 0.005

    client.until(has_moved, 10.0, "the arm follows")
    return page, rest


def is_still(client):
    speed = client.newest(TwistStamped, "left/current_twist").twist.linear
    return max(abs(speed.x), abs(speed.y), abs(speed.z)) < 2e-3


def is_reported(page, text):
    return any(text in one.get("_markdown", "") for one in list(page.elements.values()))


def is_past(since):
    return time.monotonic() > since + 1.2 * STALL_TIME


def report_times(cell, line, times):
    return cell.log.count(line) == times


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.skipif(PROGRAM is None, reason="chromium is not installed")
def test_browser_user_drags_switches_and_stops(rig, tmp_path):
    drags_switches_and_stops(rig, tmp_path)
