# SPDX-License-Identifier: Apache-2.0
"""Joint limits on the spring of unified force-impedance control."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
from contact_rig import LATE, ROD, ContactRig

from multipanda_py.pose import Pose
from multipanda_py.robots.franka import FR3_LIMITS

pytestmark = [pytest.mark.sim, pytest.mark.inline]

BLOCKED = (
    [-1.9912, -0.7555, 2.423, -2.0047, 1.6188, 2.7639, 0.2789],
    [0.1025, -0.0141, -0.1045],
    [-0.0783, -0.5464, 0.2027],
)
"""Configuration, step [m] and rotation [rad] towards a joint's barrier."""


def stepped(make_cell, q, move, delta_rotation, arm):
    """Return a cell with the stiffest springs and the least damping after one step."""
    params = {"stiffness": [5000.0] * 3 + [300.0] * 3, "damping_ratio": [0.3] * 6}
    laws = {"law": {"type": "force_impedance", "params": params}}
    cell = make_cell({"arm": {"q_start": q, "perturbation": arm}}, laws, active=["arm/law"])
    cell.step(20)
    here = cell.pose("arm")
    cell.set_target(
        "arm", Pose(here.position + move, pin.exp3(np.array(delta_rotation)) @ here.rotation)
    )
    return cell


@pytest.mark.parametrize(
    ("q", "move", "delta_rotation"),
    [
        ([0.3734, 0.7941, -0.3641, -1.4389, 1.8062, 1.762, -2.1703],
         [0.0835, -0.096, -0.0737], [0.2438, -0.2447, 0.4759]),
        ([1.3495, 0.7665, -2.5449, -0.6814, 1.5935, 2.9119, 0.2637],
         [-0.0037, -0.0005, -0.147], [0.177, -0.2184, 0.5164]),
        BLOCKED,
    ],
)  # fmt: skip
def test_stiffest_spring_drove_fast_joints_into_velocity_limit(make_cell, q, move, delta_rotation):
    """On a late arm: no bound applied to joints with little leverage on the end effector."""
    cell = stepped(make_cell, q, move, delta_rotation, LATE)
    cell.step(1200)
    assert cell.state("arm").fault == "", [event.text for event in cell.events()]
    _, rows = cell.records()
    used = np.abs(rows["arms"]["dq"][:, 0]) / FR3_LIMITS.velocity
    assert 0.5 < used.max() < 0.95


def test_target_beyond_reach_oscillated_after_two_seconds(make_cell):
    """At 0.9 rad/s even on an ideal arm: no damper acts along the direction that is being lost."""
    q = [1.1809, -1.4078, 0.5573, -1.724, 0.6379, 1.5036, 2.0084]
    cell = stepped(make_cell, q, [0.0084, -0.0125, 0.1462], [-0.1033, -0.4436, -0.3719], {})
    cell.step(2000)
    _, rows = cell.records()
    assert np.abs(rows["arms"]["dq"][-200:, 0]).max() < 0.05


def test_spring_force_beyond_wrist_torque_ended_in_velocity_limit():
    """140 N at 9 cm from the sixth axis need 12.3 of 12 Nm: the wrist yielded under the others."""
    params = {"stiffness": [1000.0] * 3 + [50.0] * 3, "tank_start": 100.0}
    bench = ContactRig(1e5, 0.005, params=params)
    try:
        here = bench.cell.pose("arm")
        bench.cell.set_target("arm", Pose(here.position - [0.0, 0.0, 0.145], here.rotation))
        forces, _ = bench.step(1200)
        assert bench.cell.state("arm").fault == ""
        assert forces[-100:] == pytest.approx(0.9 * 12.0 / 0.088, rel=0.05)  # a5 of the arm: 88 mm
    finally:
        bench.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("q", "height", "force", "side", "estimated"),
    [
        ([-0.0027, -0.9319, -0.1038, -2.0047, -0.3971, 2.0034, 0.5643], 0.03, 10.0, 0.2, "0.0"),
        ([0.3362, -1.0511, -0.4702, -1.9933, 0.4122, 1.2653, 0.3348], 0.0, 20.0, 0.2, ""),
        ([0.3362, -1.0511, -0.4702, -1.9933, 0.4122, 1.2653, 0.3348], 0.0, 20.0, 0.1, ""),
    ],
    ids=["no contact", "wrist and tool near", "only tool near"],
)
def test_force_lost_to_wrist_avoidance_was_not_reported(
    make_cell, q, height, force, side, estimated
):
    """A tilted tool presses on a block below the wrist with the requested force."""
    arms = {"arm": {"q_start": q, "gripper": False, "tool": ROD}}
    law = {"type": "force_impedance", "params": {"stiffness": [800.0] * 3 + [200.0] * 3}}
    alone = make_cell(arms, {"law": law}, active=["arm/law"])
    x, y, z = alone.pose("arm").position.tolist()
    block = {"shape": "box", "size": [side, side, 0.05], "position": [x, y, z - 0.035]}
    cell = make_cell(arms, {"law": law}, active=["arm/law"], objects={"block": block})
    cell.step(20)
    here, wrench = cell.pose("arm"), [0.0, 0.0, -force, 0.0, 0.0, 0.0]
    cell.set_target("arm", Pose(here.position + [0.0, 0.0, height], here.rotation), wrench=wrench)
    cell.step(2000)
    reported = [event.text for event in cell.events() if "full force applied" in event.text]
    pressed = -cell.simulation.contact_force("block")[2]
    if estimated:
        assert len(reported) == 1
        assert f"{estimated} N of {force} N" in reported[0]
        assert "collision_avoidance" in reported[0]
        assert pressed == pytest.approx(float(estimated), abs=0.1)
    else:
        assert not reported
        assert pressed == pytest.approx(force, abs=0.1)


@pytest.mark.sim
def test_stop_holds_arm_lighter_than_its_model(make_cell):
    """The worst of all robots: it searches at 0.22 m/s, as 20 % of its weight push it up."""
    lighter = {"perturbation": {"link_mass": [0.8] * 7}, "model": "kinova_gen3"}
    cell = make_cell({"arm": lighter}, {"law": {"type": "force_impedance"}})
    cell.switch(["arm/law"], strictness="force_auto")
    cell.set_target("arm", wrench=[0.0, 0.0, -10.0, 0.0, 0.0, 0.0])
    cell.step(400)
    stopped = cell.pose("arm").position
    cell.switch([], ["arm/law"])
    for _ in range(40):
        cell.step(10)
        assert np.linalg.norm(cell.pose("arm").position - stopped) < 0.01
    assert np.abs(cell.state("arm").dq).max() < 0.02
    assert cell.state("arm").fault == ""
