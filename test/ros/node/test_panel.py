# SPDX-License-Identifier: Apache-2.0
"""A panel as a client of a running node: as on a cell of its own, and when it dies in a drag."""

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
"""Nearly as far as a target may be from the tool: more than half a second away [m]."""


@pytest.fixture(scope="module")
def one_rig(shared_node, client):
    """A panel; in the end gains and arm are as they were, as the node is that of all modules."""
    assert client.switch(IMPEDANCE, IMPEDANCE, strictness=4).ok
    start, made = client.newest(PoseStamped, "left/current_pose"), NodeRig()
    made.until(lambda: LEFT in made.cell.active, "the law is active")
    gains = {"stiffness": [*made.cell.parameters(LEFT)["stiffness"]]}
    yield made
    assert client.switch(IMPEDANCE, IMPEDANCE, strictness=4).ok
    made.cell.set_parameters(LEFT, gains)
    made.until(lambda: [*made.cell.parameters(LEFT)["stiffness"]] == gains["stiffness"], "gains")
    made.close()
    start.header.stamp.sec = start.header.stamp.nanosec = 0
    low = start.pose.position.z
    while (height := z_of(client)) > low + 0.01:  # by steps, as a far target is refused
        start.pose.position.z = to = max(low, height - 0.1)
        client.stream("left/target_pose", start, lambda to=to: z_of(client) < to + 0.005, "below")


@pytest.fixture
def rig(one_rig, cell):
    """The panel of the shared node, with both arms under Cartesian impedance."""
    one_rig.until(lambda: LEFT in one_rig.cell.active, "the law is active")
    yield one_rig
    for page in one_rig.pages:
        page.close()
    one_rig.pages.clear()
    one_rig.panel.session.notes = ()


def slide(rig, page, index, value):
    """Move a slider of the left arm's law; those of the right one have the same labels."""
    gains = rig.panel.tabs["left"].gains
    rig.until(lambda: len(gains.elements) == 6, "there are sliders of the law")
    uuid = gains.elements[index]._impl.uuid
    rig.until(lambda: uuid in page.elements, "the page has them")
    page.send(type="GuiUpdateMessage", uuid=uuid, updates={"value": value})


def holds(rig):
    return lambda: all(name.endswith("hold") for name in rig.cell.active)


@pytest.mark.slow
def test_a_drag_moves_the_arm_of_the_node_and_every_page_may_stop_it(rig, client):
    page, other, before = rig.page(in_command=True), rig.page(), rig.z()
    page.grasp_gizmo("left")
    page.drag("left", *rig.target(up=0.05))
    page.let_go("left")
    rig.until(lambda: rig.z() > before + 0.04, "the tool goes up")
    page.use("law", f"left/{JOINT}")
    rig.until(lambda: f"left/{JOINT}" in rig.cell.active, "the law is another one")
    rig.until(lambda: page.find("joint 7 [Nm/rad]"), "its gains are shown")
    other.use("STOP")  # and the panel's own thread does nothing: it may be slow
    until(lambda: holds(rig)(), "both arms hold")
    assert rig.panel.session.command.holder is None


@pytest.mark.slow
def test_an_arm_holds_when_the_panel_stands_still_in_a_drag_and_what_waited_is_not_done(rig, cell):
    page, rest, requested = rig.page(in_command=True), rig.z(), rig.target(up=UP)

    def follows():
        page.let_go("left")  # what was refused has to be grasped anew
        page.grasp_gizmo("left")
        page.drag("left", *requested)
        return rig.z() > rest + 0.005

    rig.until(follows, "the arm follows")
    line = f"left holds: no heartbeat for 0.5 s from 'multipanda_panel_{os.getpid()}'"
    since = time.monotonic()
    until(lambda: line in cell.log, "the node has it hold")  # the panel's thread does nothing
    until(partial(is_past, since), "what the page says now is of the past")
    page.drag("left", *requested)
    held = rig.z()
    assert held < rest + UP - 0.01
    rig.until(rig.noted("blocked: repeat the request"), "the panel goes on")
    rig.until(partial(is_past, time.monotonic()), "a wish would be done")
    assert rig.z() < held + 2e-3
    assert cell.log.count(line) == 1


def test_a_drag_that_goes_on_while_the_node_is_silent_was_done_by_whatever_came_next(rig, cell):
    page, rest, requested = rig.page(in_command=True), rig.z(), rig.target(up=UP)
    os.kill(cell.process.pid, signal.SIGSTOP)
    try:
        until(lambda: rig.cell.states.message_age("left") > 0.6, "it is silent")
        page.grasp_gizmo("left")
        page.drag("left", *requested)
        rig.until(rig.noted("no message from the node for"), "it is refused")
    finally:
        os.kill(cell.process.pid, signal.SIGCONT)
    rig.until(lambda: rig.cell.states.message_age("left") < 0.3, "it speaks again")
    page.drag("left", *requested)
    rig.until(partial(is_past, time.monotonic()), "a wish would be done")
    assert abs(rig.z() - rest) < 2e-3


@pytest.mark.long
def test_a_law_that_others_change_is_known_a_second_later_and_was_dragged_on(rig, client):
    """Until ``/diagnostics`` said so what had been dragged at was given to the new law."""
    page, rest, requested = rig.page(in_command=True), rig.z(), rig.target(up=UP)
    page.grasp_gizmo("left")
    page.drag("left", rig.target(up=0.02)[0], requested[1])
    rig.until(lambda: rig.z() > rest + 0.01, "the arm follows")
    begun = rig.cell.activation_count("left")
    for law in (JOINT, CARTESIAN):
        assert client.switch([f"left/{law}"], strictness=4).ok
    rig.until(lambda: rig.cell.activation_count("left") >= begun + 2, "both are known")
    page.drag("left", *requested)
    rig.until(rig.noted("Grasp the gizmo again"), "the drag is over")
    rig.until(partial(is_past, time.monotonic()), "a wish would be done")
    assert rig.z() < rest + 0.04
    page.let_go("left")


def test_a_page_said_that_arms_were_stopped_before_a_silent_node_had_answered(rig, cell):
    page = rig.page()
    os.kill(cell.process.pid, signal.SIGSTOP)
    try:
        page.use("STOP")
        rig.until(rig.noted("has pressed STOP; no confirmation yet"), "it is asked for")
        past = "no message from the node for 2 s; the page shows the last known state"
        rig.until(partial(is_reported, page, past), "it is said")
        assert not rig.noted("stopped by viewer")()
    finally:
        os.kill(cell.process.pid, signal.SIGCONT)
    rig.until(rig.noted("stopped by viewer"), "there is an answer")
    rig.until(holds(rig), "both arms hold")
    rig.until(
        lambda: not is_reported(page, "the page shows the last known state"), "it is live again"
    )


def test_a_stop_is_repeated_after_a_switch_that_was_under_way(rig):
    """It may reach the node after the stop, by another participant."""
    switch = rig.cell.request_switch([f"right/{JOINT}"], strictness="force_auto")
    rig.cell.request_hold()
    rig.until(lambda: switch.is_done, "there is an answer")
    rig.until(holds(rig), "both arms hold")


def test_gains_hands_and_refusals_are_those_of_the_node(rig, client):
    page = rig.page(in_command=True)
    slide(rig, page, 0, 650.0)
    rig.until(lambda: rig.cell.parameters(LEFT)["stiffness"][0] == 650.0, "the gain is changed")
    with pytest.raises(ParameterRejected, match="stiffness: got"):
        rig.cell.set_parameters(LEFT, {"stiffness": [-1.0] * 6})
    page.use("gripper [m]", 0.02)
    page.use("Move gripper")
    rig.until(
        lambda: abs(rig.cell.state("left").finger_positions.sum() - 0.02) < 2e-3, "it is closed"
    )
    before = rig.z()
    page.drag("left", *rig.target(up=2.0))
    rig.until(rig.noted("gate.position"), "a target far away is refused")
    far = PoseStamped()
    far.header.frame_id = "no_such_frame"
    far.pose.orientation.w = 1.0

    def is_shown():  # a single target may get lost
        client.publish("left/target_pose", far)
        return rig.noted("no_such_frame")()

    rig.until(is_shown, "what the node refuses is shown")
    assert rig.z() == pytest.approx(before, abs=1e-3)


@pytest.mark.long
def test_a_slider_put_back_what_another_client_had_changed(rig):
    """A page knows of that a second later, and a vector is set as a whole."""
    page = rig.page(in_command=True)
    x, y, *_ = rig.cell.parameters(LEFT)["stiffness"]
    other = NodeCell("")
    try:
        change = other.set_parameters(
            LEFT, {"stiffness": [x - 100.0, *other.parameters(LEFT)["stiffness"][1:]]}
        )
        rig.until(lambda: change.poll() is not None, "the node has it")
        rig.until(lambda: not rig.panel.session.stale_reason(), "the panel is awake")
        slide(rig, page, 1, float(y + 50.0))
        rig.until(lambda: rig.cell.parameters(LEFT)["stiffness"][1] == y + 50.0, "it is changed")
        values = parameters_of(other.link, f"/{LEFT}", ["stiffness"], 10.0)
        assert [*other.link.answer(values)["stiffness"]][:2] == [x - 100.0, y + 50.0]
    finally:
        other.close()


@pytest.mark.long
def test_two_panels_pulled_one_arm_to_and_fro(rig, client):
    page, rest, requested = rig.page(in_command=True), rig.z(), rig.target(up=0.03)
    client.publish("heartbeat", String(), listeners=2)  # the node and the panel
    left, sign = itertools.count(), String(data="a_panel left")
    client.stream("heartbeat", sign, lambda: next(left) > 5, "it is known")
    page.grasp_gizmo("left")
    page.drag("left", *requested)

    def is_refused():
        client.publish("heartbeat", sign)
        return rig.noted("left: target: 'a_panel' moves the arm now. Try again later")()

    rig.until(is_refused, "it is refused")
    client.publish("heartbeat", String(data="a_panel"))
    assert rig.z() < rest + 2e-3

    def follows():
        page.let_go("left")  # what was refused has to be grasped anew
        page.grasp_gizmo("left")
        page.drag("left", *requested)
        return rig.z() > rest + 0.01

    rig.until(follows, "the arm is free")
    client.publish("heartbeat", String(data="zz_panel left"))  # the lower name goes on
    rig.panel.session.notes = ()
    page.drag("left", *requested)
    rig.until(partial(is_past, time.monotonic()), "a wish would be done")
    assert not rig.noted("moves the arm now")()
    client.publish("heartbeat", String(data="zz_panel"))
    page.let_go("left")


@pytest.mark.slow
def test_who_says_that_it_moves_an_arm_and_then_nothing_has_it_hold(cell, client):
    def count():
        return cell.log.count("no heartbeat for 0.5 s from 'somebody'")

    left = itertools.count()
    sign = String(data="somebody left no_such_arm")
    client.stream("heartbeat", sign, lambda: next(left) > 20, "the sender is known")
    client.until(lambda: count() == 1, 5.0, "the arm is told to hold")
    for words in ("", "somebody right", "somebody"):
        client.publish("heartbeat", String(data=words))
    client.publish("heartbeat", String(data="other right"))
    client.until(lambda: "from 'other'" in cell.log, 5.0, "another one's silence is noticed")
    assert count() == 1


def z_of(client):
    return client.newest(PoseStamped, "left/current_pose").pose.position.z


@pytest.mark.long
def test_an_arm_holds_when_the_panel_is_stopped_or_killed_in_the_middle_of_a_drag(cell, client):
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
            client.until(partial(report_times, cell, line, lines + 1), 5.0, "the node has it hold")
            client.until(partial(is_still, client), 5.0, "it comes to rest")
            client.until(partial(is_past, ended), 5.0, "what the page says now is of the past")
            held = z_of(client)
            assert held < rest + UP
            if end == signal.SIGSTOP:
                page.drag("left", *page.requested)  # it waits in the socket
                process.send_signal(signal.SIGCONT)
                until(
                    partial(is_reported, page, "blocked: repeat the request"), "the panel goes on"
                )
                page.close()
                client.until(partial(is_past, time.monotonic()), 5.0, "a wish would be done")
                assert z_of(client) < held + 2e-3
    finally:
        process.kill()
        process.wait()


def begin_drag(address, client):
    """Drag an arm by a page until it moves; return the page, and where the tool was."""
    page = PanelPage(address)
    until(lambda: page.find("Grasp", 1), "the page is there")
    page.use("Take command")
    rest, pose = z_of(client), client.newest(PoseStamped, "left/current_pose").pose
    place, turn = pose.position, pose.orientation
    base = bases_in_world(CellConfig.from_yaml(DUAL_SIM))["left"]
    tool = base @ Pose.from_quaternion(
        [place.x, place.y, place.z], [turn.x, turn.y, turn.z, turn.w]
    )
    page.requested = (
        (tool.position + [0.0, 0.0, UP]).tolist(),
        np.roll(tool.quaternion_xyzw, 1).tolist(),
    )

    def has_moved():
        page.let_go("left")  # what was refused has to be grasped anew
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
@pytest.mark.skipif(PROGRAM is None, reason="there is no chromium")
def test_a_user_with_a_browser_drags_switches_and_stops(rig, tmp_path):
    drags_switches_and_stops(rig, tmp_path)
