# SPDX-License-Identifier: Apache-2.0
"""Target steps anywhere inside the gate, for stiff and soft controllets, on varied arms."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
from contact_rig import LATE
from long_form import every_nth, long_form

from multipanda_py.config.sections import GateConfig
from multipanda_py.pose import Pose
from multipanda_py.robots import READY_CONFIGURATION as Q_READY
from multipanda_py.robots.franka import FR3_LIMITS

READY = np.array(Q_READY)
GATE = GateConfig()
ARMS = {
    "ideal": {},
    "late and light": {**LATE, "inertia_scale": 0.8},
    "late and heavy": {**LATE, "inertia_scale": 1.2},
}
STIFF = [2000.0, 2000.0, 2000.0, 100.0, 100.0, 100.0]
DIRECT = {"governor": {"response": "direct"}}

pytestmark = [pytest.mark.sim, pytest.mark.inline]


def one_arm(make_cell, law, params=None, q=READY, perturbation=None, **settings):
    arm = {"q_start": list(map(float, q)), "perturbation": perturbation or {}}
    config = {"type": law, "params": params or {}, **settings.pop("law", {})}
    cell = make_cell(
        arms={"arm": arm}, controllets={"law": config}, active=["arm/law"], **settings
    )
    cell.step(20)
    return cell


def random_pose(rng, cell):
    """Return a pose at the corner of the gate, at full distance and full angle."""
    here = cell.pose("arm")
    move, delta_rotation = rng.normal(size=(2, 3))
    move *= 0.999 * GATE.position / np.linalg.norm(move)
    delta_rotation *= 0.999 * GATE.rotation / np.linalg.norm(delta_rotation)
    return Pose(here.position + move, pin.exp3(delta_rotation) @ here.rotation)


def random_configuration(rng, cell):
    """Return a joint configuration at a corner of the gate, inside the limits."""
    q = cell.state("arm").q + 0.999 * GATE.joint * rng.choice([-1, 1], 7)
    return np.clip(q, FR3_LIMITS.lower + 0.01, FR3_LIMITS.upper - 0.01)


def near_ready(rng):
    return READY + rng.uniform(-0.5, 0.5, 7)


def check_calm(cell, cycles=2500, at_rate_limit=0.01, settling=0):
    """Step; expect no fault, rare saturation of the torque rate, and rest after settling."""
    cell.step(cycles)
    _, rows = cell.records()
    steps = np.abs(np.diff(rows["arms"]["tau"][:, 0], axis=0)).max(axis=1)
    assert (steps > 0.99 * FR3_LIMITS.torque_rate[0] * 1e-3).mean() < at_rate_limit
    cell.step(settling)
    _, last = cell.records()
    assert cell.state("arm").fault == "", [event.text for event in cell.events()]
    assert np.abs(last["arms"]["dq"][-200:, 0]).max() < 0.06
    return rows


@pytest.mark.parametrize("arm", ARMS)
def test_joint_step_of_quarter_radian_neither_faults_nor_oscillates(make_cell, arm):
    cell = one_arm(make_cell, "joint_impedance", perturbation=ARMS[arm])
    goal = cell.state("arm").q + [0.25, 0, 0, 0, 0, 0, 0]
    cell.set_target("arm", q=goal)
    rows = check_calm(cell, 1500)
    assert np.abs(cell.state("arm").q - goal).max() < 2e-3
    assert rows["arms"]["q"][:, 0, 0].max() < goal[0] + 0.004


@pytest.mark.slow
@pytest.mark.robustness
@pytest.mark.parametrize("arm", every_nth(2, ARMS))
def test_joint_steps_at_gate_corners(make_cell, episodes, arm):
    rng = np.random.default_rng(11)
    for _ in range(episodes(2, 50)):
        cell = one_arm(make_cell, "joint_impedance", q=near_ready(rng), perturbation=ARMS[arm])
        goal = random_configuration(rng, cell)
        cell.set_target("arm", q=goal)
        check_calm(cell)
        assert np.abs(cell.state("arm").q - goal).max() < 2e-3


STEPPED = [
    ("cartesian_impedance", {}),
    ("cartesian_impedance", {"stiffness": STIFF}),
    ("operational_space", {}),
    ("force_impedance", {"stiffness": STIFF}),
    ("admittance", {}),
    ("cartesian_impedance", DIRECT),
    ("cartesian_impedance", {**DIRECT, "stiffness": STIFF}),
]
CORNERS = [(*law, arm) for law in STEPPED for arm in ARMS]
"""The short form has every controllet, the stiff one on both late arms."""


@pytest.mark.slow
@pytest.mark.robustness
@pytest.mark.parametrize(
    ("law", "params", "arm"),
    long_form(CORNERS, [CORNERS[index] for index in (0, 5, 11, 17)]),
)
def test_pose_steps_at_gate_corners(make_cell, episodes, law, params, arm):
    rng = np.random.default_rng(12)
    settling = episodes(0, 8000)  # goals at the edge of reach are approached slowly
    for _ in range(episodes(1, 40)):
        cell = one_arm(make_cell, law, params, near_ready(rng), ARMS[arm])
        cell.set_target("arm", random_pose(rng, cell))
        check_calm(cell, settling=settling)


@pytest.mark.robustness
def test_nullspace_configuration_step_under_stiff_nullspace(make_cell, episodes):
    rng = np.random.default_rng(13)
    for _ in range(episodes(2, 40)):
        params = {"nullspace.stiffness": [100.0] * 7}
        cell = one_arm(make_cell, "cartesian_impedance", params, near_ready(rng))
        cell.set_target("arm", q=random_configuration(rng, cell))
        check_calm(cell)


def test_pose_is_reached_exactly_by_shortest_rotation(make_cell):
    cell = one_arm(make_cell, "cartesian_impedance")
    start = cell.pose("arm")
    delta_rotation = 0.55 * np.array([0.6, 0.0, 0.8])
    goal = Pose(start.position + [0.0, 0.1, 0.0], pin.exp3(delta_rotation) @ start.rotation)
    cell.set_target("arm", goal)
    target = cell.loop.owners.active[0].target
    angles, positions = [], []
    for _ in range(1200):
        cell.step()
        angles.append(pin.log3(target.rotation_ee_in_base[0] @ start.rotation.T) @ delta_rotation)
        positions.append(target.position_ee_in_base[0][1] - start.position[1])
    assert (np.diff(angles) > -1e-12).all()
    assert (np.diff(positions) > -1e-12).all()
    assert np.array_equal(target.rotation_ee_in_base[0], goal.rotation)
    assert np.array_equal(target.position_ee_in_base[0], goal.position)


def test_governor_precedes_non_planning_controllets_and_can_be_disabled(make_cell):
    laws = {
        "bare": {"type": "cartesian_impedance", "features": [""]},
        "joint": {"type": "joint_impedance", "features": ["coriolis"]},
        "planning": {"type": "joint_trajectory"},
        "velocity": {"type": "joint_velocity"},
        "floating": {"type": "gravity_compensation"},
    }
    cell = make_cell(arms={"arm": {}}, controllets=laws)
    has = {name: "governor.enabled" in cell.parameters(f"arm/{name}") for name in laws}
    assert has == {
        "bare": True, "joint": True, "planning": False, "velocity": False, "floating": False,
    }  # fmt: skip
    assert "governor.enabled" not in cell.parameters("arm/hold")


def test_governor_disabled_in_motion_ends_path_without_step(make_cell):
    cell = one_arm(make_cell, "cartesian_impedance", {"stiffness": STIFF})
    start = cell.pose("arm")
    goal = start.position + [0.0, 0.14, 0.0]
    cell.set_target("arm", Pose(goal, start.rotation))
    cell.step(150)
    cell.set_parameters("arm/law", {"governor.enabled": False})
    check_calm(cell, 1500)
    assert np.allclose(cell.pose("arm").position, goal, atol=2e-3)
    near = Pose(goal + [0.0, 0.001, 0.0], start.rotation)
    cell.set_target("arm", near)
    cell.step()
    target = cell.loop.owners.active[0].target
    assert np.array_equal(target.position_ee_in_base[0], near.position)  # at once
    cell.set_parameters("arm/law", {"governor.enabled": True})
    check_calm(cell, 300)
    assert np.array_equal(target.position_ee_in_base[0], near.position)


def test_arm_taken_over_in_motion_is_braked_within_rate_limit(make_cell):
    laws = {"velocity": {"type": "joint_velocity"}, "joint": {"type": "joint_impedance"}}
    for perturbation in ARMS.values():
        arm = {"perturbation": perturbation}
        cell = make_cell(arms={"arm": arm}, controllets=laws, active=["arm/velocity"])
        for _ in range(10):
            cell.set_target("arm", dq=[0.8, 0.4, 0, 0, 0, 0.8, 0])
            cell.step(50)
        speed = cell.state("arm").dq[0]
        assert speed > 0.7
        cell.switch(["arm/joint"], ["arm/velocity"])
        check_calm(cell, 1500)


def test_circle_at_20_cm_per_s_has_small_lag(make_cell):
    """Lag of the reference behind a stream at 1 kHz without velocities, along the circle."""
    cell = one_arm(make_cell, "cartesian_impedance")
    target = cell.loop.owners.active[0].target
    centre, speed, radius = cell.pose("arm"), 0.2, 0.1
    lags = []
    for k in range(2500):
        angle = speed * k * 1e-3 / radius
        offset = radius * np.array([np.cos(angle) - 1.0, np.sin(angle), 0.0])
        cell.set_target("arm", Pose(centre.position + offset, centre.rotation))
        cell.step()
        observed = target.position_ee_in_base[0] - centre.position + [radius, 0.0, 0.0]
        lags.append((angle - np.arctan2(observed[1], observed[0]) + np.pi) % (2 * np.pi) - np.pi)
    lag = np.array(lags[800:]) * radius / speed
    assert lag.max() < 0.055
    assert np.hypot(observed[0], observed[1]) == pytest.approx(radius, rel=0.01)


def hold_joint(cell, cycles, angle, stiffness=4000.0, damping=80.0):
    """Hold the first joint at an angle by an external spring in the simulation."""
    data = cell.simulation.data
    for _ in range(cycles):
        data.qfrc_applied[0] = -stiffness * (data.qpos[0] - angle) - damping * data.qvel[0]
        cell.step()
    data.qfrc_applied[0] = 0.0


def test_velocity_with_timeout_below_one_cycle_never_expired(make_cell):
    """At 500 Hz, 1 ms was less than one cycle, and the velocity was never reset."""
    brief = {"governor": {"rate_timeout": 0.001}}
    cell = make_cell(
        arms={"arm": {}}, rate=500.0, active=["arm/law"],
        controllets={"law": {"type": "joint_impedance", "params": brief}},
    )  # fmt: skip
    goal = cell.state("arm").q + 0.1 * np.eye(7)[0]
    cell.set_target("arm", q=goal, dq=np.full(7, 0.3))
    cell.step(750)
    np.testing.assert_allclose(
        cell.latest_record()["arms"][0]["target_joint"], [goal, np.zeros(7)]
    )


@pytest.mark.parametrize("arm", every_nth(3, ARMS))
@pytest.mark.parametrize("gain", [1.0, 1.65])
def test_arm_blocked_during_target_motion_releases_without_fault_or_oscillation(
    make_cell, arm, gain
):
    stiffness = [600 * gain] * 4 + [200 * gain, 100 * gain, 40 * gain]
    cell = one_arm(make_cell, "joint_impedance", {"stiffness": stiffness}, perturbation=ARMS[arm])
    goal = cell.state("arm").q + [0.39, 0, 0, 0, 0, 0, 0]
    cell.set_target("arm", q=goal)
    hold_joint(cell, 700, 0.0)
    rows = check_calm(cell, 2000, 0.1)  # the external hold is itself a stiff spring
    assert np.abs(rows["arms"]["dq"][:, 0]).max() < 2.0
    assert np.abs(cell.state("arm").q - goal).max() < 2e-3


def test_arm_pushed_away_at_rest_returns_slowly(make_cell):
    cell = one_arm(make_cell, "joint_impedance")
    start = cell.state("arm").q
    for k in range(60):
        hold_joint(cell, 10, 0.3 * min(1.0, k / 30))
    assert abs(cell.state("arm").q[0] - start[0]) > 0.2
    rows = check_calm(cell, 2500, 0.1)
    assert np.abs(rows["arms"]["dq"][:, 0]).max() < 3.0
    assert np.abs(cell.state("arm").q - start).max() < 2e-3


@pytest.mark.parametrize("gain", [1.0, 1.65])
def test_unknown_3_kg_payload_does_not_sink_during_motion(make_cell, gain):
    stiffness = [600 * gain] * 4 + [200 * gain, 100 * gain, 40 * gain]
    load = {"payload": 3.0}
    cell = one_arm(make_cell, "joint_impedance", {"stiffness": stiffness}, perturbation=load)
    cell.step(1500)
    sag = READY - cell.state("arm").q
    assert np.abs(sag).max() > 0.002
    goal = READY + [0.3, 0, 0, 0, 0, 0, 0]
    cell.set_target("arm", q=goal)
    check_calm(cell, 4000)
    assert np.allclose(goal - cell.state("arm").q, sag, atol=5e-3)
