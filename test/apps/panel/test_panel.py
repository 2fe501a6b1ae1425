# SPDX-License-Identifier: Apache-2.0
"""Pages move a cell through the usual gates, one page at a time; every page may stop it."""

from __future__ import annotations

import gc
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen

import numpy as np
import pytest

pytest.importorskip("viser", reason="viser is not installed: extra panel")
from cell_names import CARTESIAN, JOINT
from panel_page import PanelPage, until
from panel_rig import PanelRig
from scipy.spatial.transform import Rotation
from websockets.exceptions import InvalidStatus

from multipanda_py.apps.panel.access import is_own_page
from multipanda_py.apps.panel.gizmo import TARGET_TIMEOUT
from multipanda_py.apps.panel.panel import MIN_POSE_CHANGE
from multipanda_py.realtime.events import Event

pytestmark = pytest.mark.inline

HAND_TO_TOOL = 0.1034  # Value from the data sheet of the gripper [m].
MANY = 40
"""Rounds that suffice to complete any request."""


@pytest.fixture
def rig():
    made = []

    def make(**settings):
        made.append(PanelRig(**settings))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.mark.long
def test_drag_moves_tool_to_released_gizmo(rig):
    rig = rig()
    page, before = rig.page(in_command=True), rig.z()
    location, orientation = rig.target(up=0.05)
    page.grasp_gizmo("left")
    page.drag("left", location, orientation)
    page.let_go("left")
    rig.until(lambda: rig.z() > before + 0.03, "the tool goes up")
    for _ in range(2 * MANY):
        rig.round()
    assert rig.z() == pytest.approx(before + 0.05, abs=0.005)
    assert rig.z("right") == pytest.approx(before, abs=1e-3)


def test_viewer_without_command_moves_nothing_and_gizmo_returns(rig):
    rig = rig()
    rig.page(in_command=True)
    other, before = rig.page(), rig.z()
    location, orientation = rig.target(up=0.05)
    other.grasp_gizmo("left")
    other.drag("left", location, orientation)
    rig.until(rig.noted("is not in command"), "the refusal is noted")
    assert rig.noted("viewer 1 is not in command (viewer 0 is)")()
    for _ in range(MANY):
        rig.round()
    assert rig.z() == pytest.approx(before, abs=1e-3)
    shown = rig.panel.tabs["left"].gizmo.handle.position
    assert shown == pytest.approx(rig.target()[0], abs=1e-3)


def test_viewer_that_takes_command_revokes_it_from_first(rig):
    rig = rig()
    first, second = rig.page(in_command=True), rig.page()
    second.use("Take command")
    rig.until(rig.noted("viewer 1 has taken"), "the second is in command")
    first.use("law", "hold")
    rig.until(rig.noted("viewer 0 is not in command"), "the first viewer is rejected")
    assert f"left/{CARTESIAN}" in rig.cell.active
    rig.until(
        lambda: rig.panel.tabs["left"].law.value != "hold", "the page shows the controllet again"
    )
    second.use("law", "hold")
    rig.until(lambda: f"left/{CARTESIAN}" not in rig.cell.active, "another controllet is active")


def test_external_change_is_shown_without_new_request(rig):
    """viser also reports values that the panel sets, without a viewer."""
    rig = rig()
    page = rig.page(in_command=True)
    rig.cell.switch([f"left/{JOINT}"], strictness="force_auto")
    rig.until(lambda: page.find("law")["value"] == f"left/{JOINT}", "the page shows it")
    page.use("law", f"left/{CARTESIAN}")  # This event follows the update by the panel.
    rig.until(lambda: f"left/{CARTESIAN}" in rig.cell.active, "the request is handled")
    assert not rig.noted("is not in command")()
    rig.panel.session.command.release()
    assert "(no viewer is)" in rig.panel.session.command.refusal(None)


def test_arm_held_by_timeout_showed_no_reason(rig):
    rig = rig()
    page = rig.page()
    rig.cell.loop.hold_all(Event.CLIENT_SILENT, "the owner stood still", 0)
    shown = rig.panel.tabs["left"].state
    rig.until(lambda: "holds: client_silent: the owner stood still" in shown.content, "the reason")
    rig.until(lambda: page.find("law")["value"] == "hold", "the page shows hold")
    for number in range(20):  # Other notes displace it from the list, but not from the arm.
        rig.panel.session.note(f"{number}")
    rig.until(lambda: rig.panel.session.notes[0] == "19", "other notes")
    assert "client_silent" in shown.content
    rig.cell.switch([f"left/{CARTESIAN}"], strictness="force_auto", by="somebody else")
    rig.until(lambda: "holds" not in shown.content, "the arm leaves hold")
    assert rig.noted("requested by somebody else")()


def test_switch_is_reported_with_its_viewer(rig):
    rig = rig()
    page = rig.page(in_command=True)
    page.use("law", "hold")
    rig.until(lambda: rig.cell.state("left").owner == "left/hold", "the arm holds")
    shown = rig.panel.tabs["left"].state
    rig.until(lambda: "requested by viewer 0 of the panel" in shown.content, "the viewer is shown")


def test_page_requested_displayed_controllet_instead_of_its_choice(rig):
    """The thread of the panel may show the active controllet between a choice and its callback."""
    rig = rig()
    page = rig.page(in_command=True)
    element = rig.panel.tabs["left"].law
    show = element._impl.sync_cb

    def show_hold(viewer, updates):  # The thread of the panel does this under load.
        show(viewer, updates)
        element.value = "hold"

    element._impl.sync_cb = show_hold
    page.use("law", f"left/{JOINT}")
    rig.until(lambda: rig.cell.state("left").owner != f"left/{CARTESIAN}", "a switch")
    assert rig.cell.state("left").owner == f"left/{JOINT}"


def test_every_viewer_may_stop_and_queued_requests_are_dropped(rig):
    rig = rig()
    page, other = rig.page(in_command=True), rig.page()
    before = rig.z()
    location, orientation = rig.target(up=0.1)
    page.drag("left", location, orientation)
    until(
        lambda: rig.panel.session.queue.requests, "the request is queued"
    )  # No round processes it yet.
    other.use("STOP")
    until(rig.noted("viewer 1 has pressed STOP; no confirmation yet"), "STOP is received")
    rig.until(rig.noted("stopped by viewer 1"), "the cell is stopped")
    assert all(name.endswith("hold") for name in rig.cell.active)
    assert not rig.noted("no confirmation yet")()
    assert rig.z() == pytest.approx(before, abs=1e-3)
    assert rig.panel.session.command.holder is None


def test_page_messages_cannot_disable_stop_button(rig):
    """viser sets every attribute that a page names, including the callbacks of a button."""
    rig = rig()
    page, other = rig.page(in_command=True), rig.page()
    uuid = page.find("STOP")["uuid"]
    for junk in ({"update_cb": []}, {"value": True, "update_cb": []}, {"removed": True}, {}):
        page.send(type="GuiUpdateMessage", uuid=uuid, updates=junk)
    page.use("law", f"left/{JOINT}")  # This event follows them.
    rig.until(lambda: f"left/{JOINT}" in rig.cell.active, "the events are handled")
    other.use("STOP")
    rig.until(lambda: all(name.endswith("hold") for name in rig.cell.active), "both arms hold")


@pytest.mark.filterwarnings("ignore")  # viser warns about values of undeclared types.
def test_invalid_target_is_rejected_without_motion(rig):
    rig = rig()
    page, before = rig.page(in_command=True), rig.z()
    level = [1.0, 0.0, 0.0, 0.0]
    for location, orientation, reported in (
        ([np.nan, 0.0, 0.5], level, "finite"),
        ([0.3, 0.3, 0.5], [np.nan, 0.0, 0.0, 0.0], "finite"),
        ([0.3, 0.3, 0.5], [3.0, 0.0, 0.0, 0.0], "norm"),
        ([0.3, 0.3], level, "position"),
        ([0.3, 0.3, 9.0], level, "gate.position"),
    ):
        rig.panel.session.notes = ()
        page.drag("left", location, orientation)
        rig.until(rig.noted(reported), f"{location} is rejected")
    for _ in range(MANY):
        rig.round()
    assert rig.z() == pytest.approx(before, abs=1e-3)
    assert rig.panel.tabs["left"].gizmo.handle.position == pytest.approx(rig.target()[0], abs=1e-3)
    page.drag("left", *rig.target(up=0.05))
    rig.until(lambda: rig.z() > before + 0.03, "the tool goes up")


@pytest.mark.filterwarnings("ignore")  # viser warns about values of undeclared types.
def test_unreadable_messages_disconnected_page(rig, caplog):
    rig = rig()
    page, before = rig.page(in_command=True), rig.z()
    level, there = [1.0, 0.0, 0.0, 0.0], rig.target()[0]
    junk = (None, True, 1.0, np.nan, "up", [None] * 3, ["a", "b", "c"], {"x": 1.0}, [[1.0]] * 3)
    for value in junk:
        page.drag("left", value, level)
        page.drag("left", there, value)
    for message in ({}, {"type": "Nonsense"}, {"type": 5}, {"type": "GuiUpdateMessage"}):
        page.send(**message)
    page.socket.send(b"\xff\xff")
    page.socket.send("text")
    page.use("law", f"left/{JOINT}")  # This event follows them.
    rig.until(lambda: f"left/{JOINT}" in rig.cell.active, "the request is handled")
    assert page.close_code is None
    assert rig.z() == pytest.approx(before, abs=1e-3)
    assert sum("dropped unreadable" in record.getMessage() for record in caplog.records) == 1


def test_unknown_arm_or_controllet_changes_nothing(rig):
    rig = rig()
    page, active = rig.page(in_command=True), rig.cell.active
    page.drag("third", *rig.target(up=0.05))
    page.use("law", "no_such_law")
    rig.until(rig.noted("no_such_law"), "the controllet is rejected")
    rig.until(
        lambda: page.find("law")["value"] == f"left/{CARTESIAN}", "the page shows the controllet"
    )
    assert rig.cell.active == active


def test_arm_holds_when_page_stalls_during_drag(rig):
    rig = rig()
    page, before = rig.page(in_command=True), rig.z()
    location, orientation = rig.target(up=0.14)
    page.grasp_gizmo("left")
    page.drag("left", location, orientation)
    rig.until(lambda: rig.z() > before, "the tool goes up")
    rig.now += 2 * TARGET_TIMEOUT  # The page sends nothing, and simulated time stands still.
    rig.round()
    assert rig.noted("left holds: no message of the drag")()
    stopped = rig.z()
    for _ in range(2 * MANY):
        rig.round()
    assert rig.z() < before + 0.12  # The arm stops before the gizmo.
    assert rig.z() == pytest.approx(stopped, abs=0.04)  # The arm settles.


def test_arm_holds_when_page_closes_during_drag(rig):
    """viser ends the drag itself, which moved the arm to the gizmo in about half of all runs."""
    rig = rig()
    page, before = rig.page(in_command=True), rig.z()
    location, orientation = rig.target(up=0.14)
    page.grasp_gizmo("left")
    page.drag("left", location, orientation)
    rig.until(lambda: rig.panel.tabs["left"].gizmo.drag.viewer is not None, "the drag has begun")
    page.close()
    rig.until(rig.noted("left holds: viewer 0 has left"), "the arm holds")
    assert rig.panel.session.command.holder is None
    for _ in range(2 * MANY):
        rig.round()
    assert rig.z() < before + 0.12


@pytest.mark.long
@pytest.mark.parametrize("is_shown", [True, False])
def test_drag_continued_under_restarted_controllet(rig, is_shown):
    """The gizmo was not grasped again, and the mouse was at its former position."""
    rig = rig()
    page, before = rig.page(in_command=True), rig.z()
    far, orientation = rig.target(up=0.14)
    page.grasp_gizmo("left")
    page.drag("left", rig.target(up=0.02)[0], orientation)
    rig.until(lambda: rig.z() > before + 0.015, "the tool goes up")
    for law in (JOINT, CARTESIAN):
        rig.cell.switch([f"left/{law}"], strictness="force_auto")
        if is_shown:
            rig.round()
    stopped = rig.z()
    for _ in range(MANY):
        page.drag("left", far, orientation)
        rig.round()
    assert rig.noted("left: a controllet has started meanwhile. Grasp the gizmo again")()
    assert rig.z() == pytest.approx(stopped, abs=5e-3)
    assert rig.panel.tabs["left"].gizmo.handle.position == pytest.approx(rig.target()[0], abs=1e-3)
    page.let_go("left")
    page.grasp_gizmo("left")
    page.drag("left", far, orientation)
    rig.until(lambda: rig.z() > stopped + 0.05, "a new grasp moves it")


def test_slider_changes_gain_and_returns_from_invalid_value(rig):
    rig = rig()
    page, law = rig.page(in_command=True), f"left/{CARTESIAN}"
    rest = rig.cell.parameters(law)["stiffness"][1:]
    page.use("x [N/m]", 650.0)
    rig.until(lambda: rig.cell.parameters(law)["stiffness"][0] == 650.0, "the gain is changed")
    np.testing.assert_array_equal(rig.cell.parameters(law)["stiffness"][1:], rest)
    for junk in (1e9, float("nan")):
        page.use("x [N/m]", junk)
        rig.until(rig.noted("stiffness: got"), "the gain is rejected")
        rig.panel.session.notes = ()
        rig.until(lambda: page.find("x [N/m]")["value"] == 650.0, "the slider goes back")
    assert rig.cell.parameters(law)["stiffness"][0] == 650.0


def test_value_of_wrong_type_is_rejected_without_viser_error(rig, caplog):
    rig = rig()
    page, law = rig.page(in_command=True), f"left/{CARTESIAN}"
    for junk in ("much", None, [1.0], True):
        page.use("x [N/m]", junk)
    page.drag("left", "up", [1.0, 0.0, 0.0, 0.0])
    page.drag("left", [1e300] * 3, [1.0, 0.0, 0.0, 0.0])
    rig.until(rig.noted("target is 1.73e+300 m from the measured pose"), "the target is rejected")
    page.use("x [N/m]", 650)  # A page sends whole numbers as integers.
    rig.until(lambda: rig.cell.parameters(law)["stiffness"][0] == 650.0, "the gain is changed")
    gc.collect()  # Tasks report their errors when they are collected.
    reported = [record.getMessage() for record in caplog.records]
    assert [": rejected " in text for text in reported] == [True] * 2, reported


def test_gains_belong_to_active_controllet(rig):
    rig = rig()
    page = rig.page(in_command=True)
    page.use("law", f"left/{JOINT}")
    rig.until(lambda: page.find("joint 7 [Nm/rad]"), "there are sliders for joints")
    assert page.find("x [N/m]", 1) is None  # Only the right arm has these sliders.
    page.use(
        "parameter", "damping_ratio", number=1
    )  # The element of the left arm is the newer one.
    rig.until(lambda: not page.find("joint 7 [Nm/rad]"), "the sliders of joints disappear")
    rig.until(lambda: page.find("damping_ratio") or page.find("joint 7"), "other sliders appear")


def test_gizmo_is_visible_only_for_pose_controllets(rig):
    rig = rig()
    page = rig.page(in_command=True)
    assert rig.panel.tabs["left"].gizmo.handle.visible
    page.use("law", f"left/{JOINT}")
    rig.until(lambda: not rig.panel.tabs["left"].gizmo.handle.visible, "the gizmo is hidden")
    rig.until(
        lambda: "takes no pose" in rig.panel.tabs["left"].state.content, "the reason is shown"
    )


def test_gripper_closes_on_button(rig):
    rig = rig()
    page = rig.page(in_command=True)
    page.use("gripper [m]", 0.02)
    page.use("Move gripper")
    rig.until(
        lambda: abs(rig.cell.gripper("left").state().width - 0.02) < 2e-3,
        "the gripper is at its width",
    )
    assert rig.cell.gripper("right").state().width > 0.07


def test_fault_is_shown_with_reason_and_recovered(rig):
    rig = rig(
        controllets={CARTESIAN: {"type": "cartesian_impedance"}, "odd": {"type": "misbehaving"}}
    )
    page = rig.page(in_command=True)
    page.use("law", "left/odd")
    rig.until(lambda: "left/odd" in rig.cell.active, "another controllet is active")
    rig.cell.set_parameters("left/odd", {"fault": "nan"})
    rig.until(lambda: rig.cell.state("left").fault, "the arm is faulted")
    state = rig.panel.tabs["left"].state
    rig.until(lambda: "non_finite_torque" in state.content, "the page shows it")
    assert "left/odd" in state.content, "the page shows the reason"
    rig.until(lambda: page.find("Recover")["visible"], "the button is there")
    page.use("Recover")
    rig.until(lambda: not rig.cell.state("left").fault, "the fault is cleared")
    rig.until(lambda: "no fault" in state.content, "the page shows it")


def test_bodies_are_drawn_at_poses_of_cell(rig):
    """Poses composed along the tree of nodes agree with the kinematics of the loop."""
    rig = rig()
    page = rig.page(in_command=True)
    page.drag("left", *rig.target(up=0.08))
    rig.until(lambda: rig.z() > 0.4, "the tool moves")
    for _ in range(MANY):
        rig.round()
    rig.panel.scene.show(rig.cell.latest_record())
    nodes = {frame.name: frame for frame in rig.panel.scene.frames.values()}
    path = next(name for name in nodes if name.endswith("left_fr3_hand")).split("/")
    location = np.eye(4)
    for depth in range(3, len(path) + 1):
        node = nodes["/".join(path[:depth])]
        step = np.eye(4)
        step[:3, :3] = Rotation.from_quat(np.roll(node.wxyz, -1)).as_matrix()
        step[:3, 3] = node.position
        location = location @ step
    tool, _ = rig.target()
    assert location[:3, 3] + HAND_TO_TOOL * location[:3, 2] == pytest.approx(
        tool, abs=20 * MIN_POSE_CHANGE
    )


def test_page_of_another_site_is_rejected(rig):
    """Browsers allow connections from other sites, so any other tab could move the arms."""
    rig = rig()
    port = urlsplit(rig.panel.address).port
    evil = "http://evil.example"
    for origin in (evil, f"{evil}:{port}", "http://127.0.0.1:1", "null"):
        page = PanelPage(rig.panel.address, origin=origin)
        rig.pages.append(page)
        until(lambda page=page: page.close_code is not None, f"{origin} is rejected")
        assert page.close_code == 1008
        assert not page.elements
    for _ in range(MANY):
        rig.round()
    assert rig.panel.viewers == 0
    assert rig.page(in_command=True)


def test_program_without_secret_moved_arms(rig):
    """Only browsers send an origin; the secret is in the printed address."""
    address = urlsplit(rig().panel.address)
    secret = address.path.strip("/")
    for path in ("", "/", "/x/", "/x", "/%2e%2e/", f"/{secret[:-1]}/", f"?{secret}"):
        url = f"http://{address.netloc}{path}"
        for origin in ("", None):
            with pytest.raises(InvalidStatus) as rejection:
                PanelPage(url, origin=origin)
            assert rejection.value.response.status_code == 403
        with pytest.raises(HTTPError) as rejection:
            urlopen(url, timeout=10.0)
        assert rejection.value.code == 403
        rejection.value.close()


def test_page_is_served_at_printed_address_and_connects(rig):
    rig = rig()
    with urlopen(rig.panel.address, timeout=10.0) as page:
        assert page.status == 200
        assert b"<html" in page.read()
    assert rig.page(in_command=True, origin="")


def test_two_panels_have_different_secrets(rig):
    assert urlsplit(rig().panel.address).path != urlsplit(rig().panel.address).path


def test_page_address_works_over_ipv6(rig):
    rig = rig(host="::1")
    assert urlsplit(rig.panel.address).hostname == "::1"
    assert urlsplit(rig.panel.address).port
    assert rig.page(in_command=True)


@pytest.mark.parametrize(
    ("origin", "host", "bound_to", "is_own"),
    [
        ("http://[::1]:8080", "[::1]:8080", "::1", True),
        ("http://127.0.0.1:8080", "127.0.0.1:8080", "127.0.0.1", True),
        ("http://localhost:9000", "localhost:9000", "127.0.0.1", True),  # Through a tunnel.
        (None, "127.0.0.1:8080", "127.0.0.1", True),  # Not a browser.
        ("http://evil.example:8080", "evil.example:8080", "127.0.0.1", False),  # DNS rebinding.
        ("http://evil.example:8080", "evil.example:8080", "0.0.0.0", False),
        ("http://192.168.1.7:8080", "192.168.1.7:8080", "0.0.0.0", True),
        ("http://192.168.1.7:8080", "192.168.1.7:8080", "127.0.0.1", False),
        ("file://", "127.0.0.1:8080", "127.0.0.1", False),
        ("http://[", "127.0.0.1:8080", "127.0.0.1", False),
        ("http://127.0.0.1:8080", None, "127.0.0.1", False),
    ],
)
def test_own_pages_are_recognised_by_origin(origin, host, bound_to, is_own):
    assert is_own_page(origin, host, bound_to) is is_own


def test_objects_and_arms_are_drawn_at_their_size(rig):
    """Enumerations of MuJoCo do not compare by ``is``, so only gizmos were drawn."""
    shapes = {
        "box": ([0.1, 0.2, 0.3], [0.2, 0.4, 0.6]),
        "sphere": ([0.1], [0.2, 0.2, 0.2]),
        "cylinder": ([0.1, 0.3], [0.2, 0.2, 0.6]),
        "capsule": ([0.1, 0.3], [0.2, 0.2, 0.8]),
    }
    scene_objects = {
        f"a_{kind}": {"shape": kind, "size": size, "position": [1.5, 0.8 * number, 1.0]}
        for number, (kind, (size, _)) in enumerate(shapes.items())
    }
    page = rig(objects=scene_objects).page()
    for kind, (_, size) in shapes.items():
        until(lambda kind=kind: f"/cell/a_{kind}/shape_0" in page.meshes, f"the {kind} is drawn")
        vertices = page.meshes[f"/cell/a_{kind}/shape_0"]
        np.testing.assert_allclose(vertices.max(axis=0), np.array(size) / 2.0, atol=2e-3)
        np.testing.assert_allclose(vertices.min(axis=0), np.array(size) / -2.0, atol=2e-3)
    links = [name.split("/")[-2] for name in page.meshes]
    assert {f"{arm}_fr3_link{n}" for arm in ("left", "right") for n in range(8)} <= {*links}
