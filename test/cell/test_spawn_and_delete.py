# SPDX-License-Identifier: Apache-2.0
"""Spawned and deleted objects, compared with physics, formulas and a cell without them."""

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
    """Move the arm along a circle; return the joint positions of every cycle."""
    cell.step(1)
    start, total = cell.pose("arm"), cell.records()[0]
    for k in range(0, cycles, 10):
        angle = 2.0 * np.pi * k / cycles
        offset = [0.0, 0.05 * np.sin(angle), 0.05 * (1.0 - np.cos(angle))]
        cell.set_target("arm", Pose(start.position + offset, start.rotation))
        cell.step(10)
    return cell.records(total)[1]["arms"]["q"][:, 0]


def test_spawned_object_falls_rests_and_has_its_weight(make_cell):
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


def test_bricks_are_stacked_as_in_cell_file(make_cell):
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


def test_absent_object_does_not_affect_arms(make_cell):
    """The declared pose of the object is inside the arm."""
    without = circle(cell_with(make_cell, {}))
    absent = cell_with(make_cell, {"one": IN_ARM, "two": BRICK})
    np.testing.assert_allclose(circle(absent), without, atol=1e-12)
    removed = cell_with(make_cell, {"one": BRICK})
    removed.spawn("one")
    removed.delete("one")
    np.testing.assert_allclose(circle(removed), without, atol=1e-12)


def test_absent_object_neither_falls_nor_gains_energy(make_cell):
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
    assert fallen == pytest.approx(-0.5 * G * 0.2**2, abs=1.1e-3), (
        "the applied wrench must be cleared"
    )


def test_weight_is_toggled_without_own_gravity_compensation(make_cell):
    """MuJoCo omits compensation in such a model, and absent objects would fall."""
    cell = make_cell({"arm": {"compensates_gravity": False}}, objects={"brick": BRICK})
    cell.step(300)
    np.testing.assert_array_equal(cell.simulation.data.qpos[-7:-4], ABSENT_POSITION)
    cell.spawn("brick")
    cell.step(500)
    assert cell.simulation.contact_force("brick")[2] == pytest.approx(MASS * G, abs=1e-3)


def test_controllet_avoids_object_only_while_present(make_cell):
    def approach(cell):
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
    heights = {}
    for name in ("absent", "present", "removed"):
        cell = make_cell({"arm": {}}, law, ["arm/soft"], objects={"wall": wall})
        if name != "absent":
            cell.spawn("wall")
            cell.step(100)
        if name == "removed":
            cell.delete("wall")
        heights[name] = approach(cell)
        assert not cell.simulation.contact_force("arm").any(), name
    assert heights["absent"] == pytest.approx(-0.2, abs=0.02)
    assert heights["present"] > -0.18, "the arm must keep a distance"
    assert heights["removed"] == pytest.approx(heights["absent"], abs=2e-3)


@pytest.mark.parametrize(
    ("spawn_position", "obstacle", "depth"),
    [
        ((0.5, 0.5, 0.02), "floor", 10.0),
        ((0.6, 0.8, 0.22), "table", 10.0),
        ((0.4 - HALF + 0.007, 0.8, 0.1), "table", 7.0),
    ],
)
def test_spawn_inside_another_object_is_refused(make_cell, spawn_position, obstacle, depth):
    cell = cell_with(make_cell, {"brick": BRICK, "table": TABLE})
    with pytest.raises(
        SimulationRejected, match=rf"^spawn: brick\b.*\b{obstacle}:.*\b{depth:.1f} mm\b.*\b1 mm"
    ):
        cell.spawn("brick", at(*spawn_position))
    assert cell.spawnable == ("brick",)


def test_spawn_inside_arm_is_refused(make_cell):
    cell = cell_with(make_cell, {"brick": IN_ARM, "ball": {**BRICK, "shape": "sphere",
                                                           "size": [0.02]}})  # fmt: skip
    cell.step(5)
    with pytest.raises(SimulationRejected, match=r"^spawn: brick\b.*\barm:.*\d\d\.\d mm"):
        cell.spawn("brick")
    tool_pose = cell.pose("arm")
    with pytest.raises(SimulationRejected, match=r"^spawn: ball .*\barm: "):
        cell.spawn("ball", Pose(tool_pose.position + [0.0, 0.0, 0.08], np.eye(3)))
    cell.spawn("ball", tool_pose)  # the object is between the open fingers
    assert "ball" in cell.objects()


def test_reported_depth_is_that_of_two_spheres(make_cell):
    ball = {**BRICK, "shape": "sphere", "size": [0.05]}
    cell = cell_with(make_cell, {"one": ball, "two": ball})
    cell.spawn("one", at(0.5, 0.5, 0.5))
    spawn_position = np.array([0.5, 0.5, 0.5]) + 0.09 * np.array([0.6, 0.0, 0.8])
    with pytest.raises(SimulationRejected, match=r"\bone: .*10\.0 mm"):
        cell.spawn("two", at(*spawn_position))
    cell.spawn("two", at(*(spawn_position + 0.0092 * np.array([0.6, 0.0, 0.8]))))


def test_refused_spawn_changes_nothing_bitwise(make_cell):
    runs = []
    for tries in (False, True):
        cell = cell_with(make_cell, {"brick": BRICK, "other": {**STACKED, "present": True}})
        circle(cell, 100)
        if tries:
            for spawn_position in ((0.5, 0.3, 0.02), (0.0, 0.0, 0.2)):
                with pytest.raises(SimulationRejected, match=r"^spawn: brick .*\d mm"):
                    cell.spawn("brick", at(*spawn_position))
        total = cell.records()[0]
        circle(cell, 100)
        rows = cell.records(total)[1]
        runs.append(
            [rows[name].tobytes() for name in ("time", "arms", "object_poses", "object_present")]
        )
    assert runs[0] == runs[1]


def test_reset_restores_presence_of_cell_file(make_cell):
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


def test_two_episodes_are_bitwise_equal(make_cell):
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


def test_attached_object_cannot_be_deleted_nor_absent_one_attached(make_cell):
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


def test_invalid_requests_are_refused(make_cell):
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
    for act, error, pattern in refused:
        with pytest.raises(error, match=pattern):
            act()
    cell.spawn("brick")
    with pytest.raises(SimulationRejected, match=r"^spawn: .*\bbrick\b"):
        cell.spawn("brick")


def test_image_does_not_show_absent_object(make_cell):
    without, cell = cell_with(make_cell, {}), cell_with(make_cell, {"brick": BRICK})
    cells = [c.simulation.image("overview", 64, 48) for c in (without, cell)]
    assert np.array_equal(*cells)
    cell.spawn("brick")
    assert not np.array_equal(cell.simulation.image("overview", 64, 48), cells[0])


def test_absent_objects_of_equal_shape_are_found(make_cell):
    scene_objects = {"red": {**BRICK, "rgba": [1.0, 0.0, 0.0, 1.0]}, "one": BRICK, "two": STACKED}
    cell = cell_with(make_cell, scene_objects)
    cell.spawn("one")
    assert cell.spawnable_like("one") == "two"
    assert cell.spawnable_like("red") == "red"
    cell.spawn("two")
    assert cell.spawnable_like("one") == ""


def test_check_of_cell_file_considers_absence():
    def config(**scene_object):
        return CellConfig.from_dict({"arms": {"arm": {}}, "objects": {"brick": scene_object}})

    assert "1 object (1 absent)" in summary_of(config(**IN_ARM))
    assert not check_initial_contacts(config(**IN_ARM))
    assert check_initial_contacts(config(**{**IN_ARM, "present": True}))
    with pytest.raises(ConfigurationError, match=r"objects\.brick\.present:.*false"):
        config(**{**BRICK, "mass": 0.0})


def test_real_objects_cannot_be_spawned(make_cell):
    cell = make_cell({"arm": {"backend": "mock"}}, objects={"brick": BRICK})
    cell.step(1)
    assert cell.objects() == {}
    with pytest.raises(SimulationRejected, match=r"arms\.arm\.backend: mock\b"):
        cell.spawn("brick")


def test_request_waited_forever_after_newer_one_was_answered(make_cell):
    cell = cell_with(make_cell, {"brick": BRICK})
    first = cell.request_spawn("brick")
    cell.step(1)
    second = cell.request_delete("brick")
    cell.step(1)
    with pytest.raises(SimulationRejected, match=r"^brick\b"):
        cell.scene_change_done(first)
    assert cell.scene_change_done(second)
