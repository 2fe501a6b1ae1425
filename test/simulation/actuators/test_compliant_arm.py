# SPDX-License-Identifier: Apache-2.0
"""Arm on springs: springs carry it and exert commands, and it moves like a rigid arm."""

from __future__ import annotations

import math

import mujoco
import numpy as np
import pytest
from long_form import LONG
from springs_of_fr3 import springs
from world import compliant

from multipanda_py import registry
from multipanda_py.exceptions import BackendError

pytestmark = [pytest.mark.sim, pytest.mark.inline]

MODES = ["equilibrium", "equilibrium_pid"]
APART = {"right": {"position": [0.0, -2.0, 0.0]}}
"""Distance without interaction between the arms."""
A, K, PRESET = 5.0, np.array([7.8] * 4 + [1.4] * 3), 0.2
LOCKED = 1e6


def pair(mode="equilibrium_pid", **both):
    """Return sections of a left arm with springs and a right arm without."""
    return {"left": {"actuators": springs(mode), **both}, "right": {**APART["right"], **both}}


def closed_form(torque, preset=PRESET):
    """Return the deflection from the equilibrium at which equal springs exert a torque."""
    return np.arcsinh(torque / (2.0 * K * math.cosh(A * preset))) / A


def drive(cell, torque, cycles):
    """Exert a torque on the left arm in place of a controllet."""
    backend, state = cell.loop.backends[0], cell.loop.arms[0].state
    for _ in range(cycles):
        state.tau[:] = torque
        backend.write((0, 1))
        backend.read((0, 1))
    return state


@pytest.mark.parametrize("mode", MODES)
def test_springs_alone_carry_arm_from_first_cycle(make_cell, mode):
    cell = make_cell({"left": {"actuators": springs(mode)}})
    data = cell.simulation.data
    start = cell.state("left").q.copy()
    speeds = []
    for _ in range(50):
        cell.step(1)
        speeds.append(np.abs(data.qvel[:7]).max())
    state = cell.state("left")
    assert max(speeds) < 1e-9
    np.testing.assert_allclose(state.q, start, atol=1e-9)
    weight = data.qfrc_bias[:7].copy()  # Bias of MuJoCo at rest.
    assert np.abs(weight).max() > 20.0
    np.testing.assert_allclose(state.tau_J, weight, atol=1e-6)
    np.testing.assert_allclose(state.tau_ext, 0.0, atol=1e-9)
    assert not data.qfrc_gravcomp[:7].any()
    joints = compliant(cell).joints
    np.testing.assert_allclose(joints.equilibrium - state.q, closed_form(weight), atol=1e-3)


@pytest.mark.parametrize(("mode", "cycles"), [("equilibrium", 2), ("equilibrium_pid", 100)])
def test_blocked_joint_gets_commanded_torque(make_cell, mode, cycles):
    cell = make_cell({"left": {"actuators": springs(mode)}, **APART})
    sim, tau = cell.simulation, np.array([20.0, -30.0, 10.0, 15.0, 5.0, -4.0, 3.0])
    sim.model.dof_armature[:7] = LOCKED
    weight = sim.data.qfrc_bias[:7].copy()
    state = drive(cell, tau, cycles)
    np.testing.assert_allclose(state.tau_J, weight + tau, atol=0.02)
    joints = compliant(cell).joints
    expected = closed_form(state.tau_J)
    np.testing.assert_allclose(joints.equilibrium - state.q, expected, atol=2e-4)
    np.testing.assert_allclose(joints.preset, PRESET, atol=3e-3)


@pytest.mark.parametrize("joint", [1, 6])
def test_link_vibrates_at_frequency_of_its_springs(make_cell, joint):
    cell = make_cell({"left": {"actuators": springs("equilibrium")}, **APART})
    sim, backend = cell.simulation, cell.loop.backends[0]
    model, data = sim.model, sim.data
    model.opt.gravity[:] = 0.0
    inverse_mass = np.zeros((1, model.nv))
    unit = np.eye(model.nv)[joint : joint + 1]
    mujoco.mj_forward(model, data)
    others = [dof for dof in range(7) if dof != joint]
    model.dof_armature[others] = LOCKED
    mujoco.mj_forward(model, data)
    mujoco.mj_solveM(model, data, inverse_mass, unit)
    arm = compliant(cell)
    arm.joints.reset(data.qpos[:7], 0.0, PRESET)
    data.qpos[joint] += 0.01
    angles = []
    for _ in range(2000):
        backend.compliant.step(1)  # Motors without a command stay fixed.
        angles.append(data.qpos[joint])
    swing = np.array(angles) - np.mean(angles)
    up = np.flatnonzero((swing[:-1] < 0.0) & (swing[1:] >= 0.0))
    crossings = up - swing[up] / (swing[up + 1] - swing[up])
    stiffness = 2.0 * A * K[joint] * math.cosh(A * PRESET)
    omega = math.sqrt(stiffness * inverse_mass[0, joint])
    assert len(up) >= 2
    assert math.tau / (1e-3 * np.diff(crossings).mean()) == pytest.approx(omega, rel=2e-3)


LAWS = {
    name: registry.find("controllets", name).min_arms
    for name in registry.built_in("controllets")
    if registry.find("controllets", name).command_interface == "effort"
    and name not in ("hold", "actuator_commands")
}
FLOATING = ("gravity_compensation", "teleoperation")


@pytest.mark.long
@pytest.mark.parametrize("mode", MODES)
def test_torque_controllets_move_arm_like_rigid_arm(make_cell, mode):
    """Each controllet: push, release and rest; the right arm has no springs."""
    if mode == "equilibrium" and not LONG:
        pytest.skip("the mode with motors is the harder case")
    laws = {f"{law}_law": {"type": law} for law, arms in LAWS.items() if arms == 1}
    laws |= {
        f"{law}_law": {"type": law, "arms": ["left", "right"]} for law in LAWS if LAWS[law] > 1
    }
    cell = make_cell(pair(mode), laws)
    sim = cell.simulation
    coupled_last = sorted({"hold": 1, **LAWS}.items(), key=lambda item: item[1])
    for law, arms in coupled_last:
        cell.hold()
        cell.step(100)
        if law != "hold":
            both = [f"{law}_law"] if arms > 1 else [f"left/{law}_law", f"right/{law}_law"]
            cell.switch(both, strictness="force_auto")
        deviations = []
        for force in ([0.0, 15.0, 8.0], [0.0, 0.0, 0.0]):
            for arm in ("left", "right"):
                sim.apply_wrench(f"{arm}_fr3_link5", force)
            for _ in range(6):
                cell.step(20)
                deviations.append(np.abs(cell.state("left").q - cell.state("right").q).max())
        faults = [event.text for event in cell.events() if event.event.is_fault]
        assert not faults, (law, faults)
        assert arms > 1 or max(deviations) < (0.02 if law in FLOATING else 0.006), (
            law,
            max(deviations),
        )
        assert np.abs(cell.state("left").dq).max() < (1.0 if law in FLOATING else 0.2), law


def test_saved_state_continues_to_last_bit(make_cell):
    cell = make_cell(pair(), {"law": {"type": "joint_impedance"}}, ["left/law"])
    sim = cell.simulation
    sim.apply_wrench("left_fr3_link6", [5.0, 10.0, 0.0])
    cell.step(150)
    start = sim.save()

    def run():
        rows = []
        for _ in range(100):
            cell.step(1)
            rows.append(np.concatenate([cell.state("left").q, compliant(cell).joints.theta[0]]))
        return np.array(rows)

    sim.reset(start)
    first = run()
    cell.step(33)
    sim.reset(start)
    np.testing.assert_array_equal(run(), first)


PERTURBED = {
    "loads and friction": {
        "payload": 0.5, "torque_bias": [0.5, -1.0, 0.3, 0.8, 0.1, -0.2, 0.1],
        "coulomb": [0.3] * 7, "viscous": [0.5] * 7, "friction_offset": [0.2] * 7,
    },
    "bodies and lag": {
        "link_mass": [1.0, 1.05, 1.0, 1.0, 0.9, 1.0, 1.1], "inertia_scale": 1.2,
        "torque_lag": 0.002, "state_delay": 0.002,
    },
}  # fmt: skip


@pytest.mark.parametrize("kind", PERTURBED)
def test_perturbation_acts_as_on_rigid_arm(make_cell, kind):
    law = {"law": {"type": "joint_impedance"}}
    cell = make_cell(pair(perturbation=PERTURBED[kind]), law, ["left/law", "right/law"])
    cell.step(700)
    left, right = cell.state("left"), cell.state("right")
    assert not left.fault
    np.testing.assert_allclose(left.q, right.q, atol=1e-3)
    np.testing.assert_allclose(left.tau_ext, right.tau_ext, atol=0.05)
    np.testing.assert_allclose(left.dq, 0.0, atol=2e-3)


def test_payload_is_carried_by_springs(make_cell):
    """A rigid arm adds the payload to its motor-side sensor; springs measure it directly."""
    payload = {"payload": 0.5}
    law = {"law": {"type": "joint_impedance"}}
    cell = make_cell(pair("equilibrium", perturbation=payload), law, ["left/law", "right/law"])
    cell.step(800)
    weight = cell.simulation.data.qfrc_bias[:7]
    np.testing.assert_allclose(cell.state("left").tau_J, weight, atol=0.01)


def test_loop_compensates_gravity_of_uncompensated_arm(make_cell):
    cell = make_cell({"left": {"actuators": springs(), "compensates_gravity": False}})
    start = cell.state("left").q.copy()
    cell.step(500)
    np.testing.assert_allclose(cell.state("left").q, start, atol=2e-3)
    np.testing.assert_allclose(cell.state("left").dq, 0.0, atol=1e-3)


def test_stopped_robot_comes_to_rest(make_cell):
    franka = {"upper_torque_thresholds": [3.0] * 7}
    cell = make_cell({"left": {"actuators": springs(), "franka": franka}, **APART})
    cell.step(5)
    data = cell.simulation.data
    data.qfrc_applied[1] = 5.0
    cell.step(20)
    assert cell.state("left").fault == "arm_stopped"
    data.qfrc_applied[1] = 0.0
    cell.step(1500)
    assert np.abs(cell.state("left").dq).max() < 1e-3


@pytest.mark.long
@pytest.mark.parametrize("mode", MODES)
def test_arm_follows_commanded_positions(make_cell, mode):
    law = {"law": {"type": "joint_position"}}
    cell = make_cell({"left": {"actuators": springs(mode)}, **APART}, law, ["left/law"])
    goal = cell.state("left").q + 0.1
    cell.step(10)
    cell.set_target("left", q=goal)
    cell.step(1500)
    assert not cell.state("left").fault
    np.testing.assert_allclose(cell.state("left").q, goal, atol=0.02)


def test_springs_may_cover_some_joints(make_cell):
    group = {"type": "sea", "joints": ["joint2", "joint7"], "params": {"stiffness": [500.0, 50.0]}}
    cell = make_cell({"left": {"actuators": {"some": group}}, **APART})
    start = cell.state("left").q.copy()
    cell.step(300)
    np.testing.assert_allclose(cell.state("left").q, start, atol=1e-6)
    weight = cell.simulation.data.qfrc_bias[:7]
    np.testing.assert_allclose(cell.state("left").tau_J, weight, atol=1e-5)


def test_too_weak_springs_are_rejected_at_start(make_cell):
    with pytest.raises(BackendError, match=r"left\.actuators: left_fr3_joint\d: "):
        make_cell({"left": {"actuators": springs("equilibrium", params={"preset_high": 0.4})}})


def test_unresolved_spring_frequency_gives_warning(make_cell):
    stiff = {"type": "sea", "params": {"stiffness": 1e6}}
    cell = make_cell({"left": {"actuators": {"all": stiff}}}, rate=200.0)
    (reported,) = [text for text in cell.warnings if "vibrate" in text]
    assert reported.startswith("arms.left.actuators: ")
    assert cell.loop.backends[0].steps == 8


def test_diverged_world_is_fault_of_its_arms(make_cell):
    cell = make_cell({"left": {"actuators": springs()}, **APART})
    cell.step(5)
    cell.simulation.data.qvel[3] = math.nan
    cell.step(3)
    assert cell.state("left").fault == "non_finite_state"
    assert any("diverged" in event.text for event in cell.events())


def test_torques_are_limited_to_those_of_springs(make_cell):
    cell = make_cell({"left": {"actuators": springs("equilibrium")}, **APART})
    cell.simulation.model.dof_armature[:7] = LOCKED
    state = drive(cell, np.full(7, 1e4), 5)
    assert np.isfinite(state.tau_J).all()
    joints = compliant(cell).joints
    assert (np.abs(state.tau_J) < 2.0 * K * math.sinh(A * 0.8) * 1.001).all()
    assert joints.rejected == 0


def test_joints_without_springs_move_like_rigid_joints(make_cell):
    """Joints without springs got spring impulses, so mode 0 deviated in coarse steps."""
    law = {"law": {"type": "joint_impedance"}}
    cell = make_cell(pair("link_torque"), law, ["left/law", "right/law"], rate=200.0)
    sim, deviations = cell.simulation, []
    for force in ([0.0, 15.0, 8.0], [0.0, 0.0, 0.0]):
        for arm in ("left", "right"):
            sim.apply_wrench(f"{arm}_fr3_link5", force)
        for _ in range(5):
            cell.step(10)
            deviations.append(np.abs(cell.state("left").q - cell.state("right").q).max())
    assert np.abs(cell.state("right").dq).max() > 1e-3
    assert max(deviations) < 1e-7


@pytest.mark.parametrize("p", [125.0, 1e-3])
def test_pivot_at_stiffest_preset_ended_run(make_cell, p):
    """The deflection under load was added to the preset, which was then out of range."""
    group = {
        "type": "awas2",
        "joints": ["joint5", "joint7"],
        "preset": 0.04,
        "mode": "equilibrium_pid",
        "motor": {"max_torque": 40.0, "inertia": 0.01, "p": p},
    }
    cell = make_cell({"left": {"actuators": {"wrist": group}}})
    start = cell.state("left").q.copy()
    cell.simulation.apply_wrench("left_fr3_link7", [4.0, 4.0, 0.0])
    cell.step(100)
    assert not cell.state("left").fault
    found = cell.actuators("left")
    assert (found.preset <= 0.04).all()
    if p > 1.0:  # With the lower gain the controller holds nothing.
        np.testing.assert_allclose(found.preset, 0.04, atol=1e-4)
        assert np.abs(cell.state("left").q - start).max() < 0.1
