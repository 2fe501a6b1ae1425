# SPDX-License-Identifier: Apache-2.0
"""The nullspace feature: properties of projectors, torque clamp, and a resting end effector."""

from __future__ import annotations

import mujoco
import numpy as np
import pinocchio as pin
import pytest

from multipanda_py.control.impedance.joint_spring import ConfigurationSpring
from multipanda_py.control.impedance.nullspace_tank import INITIAL_ENERGY
from multipanda_py.controllets.features.nullspace import Nullspace, NullspaceParams
from multipanda_py.pose import Pose
from multipanda_py.robots.franka import FR3_LIMITS
from multipanda_py.targets import CartesianTarget
from multipanda_py.testing import PERIOD, StateMaker

pytestmark = pytest.mark.inline

CONTEXT = StateMaker(2).context


def added(params, states, configurations):
    feature, target = Nullspace(CONTEXT, params), CartesianTarget(2)
    for mine, configuration in zip(target.nullspace_configuration, configurations):
        mine[:] = configuration
    tau = [np.zeros(7), np.zeros(7)]
    feature.add(states, target, tau, PERIOD)
    return tau


@pytest.mark.parametrize("kind", ["none", "kinematic", "dynamic"])
def test_projected_torque_matches_textbook_formula(kind):
    rng = np.random.default_rng(11)
    maker, checked = StateMaker(2), 0
    while checked < 40:
        states, configurations = maker.random(rng, speed=1.0), rng.normal(size=(2, 7))
        params = NullspaceParams(
            stiffness=rng.uniform(0, 100, 7),
            damping_ratio=rng.uniform(0, 2, 7),
            projector=kind,
            max_torque=np.full(7, 8.0),
        )
        for s, configuration, tau in zip(
            states, configurations, added(params, states, configurations)
        ):
            if np.linalg.svd(s.jacobian)[1][-1] < 0.01:
                continue
            checked += 1
            j, minv = s.jacobian, np.linalg.inv(s.mass_matrix)
            k = params.stiffness
            maximum = 3.4 if kind == "none" else 12.0
            d = np.minimum(2 * params.damping_ratio * np.sqrt(k), maximum)
            free = k * (configuration - s.q) - d * s.dq
            free = np.clip(free, -8.0, 8.0)
            n = {
                "none": np.eye(7),
                "kinematic": np.eye(7) - j.T @ np.linalg.pinv(j).T,
                "dynamic": np.eye(7) - j.T @ np.linalg.inv(j @ minv @ j.T) @ j @ minv,
            }[kind]
            assert np.allclose(tau, n @ free, atol=1e-8)
            if kind == "kinematic":
                assert np.abs(j @ tau).max() < 1e-8
            if kind == "dynamic":
                assert np.abs(j @ minv @ tau).max() < 1e-8
            if kind != "none":
                assert np.allclose(n @ tau, tau, atol=1e-8)


def test_nullspace_velocity_feeds_damper_and_times_out():
    """CRISP's equation 7, against a dense evaluation, and the torque after the stream ends."""
    rng, maker = np.random.default_rng(13), StateMaker(2)
    params = NullspaceParams(projector="none", velocity_timeout=0.05)
    feature, target = Nullspace(CONTEXT, params), CartesianTarget(2)
    states = maker.random(rng, speed=0.2)
    feature.on_activate(states, target)
    for arm, state in enumerate(states):
        target.nullspace_configuration[arm][:] = state.q
    rate = rng.uniform(-0.2, 0.2, 7)
    target.data["joint"][1][7:] = rate
    feature.on_target("joint", 1, target)

    def torques():
        tau = [np.zeros(7), np.zeros(7)]
        feature.add(states, target, tau, PERIOD)
        return tau

    damping = 3.4  # 2 sqrt(10) exceeds the damping allowed without a projector
    moving = torques()
    assert np.allclose(moving[0], -damping * states[0].dq)
    assert np.allclose(moving[1], damping * (rate - states[1].dq))
    for _ in range(60):
        stopped = torques()
    assert np.allclose(stopped[1], -damping * states[1].dq)


@pytest.mark.sim
def test_streamed_configuration_with_velocity_is_followed_without_lag(make_cell):
    def lag(with_velocity):
        laws = {"cart": {"type": "cartesian_impedance"}}
        cell = make_cell({"arm": {}}, laws, active=["arm/cart"])
        start, direction = cell.state("arm").q, np.array([0.3, 0.0, -0.3, 0.0, 0.0, 0.0, 0.0])
        rate = 0.4 * direction
        for step in range(60):
            goal = start + rate * 0.02 * step
            cell.set_target("arm", q=goal, dq=rate if with_velocity else None)
            cell.step(20)
        return np.abs(cell.state("arm").q - goal)[0]

    assert lag(True) < 0.5 * lag(False)


def test_nullspace_motion_keeps_end_effector_within_0_1_mm(make_cell):
    laws = {"cart": {"type": "cartesian_impedance", "arms": ["left"],
                     "params": {"stiffness": [3000.0] * 3 + [300.0] * 3,
                                "nullspace": {"stiffness": [10.0] * 7}}}}  # fmt: skip
    cell = make_cell(controllets=laws, active=["cart"])
    start = cell.pose("left")
    q = cell.state("left").q
    elbow_before = q[0]
    configuration = q + np.array([0.3, 0, -0.3, 0, 0, 0, 0])
    cell.set_target("left", q=configuration)
    furthest = 0.0
    for _ in range(150):
        cell.step(20)
        furthest = max(furthest, cell.pose("left").distance(start)[0])
    assert furthest < 1e-4
    assert abs(cell.state("left").q[0] - elbow_before) > 0.1


def near_singular_configuration(rng, maker):
    """Return a configuration with a singular value of 0.01 to 0.1, and a goal 3 cm away."""
    lower, upper = FR3_LIMITS.lower, FR3_LIMITS.upper
    while True:
        q = rng.uniform(lower + 0.3, upper - 0.3)
        (state,) = maker.states_at([q])
        j = state.jacobian
        w = np.linalg.eigvalsh(j @ np.linalg.inv(state.mass_matrix) @ j.T)[0]
        if w > 0.02 or not 0.01 < np.linalg.svd(j)[1][-1] < 0.1:
            continue
        start = Pose(state.position_ee_in_base.copy(), state.rotation_ee_in_base.copy())
        if start.position[2] < 0.15 or np.linalg.norm(start.position[:2]) < 0.25:
            continue
        direction = rng.normal(size=3)
        goal = Pose(start.position + 0.03 * direction / np.linalg.norm(direction), start.rotation)
        end = solve(maker, q, goal)
        if end is not None and (np.abs(end - q) < 0.5).all():
            return q, goal


def solve(maker, q, goal):
    """Return a solution with margins to limits and singular configurations, or None."""
    q = q.copy()
    for _ in range(100):
        (state,) = maker.states_at([q])
        delta_rotation = pin.log3(goal.rotation @ state.rotation_ee_in_base.T)
        error = np.concatenate([goal.position - state.position_ee_in_base, delta_rotation])
        if np.abs(error).max() < 1e-8:
            inside = (q > FR3_LIMITS.lower + 0.2) & (q < FR3_LIMITS.upper - 0.2)
            wide = np.linalg.svd(state.jacobian)[1][-1] > 0.03
            return q if inside.all() and wide else None
        j = state.jacobian
        step = j.T @ np.linalg.solve(j @ j.T + 1e-6 * np.eye(6), error)
        q += step * min(1.0, 0.1 / np.abs(step).max())
    return None


def settle(cell, deviation, seconds=20.0):
    """Step until ``deviation()`` is below 0.3 %, or for ``seconds``; return the last value."""
    for _ in range(round(seconds / 0.25)):
        cell.step(250)
        if deviation() < 3e-3:
            break
    return deviation()


def push(cell, force):
    """Push at the end effector, by MuJoCo's current kinematics."""
    sim = cell.simulation
    model, data = sim.model, sim.data
    data.qfrc_applied[:] = 0.0
    hand, here = model.body("arm_fr3_hand").id, cell.pose("arm").position
    mujoco.mj_applyFT(model, data, force, np.zeros(3), here, hand, data.qfrc_applied)


@pytest.mark.long
@pytest.mark.sim
@pytest.mark.robustness
def test_nullspace_held_end_effector_back_near_singularities(make_cell, episodes):
    """A move of 3 cm arrives; without a guard, 10 N cause a displacement of F / K within 1 %."""
    rng, maker, judged = np.random.default_rng(0), StateMaker(), 0
    for _ in range(episodes(2, 200)):
        q, goal = near_singular_configuration(rng, maker)
        laws = {"cart": {"type": "cartesian_impedance"}}
        cell = make_cell({"arm": {"q_start": q.tolist()}}, laws, active=["arm/cart"])
        force = rng.normal(size=3)
        force *= 10.0 / np.linalg.norm(force)

        def short(cell=cell, goal=goal):
            return cell.pose("arm").distance(goal)[0] / 0.03

        def wrong(cell=cell, goal=goal, force=force):
            push(cell, force)
            given = cell.pose("arm").position - goal.position - force / 400.0
            return np.linalg.norm(given) / (10.0 / 400.0)

        cell.set_target("arm", goal)
        assert settle(cell, short) < 0.01
        wrong()
        last = settle(cell, wrong)
        (state,) = maker.states_at([cell.state("arm").q])
        room = np.minimum(state.q - FR3_LIMITS.lower, FR3_LIMITS.upper - state.q).min()
        # Where the task inertia is damped, a guard replaces the lost spring force, against pushes
        # too.
        is_guarded = bool(state.operational_space().damping)
        if np.linalg.svd(state.jacobian)[1][-1] > 0.015 and room > 0.1 and not is_guarded:
            judged += 1
            assert last < 0.01
        cell.close()
    assert judged


@pytest.mark.parametrize(("index", "direction"), [(0, -1), (4, 1)])
def test_projected_spring_delivers_bounded_energy_on_closed_paths(index, direction):
    """Tool motion deflected the spring without work, and nullspace motion released the energy."""
    rng, maker = np.random.default_rng(5), StateMaker()
    for _ in range(index + 1):
        start = maker.random(rng, margin=0.8)[0].q.copy()
        amplitude, phase = rng.uniform(0.2, 0.4, 7), rng.uniform(0, 2 * np.pi, 7)
    params = NullspaceParams(damping_ratio=np.full(7, 0.1))
    feature, target = Nullspace(maker.context, params), CartesianTarget(1)
    spring = ConfigurationSpring(maker.context.arms[0].robot)
    spring.set_gains(params.stiffness, params.damping_ratio, params.max_torque, "dynamic")
    target.seed(maker.states_at([start]))
    feature.on_activate(maker.states, target)
    work, speed = np.zeros(2), direction * np.pi
    for cycle in range(8000):  # four loops of two seconds
        angle = speed * PERIOD * cycle
        q = start + amplitude * (np.sin(angle + phase) - np.sin(phase))
        (state,) = maker.states_at([q], [speed * amplitude * np.cos(angle + phase)])
        tau = [np.zeros(7)]
        feature.add([state], target, tau, PERIOD)
        work += PERIOD * np.array([tau[0] @ state.dq, spring.torque(state, start) @ state.dq])
        assert work[0] < INITIAL_ENERGY + 0.2
    assert work[1] > 3 * INITIAL_ENERGY  # without the tank


def test_configuration_returns_after_projector_is_disabled():
    """With an empty tank, the shift of the configuration stayed for ever."""
    maker = StateMaker()
    q = np.array([0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785])
    feature, target = Nullspace(maker.context, NullspaceParams()), CartesianTarget(1)
    target.seed(maker.states_at([q]))
    feature.on_activate(maker.states, target)
    dq = np.full(7, 0.5)
    for cycle in range(2000):  # moves the tool until the configuration follows
        (state,) = maker.states_at([q + dq * PERIOD * cycle / 2], [dq])
        feature.add([state], target, [np.zeros(7)], PERIOD)
    feature.params = NullspaceParams(projector="none")
    feature.on_parameters()
    (state,) = maker.states_at([q])
    for _ in range(5000):
        tau = [np.zeros(7)]
        feature.add([state], target, tau, PERIOD)
    np.testing.assert_allclose(tau[0], 0.0, atol=1e-9)
