# SPDX-License-Identifier: Apache-2.0
"""Live gains, streamed stiffness, twists and clipping of Cartesian impedance."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pinocchio as pin
import pytest
from configurations import READY
from contact_rig import LATE, ContactRig
from dense_impedance import impedance

from multipanda_py.controllets.cartesian_impedance import (
    CartesianImpedance,
    CartesianImpedanceParams,
)
from multipanda_py.controllets.force_impedance import ForceImpedance
from multipanda_py.exceptions import TargetRejected
from multipanda_py.pose import Pose
from multipanda_py.robots.franka import FR3_LIMITS
from multipanda_py.targets import CartesianImpedanceTarget
from multipanda_py.testing import PERIOD, StateMaker

pytestmark = pytest.mark.inline


def started(**params):
    maker = StateMaker()
    (state,) = maker.states_at([READY], [np.array([0.1, -0.2, 0.1, 0.3, 0.2, -0.1, 0.2])])
    law = CartesianImpedance(maker.context, CartesianImpedanceParams(**params))
    target = CartesianImpedanceTarget(1)
    law.on_activate([state], target)
    return law, target, state


def dense(state, k, z, e, rate):
    inertia = np.linalg.inv(state.jacobian @ np.linalg.inv(state.mass_matrix) @ state.jacobian.T)
    k, d = impedance(inertia, k, z)
    return state.jacobian.T @ (k @ e + d @ rate)


def spd(rng, scale):
    a = rng.normal(size=(6, 6))
    return a @ a.T * scale


def test_full_stiffness_matrix_determines_damping():
    rng = np.random.default_rng(1)
    law, target, state = started()
    for _ in range(10):
        k = spd(rng, 50.0)
        target.stiffness[0][:] = k
        law.on_target("stiffness", 0, target)
        e = rng.normal(size=3) * 0.02
        target.position_ee_in_base[0][:] = state.position_ee_in_base + e
        for _ in range(101):
            law.update([state], target, PERIOD)
        expected = dense(state, k, np.eye(6), np.array([*e, 0, 0, 0]), -state.jacobian @ state.dq)
        assert np.allclose(law.tau[0], expected, rtol=1e-9, atol=1e-9)


def test_gains_reach_their_goal_without_torque_step():
    law, target, state = started(gain_time=0.1)
    target.position_ee_in_base[0][0] += 0.015
    law.update([state], target, PERIOD)
    steps, before = [], law.tau[0].copy()
    law.params = CartesianImpedanceParams(stiffness=np.array([3000.0] * 3 + [40.0] * 3))
    law.on_parameters()
    for _ in range(120):
        law.update([state], target, PERIOD)
        steps.append(np.abs(law.tau[0] - before).max())
        before = law.tau[0].copy()
    assert max(steps) < 2.0
    assert steps[-1] == 0.0
    k = np.diag([3000.0] * 3 + [40.0] * 3)
    expected = dense(
        state, k, np.eye(6), np.array([0.015, 0, 0, 0, 0, 0]), -state.jacobian @ state.dq
    )
    assert np.allclose(before, expected, rtol=1e-9)


def test_intermediate_stiffness_is_positive_semidefinite():
    rng = np.random.default_rng(2)
    law, target, state = started(gain_time=0.02)
    for _ in range(5):
        target.stiffness[0][:] = spd(rng, 100.0)
        law.on_target("stiffness", 0, target)
        for _ in range(20):
            law.update([state], target, PERIOD)
            assert np.linalg.eigvalsh(law.springs[0].stiffness)[0] > -1e-9


@pytest.mark.parametrize("law_type", [CartesianImpedance, ForceImpedance])
def test_change_of_any_parameter_ended_streamed_stiffness(law_type):
    """A soft arm got as stiff as its parameters when a client set a time or a damping ratio."""
    maker = StateMaker()
    (state,) = maker.states_at([READY])
    law = law_type(maker.context, law_type.Params(gain_time=0.0))
    target = law_type.Target(1)
    law.on_activate([state], target)
    (spring,) = getattr(law, "springs", None) or [law.arms[0].spring]
    streamed = np.diag([90.0] * 3 + [4.0] * 3)
    target.stiffness[0][:] = streamed
    law.on_target("stiffness", 0, target)
    law.params = replace(law.params, damping_ratio=np.full(6, 0.8))
    law.on_parameters()
    law.update([state], target, PERIOD)
    assert np.allclose(spring.stiffness, streamed)
    law.params = replace(law.params, stiffness=np.array([300.0] * 3 + [20.0] * 3))
    law.on_parameters()
    law.update([state], target, PERIOD)
    assert np.allclose(spring.stiffness, np.diag([300.0] * 3 + [20.0] * 3))
    target.stiffness[0][:] = streamed
    law.on_target("stiffness", 0, target)
    law.on_deactivate()
    law.on_activate([state], target)
    law.update([state], target, PERIOD)
    assert np.allclose(spring.stiffness, np.diag([300.0] * 3 + [20.0] * 3))


def test_error_is_clipped_per_axis_and_bounds_force():
    law, target, state = started(error_clip=np.array([0.01, 0.02, 0.03, 0.1, 0.1, 0.1]))
    state.dq[:] = 0.0
    state.twist_ee_in_base[:] = 0.0
    target.position_ee_in_base[0][:] += [0.5, -0.5, 0.02]
    law.update([state], target, PERIOD)
    force = np.linalg.lstsq(state.jacobian.T, law.tau[0], rcond=None)[0]
    assert np.allclose(force[:3], [4.0, -8.0, 8.0], atol=1e-6)


def test_twist_feeds_damper_and_times_out():
    law, target, state = started(twist_timeout=0.05)
    target.twist_ee_in_base[0][:] = state.twist_ee_in_base
    law.on_target("twist", 0, target)
    law.update([state], target, PERIOD)
    assert np.abs(law.tau[0]).max() < 1e-9
    for _ in range(60):
        law.update([state], target, PERIOD)
    expected = dense(
        state,
        np.diag([400.0] * 3 + [20.0] * 3),
        np.eye(6),
        np.zeros(6),
        -state.jacobian @ state.dq,
    )
    assert np.allclose(law.tau[0], expected, atol=1e-9)


@pytest.mark.sim
def test_twist_target_removes_lag(make_cell):
    def lag(with_twist):
        cell = make_cell(active=["left/cartesian_impedance_controller"])
        # A governor feeds the velocity of its reference forward, with or without a twist.
        cell.set_parameters("left/cartesian_impedance_controller", {"governor.enabled": False})
        pose = cell.pose("left")
        velocity = np.array([0.0, 0.0, 0.1])
        for step in range(150):
            goal = Pose(pose.position + velocity * step * 0.01, pose.rotation)
            twist = [*velocity, 0, 0, 0] if with_twist else None
            cell.set_target("left", goal, twist=twist)
            cell.step(10)
        return np.linalg.norm(cell.pose("left").position - goal.position)

    assert lag(True) < 0.25 * lag(False)


@pytest.mark.parametrize("ratio", [0.3, 0.7, 1.0])
def test_every_mode_has_requested_damping_ratio(ratio):
    """The poles of (Lambda, D, K) have this ratio for any stiffness."""
    k = np.array([900.0, 400.0, 100.0, 40.0, 20.0, 5.0])
    law, target, state = started(stiffness=k, damping_ratio=np.full(6, ratio))
    law.update([state], target, PERIOD)
    damping = law.springs[0].damping
    inertia = np.linalg.inv(state.jacobian @ np.linalg.inv(state.mass_matrix) @ state.jacobian.T)
    system = np.block(
        [
            [np.zeros((6, 6)), np.eye(6)],
            [-np.linalg.solve(inertia, np.diag(k)), -np.linalg.solve(inertia, damping)],
        ]
    )
    poles = np.linalg.eigvals(system)
    assert np.allclose(-poles.real / np.abs(poles), ratio, atol=1e-5)


@pytest.mark.parametrize(
    "stiffness", [(0, 600, 0, 20, 20, 20), (400, 400, 0, 0, 0, 0), (5000, 1, 1, 300, 0, 0)]
)
def test_damper_never_adds_energy_with_zero_or_unequal_gains(stiffness):
    rng = np.random.default_rng(4)
    maker = StateMaker()
    law = CartesianImpedance(
        maker.context, CartesianImpedanceParams(stiffness=np.array(stiffness, dtype=float))
    )
    target = CartesianImpedanceTarget(1)
    for _ in range(200):
        (state,) = maker.random(rng, speed=1.0)
        law.on_activate([state], target)
        law.update([state], target, PERIOD)
        assert law.tau[0] @ state.dq <= 1e-9


@pytest.mark.sim
@pytest.mark.parametrize("ratio", [0.3, 0.7])
def test_step_in_mujoco_matches_designed_linear_system(make_cell, ratio):
    cell = make_cell(active=["left/cartesian_impedance_controller"])
    cell.set_parameters(
        "left/cartesian_impedance_controller",
        # The step response of the controllet alone, without a governor.
        {
            "damping_ratio": [ratio] * 6,
            "nullspace.stiffness": [0.0] * 7,
            "governor.enabled": False,
        },
    )
    cell.step(200)
    pose = cell.pose("left")
    (state,) = StateMaker().states_at([cell.state("left").q])
    inertia = np.linalg.inv(state.jacobian @ np.linalg.inv(state.mass_matrix) @ state.jacobian.T)
    k = np.diag([400.0] * 3 + [20.0] * 3)
    _, damping = impedance(inertia, k, ratio * np.eye(6))
    cell.set_target("left", Pose(pose.position + [0.0, 0.02, 0.0], pose.rotation))
    start, _ = cell.records()
    cell.step(1000)
    measured = cell.records(start)[1]["arms"]["position_ee_in_base"][:, 0, 1] - pose.position[1]
    e, rate, expected = np.array([0, 0.02, 0, 0, 0, 0.0]), np.zeros(6), []
    for _ in range(1000):
        expected.append(0.02 - e[1])
        rate += 1e-3 * np.linalg.solve(inertia, -k @ e - damping @ rate)
        e += 1e-3 * rate
    # The first cycles differ by the torque rate limit and the blend.
    assert np.abs(measured - expected).max() < 0.1 * 0.02


@pytest.mark.parametrize(
    ("stiffness", "reason"),
    [
        ([1.0] * 5, "6 x 6"),
        ([-100.0, 1, 1, 1, 1, 1], "positive semidefinite"),
        (np.diag([1e5] * 6), "allowed up to"),
        ([400.0] * 3 + [301.0, 20, 20], r"\b301 Nm/rad .*rotational"),
        (np.eye(6) + 250 * np.kron(np.diag([0.0, 1]), np.ones((3, 3))), "751 Nm/rad"),
        (4000 * np.kron(np.diag([1.0, 0]), np.ones((3, 3))), "1.2e.04 N/m"),
        (np.diag([1.0] * 6) + np.eye(6, k=1), "not symmetric"),
        ([np.nan] * 6, "finite"),
    ],
)
def test_invalid_stiffness_is_refused(make_cell, stiffness, reason):
    cell = make_cell(active=["left/cartesian_impedance_controller"])
    with pytest.raises(TargetRejected, match=reason):
        cell.set_target("left", stiffness=stiffness)


@pytest.mark.long
@pytest.mark.sim
def test_step_ends_within_0_8_mm_despite_joint_friction(make_cell):
    """CRISP's step test: clipped error, friction compensation, identified Coulomb friction.

    The friction is half the amplitude of the compensated sigmoid model (Gaz et al. 2019).
    """
    rng = np.random.default_rng(0)
    law = {
        "type": "cartesian_impedance",
        "features": ["nullspace", "coriolis", "friction"],
        "params": {
            "stiffness": [5000.0] * 3 + [300.0] * 3,
            "error_clip": [0.01] * 3 + [0.08] * 3,
        },
    }
    friction = [0.27, 0.44, 0.32, 0.64, 0.42, 0.15, 0.28]
    for _ in range(4):
        cell = make_cell(
            {"arm": {"joint_friction": friction, "joint_damping": [0.05] * 7}},
            {"law": law},
            ["arm/law"],
            gate={"position": 1.0, "rotation": 3.0},
        )
        cell.step(50)
        pose = cell.pose("arm")
        goal = Pose(pose.position + rng.uniform(-0.12, 0.12, 3) + [0.1, 0, 0], pose.rotation)
        cell.set_target("arm", goal)
        cell.step(4000)
        assert cell.pose("arm").distance(goal)[0] < 0.8e-3
        assert not [event for event in cell.events() if event.event.is_fault]


def test_moving_reference_is_fed_forward_with_its_acceleration():
    """tau = J' (s L a + K e + D (s v_d - v)), evaluated independently in random states."""
    maker, rng = StateMaker(), np.random.default_rng(5)
    law = CartesianImpedance(maker.context, CartesianImpedanceParams())
    target = CartesianImpedance.Target(1)
    for _ in range(20):
        (s,) = maker.random(rng, speed=0.5, margin=0.5)
        law.on_activate([s], target)
        inertia_inv = s.jacobian @ np.linalg.inv(s.mass_matrix) @ s.jacobian.T
        if np.linalg.eigvalsh(inertia_inv)[0] < 0.03:
            continue  # damped near singularities
        law.update([s], target, PERIOD)
        stationary = law.tau[0].copy()
        motion = target.motion[0]
        motion.twist[:], motion.acceleration[:] = rng.normal(size=(2, 6))
        motion.moving = True
        law.update([s], target, PERIOD)
        damping = law.springs[0].damping
        wrench = np.linalg.solve(inertia_inv, motion.acceleration) + damping @ motion.twist
        fraction = np.clip((0.65 - np.abs(s.dq / s.limits.velocity).max()) / 0.3, 0, 1)
        assert np.allclose(
            law.tau[0] - stationary, fraction * s.jacobian.T @ wrench, rtol=1e-7, atol=1e-9
        )
        motion.moving = False
        law.update([s], target, PERIOD)
        assert np.array_equal(law.tau[0], stationary)


@pytest.mark.parametrize("clipped", [False, True])
def test_arm_that_does_not_follow_gets_no_feedforward(clipped):
    """Limited by its clipped error, or with a joint near its speed limit."""
    maker = StateMaker()
    law = CartesianImpedance(maker.context, CartesianImpedanceParams())
    target, q = CartesianImpedance.Target(1), np.array([0, -0.785, 0, -2.356, 0, 1.571, 0.785])
    (s,) = maker.states_at([q], None if clipped else [np.array([0, 0, 0, 1.72, 0, 0, 0])])
    law.on_activate([s], target)
    if clipped:
        target.position_ee_in_base[0][1] += 0.2
    law.update([s], target, PERIOD)
    stationary = law.tau[0].copy()
    target.motion[0].twist[:] = target.motion[0].acceleration[:] = 0.5
    target.motion[0].moving = True
    law.update([s], target, PERIOD)
    assert np.allclose(law.tau[0], stationary, atol=1e-9)


@pytest.mark.slow
@pytest.mark.sim
@pytest.mark.parametrize(("forward", "maximum"), [(True, 0.055), (False, 0.35)])
def test_feedforward_removes_spring_lag_behind_moving_target(make_cell, forward, maximum):
    """20 cm/s along a line at 1 kHz: the governor's lag remains."""
    cell = make_cell(active=["left/cartesian_impedance_controller"])
    cell.set_parameters("left/cartesian_impedance_controller", {"feedforward": forward})
    cell.step(20)
    start = cell.pose("left")
    for k in range(1200):
        goal = start.position + [0.0, 0.2 * k * PERIOD - 0.1, 0.0]
        cell.set_target("left", Pose(goal, start.rotation))
        cell.step()
    lag = (goal[1] - cell.pose("left").position[1]) / 0.2
    assert lag < maximum
    assert forward or lag > 0.2


@pytest.mark.sim
@pytest.mark.parametrize(
    ("q", "move", "delta_rotation"),
    [
        (
            [2.11, -0.81, -1.22, -1.4, -1.48, 4.13, -0.73],
            [-0.067, -0.123, 0.05],
            [-0.44, -0.223, 0.34],
        ),
        (
            [-2.1, -0.48, -1.68, -1.59, 2.23, 1.57, 2.65],
            [-0.131, 0.07, 0.015],
            [0.051, 0.536, 0.261],
        ),
    ],
)
def test_arm_target_beyond_reach_oscillated_for_seconds(make_cell, q, move, delta_rotation):
    """Steps inside the gate that end with a stretched elbow, 3 and 5 cm short."""
    laws = {"cart": {"type": "cartesian_impedance"}}
    cell = make_cell({"arm": {"q_start": q}}, laws, active=["arm/cart"])
    cell.step(20)
    here = cell.pose("arm")
    cell.set_target(
        "arm", Pose(here.position + move, pin.exp3(np.array(delta_rotation)) @ here.rotation)
    )
    cell.step(2500)
    _, rows = cell.records()
    assert cell.state("arm").fault == ""
    assert np.abs(rows["arms"]["dq"][-200:, 0]).max() < 0.08


def test_doubled_damping_made_nearly_singular_arm_creep(make_cell):
    """The effective mass is 240 kg: 400 N/m and critical damping give about 1.3 1/s."""
    q = [-0.868, -0.567, 0.567, -1.701, 0.398, 3.393, 2.169]
    laws = {"cart": {"type": "cartesian_impedance"}}
    cell = make_cell({"arm": {"q_start": q}}, laws, active=["arm/cart"])
    cell.step(20)
    here = cell.pose("arm")
    goal = Pose(here.position + [0.1221, -0.0362, 0.0789], here.rotation)
    cell.set_target("arm", goal)
    cell.step(3200)
    state = cell.state("arm")
    assert goal.distance_from(state.position_ee_in_base, state.rotation_ee_in_base)[0] < 0.016


@pytest.mark.sim
@pytest.mark.parametrize(
    ("ratio", "perturbation", "q", "move", "delta_rotation"),
    [
        (0.3, {}, [-0.868, -0.717, -0.675, -0.715, 0.62, 0.986, 2.099],
         [-0.0345, 0.0428, -0.1394], [0.0, 0.0, 0.0]),
        (1.0, LATE, [-1.979, 0.106, 2.173, -0.494, 1.749, 3.361, -0.492],
         [-0.1438, 0.0272, -0.0322], [0.0, 0.0, 0.0]),
        (0.3, LATE, [2.26, 0.96, -1.042, -0.579, -0.239, 2.85, 1.939],
         [0.0392, -0.1172, -0.0662], [0.4396, -0.1299, -0.3068]),
    ],
    ids=["underdamped", "critical and late", "behind the torque rate limit"],
)  # fmt: skip
def test_stiffest_spring_drove_joints_with_little_leverage_into_velocity_limit(
    make_cell, ratio, perturbation, q, move, delta_rotation
):
    """Near singular configurations, with or without latency: no bound applied to their speed."""
    params = {"stiffness": [5000.0] * 3 + [300.0] * 3, "damping_ratio": [ratio] * 6}
    laws = {"law": {"type": "cartesian_impedance", "params": params}}
    arms = {"arm": {"q_start": q, "perturbation": perturbation}}
    cell = make_cell(arms, laws, active=["arm/law"])
    cell.step(20)
    here = cell.pose("arm")
    cell.set_target(
        "arm", Pose(here.position + move, pin.exp3(np.array(delta_rotation)) @ here.rotation)
    )
    cell.step(750)
    assert cell.state("arm").fault == "", [event.text for event in cell.events()]
    _, rows = cell.records()
    used = np.abs(rows["arms"]["dq"][:, 0]) / FR3_LIMITS.velocity
    assert 0.5 < used.max() < 0.95


@pytest.mark.sim
def test_small_step_into_wall_hit_at_three_times_spring_speed():
    """177 N at 1e5 N/m, 5 mm away: a critically damped spring reaches at most d w / e."""
    bench = ContactRig(1e5, 0.005, law="cartesian_impedance")
    try:
        step, (state,) = 0.025, bench.cell.loop.owners.active[0].states
        stiffness = CartesianImpedanceParams().stiffness[2]
        j = state.jacobian[2]
        mass = 1.0 / (j @ np.linalg.solve(state.mass_matrix, j))
        speed = step * np.sqrt(stiffness / mass) / np.e
        here = bench.cell.pose("arm")
        bench.cell.set_target("arm", Pose(here.position - [0.0, 0.0, step], here.rotation))
        forces, _ = bench.step(800)
        assert 0.0 < forces.max() < speed * np.sqrt(1e5 * mass)
        assert forces[-100:] == pytest.approx(stiffness * 0.02, rel=0.05)
    finally:
        bench.close()


@pytest.mark.sim
def test_pressing_beyond_wrist_torque_ended_in_velocity_limit():
    """140 N at 9 cm from the sixth axis need 12.3 of 12 Nm: the wrist yielded under the others."""
    params = {"stiffness": [1000.0] * 3 + [50.0] * 3}
    bench = ContactRig(1e5, 0.005, law="cartesian_impedance", params=params)
    try:
        here = bench.cell.pose("arm")
        bench.cell.set_target("arm", Pose(here.position - [0.0, 0.0, 0.145], here.rotation))
        forces, _ = bench.step(1200)
        assert bench.cell.state("arm").fault == ""
        assert forces[-100:] == pytest.approx(0.9 * 12.0 / 0.088, rel=0.05)  # a5 of the arm: 88 mm
        report = bench.cell.report("arm/law")
        assert report["wrench scale [-]"] == pytest.approx(forces[-1] / 140.0, rel=0.02)
    finally:
        bench.close()


@pytest.mark.sim
@pytest.mark.parametrize("scale", [0.8, 1.2])
def test_stiff_spring_on_undamped_wall_tolerates_documented_latency(scale):
    """With 2 ms more, the damper would excite a motion at sqrt(k / m) to 100 N and more."""
    late = {"perturbation": {"state_delay": 0.003, "torque_lag": 0.002, "inertia_scale": scale}}
    gains = {"stiffness": [4000.0] * 3 + [300.0] * 3}
    bench = ContactRig(1e5, 0.003, gains, late, "cartesian_impedance", damping_ratio=0.0)
    try:
        here = bench.cell.pose("arm")
        bench.cell.set_target("arm", Pose(here.position - [0.0, 0.0, 0.018], here.rotation))
        forces, _ = bench.step(1500)
        assert np.ptp(forces[-300:]) < 2.0
        assert forces[-1] > 20.0
    finally:
        bench.close()
