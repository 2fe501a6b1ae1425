# SPDX-License-Identifier: Apache-2.0
"""References of poses, configurations and objects stop before obstacles, not only the torque."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from clearance import Clearance
from long_form import every_nth

from multipanda_py.control.reference.trajectory_generator import TrajectoryGenerator
from multipanda_py.pose import Pose

READY = [0, -0.785, 0, -2.356, 0, 1.571, 0.785]
BOX = {"box": {"shape": "box", "size": [0.1, 0.1, 0.3], "position": [0.2, 0.68, 0.4]}}
WALL = {"wall": {"shape": "box", "size": [0.05, 0.6, 0.4], "position": [0.66, 0.0, 0.4]}}
ALL = {"collision_avoidance": {"fixed_objects": "all"}}
GATE = {"joint": 7.0, "position": 2.0, "rotation": 3.2}
BASES = {"left": [0.0, 0.3, 0.0], "right": [0.0, -0.3, 0.0]}

pytestmark = [pytest.mark.sim, pytest.mark.inline]


def reference(cell):
    """Return the reference of the active controllet: end effector, joints or object."""
    (law,) = [owner for owner in cell.loop.owners.active if owner.spec.name.endswith("law")]
    target = law.target
    if hasattr(target, "position_object_in_world"):
        return np.array(target.position_object_in_world)
    return np.array(target.q[0] if hasattr(target, "q") else target.position_ee_in_base[0])


def push(make_cell, law, offset, stiffness=None, objects=WALL):
    """Request a step into an obstacle; return the cell, its clearance and the references."""
    coupled = law.startswith("coupled")
    keys = {"arms": list(BASES)} if coupled else {}
    if law == "joint_impedance":
        keys["features"] = ["coriolis", "collision_avoidance"]
    params = ALL | ({} if stiffness is None else {"stiffness": stiffness})
    arms = {name: {"position": base, "q_start": READY} for name, base in BASES.items()}
    laws = {"law": {"type": law, "params": params, **keys}}
    active = ["law"] if coupled else ["left/law"]
    cell = make_cell(arms, laws, active, objects=objects, gate=GATE)
    clearance, start = Clearance(cell), cell.pose("left")
    cell.step(20)
    first, observed = reference(cell), []
    if coupled:
        cell.set_object_target("law", Pose(first + offset, np.eye(3)))
    elif law == "joint_impedance":
        cell.set_target("left", q=READY + np.array([1.5, 0, 0, 0, 0, 0, 0]))
    else:
        cell.set_target("left", Pose(start.position + offset, start.rotation))
    for cycle in range(50):
        cell.step(20)
        clearance.feel()
        observed.append(reference(cell))
        if cycle % 16 == 15:
            clearance.look()
    return cell, clearance, first, np.array(observed)


LAWS = ["cartesian_impedance", "operational_space", "joint_impedance", "coupled_impedance"]


@pytest.mark.parametrize("law", every_nth(2, LAWS))
def test_target_in_wall_drew_reference_through_it(make_cell, law):
    stiffness = [4000.0] * 3 + [200.0] * 3 if law.startswith("coupled") else None
    objects = BOX if law == "joint_impedance" else WALL
    offset = np.array([0.3, 0.0, 0.0])
    cell, clearance, first, observed = push(make_cell, law, offset, stiffness, objects)
    assert clearance.minimum > 0.005
    assert np.abs(observed[-1] - first).max() > 0.02  # it moved towards the target
    assert np.abs(observed[-10:] - observed[-1]).max() < 2e-3  # and stopped
    assert clearance.force == 0.0
    requested = 1.5 if law == "joint_impedance" else 0.3
    assert np.abs(observed[-1] - first).max() < 0.9 * requested
    tau = np.abs(cell.records()[1]["arms"]["tau"][-200:, 0])
    assert tau.max() < 12.0  # no wind-up
    assert cell.state("left").fault == ""


@pytest.mark.parametrize(
    ("law", "stiffness"),
    every_nth(
        2, [("coupled_impedance", [100.0] * 3 + [10.0] * 3), ("operational_space", [25.0] * 6)]
    ),
)
def test_reference_of_soft_controllet_entered_wall_before_its_arm(make_cell, law, stiffness):
    """Only the proximity of the arm itself was checked, and the spring wound up by 3 cm."""
    cell, clearance, first, observed = push(make_cell, law, np.array([0.3, 0.0, 0.0]), stiffness)
    sim, start = cell.simulation, cell.config.arms["left"].q_start
    left = [int(sim.model.joint(f"left_fr3_joint{n}").qposadr[0]) for n in range(1, 8)]
    sim.data.qpos[left] = start
    mujoco.mj_forward(sim.model, sim.data)
    gap = min(
        mujoco.mj_geomDistance(sim.model, sim.data, a, b, 1.0, None)
        for a, b in clearance.pairs
        if sim.model.body(sim.model.geom_bodyid[b]).name == "wall"
    )
    moved = observed[-1] - first
    assert 0.1 < moved[0] < gap - 0.005  # a gripper at the reference would be clear of the wall
    assert np.abs(observed[-5:] - observed[-1]).max() < 2e-3


def test_reference_stops_before_other_arm_and_leaves_at_once(make_cell):
    offset = np.array([0.0, -0.6, 0.0])
    cell, clearance, first, observed = push(make_cell, "cartesian_impedance", offset, None, {})
    assert 0.05 < first[1] - observed[-1][1] < 0.59
    cell.wait(lambda: cell.pose("left").distance_from(observed[-1], np.eye(3))[0] < 0.02, 1.0)
    clearance.look()
    assert clearance.minimum > 0.005
    here = cell.pose("left")
    cell.set_target("left", Pose(here.position + [0.0, 0.15, 0.0], here.rotation))
    cell.step(600)
    assert np.linalg.norm(reference(cell) - here.position) > 0.149
    cell.wait(lambda: cell.pose("left").distance(here)[0] > 0.13, 1.0)  # by its spring


def test_slowing_keeps_direction_and_scales_lag():
    tracker = TrajectoryGenerator(2)
    tracker.start([0.0, 0.0], 40, 1e-3)
    tracker.set_bounds(8.0, 1.0)
    tracker.resume()
    for _ in range(100):
        tracker.step([1.0, 0.5], None, 1e-3)
    rate, lag = np.array(tracker.output_velocity), np.array(tracker.lag)
    tracker.scale_velocity(0.25)
    assert np.allclose(tracker.output_velocity, 0.25 * rate)
    assert np.allclose(tracker.lag, 0.25 * lag)
    tracker.scale_velocity(0.0)
    tracker.step([1.0, 0.5], None, 1e-3)
    assert np.linalg.norm(tracker.output_velocity) <= 8.0 * 1e-3 / 40 + 1e-12


@pytest.mark.parametrize(
    ("collisions", "fixed"),
    [({}, "by_law"), ({"allowed_contacts": ["left/gripper slab", "left/gripper floor"]}, "all")],
)
def test_gripper_allowed_to_press_pressed_less_than_commanded(make_cell, collisions, fixed):
    """The reference behind the contact was held back by links that never reach it."""
    cell = make_cell(controllets={"law": {"type": "cartesian_impedance", "params": {
        "stiffness": [400.0] * 3 + [30.0] * 3, "collision_avoidance": {"fixed_objects": fixed},
    }}}, active=["left/law"], collisions=collisions, gate=GATE, objects={"slab": {
        "shape": "box", "size": [0.15, 0.15, 0.02], "position": [0.35, 0.3, 0.42]}},
        arms={"left": {"position": BASES["left"], "q_start": READY}})  # fmt: skip
    here = cell.pose("left")
    cell.set_target("left", Pose(here.position - [0.0, 0.0, 0.18], here.rotation))
    cell.step(900)
    depth = cell.pose("left").position[2] - (here.position[2] - 0.18)
    force = abs(cell.simulation.contact_force("slab", "left")[2])
    assert reference(cell)[2] == pytest.approx(here.position[2] - 0.18, abs=1e-3)
    assert depth > 0.12
    assert force == pytest.approx(400.0 * depth, rel=0.25)
