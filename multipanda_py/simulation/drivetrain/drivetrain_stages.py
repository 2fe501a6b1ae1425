# SPDX-License-Identifier: Apache-2.0
"""Drivetrain stages of a simulated arm, chosen by its section of the cell file."""

from __future__ import annotations

from multipanda_py.config.arm_section import ArmConfig
from multipanda_py.registry import extras_named
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.residual.runtime import residual_of
from multipanda_py.simulation.drivetrain.drivetrain import DrivetrainStage
from multipanda_py.simulation.drivetrain.elasticity import motor_addresses
from multipanda_py.simulation.drivetrain.friction import (
    Hysteresis,
    JointFriction,
    Ripple,
)
from multipanda_py.simulation.drivetrain.sensors import (
    CommandDelay,
    Delay,
    MeasuredStep,
    MeasurementResidual,
    SensorNoise,
    TorqueStep,
)
from multipanda_py.simulation.perturbed_arm import ModelError, Perturbation, dynamics_differ
from multipanda_py.simulation.robot import SimRobot

with extras_named():
    import mujoco

FRICTION_KEYS = ("coulomb", "viscous", "stribeck", "friction_offset")
"""Keys of a perturbation that describe friction."""


def stages_of(
    model: mujoco.MjModel,
    data: mujoco.MjData,
    arm: ArmDescription,
    real: ArmDescription,
    settings: ArmConfig,
    robot: SimRobot,
    dof: int,
    seed: int,
    period: float,
) -> list[DrivetrainStage]:
    """Build the drivetrain stages of an arm, except for springs of elastic or compliant joints.

    Args:
        model: Model of the scene.
        data: State of the scene.
        arm: Description of the arm that controllets use, without model errors.
        real: Description of the simulated arm, with model errors.
        settings: Section of the arm in the cell file.
        robot: Stage with the built-in control of the robot.
        dof: Index of the arm's first joint in ``qvel``.
        seed: Seed of the noise.
        period: Cycle time [s].
    """
    perturbation = settings.perturbation
    delay_cycles = round(perturbation.state_delay / period)
    stages = torque_steps(settings)
    if file := settings.residual.state:
        stages.append(MeasurementResidual(residual_of(arm, "state", file, period, dof)))
    if delay_cycles:
        stages.append(Delay(delay_cycles))
    if command_delay_cycles := round(perturbation.command_delay / period):
        stages.append(CommandDelay(command_delay_cycles, arm.n_joints, robot))
    return [
        *stages,
        robot,
        *imperfection_stages(model, data, arm, real, settings, dof, seed, period),
    ]


def torque_steps(settings: ArmConfig) -> list[DrivetrainStage]:
    """Return the stage that quantizes commanded torques, in a list; empty without quantization."""
    step = settings.noise.torque_resolution
    return [TorqueStep(step)] if step > 0.0 else []


def imperfection_stages(
    model: mujoco.MjModel,
    data: mujoco.MjData,
    arm: ArmDescription,
    real: ArmDescription,
    settings: ArmConfig,
    dof: int,
    seed: int,
    period: float,
) -> list[DrivetrainStage]:
    """Build the stages for errors of sensors and model, and for friction and ripple of joints.

    Args:
        model: Model of the scene.
        data: State of the scene.
        arm: Description of the arm that controllets use, without model errors.
        real: Description of the simulated arm, with model errors.
        settings: Section of the arm in the cell file.
        dof: Index of the arm's first joint in ``qvel``.
        seed: Seed of the noise.
        period: Cycle time [s].
    """
    noise, perturbation, joints = settings.noise, settings.perturbation, settings.transmission
    stages: list[DrivetrainStage] = []
    steps = {"q_resolution": 0.0, "dq_resolution": 0.0, "tau_resolution": 0.0}
    if any(getattr(noise, step) > 0.0 for step in steps):
        stages.append(MeasuredStep(noise))
    if not noise.model_copy(update={"torque_resolution": 0.0, **steps}).is_default:
        stages.append(SensorNoise(noise, seed, period))
    if not perturbation.is_default:
        stages.append(Perturbation(perturbation, model, data, arm, dof, period))
    if dynamics_differ(arm, real):
        stages.append(ModelError(model, data, arm, real, dof, period))
    if any(any(getattr(perturbation, key)) for key in FRICTION_KEYS):
        stages.append(JointFriction(perturbation, model, data, dof))
    if any(perturbation.hysteresis):
        first = int(model.joint(arm.joint_names[0]).qposadr[0])
        stages.append(Hysteresis(perturbation, data.qpos[first : first + arm.n_joints]))
    if any(joints.ripple):
        motors = motor_addresses(model, arm, joints)[0]
        stages.append(Ripple(joints, data.qpos, motors))
    return stages
