# SPDX-License-Identifier: Apache-2.0
"""Vibration, deflection and ripple of joints with springs and gears against equations."""

from __future__ import annotations

import math
from itertools import pairwise

import mujoco
import numpy as np
import pytest
from world import world

from multipanda_py.exceptions import BackendError
from multipanda_py.pose import Pose
from multipanda_py.robots import ARMATURE

pytestmark = [pytest.mark.sim, pytest.mark.inline]

STIFFNESS = [14000.0] * 4 + [9000.0] * 3
DAMPING = [14.0] * 4 + [9.0] * 3
FAR = {"right": {"position": [0.0, -0.8, 0.0]}}
LOCKED = 1e6
"""Inertia that keeps a link at rest [kg m^2]."""


def arms(**joints):
    return {"left": {"transmission": joints}, **FAR}


def addresses(model, name):
    joint = model.joint(f"left_fr3_{name}")
    return int(joint.qposadr[0]), int(joint.dofadr[0])


def full_mass(model, data):
    mujoco.mj_forward(model, data)
    mass = np.zeros((model.nv, model.nv))
    try:
        mujoco.mj_fullM(model, data, mass)  # MuJoCo 4
    except TypeError:
        mujoco.mj_fullM(model, mass, data.qM)
    return mass


def only(cell, joint):
    """Lock all joints but one with its motor; return the link inertia about its axis."""
    model, data = world(cell)
    dof = addresses(model, f"joint{joint}")[1]
    inertia = full_mass(model, data)[dof, dof]
    for other in {*range(1, 8)} - {joint}:
        model.dof_armature[addresses(model, f"joint{other}")[1]] = LOCKED
    return inertia


def swing(cell, joint, seconds):
    """Deflect the spring of a joint, release it without torque, and return its twist over time."""
    model, data = world(cell)
    motor, link = addresses(model, f"rotor{joint}")[0], addresses(model, f"joint{joint}")[0]
    data.qpos[motor] += 1e-3
    times, twists = [], []
    while data.time < seconds:
        mujoco.mj_step(model, data)
        times.append(data.time)
        twists.append(data.qpos[motor] - data.qpos[link])
    return np.array(times), np.array(twists)


@pytest.mark.parametrize("joint", [1, 4, 7])
def test_joint_vibrates_at_its_frequency_and_damping(make_cell, joint):
    damping = [1.4] * 4 + [0.15] * 3
    cell = make_cell(arms(stiffness=STIFFNESS, damping=damping))
    inertia = only(cell, joint)
    both = 1.0 / ARMATURE[joint - 1] + 1.0 / inertia
    omega2, decay = STIFFNESS[joint - 1] * both, 0.5 * damping[joint - 1] * both
    omega = math.sqrt(omega2 - decay**2)
    times, twists = swing(cell, joint, 2.0 / decay)
    up = np.flatnonzero((twists[:-1] < 0.0) & (twists[1:] >= 0.0))
    crossings = times[up] - twists[up] * (times[up + 1] - times[up]) / (
        twists[up + 1] - twists[up]
    )
    periods = np.diff(crossings)
    assert len(periods) >= 5
    assert 2.0 * math.pi / periods.mean() == pytest.approx(omega, rel=0.01)
    peaks = [np.abs(twists[a:b]).max() for a, b in pairwise(up)]
    rate = -np.polyfit(crossings[:-1], np.log(peaks), 1)[0]
    assert rate == pytest.approx(decay, rel=0.05)


def test_blocked_joint_deflects_by_stiffness_and_sensor_reads_torque(
    make_cell,
):
    cell = make_cell(arms(stiffness=STIFFNESS, damping=[20.0 * d for d in DAMPING]))
    model, data = world(cell)
    for joint in range(1, 8):
        model.dof_armature[addresses(model, f"joint{joint}")[1]] = LOCKED
    state = cell.loop.arms[0].state
    backend = cell.loop.backends[0]
    tau = np.array([20.0, -30.0, 10.0, 15.0, 5.0, -4.0, 3.0])
    for _ in range(200):
        state.tau[:] = tau
        backend.write((0, 1))
        backend.read((0, 1))
    twist = [
        data.qpos[addresses(model, f"rotor{j}")[0]] - data.qpos[addresses(model, f"joint{j}")[0]]
        for j in range(1, 8)
    ]
    np.testing.assert_allclose(twist, tau / STIFFNESS, rtol=1e-3)
    np.testing.assert_allclose(state.tau_J - data.qfrc_gravcomp[:7], tau, rtol=1e-3)


def test_undamped_joints_keep_energy(make_cell):
    cell = make_cell(arms(stiffness=STIFFNESS))
    model, data = world(cell)
    model.opt.enableflags |= int(mujoco.mjtEnableBit.mjENBL_ENERGY)
    rng = np.random.default_rng(4)
    motors = [addresses(model, f"rotor{j}") for j in range(1, 8)]
    links = [addresses(model, f"joint{j}") for j in range(1, 8)]
    for (_, motor), (_, link) in zip(motors, links):
        data.qvel[[motor, link]] = rng.uniform(-0.3, 0.3, 2)
    energies = []
    while data.time < 1.0:
        mujoco.mj_forward(model, data)
        twist = [data.qpos[m] - data.qpos[q] for (m, _), (q, _) in zip(motors, links)]
        energies.append(data.energy[1] + 0.5 * float(np.dot(STIFFNESS, np.square(twist))))
        mujoco.mj_step(model, data, 3)
    first, last = np.mean(energies[:200]), np.mean(energies[-200:])
    assert first > 0.05
    assert last == pytest.approx(first, rel=0.01)
    assert max(energies) < 1.06 * min(energies)


def test_slow_motion_equals_that_of_rigid_arm(make_cell):
    """The effective inertia is the same for both positions of the rotors."""
    law = {"cart": {"type": "cartesian_impedance"}}
    ends = []
    for joints in ({}, {"stiffness": STIFFNESS, "damping": DAMPING}):
        cell = make_cell(arms(**joints), law, ["left/cart"])
        cell.step(10)
        pose = cell.pose("left")
        goal = Pose(pose.position + [0.05, 0.05, -0.05], pose.rotation)
        cell.set_target("left", goal)
        path = []
        for _ in range(40):
            cell.step(25)
            path.append(cell.pose("left").position)
        ends.append(np.array(path))
        assert not [e for e in cell.events() if e.event.is_fault]
    assert np.abs(ends[1] - ends[0]).max() < 1e-3
    assert np.linalg.norm(ends[0][-1] - ends[0][0]) > 0.05


def test_gear_ripples_with_motor_angle(make_cell):
    ripple = [0.3, 0.3, 0.3, 0.3, 0.1, 0.1, 0.1]
    cell = make_cell(arms(ripple=ripple, ripple_waves=[160.0] * 7))
    _, data = world(cell)
    backend = cell.loop.backends[0]
    rng = np.random.default_rng(2)
    for _ in range(20):
        q = data.qpos[:7] = rng.uniform(-1.0, 1.0, 7)
        tau = np.full(7, 0.5)
        backend.drives[0].execute(tau)
        np.testing.assert_allclose(tau, 0.5 + ripple * np.sin(160.0 * q), atol=1e-9)


def test_perfect_arm_has_no_measuring_stages(make_cell):
    cell = make_cell(arms(stiffness=STIFFNESS))
    backend = cell.loop.backends[0]
    assert [len(drive.measuring) for drive in backend.drives] == [2, 1]
    assert backend.steps > 1
    rigid = make_cell().loop.backends[0]
    assert rigid.steps == 1
    assert rigid.model.opt.timestep == 1e-3


def test_bare_flange_is_stable_and_too_stiff_spring_is_rejected(make_cell):
    settings = {"stiffness": STIFFNESS, "damping": DAMPING}
    cell = make_cell({"left": {"transmission": settings, "gripper": False}})
    assert cell.loop.backends[0].steps <= 20
    _, data = world(cell)
    data.qvel[:7] = 0.1
    cell.step(1000)
    assert np.abs(cell.state("left").dq).max() < 0.01
    stiff = {"stiffness": [1e5] * 7}
    with pytest.raises(BackendError, match=r"left\.transmission\.stiffness: .*\b\d+ Hz"):
        make_cell({"left": {"transmission": stiff, "gripper": False}})


def test_stopped_robot_comes_to_rest_on_elastic_joints(make_cell):
    """The stiffness of its own hold follows the cycle, not the shorter physics step."""
    left = {
        "transmission": {"stiffness": STIFFNESS, "damping": DAMPING},
        "franka": {"upper_torque_thresholds": [3.0] * 7, "joint_impedance": [14000.0] * 7},
    }
    cell = make_cell({"left": left, **FAR})
    cell.step(5)
    _, data = world(cell)
    data.qfrc_applied[1] = 5.0
    cell.step(20)
    assert cell.state("left").fault == "arm_stopped"
    data.qfrc_applied[1] = 0.0
    cell.step(1000)
    assert np.abs(cell.state("left").dq).max() < 1e-3


def test_elasticity_may_cover_some_joints(make_cell):
    cell = make_cell(arms(stiffness=[0.0, 14000.0] + [0.0] * 5, damping=[5.0] * 7))
    model, _ = world(cell)
    armature = [model.dof_armature[addresses(model, f"joint{j}")[1]] for j in range(1, 8)]
    assert armature[1] == 0.0
    np.testing.assert_allclose(np.delete(armature, 1), np.delete(ARMATURE, 1))
    cell.step(200)
    assert np.abs(cell.state("left").dq).max() < 1e-3
