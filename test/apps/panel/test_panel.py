# SPDX-License-Identifier: Apache-2.0
"""Pages move a cell through the same gates as anybody, one of them at a time, and all may stop."""

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

HAND_TO_TOOL = 0.1034  # Franka's own figure of its hand [m]
MANY = 40
"""Rounds in which a wish is long done."""


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
def test_a_drag_moves_the_tool_to_where_the_gizmo_is_let_go(rig):
    rig = rig()
    page, before = rig.page(in_command=True), rig.z()
    place, turn = rig.target(up=0.05)
    page.grasp_gizmo("left")
    page.drag("left", place, turn)
    page.let_go("left")
    rig.until(lambda: rig.z() > before + 0.03, "the tool goes up")
    for _ in range(2 * MANY):
        rig.round()
    assert rig.z() == pytest.approx(before + 0.05, abs=0.005)
    assert rig.z("right") == pytest.approx(before, abs=1e-3)


def test_who_is_not_in_command_moves_nothing_and_its_gizmo_goes_back(rig):
    rig = rig()
    rig.page(in_command=True)
    other, before = rig.page(), rig.z()
    place, turn = rig.target(up=0.05)
    other.grasp_gizmo("left")
    other.drag("left", place, turn)
    rig.until(rig.noted("is not in command"), "it is said")
    assert rig.noted("viewer 1 is not in command (viewer 0 is)")()
    for _ in range(MANY):
        rig.round()
    assert rig.z() == pytest.approx(before, abs=1e-3)
    shown = rig.panel.tabs["left"].gizmo.handle.position
    assert shown == pytest.approx(rig.target()[0], abs=1e-3)


def test_another_viewer_takes_the_command_and_the_first_has_it_no_more(rig):
    rig = rig()
    first, second = rig.page(in_command=True), rig.page()
    second.use("Take command")
    rig.until(rig.noted("viewer 1 has taken"), "the second is in command")
    first.use("law", "hold")
    rig.until(rig.noted("viewer 0 is not in command"), "the first is refused")
    assert f"left/{CARTESIAN}" in rig.cell.active
    rig.until(lambda: rig.panel.tabs["left"].law.value != "hold", "pages show it again")
    second.use("law", "hold")
    rig.until(lambda: f"left/{CARTESIAN}" not in rig.cell.active, "the law is another one")


def test_what_others_change_is_shown_and_nothing_is_asked_by_that(rig):
    """viser tells of what the panel itself has set, too, as of no viewer."""
    rig = rig()
    page = rig.page(in_command=True)
    rig.cell.switch([f"left/{JOINT}"], strictness="force_auto")
    rig.until(lambda: page.find("law")["value"] == f"left/{JOINT}", "the page shows it")
    page.use("law", f"left/{CARTESIAN}")  # comes after what the panel has set
    rig.until(lambda: f"left/{CARTESIAN}" in rig.cell.active, "it is heard")
    assert not rig.noted("is not in command")()
    rig.panel.session.command.release()
    assert "(no viewer is)" in rig.panel.session.command.refusal(None)


def test_an_arm_that_held_unasked_had_no_fault_and_no_reason_on_the_page(rig):
    rig = rig()
    page = rig.page()
    rig.cell.loop.hold_all(Event.CLIENT_SILENT, "the owner stood still", 0)
    shown = rig.panel.tabs["left"].state
    rig.until(lambda: "holds: client_silent: the owner stood still" in shown.content, "the reason")
    rig.until(lambda: page.find("law")["value"] == "hold", "the page shows hold")
    for number in range(20):  # other lines push it out of the list, and not away from the arm
        rig.panel.session.note(f"{number}")
    rig.until(lambda: rig.panel.session.notes[0] == "19", "other notes")
    assert "client_silent" in shown.content
    rig.cell.switch([f"left/{CARTESIAN}"], strictness="force_auto", by="somebody else")
    rig.until(lambda: "holds" not in shown.content, "it does not hold any more")
    assert rig.noted("requested by somebody else")()


def test_a_switch_of_a_page_is_reported_with_its_viewer(rig):
    rig = rig()
    page = rig.page(in_command=True)
    page.use("law", "hold")
    rig.until(lambda: rig.cell.state("left").owner == "left/hold", "it holds")
    shown = rig.panel.tabs["left"].state
    rig.until(lambda: "requested by viewer 0 of the panel" in shown.content, "who has asked")


def test_a_page_asked_for_what_the_panel_had_just_shown_in_place_of_its_choice(rig):
    """Between a page's choice and its callback the panel's thread may show what is active."""
    rig = rig()
    page = rig.page(in_command=True)
    element = rig.panel.tabs["left"].law
    show = element._impl.sync_cb

    def show_hold(viewer, updates):  # as the panel's thread does at that moment under load
        show(viewer, updates)
        element.value = "hold"

    element._impl.sync_cb = show_hold
    page.use("law", f"left/{JOINT}")
    rig.until(lambda: rig.cell.state("left").owner != f"left/{CARTESIAN}", "a switch")
    assert rig.cell.state("left").owner == f"left/{JOINT}"


def test_every_viewer_may_stop_and_nothing_asked_before_is_done(rig):
    rig = rig()
    page, other = rig.page(in_command=True), rig.page()
    before = rig.z()
    place, turn = rig.target(up=0.1)
    page.drag("left", place, turn)
    until(lambda: rig.panel.session.queue.requests, "the wish is there")  # and nobody works on it
    other.use("STOP")
    until(rig.noted("viewer 1 has pressed STOP; no confirmation yet"), "it is heard")
    rig.until(rig.noted("stopped by viewer 1"), "it is stopped")
    assert all(name.endswith("hold") for name in rig.cell.active)
    assert not rig.noted("no confirmation yet")()
    assert rig.z() == pytest.approx(before, abs=1e-3)
    assert rig.panel.session.command.holder is None


def test_no_page_takes_the_stop_button_from_the_others(rig):
    """viser sets what a page names, also the list of what a button calls."""
    rig = rig()
    page, other = rig.page(in_command=True), rig.page()
    uuid = page.find("STOP")["uuid"]
    for junk in ({"update_cb": []}, {"value": True, "update_cb": []}, {"removed": True}, {}):
        page.send(type="GuiUpdateMessage", uuid=uuid, updates=junk)
    page.use("law", f"left/{JOINT}")  # comes after them
    rig.until(lambda: f"left/{JOINT}" in rig.cell.active, "they are heard")
    other.use("STOP")
    rig.until(lambda: all(name.endswith("hold") for name in rig.cell.active), "both arms hold")


@pytest.mark.filterwarnings("ignore")  # viser's own about what does not fit its declaration
def test_what_is_no_target_is_refused_and_moves_nothing(rig):
    rig = rig()
    page, before = rig.page(in_command=True), rig.z()
    level = [1.0, 0.0, 0.0, 0.0]
    for place, turn, reported in (
        ([np.nan, 0.0, 0.5], level, "finite"),
        ([0.3, 0.3, 0.5], [np.nan, 0.0, 0.0, 0.0], "finite"),
        ([0.3, 0.3, 0.5], [3.0, 0.0, 0.0, 0.0], "norm"),
        ([0.3, 0.3], level, "position"),
        ([0.3, 0.3, 9.0], level, "gate.position"),
    ):
        rig.panel.session.notes = ()
        page.drag("left", place, turn)
        rig.until(rig.noted(reported), f"{place} is refused")
    for _ in range(MANY):
        rig.round()
    assert rig.z() == pytest.approx(before, abs=1e-3)
    assert rig.panel.tabs["left"].gizmo.handle.position == pytest.approx(rig.target()[0], abs=1e-3)
    page.drag("left", *rig.target(up=0.05))
    rig.until(lambda: rig.z() > before + 0.03, "the tool goes up")


@pytest.mark.filterwarnings("ignore")  # viser's own about what does not fit its declaration
def test_a_page_was_cut_off_for_what_viser_cannot_read(rig, caplog):
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
    page.use("law", f"left/{JOINT}")  # comes after them
    rig.until(lambda: f"left/{JOINT}" in rig.cell.active, "the page is heard")
    assert page.close_code is None
    assert rig.z() == pytest.approx(before, abs=1e-3)
    assert sum("dropped unreadable" in record.getMessage() for record in caplog.records) == 1


def test_an_arm_that_there_is_not_and_a_law_that_there_is_not_change_nothing(rig):
    rig = rig()
    page, active = rig.page(in_command=True), rig.cell.active
    page.drag("third", *rig.target(up=0.05))
    page.use("law", "no_such_law")
    rig.until(rig.noted("no_such_law"), "the law is refused")
    rig.until(lambda: page.find("law")["value"] == f"left/{CARTESIAN}", "the page shows the law")
    assert rig.cell.active == active


def test_an_arm_holds_when_its_page_stalls_in_the_middle_of_a_drag(rig):
    rig = rig()
    page, before = rig.page(in_command=True), rig.z()
    place, turn = rig.target(up=0.14)
    page.grasp_gizmo("left")
    page.drag("left", place, turn)
    rig.until(lambda: rig.z() > before, "the tool goes up")
    rig.now += 2 * TARGET_TIMEOUT  # the page says nothing, and the world stands still
    rig.round()
    assert rig.noted("left holds: no message of the drag")()
    stopped = rig.z()
    for _ in range(2 * MANY):
        rig.round()
    assert rig.z() < before + 0.12  # and not where the gizmo is
    assert rig.z() == pytest.approx(stopped, abs=0.04)  # it swings in


def test_an_arm_holds_when_its_page_is_closed_in_the_middle_of_a_drag(rig):
    """viser ends the drag itself, which moved the arm to the gizmo in about half of all cases."""
    rig = rig()
    page, before = rig.page(in_command=True), rig.z()
    place, turn = rig.target(up=0.14)
    page.grasp_gizmo("left")
    page.drag("left", place, turn)
    rig.until(lambda: rig.panel.tabs["left"].gizmo.drag.viewer is not None, "the drag has begun")
    page.close()
    rig.until(rig.noted("left holds: viewer 0 has left"), "the arm holds")
    assert rig.panel.session.command.holder is None
    for _ in range(2 * MANY):
        rig.round()
    assert rig.z() < before + 0.12


@pytest.mark.long
@pytest.mark.parametrize("is_shown", [True, False])
def test_a_drag_went_on_under_a_law_that_had_gone_and_come_back(rig, is_shown):
    """Nobody had grasped the gizmo again, and the mouse was where it had been before."""
    rig = rig()
    page, before = rig.page(in_command=True), rig.z()
    far, turn = rig.target(up=0.14)
    page.grasp_gizmo("left")
    page.drag("left", rig.target(up=0.02)[0], turn)
    rig.until(lambda: rig.z() > before + 0.015, "the tool goes up")
    for law in (JOINT, CARTESIAN):
        rig.cell.switch([f"left/{law}"], strictness="force_auto")
        if is_shown:
            rig.round()
    stopped = rig.z()
    for _ in range(MANY):
        page.drag("left", far, turn)
        rig.round()
    assert rig.noted("left: a controllet has started meanwhile. Grasp the gizmo again")()
    assert rig.z() == pytest.approx(stopped, abs=5e-3)
    assert rig.panel.tabs["left"].gizmo.handle.position == pytest.approx(rig.target()[0], abs=1e-3)
    page.let_go("left")
    page.grasp_gizmo("left")
    page.drag("left", far, turn)
    rig.until(lambda: rig.z() > stopped + 0.05, "a new grasp moves it")


def test_a_slider_changes_a_gain_and_one_beyond_its_range_goes_back(rig):
    rig = rig()
    page, law = rig.page(in_command=True), f"left/{CARTESIAN}"
    rest = rig.cell.parameters(law)["stiffness"][1:]
    page.use("x [N/m]", 650.0)
    rig.until(lambda: rig.cell.parameters(law)["stiffness"][0] == 650.0, "the gain is changed")
    np.testing.assert_array_equal(rig.cell.parameters(law)["stiffness"][1:], rest)
    for junk in (1e9, float("nan")):
        page.use("x [N/m]", junk)
        rig.until(rig.noted("stiffness: got"), "it is refused")
        rig.panel.session.notes = ()
        rig.until(lambda: page.find("x [N/m]")["value"] == 650.0, "the slider goes back")
    assert rig.cell.parameters(law)["stiffness"][0] == 650.0


def test_a_value_of_another_kind_is_not_taken_and_ends_in_no_error_within_viser(rig, caplog):
    rig = rig()
    page, law = rig.page(in_command=True), f"left/{CARTESIAN}"
    for junk in ("much", None, [1.0], True):
        page.use("x [N/m]", junk)
    page.drag("left", "up", [1.0, 0.0, 0.0, 0.0])
    page.drag("left", [1e300] * 3, [1.0, 0.0, 0.0, 0.0])
    rig.until(rig.noted("target is 1.73e+300 m from the measured pose"), "it is refused")
    page.use("x [N/m]", 650)  # a page says whole numbers so
    rig.until(lambda: rig.cell.parameters(law)["stiffness"][0] == 650.0, "the gain is changed")
    gc.collect()  # tasks tell of their errors when they go
    reported = [record.getMessage() for record in caplog.records]
    assert [": rejected " in text for text in reported] == [True] * 2, reported


def test_gains_are_those_of_the_law_that_the_arm_has_now(rig):
    rig = rig()
    page = rig.page(in_command=True)
    page.use("law", f"left/{JOINT}")
    rig.until(lambda: page.find("joint 7 [Nm/rad]"), "there are sliders for joints")
    assert page.find("x [N/m]", 1) is None  # those of the right arm are there alone
    page.use("parameter", "damping_ratio", number=1)  # that of the left arm is the newer one
    rig.until(lambda: not page.find("joint 7 [Nm/rad]"), "they give way")
    rig.until(lambda: page.find("damping_ratio") or page.find("joint 7"), "to others")


def test_the_gizmo_is_there_for_laws_that_take_poses_only(rig):
    rig = rig()
    page = rig.page(in_command=True)
    assert rig.panel.tabs["left"].gizmo.handle.visible
    page.use("law", f"left/{JOINT}")
    rig.until(lambda: not rig.panel.tabs["left"].gizmo.handle.visible, "it is hidden")
    rig.until(lambda: "takes no pose" in rig.panel.tabs["left"].state.content, "it is said why")


def test_the_hand_closes_on_a_button(rig):
    rig = rig()
    page = rig.page(in_command=True)
    page.use("gripper [m]", 0.02)
    page.use("Move gripper")
    rig.until(lambda: abs(rig.cell.gripper("left").state().width - 0.02) < 2e-3, "it is closed")
    assert rig.cell.gripper("right").state().width > 0.07


def test_a_fault_is_shown_with_its_reason_and_recovered(rig):
    rig = rig(
        controllets={CARTESIAN: {"type": "cartesian_impedance"}, "odd": {"type": "misbehaving"}}
    )
    page = rig.page(in_command=True)
    page.use("law", "left/odd")
    rig.until(lambda: "left/odd" in rig.cell.active, "the law is another one")
    rig.cell.set_parameters("left/odd", {"fault": "nan"})
    rig.until(lambda: rig.cell.state("left").fault, "the arm is faulted")
    state = rig.panel.tabs["left"].state
    rig.until(lambda: "non_finite_torque" in state.content, "the page says it")
    assert "left/odd" in state.content, "and why"
    rig.until(lambda: page.find("Recover")["visible"], "the button is there")
    page.use("Recover")
    rig.until(lambda: not rig.cell.state("left").fault, "the fault is cleared")
    rig.until(lambda: "no fault" in state.content, "the page says it")


def test_bodies_are_where_the_cell_has_them(rig):
    """Composed down the tree of nodes, as the browser does, against the loop's own kinematics."""
    rig = rig()
    page = rig.page(in_command=True)
    page.drag("left", *rig.target(up=0.08))
    rig.until(lambda: rig.z() > 0.4, "it moves")
    for _ in range(MANY):
        rig.round()
    rig.panel.scene.show(rig.cell.latest_record())
    nodes = {frame.name: frame for frame in rig.panel.scene.frames.values()}
    path = next(name for name in nodes if name.endswith("left_fr3_hand")).split("/")
    place = np.eye(4)
    for depth in range(3, len(path) + 1):
        node = nodes["/".join(path[:depth])]
        step = np.eye(4)
        step[:3, :3] = Rotation.from_quat(np.roll(node.wxyz, -1)).as_matrix()
        step[:3, 3] = node.position
        place = place @ step
    tool, _ = rig.target()
    assert place[:3, 3] + HAND_TO_TOOL * place[:3, 2] == pytest.approx(
        tool, abs=20 * MIN_POSE_CHANGE
    )


def test_a_page_of_another_site_is_not_let_in(rig):
    """Any site in another tab could have moved the arms: browsers let it connect."""
    rig = rig()
    port = urlsplit(rig.panel.address).port
    evil = "http://evil.example"
    for origin in (evil, f"{evil}:{port}", "http://127.0.0.1:1", "null"):
        page = PanelPage(rig.panel.address, origin=origin)
        rig.pages.append(page)
        until(lambda page=page: page.close_code is not None, f"{origin} is not let in")
        assert page.close_code == 1008
        assert not page.elements
    for _ in range(MANY):
        rig.round()
    assert rig.panel.viewers == 0
    assert rig.page(in_command=True)


def test_a_program_of_any_user_moved_the_arms(rig):
    """Only browsers say where they come from; the secret is in the address that is printed."""
    address = urlsplit(rig().panel.address)
    secret = address.path.strip("/")
    for path in ("", "/", "/x/", "/x", "/%2e%2e/", f"/{secret[:-1]}/", f"?{secret}"):
        url = f"http://{address.netloc}{path}"
        for origin in ("", None):
            with pytest.raises(InvalidStatus) as refused:
                PanelPage(url, origin=origin)
            assert refused.value.response.status_code == 403
        with pytest.raises(HTTPError) as refused:
            urlopen(url, timeout=10.0)
        assert refused.value.code == 403
        refused.value.close()


def test_the_page_is_at_the_printed_address_and_connects_by_its_path(rig):
    rig = rig()
    with urlopen(rig.panel.address, timeout=10.0) as page:
        assert page.status == 200
        assert b"<html" in page.read()
    assert rig.page(in_command=True, origin="")


def test_two_panels_have_other_secrets(rig):
    assert urlsplit(rig().panel.address).path != urlsplit(rig().panel.address).path


def test_a_page_has_an_address_that_browsers_open_over_ipv6(rig):
    rig = rig(host="::1")
    assert urlsplit(rig.panel.address).hostname == "::1"
    assert urlsplit(rig.panel.address).port
    assert rig.page(in_command=True)


@pytest.mark.parametrize(
    ("origin", "host", "bound_to", "is_own"),
    [
        ("http://[::1]:8080", "[::1]:8080", "::1", True),
        ("http://127.0.0.1:8080", "127.0.0.1:8080", "127.0.0.1", True),
        ("http://localhost:9000", "localhost:9000", "127.0.0.1", True),  # through a tunnel
        (None, "127.0.0.1:8080", "127.0.0.1", True),  # no browser
        ("http://evil.example:8080", "evil.example:8080", "127.0.0.1", False),  # led here by DNS
        ("http://evil.example:8080", "evil.example:8080", "0.0.0.0", False),
        ("http://192.168.1.7:8080", "192.168.1.7:8080", "0.0.0.0", True),
        ("http://192.168.1.7:8080", "192.168.1.7:8080", "127.0.0.1", False),
        ("file://", "127.0.0.1:8080", "127.0.0.1", False),
        ("http://[", "127.0.0.1:8080", "127.0.0.1", False),
        ("http://127.0.0.1:8080", None, "127.0.0.1", False),
    ],
)
def test_own_pages_are_known_by_their_origin(origin, host, bound_to, is_own):
    assert is_own_page(origin, host, bound_to) is is_own


def test_things_and_arms_are_drawn_in_their_size(rig):
    """An enumeration of MuJoCo's is not what ``is`` compares: nothing but gizmos was drawn."""
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
        until(lambda kind=kind: f"/cell/a_{kind}/shape_0" in page.meshes, f"there is the {kind}")
        vertices = page.meshes[f"/cell/a_{kind}/shape_0"]
        np.testing.assert_allclose(vertices.max(axis=0), np.array(size) / 2.0, atol=2e-3)
        np.testing.assert_allclose(vertices.min(axis=0), np.array(size) / -2.0, atol=2e-3)
    links = [name.split("/")[-2] for name in page.meshes]
    assert {f"{arm}_fr3_link{n}" for arm in ("left", "right") for n in range(8)} <= {*links}
