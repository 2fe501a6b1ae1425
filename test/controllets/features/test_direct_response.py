# SPDX-License-Identifier: Apache-2.0
"""Direct response to a pose step, compared with CRISP's controllet on the same model."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest

from multipanda_py.pose import Pose
from multipanda_py.robots.franka import FR3_LIMITS

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))
response = import_module("response")

pytestmark = [pytest.mark.sim, pytest.mark.inline]
ARMS = {
    "ideal": {},
    "late and light": {"state_delay": 0.005, "torque_lag": 0.002, "inertia_scale": 0.8},
    "late and heavy": {"state_delay": 0.005, "torque_lag": 0.002, "inertia_scale": 1.2},
}
DIRECT = "`response: direct`"


@pytest.mark.robustness
def test_direct_response_arrives_as_soon_as_crisp(episodes):
    cases = [(1000.0, 0.05), (400.0, 0.05), (400.0, 0.01), (1000.0, 0.01), (2000.0, 0.01)]
    for stiffness, size in cases[: episodes(1, len(cases))]:
        for axis in response.AXES[: episodes(1, 3)]:
            ours, theirs = (
                response.step_response(law, stiffness, axis, size)
                for law in (DIRECT, "CRISP's law")
            )
            assert ours[0] < 1.2 * theirs[0], (stiffness, size, axis, ours, theirs)
            assert ours[1] < 2.0
            assert ours[2] < theirs[2]


@pytest.mark.long
def test_direct_response_lag_in_streams_matches_default():
    lags = [response.stream_lag(law, 1000.0, 50) for law in (DIRECT, "default")]
    assert lags[0] < lags[1] + 3.0


@pytest.mark.parametrize("stiffness", [400.0, 2000.0])
@pytest.mark.parametrize("arm", ARMS)
def test_direct_response_keeps_governor_speed(make_cell, arm, stiffness):
    params = {
        "stiffness": [stiffness] * 3 + [stiffness / 20.0] * 3,
        "governor": {"response": "direct", "linear_speed": 0.25},
    }
    cell = make_cell(
        arms={"arm": {"perturbation": ARMS[arm]}}, active=["arm/law"], gate={"position": 1.0},
        controllets={"law": {"type": "cartesian_impedance", "params": params}},
    )  # fmt: skip
    cell.step(5)
    here, (first, _) = cell.pose("arm"), cell.records()
    target, fastest = cell.loop.owners.active[0].target, 0.0
    cell.set_target("arm", Pose(here.position + [0.0, 0.12, 0.0], here.rotation))
    before = here.position
    for _ in range(1500):
        cell.step()
        after = target.position_ee_in_base[0].copy()
        fastest = max(fastest, 1e3 * float(np.linalg.norm(after - before)))
        before = after
    assert fastest < 0.25 * (1 + 1e-9)
    _, rows = cell.records(first)
    positions = rows["arms"]["position_ee_in_base"][:, 0]
    speeds = np.linalg.norm(np.diff(positions, axis=0), axis=1) * 1e3
    assert speeds.max() < 1.25 * 0.25
    steps = np.abs(np.diff(rows["arms"]["tau"][:, 0], axis=0)).max(axis=1)
    assert (steps > 0.99e-3 * FR3_LIMITS.torque_rate[0]).mean() < 0.01
    assert np.abs(positions[-1] - here.position - [0.0, 0.12, 0.0]).max() < 2e-3


def test_live_response_change_applies_from_next_cycle(make_cell):
    cell = make_cell(
        arms={"arm": {}}, controllets={"law": {"type": "cartesian_impedance"}}, active=["arm/law"]
    )
    cell.step(5)
    found = []
    for name in ("soft", "direct", "soft"):
        cell.set_parameters("arm/law", {"governor.response": name})
        here = cell.pose("arm")
        goal = here.position + [0.0, 0.03, 0.0]
        cell.set_target("arm", Pose(goal, here.rotation))
        cell.step(180)
        found.append(float(np.abs(cell.pose("arm").position - goal).max()))
        cell.step(1300)
    assert found[1] < 1e-3
    assert found[0] > 5e-3
    assert found[2] > 5e-3


def test_response_change_in_motion_drove_late_arm_into_velocity_limit(make_cell):
    """The feed-forward started as a torque step in motion; the change now waits for rest."""
    late = {"state_delay": 0.003, "command_delay": 0.002, "torque_lag": 0.002}
    params = {"stiffness": [5000.0] * 3 + [250.0] * 3}
    cell = make_cell(
        arms={"arm": {"gripper": False, "perturbation": late}}, active=["arm/law"],
        controllets={"law": {"type": "cartesian_impedance", "params": params}},
    )  # fmt: skip
    cell.step(5)
    here, (first, _) = cell.pose("arm"), cell.records()
    cell.set_target("arm", Pose(here.position + [0.0, 0.05, 0.0], here.rotation))
    cell.step(100)
    cell.set_parameters("arm/law", {"governor.response": "direct"})
    cell.step(800)
    assert cell.state("arm").fault == ""
    _, rows = cell.records(first)
    used = np.abs(rows["arms"]["dq"][:, 0]) / FR3_LIMITS.velocity
    assert used.max() < 0.5
    steps = np.abs(np.diff(rows["arms"]["tau"][:, 0], axis=0)).max(axis=1)
    assert (steps > 0.95e-3 * FR3_LIMITS.torque_rate[0]).sum() < 40


def test_reference_slowed_before_joint_limit_drops_feedforward(make_cell):
    """Its acceleration was 0 in every other cycle, and torques reached their rate limit."""
    q = [0.149, -0.414, -0.092, -2.637, 0.293, 1.732, 1.064]
    arm = {"q_start": q, "perturbation": ARMS["late and light"]}
    law = {"type": "cartesian_impedance", "params": response.DIRECT}
    cell = make_cell(
        arms={"arm": arm}, controllets={"law": law}, active=["arm/law"], gate=response.WIDE
    )
    cell.step(20)
    here, (first, _) = cell.pose("arm"), cell.records()
    delta_rotation = pin.exp3(np.array([0.2, -0.557, 0.098]))
    goal = Pose(here.position + [-0.147, -0.016, -0.027], delta_rotation @ here.rotation)
    cell.set_target("arm", goal)
    cell.step(1500)
    _, rows = cell.records(first)
    assert rows["arms"]["q"][-1, 0, 3] < -2.95
    steps = np.abs(np.diff(rows["arms"]["tau"][:, 0], axis=0)).max(axis=1)
    assert (steps > 0.99e-3 * FR3_LIMITS.torque_rate[0]).sum() < 10
