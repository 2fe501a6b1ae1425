# SPDX-License-Identifier: Apache-2.0
"""Which imperfections an arm of the cell file has, in their order."""

from __future__ import annotations

from multipanda_py.config.arm_residual import residual_of
from multipanda_py.config.sections import ArmConfig
from multipanda_py.registry import extras_named
from multipanda_py.robots import ArmDescription
from multipanda_py.simulation.drivetrain.drive import Stage
from multipanda_py.simulation.drivetrain.elasticity import motor_addresses
from multipanda_py.simulation.drivetrain.friction import (
    Hysteresis,
    JointFriction,
    ModelError,
    Ripple,
)
from multipanda_py.simulation.drivetrain.sensors import (
    CommandDelay,
    Delay,
    MeasuredStep,
    SensorNoise,
    ShownResidual,
    TorqueStep,
)
from multipanda_py.simulation.perturbed_arm import Perturbation, differs
from multipanda_py.simulation.robot import SimRobot

with extras_named():
    import mujoco

RUBBING = ("coulomb", "viscous", "stribeck", "friction_offset")
"""Keys of a perturbation that are friction."""


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
) -> list[Stage]:
    """Return what lies between a commanded torque and the joints of an arm, but springs.

    Args:
        model: The world.
        data: Its state.
        arm: The arm, as laws and robot believe it to be.
        real: The arm as it is simulated.
        settings: Its section of the cell file.
        robot: The stage that watches thresholds, as the robot does.
        dof: Number of its first degree of freedom.
        seed: Of its noise.
        period: Of a cycle [s].
    """
    spoiled = settings.perturbation
    late = round(spoiled.delay / period)
    stages = torque_steps(settings)
    if file := settings.residual.state:
        stages.append(ShownResidual(residual_of(arm, "state", file, period, dof)))
    if late:
        stages.append(Delay(late))
    if held_up := round(spoiled.command_delay / period):
        stages.append(CommandDelay(held_up, arm.n_joints, robot))
    return [*stages, robot, *flaws_of(model, data, arm, real, settings, dof, seed, period)]


def torque_steps(settings: ArmConfig) -> list[Stage]:
    """Return the stage that rounds commanded torques, if there is one."""
    step = settings.noise.torque_step
    return [TorqueStep(step)] if step > 0.0 else []


def flaws_of(
    model: mujoco.MjModel,
    data: mujoco.MjData,
    arm: ArmDescription,
    real: ArmDescription,
    settings: ArmConfig,
    dof: int,
    seed: int,
    period: float,
) -> list[Stage]:
    """Return what lies behind the robot's own control: sensors, motors, bodies and gears.

    Args:
        model: The world.
        data: Its state.
        arm: The arm, as laws and robot believe it to be.
        real: The arm as it is simulated.
        settings: Its section of the cell file.
        dof: Number of its first degree of freedom.
        seed: Of its noise.
        period: Of a cycle [s].
    """
    noise, spoiled, joints = settings.noise, settings.perturbation, settings.joints
    stages: list[Stage] = []
    steps = {"q_step": 0.0, "dq_step": 0.0, "tau_step": 0.0}
    if any(getattr(noise, step) > 0.0 for step in steps):
        stages.append(MeasuredStep(noise))
    if not noise.model_copy(update={"torque_step": 0.0, **steps}).is_default:
        stages.append(SensorNoise(noise, seed, period))
    if not spoiled.is_default:
        stages.append(Perturbation(spoiled, model, data, arm, dof, period))
    if differs(arm, real):
        stages.append(ModelError(model, data, arm, real, dof, period))
    if any(any(getattr(spoiled, key)) for key in RUBBING):
        stages.append(JointFriction(spoiled, model, data, dof))
    if any(spoiled.hysteresis):
        first = int(model.joint(arm.joint_names[0]).qposadr[0])
        stages.append(Hysteresis(spoiled, data.qpos[first : first + arm.n_joints]))
    if any(joints.ripple):
        motors = motor_addresses(model, arm, joints)[0]
        stages.append(Ripple(joints, data.qpos, motors))
    return stages
