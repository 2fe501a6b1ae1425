# SPDX-License-Identifier: Apache-2.0
"""Operational-space control: its equation, designed response, live gains, singularities."""

from __future__ import annotations

import numpy as np
import pytest
from configurations import READY
from long_form import every_nth
from near_configurations import Approach

from multipanda_py.controllets.operational_space import OperationalSpace, OperationalSpaceParams
from multipanda_py.pose import Pose
from multipanda_py.robots.franka import FR3_LIMITS
from multipanda_py.targets import CartesianTarget
from multipanda_py.testing import PERIOD, StateMaker

pytestmark = pytest.mark.inline

SIDEWAYS = np.array([0.5, -0.3, 0.4, -1.9, 0.2, 1.9, 0.3])
W_0, LAMBDA_MAX = 0.02, 0.01  # [1/kg], as the documentation says


def damped_inertia(state):
    """Return the end-effector inertia, damped below W_0, and its smallest manipulability."""
    inverse = state.jacobian @ np.linalg.inv(state.mass_matrix) @ state.jacobian.T
    w, v = np.linalg.eigh(0.5 * (inverse + inverse.T))
    w = np.maximum(w, 0.0)
    damping = 0.0 if w[0] > W_0 else LAMBDA_MAX**2 * (1 - (w[0] / W_0) ** 2)
    return v @ np.diag(w / (w**2 + damping)) @ v.T, w[0]


def speed_fraction(state, twist, braking, fastest):
    """Return the fraction of a twist that joints can reach and stop from."""
    minv_jt = np.linalg.solve(state.mass_matrix, state.jacobian.T)
    w, v = np.linalg.eigh(state.jacobian @ minv_jt)
    w = np.maximum(w, 0.0)
    damping = 0.0 if w[0] > W_0 else LAMBDA_MAX**2 * (1 - (w[0] / W_0) ** 2) / 4
    dq = minv_jt @ v @ np.diag(w / (w**2 + damping)) @ v.T @ twist
    requested = np.abs(dq / state.limits.velocity).max()
    measured = np.abs(state.dq / state.limits.velocity).max()
    fraction = min(1.0, 0.6 / requested) * np.clip((1.0 - measured) / 0.28, 0.0, 1.0)
    largest_torque = 0.6 * np.minimum(state.limits.torque, state.limits.torque_rate / fastest)
    steeper = np.abs(state.jacobian.T @ damped_inertia(state)[0] @ braking / largest_torque).max()
    return min(fraction, np.sqrt(2 * steeper - 1) / steeper if steeper > 1 else 1.0)


def rotation_vector(r):
    skew = np.array([r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1]]) / 2
    size = np.linalg.norm(skew)
    return skew / size * np.arctan2(size, (np.trace(r) - 1) / 2)


def random_rotation(rng, largest):
    axis = rng.normal(size=3)
    axis *= rng.uniform(0, largest) / np.linalg.norm(axis)
    k = np.array([[0, -axis[2], axis[1]], [axis[2], 0, -axis[0]], [-axis[1], axis[0], 0]])
    angle = np.linalg.norm(axis)
    return np.eye(3) + np.sin(angle) / angle * k + (1 - np.cos(angle)) / angle**2 * k @ k


@pytest.mark.parametrize("frame", ["base", "tool"])
def test_torque_matches_equation_in_every_configuration(frame):
    rng = np.random.default_rng(6)
    maker = StateMaker(2)
    damped = slowed = hard = 0
    for _ in range(40):
        params = OperationalSpaceParams(
            rng.uniform(0, 1000, 6), rng.uniform(0.1, 2, 6), frame, np.full(6, 0.3)
        )
        law, target = OperationalSpace(maker.context, params), CartesianTarget(2)
        states = maker.random(rng, speed=1.0)
        law.on_activate(states, target)
        nullspace_goals = rng.normal(size=(2, 7))
        for arm in range(2):
            target.nullspace_configuration[arm][:] = nullspace_goals[arm]
            far = rng.choice([0.02, 1.0])
            target.position_ee_in_base[arm][:] += far * rng.uniform(-0.5, 0.5, 3)
            frame_axes = random_rotation(rng, 2.0 * far)
            target.rotation_ee_in_base[arm][:] = frame_axes @ states[arm].rotation_ee_in_base
        law.update(states, target, PERIOD)
        lowest_scale = 1.0
        for arm, s in enumerate(states):
            r = s.rotation_ee_in_base
            e_p = target.position_ee_in_base[arm] - s.position_ee_in_base
            e_r = rotation_vector(target.rotation_ee_in_base[arm] @ r.T)
            frame_axes = np.kron(np.eye(2), r) if frame == "tool" else np.eye(6)
            e = np.clip(frame_axes.T @ np.concatenate([e_p, e_r]), -0.3, 0.3)
            rate = frame_axes.T @ s.jacobian @ s.dq
            k, z = params.stiffness, params.damping_ratio
            inertia, smallest = damped_inertia(s)
            damped += smallest < W_0
            d = np.minimum(2 * z * np.sqrt(k), 80.0)
            nu = speed_fraction(
                s, frame_axes @ (k / d * e), frame_axes @ ((k / d) ** 2 * e), d.max()
            )
            slowed += nu < 1.0
            spring = s.jacobian.T @ inertia @ frame_axes @ (nu * k * e)
            bearable = min(1.0, (0.9 * s.limits.torque / np.abs(spring)).min())
            lowest_scale, hard = min(lowest_scale, bearable), hard + (bearable < 1.0)
            expected = bearable * spring - s.jacobian.T @ inertia @ frame_axes @ (d * rate)
            exact = np.linalg.inv(s.jacobian @ np.linalg.inv(s.mass_matrix) @ s.jacobian.T)
            max_speed = 0.6 * s.limits.velocity
            pull = np.clip(
                k.min() / 16 * (nullspace_goals[arm] - s.q),
                -d.min() / 4 * max_speed,
                d.min() / 4 * max_speed,
            )
            rest = pull - d.min() / 4 * s.dq
            expected += s.jacobian.T @ (exact - inertia) @ s.jacobian @ rest
            assert np.allclose(law.tau[arm], expected, rtol=1e-8, atol=1e-7)
        assert law.report[0] == pytest.approx(lowest_scale)
    assert 10 < damped < 70
    assert 5 < hard < 70
    assert 20 < slowed < 80


@pytest.mark.sim
@pytest.mark.parametrize("q", [READY, SIDEWAYS], ids=["ready", "sideways"])
@pytest.mark.parametrize(("ratio", "axis"), [(1.0, 0), (0.5, 2)])
def test_step_response_is_identical_in_every_configuration(make_cell, q, ratio, axis):
    """A step decays as e'' + 2 z w e' + w^2 e = 0, and the other axes do not move."""
    params = {"damping_ratio": [ratio] * 6, "governor.enabled": False}  # no governor
    law = {"type": "operational_space", "params": params}
    cell = make_cell(
        arms={"arm": {"q_start": q.tolist()}}, controllets={"osc": law}, active=["arm/osc"],
        blend_time=0.0,
    )  # fmt: skip
    step = 0.003  # small enough to avoid the loop's torque rate limit
    start = cell.pose("arm")
    goal = start.position + step * np.eye(3)[axis]
    cell.set_target("arm", Pose(goal, start.rotation))
    cell.step(600)
    _, rows = cell.records()
    moved = rows["arms"]["position_ee_in_base"][:, 0] - start.position
    omega, t = 20.0, PERIOD * np.maximum(np.arange(len(moved)) - 1.0, 0.0)  # a cycle's delay
    root = omega * np.sqrt(complex(ratio**2 - 1)) or 1e-9
    poles = -ratio * omega + root, -ratio * omega - root
    response = 1 - np.real(
        (poles[1] * np.exp(poles[0] * t) - poles[0] * np.exp(poles[1] * t)) / (poles[1] - poles[0])
    )
    assert np.abs(moved[:, axis] - step * response).max() < 0.015 * step
    assert np.abs(np.delete(moved, axis, axis=1)).max() < 0.005 * step


def test_gains_change_without_torque_step():
    maker = StateMaker()
    law, target = OperationalSpace(maker.context, OperationalSpaceParams()), CartesianTarget(1)
    states = maker.states_at([READY], [np.full(7, 0.1)])
    law.on_activate(states, target)
    target.position_ee_in_base[0][0] += 0.05
    law.update(states, target, PERIOD)
    torques = [law.tau[0].copy()]
    law.params = OperationalSpaceParams(stiffness=np.full(6, 1600.0), gain_time=0.05)
    law.on_parameters()
    for _ in range(60):
        law.update(states, target, PERIOD)
        torques.append(law.tau[0].copy())
    steps = np.abs(np.diff(torques, axis=0)).max(axis=1)
    assert steps.max() < 0.05 * np.abs(torques[-1] - torques[0]).max()
    assert steps[51:].max() == 0.0
    fresh = OperationalSpace(maker.context, law.params)
    fresh.update(states, target, PERIOD)
    assert np.allclose(law.tau[0], fresh.tau[0], atol=1e-9)


@pytest.mark.long
@pytest.mark.sim
@pytest.mark.parametrize(("stiffness", "largest_torque"), [(400.0, 10.0), (1600.0, 30.0)])
def test_target_beyond_workspace_keeps_motion_bounded(make_cell, stiffness, largest_torque):
    """Move the target out of the workspace and back; the arm stretches without oscillation."""
    law = {"type": "operational_space", "params": {"stiffness": [stiffness] * 6}}
    cell = make_cell(
        arms={"arm": {}}, controllets={"osc": law}, active=["arm/osc"],
        gate={"position": 2.0, "rotation": 3.2},
    )  # fmt: skip
    pose = cell.pose("arm")
    fastest = largest = 0.0
    for reach in [*np.linspace(0.307, 1.1, 160), *np.linspace(1.1, 0.307, 160)]:
        cell.set_target("arm", Pose(np.array([reach, 0.0, 0.5]), pose.rotation))
        cell.step(25)
        fastest = max(fastest, float(np.abs(cell.state("arm").dq).max()))
        largest = max(largest, float(np.abs(cell.state("arm").tau).max()))
    assert cell.events() == []
    assert fastest < 2.0
    assert largest < largest_torque
    cell.step(2000)
    assert cell.pose("arm").distance(Pose(np.array([0.307, 0, 0.5]), pose.rotation))[0] < 2e-3


@pytest.mark.slow
@pytest.mark.sim
@pytest.mark.robustness
@pytest.mark.parametrize("stiffness", every_nth(2, [400.0, 1600.0]))
def test_target_kept_ahead_of_end_effector_ended_in_velocity_limit(make_cell, episodes, stiffness):
    """A policy may stream targets 14 cm ahead of the end effector, always in one direction."""
    directions = [np.eye(3)[0], -np.eye(3)[2], np.eye(3)[1], np.eye(3)[2], *-np.eye(3)[:2]]
    for direction in directions[: episodes(2, 6)]:
        law = {"type": "operational_space", "params": {"stiffness": [stiffness] * 6}}
        cell = make_cell(arms={"arm": {}}, controllets={"osc": law}, active=["arm/osc"])
        start = cell.pose("arm")
        for _ in range(80):
            here = cell.pose("arm")
            if start.distance(here)[1] < 0.55:
                cell.set_target("arm", Pose(here.position + 0.14 * direction, start.rotation))
            cell.step(25)
        _, rows = cell.records()
        assert cell.state("arm").fault == "", [event.text for event in cell.events()]
        fastest = np.abs(rows["arms"]["dq"][:, 0] / FR3_LIMITS.velocity).max()
        assert fastest < 0.85


@pytest.mark.sim
@pytest.mark.parametrize("late", every_nth(2, [False, True]))
@pytest.mark.parametrize(
    "q",
    [
        [0.3824, -1.0483, -2.1453, -2.3084, 0.4966, 2.3517, 0.7343],
        [0.4784, 0.6202, 0.4412, -2.1257, 0.9873, 2.494, 0.4985],
    ],
)
def test_start_with_links_almost_touching_ends_at_rest(make_cell, q, late):
    """The nearest pairs are 6 and 2 mm apart; stiffest gains, and a step either way."""
    assert 0.0 < Approach(1).nearest(np.array(q)) < 0.006
    arm = {"q_start": q, "gripper": False}
    if late:
        arm["perturbation"] = {"state_delay": 0.005, "torque_lag": 0.002}
    params = {"stiffness": [1600.0] * 6}
    laws = {"law": {"type": "operational_space", "params": params}}
    for sign in (1.0, -1.0):
        cell = make_cell({"arm": arm}, laws, active=["arm/law"])
        cell.step(20)
        here = cell.pose("arm")
        step = sign * np.array([0.08, -0.08, 0.08])
        cell.set_target("arm", Pose(here.position + step, here.rotation))
        cell.step(1500)
        assert cell.state("arm").fault == "", [event.text for event in cell.events()]
        assert np.abs(cell.records()[1]["arms"]["dq"][-200:, 0]).max() < 0.3
