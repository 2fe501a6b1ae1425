# SPDX-License-Identifier: Apache-2.0
"""Objects in a gripper keep clear of other objects as the gripper does; distances are MuJoCo's."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from multipanda_py.pose import Pose
from multipanda_py.state import JOINTS

pytestmark = [pytest.mark.sim, pytest.mark.inline]

BASES = {"left": {"position": [0.0, 0.3, 0.0]}, "right": {"position": [0.0, -0.3, 0.0]}}
ALL = {"collision_avoidance": {"fixed_objects": "all"}}
ROD = {"shape": "capsule", "size": [0.01, 0.09], "position": [0.307, 0.3, 0.417], "mass": 0.1}
TABLE = {"shape": "box", "size": [0.3, 0.3, 0.02], "position": [0.45, 0.3, 0.15]}
GATE = {"position": 2.0}


def nearest(cell, scene_object, others):
    """Return the smallest distance of an object from bodies with this name prefix [m]."""
    sim = cell.simulation
    model, rod = sim.model, sim.model.geom(f"{scene_object}_geom").id
    return min(
        mujoco.mj_geomDistance(model, sim.data, rod, geom, 1.0, None)
        for geom in range(model.ngeom)
        if model.geom_contype[geom] and model.body(model.geom_bodyid[geom]).name.startswith(others)
    )


def grasped_rod(make_cell, **settings):
    """Return a cell whose left gripper holds the upper end of a rod in the air."""
    law = {"type": "cartesian_impedance", "params": ALL}
    objects = {"rod": ROD, "table": TABLE}
    cell = make_cell(BASES, {"law": law}, ["left/law"], objects=objects, gate=GATE, **settings)
    gravity = cell.simulation.model.opt.gravity
    weight = gravity.copy()
    gravity[:] = 0.0
    assert cell.gripper("left").grasp(0.02, 0.2, 40.0).wait(2.0).succeeded
    gravity[:] = weight
    return cell


def test_grasped_rod_was_driven_into_table(make_cell):
    """The gripper stopped 15 mm above it, but the rod's lower end was 10 cm lower."""
    cell = grasped_rod(make_cell)
    assert cell.attached_objects() == {"left": "rod"}
    start, minimum = cell.pose("left"), np.inf
    cell.set_target("left", Pose(start.position - [0.0, 0.0, 0.3], start.rotation))
    for _ in range(40):
        cell.step(20)
        minimum = min(minimum, nearest(cell, "rod", "table"))
    assert 0.005 < minimum < 0.03
    assert cell.pose("left").position[2] < start.position[2] - 0.08  # it moved
    assert cell.state("left").fault == ""
    cell.gripper("left").move(0.08)
    cell.step(3)
    assert cell.attached_objects() == {}
    reported = [event.text for event in cell.events()]
    assert "rod" in reported[-1]


def test_other_gripper_collided_with_attached_object(make_cell):
    """Grippers may touch movable objects, except one that is attached to another gripper."""
    rod = {**ROD, "position": [0.307, 0.1, 0.487], "rpy": [1.5708, 0.0, 0.0]}
    law = {"type": "cartesian_impedance"}
    cell = make_cell(BASES, {"law": law}, ["right/law"], objects={"rod": rod}, gate=GATE)
    cell.simulation.model.opt.gravity[:] = 0.0
    cell.attach("left", "rod")
    start, minimum = cell.pose("right"), np.inf
    cell.set_target("right", Pose(start.position + [0.0, 0.4, 0.0], start.rotation))
    for _ in range(40):
        cell.step(20)
        minimum = min(minimum, nearest(cell, "rod", "right_"))
    assert 0.005 < minimum < 0.06
    assert cell.pose("right").position[1] > start.position[1] + 0.05


def avoidance_of(cell, name):
    """Return the collision avoidance of an active controllet."""
    (owner,) = [owner for owner in cell.loop.owners.active if owner.spec.name == name]
    return owner.features.features[list(owner.spec.features).index("collision_avoidance")]


def test_grippers_may_touch_object_attached_to_both(make_cell):
    box = {"shape": "box", "size": [0.05, 0.28, 0.05], "position": [0.307, 0.0, 0.47], "mass": 0.5}
    law = {"type": "coupled_impedance", "arms": list(BASES), "params": {
        "collision_avoidance": {"fixed_objects": "all", "movable_objects": "all"}}}  # fmt: skip
    cell = make_cell(BASES, {"law": law}, ["law"], objects={"box": box})
    cell.simulation.model.opt.gravity[:] = 0.0

    def groups():
        cell.step(2)
        found = avoidance_of(cell, "law").near.groups
        return [group for group in found if 2 in (group.first, group.second)]

    assert {group.kind for group in groups()} == {"movable", "movable_hand"}
    cell.attach("left", "box")
    kinds = {(group.kind, group.movers) for group in groups()}
    assert kinds == {("self", (0, 0)), ("arms", (1, 0)), ("floor_hand", (0, 3))}
    assert all(max(pair) == JOINTS for group in groups() for pair in group.pairs)
    cell.attach("right", "box")  # both grippers may touch it; only links farther down keep clear
    kinds = {(group.kind, group.movers) for group in groups()}
    assert kinds == {
        ("self", (0, 0)), ("self", (1, 1)), ("floor_hand", (0, 3)), ("floor_hand", (1, 3))
    }  # fmt: skip
    cell.detach("left")
    cell.detach("right")
    assert {group.kind for group in groups()} == {"movable", "movable_hand"}


BOX = {"shape": "box", "size": [0.03, 0.03, 0.06], "mass": 0.1}


def test_attached_object_keeps_clear_of_nearby_objects(make_cell):
    """Check MuJoCo's distances for each attached object, with and without a second one."""
    positions = {f"box{k}": [0.307, 0.3 - 0.12 * k, 0.417] for k in range(6)}
    objects = {name: {**BOX, "position": box_position} for name, box_position in positions.items()}
    settings = {"distance": 0.15, "max_force": 0.0, "bandwidth": 0.0, "movable_objects": "all"}
    law = {"type": "cartesian_impedance", "params": {"collision_avoidance": settings}}
    cell = make_cell(BASES, {"law": law}, ["left/law"], objects=objects)
    sim, near = cell.simulation, avoidance_of(cell, "left/law").near
    sim.model.opt.gravity[:] = 0.0
    numbers = {name: len(BASES) + k for k, name in enumerate(positions)}
    for attached in ({"left": "box0"}, {"left": "box1", "right": "box4"}, {"right": "box4"}, {}):
        for arm in cell.attached_objects():
            cell.detach(arm)
        for arm, scene_object in attached.items():
            cell.attach(arm, scene_object)
        cell.step(3)
        assert cell.state("left").fault == "", cell.events()
        found = {
            frozenset((group.first, group.second)): group.measure(
                near.scene.model, near.scene.data
            )
            for group in near.groups
            if {group.first, group.second} <= set(numbers.values())
        }
        pairs = [(attached["left"], name) for name in positions] if "left" in attached else []
        pairs = [(one, other) for one, other in pairs if one != other]
        assert set(found) == {frozenset((numbers[a], numbers[b])) for a, b in pairs}
        for one, other in pairs:
            geoms = [sim.model.geom(f"{name}_geom").id for name in (one, other)]
            apart = mujoco.mj_geomDistance(sim.model, sim.data, *geoms, 1.0, None)
            key = frozenset((numbers[one], numbers[other]))
            assert found[key] == pytest.approx(apart, abs=2e-4)


def test_distance_and_rate_of_attached_rod_follow_its_lower_end(make_cell):
    """The mock arm, like a real one, measures no objects: the rod moves with its gripper."""
    arms = {"arm": {"backend": "mock"}}
    settings = {"distance": 0.5, "max_force": 0.0, "bandwidth": 0.0, "self_collision": False}
    law = {"type": "joint_velocity", "params": {"collision_avoidance": settings}}
    cell = make_cell(arms, {"law": law}, ["arm/law"], objects={"rod": ROD})
    pose_in_tool = Pose.from_rpy([0.02, 0.01, 0.06], [0.3, 0.2, 0.0])
    cell.attach("arm", "rod", pose_in_tool)
    avoidance = avoidance_of(cell, "arm/law")
    heights, found = [], []
    for _ in range(400):
        cell.set_target("arm", dq=[0.1, 0.2, 0.1, -0.1, 0.2, 0.2, 0.3])
        rod = cell.pose("arm") @ pose_in_tool
        heights.append(rod.position[2] - 0.09 * abs(rod.rotation[2, 2]) - 0.01)
        cell.step()
        moved = [p for p in avoidance.pairs if p.gradients[0][6]]  # by the last joint
        found.append(min(((p.distance, p.rate) for p in moved), default=(1.0, 0.0)))
    distances, rates = np.array(found[-200:]).T
    assert np.allclose(distances, heights[-200:], atol=1e-6)
    speeds = np.diff(heights[-200:]) / 1e-3
    assert np.abs(speeds).min() > 0.05
    assert np.allclose(rates[:-1], speeds, atol=1e-3)
