# SPDX-License-Identifier: Apache-2.0
"""Identification of simulated arms with known parameters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pinocchio as pin
import pytest
from measured_arm import Imperfections, measure, perturbed, some_motion
from rail import railed_ur5e

from multipanda_py.exceptions import IdentificationRejected
from multipanda_py.identification.arm.estimators import FrictionEstimate, FrictionShape, fit
from multipanda_py.identification.arm.identify import Options, identify
from multipanda_py.identification.arm.regressor import ArmRegressor, pseudo_inertia
from multipanda_py.identification.arm.stack import stack
from multipanda_py.realtime.recording.measured_motion import MeasuredMotion
from multipanda_py.robots import MODELS, ArmDescription
from multipanda_py.robots.dynamics.arm_dynamics import model_with_gravity
from multipanda_py.robots.measured_files import parameters_text, with_parameters
from multipanda_py.robots.read_robot import read_robot

pytestmark = pytest.mark.inline

PRIOR = ArmDescription("arm", "fr3")
PLANT = perturbed(PRIOR, 0)


@pytest.fixture(scope="module")
def log():
    return measure(PLANT, some_motion(PLANT), believed=PRIOR)


@pytest.fixture(scope="module")
def found(log):
    return identify([log], PRIOR)


def floor(plant, log, options):
    """Return the held-out RMSE of the true bodies with the best friction of the class, (n,)."""
    n = plant.n_joints
    regressor = ArmRegressor(plant)
    parts = [
        stack(regressor, [part], FrictionShape.sharp(n), options.cutoff)
        for part in log.split(options.held_out)
    ]
    known = np.concatenate([regressor.prior, plant.robot.armature])
    residuals = [part.tau - part.rows[..., : 11 * n] @ known for part in parts]
    best = fit(parts[0].rows[..., 11 * n :], residuals[0])
    return np.sqrt(((residuals[1] - parts[1].rows[..., 11 * n :] @ best.values) ** 2).mean(axis=0))


def mass_error(plant, robot, believed=PRIOR, count=30):
    """Return the median relative error of the mass matrix, Frobenius."""
    models = [model_with_gravity(plant), model_with_gravity(replace(believed, model=robot))]
    rng = np.random.default_rng(0)
    errors = []
    for _ in range(count):
        q = rng.uniform(*plant.limits.span)
        true, got = (pin.crba(model, model.createData(), q) for model in models)
        true, got = (np.triu(m) + np.triu(m, 1).T for m in (true, got))
        errors.append(np.linalg.norm(true - got) / np.linalg.norm(true))
    return float(np.median(errors))


@pytest.mark.long
def test_held_out_torque_error_is_near_minimum(found, log):
    minimum = floor(PLANT, log, Options())
    assert (found.held_out["consistent"] < 1.15 * minimum + 0.01).all()
    assert (found.held_out["consistent"] < 0.5 * found.held_out["datasheet"]).all()


def test_identified_mass_matrix_is_within_1_percent(found):
    assert mass_error(PLANT, found.robot) < 0.01
    assert mass_error(PLANT, PRIOR.robot) > 0.02


def test_identified_links_are_physically_consistent(found):
    reread = ArmRegressor(replace(PRIOR, model=found.robot)).prior.reshape(-1, 10)
    for parameters in reread:
        assert np.linalg.eigvalsh(pseudo_inertia(parameters)).min() > 0.0


def test_friction_matches_plant(found):
    robot = PLANT.robot
    np.testing.assert_allclose(found.robot.friction, robot.friction, rtol=0.1)
    np.testing.assert_allclose(found.robot.damping, robot.damping, atol=0.09)
    np.testing.assert_allclose(found.robot.torque_offset, robot.torque_offset, atol=0.06)


def test_standard_deviations_match_errors(log):
    """Linear measurements with noise of known size."""
    rng = np.random.default_rng(1)
    rows, true = rng.normal(size=(400, 3, 12)), rng.normal(size=12)
    noise = np.array([0.1, 1.0, 0.01])
    tau = rows @ true
    errors = []
    for _ in range(30):
        got = fit(rows, tau + noise * rng.normal(size=tau.shape))
        errors.append((got.values - true) / got.deviations)
    np.testing.assert_allclose(got.noise, noise, rtol=0.15)
    assert 0.85 < np.std(errors) < 1.15


def test_identified_robot_survives_parameter_file(found, tmp_path):
    path = tmp_path / "robot.yaml"
    path.write_text(parameters_text(found.robot, {"condition": found.condition}))
    back = with_parameters(MODELS["fr3"], path)
    for name in ("armature", "damping", "friction", "torque_offset"):
        np.testing.assert_allclose(getattr(back, name), getattr(found.robot, name))
    for one, other in zip(back.links, found.robot.links):
        np.testing.assert_allclose(one.inertial.inertia, other.inertial.inertia, atol=1e-12)


@pytest.mark.long
def test_torque_delay_is_estimated(log):
    late = replace(log, tau=np.vstack([log.tau[:1].repeat(6, axis=0), log.tau[:-6]]))
    found = identify([late], PRIOR)
    assert found.delay == pytest.approx(0.0065, abs=0.0015)


@pytest.mark.long
def test_two_mountings_identify_two_more_parameters(log):
    wall = ArmDescription(
        "arm", "fr3", rotation_base_in_world=pin.rpy.rpyToMatrix(0, np.pi / 2, 0)
    )
    other = replace(wall, model=PLANT.robot)
    tilted = measure(other, some_motion(other, 3), believed=wall, seed=3)
    gravity = wall.rotation_base_in_world.T @ (0.0, 0.0, -9.81)
    found = identify(
        [log, replace(tilted, gravity_in_base=gravity)], PRIOR, Options(rotors="known")
    )
    assert len(found.base) == 45


@pytest.mark.long
@pytest.mark.parametrize(("seed", "noise", "maximum"), [(2, 0.0, 0.02), (3, 0.05, 0.03)])
def test_sigmoid_friction_was_identified_at_wrist_only(seed, noise, maximum):
    """Separate fits of the joints attributed 0.04 to 0.5 Nm at shoulder and elbow to masses."""
    arm = ArmDescription("arm", "fr3", hand=False)
    regressor = ArmRegressor(arm)
    motion = some_motion(arm, seed)
    time = motion.times(100.0)
    q, dq, ddq = motion.sample(time)
    width, shift = np.linspace(0.1, 0.3, 7), np.linspace(-0.02, 0.02, 7)
    shape = FrictionShape(width, shift)
    friction = FrictionEstimate(np.full(7, 0.1), np.linspace(0.3, 0.9, 7), np.zeros(7), shape)
    tau = regressor.rows(q, dq, ddq) @ regressor.prior + ddq * arm.robot.armature
    tau += friction.torque(dq) + noise * np.random.default_rng(seed).normal(size=tau.shape)
    log = MeasuredMotion("sigmoid", time, q, tau, dq)
    found = identify([log], arm, Options(friction="sigmoid"))
    assert (found.held_out["consistent"] < 0.5 * noise + 0.01).all()
    speeds = np.linspace(-0.8, 0.8, 81)[:, None] * np.ones(7)
    np.testing.assert_allclose(
        found.friction.torque(speeds), friction.torque(speeds), atol=maximum
    )


def test_pendulum_parameters_match_equation_of_motion(tmp_path):
    """One joint: tau = (I + m l^2) ddq + m g l sin q."""
    urdf = tmp_path / "pendulum.urdf"
    urdf.write_text(
        """<robot name="pendulum"><link name="base"/><link name="bob"><inertial>
        <origin xyz="0 0 -0.4"/><mass value="1.5"/>
        <inertia ixx="0.01" iyy="0.01" izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial></link>
        <joint name="swing" type="revolute"><parent link="base"/><child link="bob"/>
        <axis xyz="0 1 0"/><limit lower="-3" upper="3" velocity="10" effort="50"/></joint>
        <link name="tip"/><joint name="end" type="fixed"><parent link="bob"/><child link="tip"/>
        <origin xyz="0 0 -0.4"/></joint></robot>"""
    )
    arm = ArmDescription("arm", read_robot(urdf=urdf, base="base", tip="tip"))
    time = np.arange(0.0, 12.0, 2e-3)
    q = 1.2 * np.sin(1.7 * time) + 0.5 * np.sin(4.1 * time)
    dq = 1.2 * 1.7 * np.cos(1.7 * time) + 0.5 * 4.1 * np.cos(4.1 * time)
    ddq = -1.2 * 1.7**2 * np.sin(1.7 * time) - 0.5 * 4.1**2 * np.sin(4.1 * time)
    mass, length, inertia = 1.9, 0.35, 0.02
    tau = (inertia + mass * length**2) * ddq + mass * 9.81 * length * np.sin(q)
    tau += 0.3 * dq + 0.2
    found = identify(
        [MeasuredMotion("swing", time, q[:, None], tau[:, None])],
        arm,
        Options(rotors="unseen"),
    )
    body = found.robot.links[1].inertial
    about = body.inertia[1, 1] + body.mass * (body.com[0] ** 2 + body.com[2] ** 2)
    assert -body.mass * body.com[2] == pytest.approx(mass * length, rel=2e-3)
    assert about == pytest.approx(inertia + mass * length**2, rel=5e-3)
    assert found.robot.damping[0] == pytest.approx(0.3, abs=0.01)
    assert found.robot.torque_offset[0] == pytest.approx(0.2, abs=0.01)


@pytest.mark.long
@pytest.mark.parametrize("model", ["ur5e", "kinova_gen3"])
def test_identification_improves_other_robots(model):
    prior = ArmDescription("arm", model)
    plant = perturbed(prior, 1)
    log = measure(plant, some_motion(plant, 1), believed=prior, imperfections=Imperfections())
    found = identify([log], prior)
    assert (found.held_out["consistent"] < 0.6 * found.held_out["datasheet"]).all()
    assert mass_error(plant, found.robot, prior) < 0.02


def test_sequential_single_joint_motion_is_rejected_as_ill_conditioned():
    n = 7
    time = np.arange(0.0, 21.0, 1e-2)
    q = np.tile(PRIOR.robot.ready, (len(time), 1))
    for joint in range(n):
        inside = (time >= 3.0 * joint) & (time < 3.0 * joint + 3.0)
        q[inside, joint] += 0.02 * (1.0 - np.cos(2.0 * np.pi / 3.0 * (time[inside] - 3.0 * joint)))
    regressor = ArmRegressor(PRIOR)
    dq = np.gradient(q, time, axis=0)
    ddq = np.gradient(dq, time, axis=0)
    rows = regressor.rows(q, dq, ddq)
    tau = rows @ regressor.prior + rows[..., -10:] @ regressor.carried
    with pytest.raises(IdentificationRejected, match=r"cannot be .*condition number"):
        identify([MeasuredMotion("small", time, q, tau)], PRIOR)


@pytest.mark.long
def test_vertical_rail_was_rejected_as_insufficient_motion():
    """On a vertical rail, mass, rotor inertia and constant torque form two parameters only."""
    upright = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]])
    arm = ArmDescription("arm", railed_ur5e(), rotation_base_in_world=upright)
    plant = perturbed(arm, 1)
    motion, regressor, own = some_motion(plant, 0), ArmRegressor(plant), plant.robot
    time = motion.times(100.0)
    q, dq, ddq = motion.sample(time)
    tau = regressor.rows(q, dq, ddq) @ regressor.prior + own.armature * ddq
    friction = np.concatenate([own.damping, own.friction, own.torque_offset])
    tau += FrictionShape.sharp(7).rows(dq) @ friction
    tau += 0.02 * np.random.default_rng(0).normal(size=tau.shape)
    reported = []
    found = identify([MeasuredMotion("log", time, q, tau)], arm, progress=reported.append)
    assert any("constant torque of rail_joint" in s for s in reported)
    assert "offset of rail_joint" not in found.names
    assert "offset of elbow_joint" in found.names
    assert (found.held_out["consistent"] < 0.1 * found.held_out["datasheet"] + 0.05).all()
