# SPDX-License-Identifier: Apache-2.0
"""Things that come and go, against physics, closed forms and a cell without them."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py import Pose
from multipanda_py.apps.commands.check import summary_of
from multipanda_py.cell.checks import check_initial_contacts
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import (
    AttachmentRejected,
    ConfigurationError,
    SimulationRejected,
    UnknownName,
)
from multipanda_py.robots.arm import ABSENT_POSITION

pytestmark = pytest.mark.inline

G = 9.81
HALF, MASS = 0.03, 0.2
BRICK = {
    "shape": "box", "size": [HALF] * 3, "position": [0.5, 0.3, HALF], "mass": MASS,
    "present": False,
}  # fmt: skip
IN_ARM = {**BRICK, "position": [0.0, 0.0, 0.2]}
STACKED = {**BRICK, "position": [0.5, 0.3, 3 * HALF]}
TABLE = {"shape": "box", "size": [0.2, 0.2, 0.1], "position": [0.6, 0.8, 0.1]}
LAW = {"soft": {"type": "cartesian_impedance"}}


def at(x, y, z):
    return Pose(np.array([x, y, z]), np.eye(3))


def cell_with(make_cell, objects, **settings):
    return make_cell({"arm": {}}, LAW, ["arm/soft"], objects=objects, **settings)


def circle(cell, cycles=400):
    """Draw a circle with the arm; return the joint positions of every cycle."""
    cell.step(1)
    start, total = cell.pose("arm"), cell.records()[0]
    for k in range(0, cycles, 10):
        turn = 2.0 * np.pi * k / cycles
        offset = [0.0, 0.05 * np.sin(turn), 0.05 * (1.0 - np.cos(turn))]
        cell.set_target("arm", Pose(start.position + offset, start.rotation))
        cell.step(10)
    return cell.records(total)[1]["arms"]["q"][:, 0]


def test_a_thing_that_comes_falls_rests_and_presses_with_its_weight(make_cell):
    cell = cell_with(make_cell, {"brick": BRICK})
    cell.step(200)
    assert cell.objects() == {}
    assert cell.spawnable == ("brick",)
    cell.spawn("brick", at(0.5, 0.3, 0.5), [0.1, 0.0, 0.0, 0.0, 0.0, 0.0])
    assert cell.spawnable == ()
    cell.step(200)
    moved = cell.objects()["brick"].position - [0.5, 0.3, 0.5]
    np.testing.assert_allclose(moved, [0.02, 0.0, -0.5 * G * 0.2**2], atol=1.1e-3)
    cell.step(1500)
    np.testing.assert_allclose(
        cell.simulation.contact_force("brick", "floor"), [0, 0, MASS * G], atol=1e-3
    )
    assert abs(cell.objects()["brick"].position[2] - HALF) < 1e-3


def test_bricks_are_stacked_where_the_cell_file_has_them(make_cell):
    cell = cell_with(make_cell, {"low": BRICK, "high": STACKED})
    cell.spawn("low")
    cell.spawn("high")
    cell.step(800)
    force = cell.simulation.contact_force
    np.testing.assert_allclose(force("low", "high"), [0, 0, -MASS * G], atol=1e-3)
    np.testing.assert_allclose(force("low", "floor"), [0, 0, 2 * MASS * G], atol=2e-3)
    cell.delete("low")
    cell.step(800)
    assert list(cell.objects()) == ["high"]
    assert abs(cell.objects()["high"].position[2] - HALF) < 1e-3
    np.testing.assert_allclose(force("high", "floor"), [0, 0, MASS * G], atol=1e-3)


def test_arms_move_as_if_there_were_no_absent_thing(make_cell):
    """The declared place is in the middle of the arm, in its way and that of its laws."""
    without = circle(cell_with(make_cell, {}))
    absent = cell_with(make_cell, {"one": IN_ARM, "two": BRICK})
    np.testing.assert_allclose(circle(absent), without, atol=1e-12)
    gone = cell_with(make_cell, {"one": BRICK})
    gone.spawn("one")
    gone.delete("one")
    np.testing.assert_allclose(circle(gone), without, atol=1e-12)


def test_an_absent_thing_neither_falls_nor_gains_energy(make_cell):
    cell = cell_with(make_cell, {"brick": BRICK})
    cell.spawn("brick", at(0.5, 0.3, 0.5), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    cell.simulation.apply_wrench("brick", [1.0, 2.0, 3.0])
    cell.step(20)
    cell.delete("brick")
    circle(cell, 2000)
    data = cell.simulation.data
    assert np.abs(data.qvel[-6:]).max() == 0.0
    np.testing.assert_array_equal(data.qpos[-7:-4], ABSENT_POSITION)
    np.testing.assert_array_equal(cell.latest_record()["object_poses"][0, :3], ABSENT_POSITION)
    cell.spawn("brick", at(0.5, 0.3, 0.5))
    cell.step(200)
    fallen = cell.objects()["brick"].position[2] - 0.5
    assert fallen == pytest.approx(-0.5 * G * 0.2**2, abs=1.1e-3), "it is pushed no more"


def test_weight_is_off_and_on_too_where_no_arm_compensates_its_own(make_cell):
    """MuJoCo leaves compensation out of such a model, and things would fall while absent."""
    cell = make_cell({"arm": {"compensates_gravity": False}}, objects={"brick": BRICK})
    cell.step(300)
    np.testing.assert_array_equal(cell.simulation.data.qpos[-7:-4], ABSENT_POSITION)
    cell.spawn("brick")
    cell.step(500)
    assert cell.simulation.contact_force("brick")[2] == pytest.approx(MASS * G, abs=1e-3)


def test_a_law_keeps_off_a_thing_while_it_is_there(make_cell):
    def come_near(cell):
        here = cell.pose("arm")
        for k in range(45):
            target = here.position - [0.0, 0.0, 0.005 * min(k, 40)]
            cell.set_target("arm", Pose(target, here.rotation))
            cell.step(20)
        return cell.pose("arm").position[2] - here.position[2]

    wall = {
        **BRICK,
        "size": [0.1, 0.1, 0.15],
        "mass": 50.0,
        "position": [0.307, 0.0, 0.15],
    }
    params = {"collision_avoidance": {"movable_objects": "all"}}
    law = {
        "soft": {
            "type": "cartesian_impedance",
            "features": ["collision_avoidance"],
            "params": params,
        }
    }
    ways = {}
    for name in ("absent", "present", "gone"):
        cell = make_cell({"arm": {}}, law, ["arm/soft"], objects={"wall": wall})
        if name != "absent":
            cell.spawn("wall")
            cell.step(100)
        if name == "gone":
            cell.delete("wall")
        ways[name] = come_near(cell)
        assert not cell.simulation.contact_force("arm").any(), name
    assert ways["absent"] == pytest.approx(-0.2, abs=0.02)
    assert ways["present"] > -0.18, "kept off"
    assert ways["gone"] == pytest.approx(ways["absent"], abs=2e-3)


@pytest.mark.parametrize(
    ("place", "what", "depth"),
    [
        ((0.5, 0.5, 0.02), "floor", 10.0),
        ((0.6, 0.8, 0.22), "table", 10.0),
        ((0.4 - HALF + 0.007, 0.8, 0.1), "table", 7.0),
    ],
)
def test_what_would_be_inside_of_something_is_refused(make_cell, place, what, depth):
    cell = cell_with(make_cell, {"brick": BRICK, "table": TABLE})
    with pytest.raises(
        SimulationRejected, match=rf"^spawn: brick\b.*\b{what}:.*\b{depth:.1f} mm\b.*\b1 mm"
    ):
        cell.spawn("brick", at(*place))
    assert cell.spawnable == ("brick",)


def test_what_would_be_inside_of_an_arm_is_refused(make_cell):
    cell = cell_with(make_cell, {"brick": IN_ARM, "ball": {**BRICK, "shape": "sphere",
                                                           "size": [0.02]}})  # fmt: skip
    cell.step(5)
    with pytest.raises(SimulationRejected, match=r"^spawn: brick\b.*\barm:.*\d\d\.\d mm"):
        cell.spawn("brick")
    hand = cell.pose("arm")
    with pytest.raises(SimulationRejected, match=r"^spawn: ball .*\barm: "):
        cell.spawn("ball", Pose(hand.position + [0.0, 0.0, 0.08], np.eye(3)))
    cell.spawn("ball", hand)  # between the open fingers
    assert "ball" in cell.objects()


def test_depth_is_that_of_two_balls(make_cell):
    ball = {**BRICK, "shape": "sphere", "size": [0.05]}
    cell = cell_with(make_cell, {"one": ball, "two": ball})
    cell.spawn("one", at(0.5, 0.5, 0.5))
    place = np.array([0.5, 0.5, 0.5]) + 0.09 * np.array([0.6, 0.0, 0.8])
    with pytest.raises(SimulationRejected, match=r"\bone: .*10\.0 mm"):
        cell.spawn("two", at(*place))
    cell.spawn("two", at(*(place + 0.0092 * np.array([0.6, 0.0, 0.8]))))


def test_a_refused_thing_changes_nothing_to_the_last_bit(make_cell):
    runs = []
    for tries in (False, True):
        cell = cell_with(make_cell, {"brick": BRICK, "other": {**STACKED, "present": True}})
        circle(cell, 100)
        if tries:
            for place in ((0.5, 0.3, 0.02), (0.0, 0.0, 0.2)):
                with pytest.raises(SimulationRejected, match=r"^spawn: brick .*\d mm"):
                    cell.spawn("brick", at(*place))
        total = cell.records()[0]
        circle(cell, 100)
        rows = cell.records(total)[1]
        runs.append(
            [rows[name].tobytes() for name in ("time", "arms", "object_poses", "object_present")]
        )
    assert runs[0] == runs[1]


def test_an_episode_begins_as_the_cell_file_says(make_cell):
    there = {**BRICK, "position": [0.5, -0.3, HALF], "present": True}
    cell = cell_with(make_cell, {"brick": BRICK, "there": there})
    cell.step(50)
    cell.spawn("brick")
    cell.delete("there")
    middle = cell.simulation.save()
    cell.step(50)
    cell.delete("brick")
    cell.simulation.reset(middle)
    assert list(cell.objects()) == ["brick"]
    cell.step(500)
    assert cell.simulation.contact_force("brick")[2] == pytest.approx(MASS * G, abs=1e-3)
    cell.simulation.reset()
    assert list(cell.objects()) == ["there"]
    cell.step(500)
    assert cell.simulation.contact_force("there")[2] == pytest.approx(MASS * G, abs=1e-3)
    assert cell.spawnable == ("brick",)


def test_two_episodes_are_the_same_to_the_last_bit(make_cell):
    cell, runs = cell_with(make_cell, {"brick": BRICK, "high": STACKED}), []
    for _ in range(2):
        cell.simulation.reset()
        total = cell.records()[0]
        circle(cell, 50)
        cell.spawn("brick")
        cell.spawn("high")
        circle(cell, 50)
        cell.delete("brick")
        circle(cell, 50)
        rows = cell.records(total)[1]
        runs.append(
            [rows[name].tobytes() for name in ("time", "arms", "object_poses", "object_present")]
        )
    assert runs[0] == runs[1]


def test_what_a_hand_holds_does_not_go_and_what_is_absent_is_not_held(make_cell):
    cell = cell_with(make_cell, {"brick": BRICK})
    cell.step(5)
    with pytest.raises(AttachmentRejected, match=r"^brick\b.*absent"):
        cell.attach("arm", "brick")
    with pytest.raises(AttachmentRejected, match="no object"):
        cell.attach("arm")
    cell.spawn("brick", cell.pose("arm"))
    cell.attach("arm", "brick")
    with pytest.raises(SimulationRejected, match=r"^remove: .*\bbrick\b.*\barm\b"):
        cell.delete("brick")
    assert cell.attached_objects() == {"arm": "brick"}
    cell.detach("arm")
    cell.delete("brick")
    assert cell.objects() == {}


def test_what_makes_no_sense_is_refused(make_cell):
    cell = cell_with(make_cell, {"brick": BRICK, "table": TABLE})
    sim = cell.simulation
    refused = [
        (lambda: cell.spawn("table"), UnknownName, "'table'"),
        (lambda: cell.delete("brick"), SimulationRejected, r"^remove: .*\bbrick\b"),
        (lambda: cell.spawn("brick", [1, 2]), SimulationRejected, "^brick: pose: "),
        (lambda: cell.spawn("brick", None, [1, 2]), SimulationRejected, r"^brick: twist: .*\b6\b"),
        (lambda: sim.set_pose("brick", at(0, 0, 1)), SimulationRejected, "^brick: "),
        (lambda: sim.pose("brick"), SimulationRejected, "^brick: "),
        (lambda: sim.apply_wrench("brick", [1, 2, 3]), SimulationRejected, "^brick: "),
    ]
    for act, error, words in refused:
        with pytest.raises(error, match=words):
            act()
    cell.spawn("brick")
    with pytest.raises(SimulationRejected, match=r"^spawn: .*\bbrick\b"):
        cell.spawn("brick")


def test_a_picture_does_not_show_what_is_absent(make_cell):
    without, cell = cell_with(make_cell, {}), cell_with(make_cell, {"brick": BRICK})
    cells = [c.simulation.image("overview", 64, 48) for c in (without, cell)]
    assert np.array_equal(*cells)
    cell.spawn("brick")
    assert not np.array_equal(cell.simulation.image("overview", 64, 48), cells[0])


def test_absent_things_like_another_are_found(make_cell):
    scene_objects = {"red": {**BRICK, "rgba": [1.0, 0.0, 0.0, 1.0]}, "one": BRICK, "two": STACKED}
    cell = cell_with(make_cell, scene_objects)
    cell.spawn("one")
    assert cell.spawnable_like("one") == "two"
    assert cell.spawnable_like("red") == "red"
    cell.spawn("two")
    assert cell.spawnable_like("one") == ""


def test_the_check_of_a_cell_file_knows_about_absence():
    def config(**scene_object):
        return CellConfig.from_dict({"arms": {"arm": {}}, "objects": {"brick": scene_object}})

    assert "1 object (1 absent)" in summary_of(config(**IN_ARM))
    assert not check_initial_contacts(config(**IN_ARM))
    assert check_initial_contacts(config(**{**IN_ARM, "present": True}))
    with pytest.raises(ConfigurationError, match=r"objects\.brick\.present:.*false"):
        config(**{**BRICK, "mass": 0.0})


def test_real_things_do_not_come_and_go(make_cell):
    cell = make_cell({"arm": {"backend": "mock"}}, objects={"brick": BRICK})
    cell.step(1)
    assert cell.objects() == {}
    with pytest.raises(SimulationRejected, match=r"arms\.arm\.backend: mock\b"):
        cell.spawn("brick")


def test_a_request_waited_for_ever_once_a_newer_one_was_answered(make_cell):
    cell = cell_with(make_cell, {"brick": BRICK})
    first = cell.request_spawn("brick")
    cell.step(1)
    second = cell.request_delete("brick")
    cell.step(1)
    with pytest.raises(SimulationRejected, match=r"^brick\b"):
        cell.scene_change_done(first)
    assert cell.scene_change_done(second)
