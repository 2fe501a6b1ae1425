# SPDX-License-Identifier: Apache-2.0
"""Simulated arm with model errors, and its measurements."""

from __future__ import annotations

from dataclasses import dataclass, replace

import mujoco
import numpy as np
import pinocchio as pin

from multipanda_py.identification.arm.fourier import FourierMotion
from multipanda_py.realtime.recording.measured_motion import MeasuredMotion
from multipanda_py.robots.dynamics.arm_dynamics import model_with_gravity
from multipanda_py.robots.inertial import Load, inertial_of
from multipanda_py.simulation.scene_mjcf import build_scene


@dataclass(frozen=True)
class Imperfections:
    """Errors of measurement and execution, by default as in logs of a Franka arm."""

    q_step: float = 2e-6
    q_noise: float = 2e-6
    tau_noise: float = 0.05
    tau_step: float = 0.002
    delay: int = 1
    stribeck: float = 0.0


def perturbed(arm, seed, spread=0.2, friction=True):
    """Return an arm with other masses, centres, inertias and friction."""
    rng = np.random.default_rng(seed)
    links = [arm.robot.links[0]]
    for link in arm.robot.links[1:]:
        one = link.inertial
        stretch = 1.0 + rng.uniform(-spread, spread, 3) / 2.0
        about = one.inertia
        second = 0.5 * np.trace(about) * np.eye(3) - about
        second = np.diag(stretch) @ second @ np.diag(stretch)
        second *= 1.0 + rng.uniform(-spread, spread)
        com = np.array(one.com) * (1.0 + rng.uniform(-spread, spread, 3))
        mass = one.mass * (1.0 + rng.uniform(-spread, spread))
        inertia = np.trace(second) * np.eye(3) - second
        links.append(replace(link, inertial=inertial_of(Load(mass, com, inertia))))
    n = arm.n_joints
    ratio = arm.limits.torque / 87.0
    robot = replace(
        arm.robot,
        links=tuple(links),
        armature=arm.robot.armature * (1.0 + rng.uniform(-spread, spread, n)),
        damping=(rng.uniform(0.2, 1.0, n) * np.sqrt(ratio)) if friction else np.zeros(n),
        friction=(rng.uniform(0.2, 0.8, n) * np.sqrt(ratio)) if friction else np.zeros(n),
        torque_offset=(rng.uniform(-0.3, 0.3, n) * np.sqrt(ratio)) if friction else np.zeros(n),
    )
    return replace(
        arm, model=robot, joint_damping=robot.damping, joint_frictionloss=robot.friction
    )


def some_motion(arm, seed=0, period=20.0, size=0.9):
    """Return a motion of five harmonics within the limits."""
    rng = np.random.default_rng(seed)
    n, limits = arm.n_joints, arm.limits
    low, high = limits.span
    low, high = np.maximum(low, arm.robot.ready - 1.2), np.minimum(high, arm.robot.ready + 1.2)
    a, b = rng.normal(size=(2, n, 5))
    motion = FourierMotion(a, b, np.zeros(n), period)
    q, dq, ddq = motion.sample(motion.times(50.0))
    factor = np.min(
        [
            (high - low) / np.ptp(q, axis=0),
            limits.velocity / np.abs(dq).max(axis=0),
            limits.acceleration / np.abs(ddq).max(axis=0),
        ],
        axis=0,
    )
    factor *= size
    middle = (q.max(axis=0) + q.min(axis=0)) / 2.0
    return FourierMotion(
        a * factor[:, None], b * factor[:, None], (low + high) / 2.0 - middle * factor, period
    )


def measure(arm, motion, seed=0, imperfections=None, believed=None, rate=1000.0, name="log"):
    """Move a simulated arm along a motion by computed torques, and return the measurements.

    Args:
        arm: Arm with its actual parameters.
        motion: Motion to track.
        seed: Seed of the noise.
        imperfections: Errors of measurement; by default those of a Franka arm.
        believed: Arm model of the controller; by default the actual one.
        rate: Rate of the log [Hz].
        name: Name of the log.
    """
    wrong = imperfections or Imperfections()
    rng = np.random.default_rng(seed)
    n = arm.n_joints
    scene = build_scene([arm], timestep=1e-3)
    for body in scene.bodies:
        body.gravcomp = 0.0
    for geom in scene.geoms:
        geom.contype = geom.conaffinity = 0
    model = scene.compile()
    data = mujoco.MjData(model)
    assumed_model = model_with_gravity(believed or arm)
    assumed_data = assumed_model.createData()
    time = np.arange(0.0, motion.duration, 1e-3)
    q_d, dq_d, ddq_d = motion.sample(time)
    model.opt.gravity[:] = 0.0, 0.0, -9.81
    data.qpos[:n] = q_d[0]
    if arm.finger_joint_names:
        data.qpos[n : n + 2] = arm.finger_opening
        data.ctrl[n : n + 2] = arm.finger_opening
    pending_torques = [pin.rnea(assumed_model, assumed_data, q_d[0], dq_d[0], ddq_d[0])] * (
        wrong.delay + 1
    )
    q, dq, tau = np.empty((3, len(time), n))
    kp, kd = np.full(n, 400.0), np.full(n, 40.0)
    mass = np.empty((n, n))
    for i in range(len(time)):
        q[i], dq[i], tau[i] = data.qpos[:n], data.qvel[:n], data.ctrl[:n]
        mass = pin.crba(assumed_model, assumed_data, data.qpos[:n])
        mass = np.triu(mass) + np.triu(mass, 1).T
        expected = ddq_d[i] + kp * (q_d[i] - q[i]) + kd * (dq_d[i] - dq[i])
        pending_torques.append(mass @ expected + pin.nle(assumed_model, assumed_data, q[i], dq[i]))
        data.ctrl[:n] = np.clip(pending_torques.pop(0), -arm.limits.torque, arm.limits.torque)
        if wrong.stribeck:
            slow = np.exp(-((data.qvel[:n] / 0.05) ** 2))
            data.qfrc_applied[:n] = -wrong.stribeck * slow * np.tanh(data.qvel[:n] / 0.005)
        mujoco.mj_step(model, data)
    q += wrong.q_noise * rng.normal(size=q.shape)
    if wrong.q_step:
        q = np.round(q / wrong.q_step) * wrong.q_step
    tau = tau + wrong.tau_noise * rng.normal(size=tau.shape)
    if wrong.tau_step:
        tau = np.round(tau / wrong.tau_step) * wrong.tau_step
    samples = slice(None, None, round(1000.0 / rate))
    return MeasuredMotion(name, time[samples], q[samples], tau[samples], dq[samples])
