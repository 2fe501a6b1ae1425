# SPDX-License-Identifier: Apache-2.0
"""Delayed states, lagging torques, wrong inertia: every controllet brings pushed arms to rest."""

from __future__ import annotations

import numpy as np
import pytest
from configurations import READY
from long_form import every_nth

from multipanda_py import registry
from multipanda_py.parameters import specs_of
from multipanda_py.pose import Pose
from multipanda_py.robots.franka import FR3_LIMITS
from multipanda_py.testing import simple_cell

pytestmark = [pytest.mark.sim, pytest.mark.robustness, pytest.mark.inline]

BENT = np.array([0.4, 0.3, -0.5, -1.9, 0.6, 2.3, 0.2])
MIRROR = np.array([-1, 1, -1, 1, -1, 1, 1])
STIFF = [5000.0] * 3 + [300.0] * 3
JOINTS = [1000.0] * 4 + [330.0, 165.0, 66.0]
LAWS = {
    "joint_impedance": {"stiffness": JOINTS},
    "joint_velocity": {"stiffness": JOINTS},
    "joint_trajectory": {"stiffness": JOINTS},
    "optimization_augmented": {
        "stiffness": JOINTS, "integral_rate": 3.0, "integral_torque_scale": 0.3, "mode": "force",
        "position_stiffness": [3000.0] * 3 + [200.0] * 3,
    },
    "cartesian_impedance": {"stiffness": STIFF, "nullspace.stiffness": [100.0] * 7},
    "operational_space": {"stiffness": [1600.0] * 6, "damping_ratio": [3.0] * 6},
    "force_impedance": {"stiffness": STIFF},
    "admittance": {"inner_stiffness": STIFF},
    "gravity_compensation": {
        "hold": "position", "keep_orientation": True, "translational_stiffness": 5000.0,
        "rotational_stiffness": 300.0, "joint_damping": 5.0,
    },
    "teleoperation": {  # a weakly damped leader floats for seconds
        "stiffness": STIFF, "nullspace_stiffness": 100.0,
        "leader_damping": [20.0] * 4 + [4.0, 4.0, 1.5],
    },
    "coupled_impedance": {"stiffness": STIFF, "relative_stiffness": STIFF},
    "coupled_force_impedance": {"stiffness": STIFF, "relative_stiffness": STIFF},
}  # fmt: skip
"""The highest gains within the bounds."""


def fastest_after_a_push(make_cell, law, params, pair, cycles=1400, **perturbation):
    """Push every joint, wait, and return the final maximum joint speed [rad/s]."""
    names = ["left", "right"]
    late = {"state_delay": 0.005, "torque_lag": 0.002, **perturbation}
    arms = {
        name: {"position": [0.0, y, 0.0], "q_start": q.tolist(), "perturbation": late}
        for name, y, q in zip(names, (0.3, -0.3), pair)
    }
    instance = {"type": law, "params": params}
    active = [f"{name}/law" for name in names]
    if registry.find("controllets", law).min_arms > 1:
        instance["arms"], active = names, ["law"]
    cell = make_cell(arms, {"law": instance}, active)
    cell.step(20)
    data = cell.simulation.data
    rng = np.random.default_rng(11)
    for start in (0, 9):  # seven joints and two fingers each
        data.qvel[start : start + 7] += rng.uniform(-0.15, 0.15, 7)
    cell.step(cycles)
    fastest = 0.0
    for _ in range(10):
        cell.step(10)
        fastest = max(fastest, *(float(np.abs(cell.state(name).dq).max()) for name in names))
    assert [str(event) for event in cell.events() if event.event.is_fault] == []
    return fastest


@pytest.mark.parametrize("law", ["coupled_impedance", "coupled_force_impedance"])
def test_free_grippers_of_coupled_controllet_are_stable_at_5_ms_delay(make_cell, law, episodes):
    """Moments as pure torque on light wrists caused a limit cycle of 2 to 3 rad/s."""
    for scale in (0.8, 1.2)[: episodes(1, 2)]:
        for configuration in (READY, BENT):
            found = fastest_after_a_push(
                make_cell, law, {}, (configuration, configuration * MIRROR), inertia_scale=scale
            )
            assert found < 0.05, scale


def test_unprojected_nullspace_made_coupled_wrists_oscillate(make_cell):
    """Its damper added to that of the controllet on joint 7: a limit cycle of 2.6 rad/s."""
    law = {"stiffness": STIFF, "relative_stiffness": STIFF, "damping_ratio": 5.0}
    configuration = {"stiffness": [100.0] * 7, "damping_ratio": [5.0] * 7, "projector": "none",
               "max_torque": [100.0] * 7}  # fmt: skip
    q = READY + [0.1, -0.2, 0.2, 0.1, -0.3, 0.2, 0.1]
    law |= {f"nullspace.{name}": value for name, value in configuration.items()}
    found = fastest_after_a_push(
        make_cell, "coupled_impedance", law, (q, q * MIRROR), cycles=500, inertia_scale=0.8
    )
    assert found < 0.1


def test_stiffest_joints_are_stable_at_5_ms_delay(make_cell):
    """A common bound of 5000 Nm/rad made wrists oscillate."""
    params = LAWS["joint_impedance"]
    assert fastest_after_a_push(make_cell, "joint_impedance", params, (READY, BENT)) < 0.02


@pytest.mark.parametrize("law", every_nth(3, LAWS))
def test_maximum_gains_come_to_rest_in_any_configuration(make_cell, law, episodes):
    rng = np.random.default_rng(sum(map(ord, law)))
    for episode in range(episodes(1, 40)):
        pair = [READY + rng.uniform(-0.5, 0.5, 7) for _ in range(2)]
        if law.startswith("coupled"):  # grippers that could hold an object
            pair[1] = pair[0] * MIRROR + rng.uniform(-0.1, 0.1, 7)
        scale = (0.8, 1.2)[episode % 2]
        found = fastest_after_a_push(make_cell, law, LAWS[law], pair, inertia_scale=scale)
        assert found < 0.05, f"{[q.tolist() for q in pair]}, inertia x {scale}"


@pytest.mark.parametrize("law", ["joint_velocity", "joint_impedance"])
@pytest.mark.parametrize(
    "late", [{"state_delay": 0.002}, {"state_delay": 0.005, "torque_lag": 0.002}]
)
def test_stiffest_joints_oscillated_at_torque_rate_limit_after_nudge(
    make_cell, episodes, law, late
):
    """A nudge of 0.3 rad/s: at 3000 Nm/rad, 2 ms were enough in half of the configurations."""
    bound = specs_of(registry.find("controllets", law).Params)[0].high
    rng = np.random.default_rng(3)
    for _ in range(episodes(2, 3)):
        q = rng.uniform(FR3_LIMITS.lower + 0.5, FR3_LIMITS.upper - 0.5)
        q[1] = rng.uniform(-0.8, 0.3)
        stiff = {"type": law, "features": ["coriolis"], "params": {"stiffness": list(bound)}}
        arm = {"q_start": q.tolist(), "perturbation": late}
        cell = make_cell({"arm": arm}, {"law": stiff}, ["arm/law"])
        cell.step(30)
        cell.simulation.data.qvel[:7] += 0.3 * rng.choice([-1, 1], 7)
        cell.step(700)
        state = cell.state("arm")
        assert not state.fault
        assert np.abs(state.dq).max() < 0.05


def maximum_reversals(q):
    """Return the largest number of reversals of a joint; q is (k, n) [rad]."""
    steps = np.diff(q[::10], axis=0)
    signs = [np.sign(joint[np.abs(joint) > 1e-5]) for joint in steps.T]
    return max(np.count_nonzero(np.diff(sign)) for sign in signs)


@pytest.mark.parametrize("model", ["fr3", "ur5e"])
@pytest.mark.parametrize("law", every_nth(3, ["joint_position", "cartesian_pose", "joint_rate"]))
def test_target_steps_of_late_position_controlled_arms_do_not_oscillate(law, model, episodes):
    """Neither commands nor arm reverse repeatedly, and both come to rest."""
    late = {"state_delay": 0.005, "torque_lag": 0.002}
    arm = {"model": model, "gripper": False, "perturbation": late}
    for episode in range(episodes(1, 20)):
        rng = np.random.default_rng(episode)
        with simple_cell(
            {"left": arm}, {"law": {"type": law}}, ["left/law"], gate={"position": 1.0}
        ) as cell:
            cell.step(20)
            q, pose = cell.state("left").q.copy(), cell.pose("left")
            for _ in range(5):
                step = rng.uniform(-0.15, 0.15, len(q))
                goal = Pose(pose.position + 0.5 * step[:3], pose.rotation)
                target = {"joint_position": {"q": q + step}, "joint_rate": {"dq": 5.0 * step}}
                cell.set_target("left", **target.get(law, {"pose": goal}))
                cell.step(150)
            found = []
            cell.step(600)
            for _ in range(900):
                cell.step(1)
                found.append(cell.latest_record()["arms"][0].copy())
            found = np.array(found)
            assert [str(event) for event in cell.events() if event.event.is_fault] == []
            if law == "joint_position":
                assert np.abs(found["q"][-1] - q - step).max() < 1e-3
            if law == "cartesian_pose":
                assert cell.pose("left").distance(goal)[0] < 1e-3
            for moved in (found["joint_command"][:, 0], found["q"]):
                assert maximum_reversals(moved) <= 2  # an oscillation of 2 Hz has three
            for rate in (found["joint_command"][-100:, 1], found["dq"][-100:]):
                assert np.abs(rate).max() < 0.01  # a nullspace motion may continue
