# SPDX-License-Identifier: Apache-2.0
"""Warnings about unusual but valid cells: arm poses, delays, rates, springs and motor stops."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pinocchio as pin

from multipanda_py.config.actuator_section import WITHOUT_SPRINGS, ActuatorConfig, joint_indices
from multipanda_py.config.arm_section import ArmConfig
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arm, describe_arms
from multipanda_py.robots.dynamics.arm_dynamics import model_with_gravity
from multipanda_py.state import Vector


def check_robots(config: CellConfig) -> list[str]:
    """Return warnings about implausible values of robot models, once per model."""
    robots = {id(arm.robot): (name, arm.robot) for name, arm in reversed(config.arms.items())}
    return [
        f"arms.{name}.model: {doubt}"
        for name, robot in robots.values()
        for doubt in robot.warnings
    ]


MIN_BASE_DISTANCE = 0.1
"""Distance of two base frames below which the bases overlap [m]."""


def check_overlapping_bases(config: CellConfig) -> list[str]:
    """Return one warning per pair of arms whose bases overlap.

    Arms on opposite faces of a plate are not reported, because their z axes point away from each
    other.
    """
    result = []
    for one, other in itertools.combinations(describe_arms(config), 2):
        apart = np.linalg.norm(one.position_base_in_world - other.position_base_in_world)
        upright = one.rotation_base_in_world[:, 2] @ other.rotation_base_in_world[:, 2]
        if apart < MIN_BASE_DISTANCE and upright > 0.0 and not one.shares_base(other):
            result.append(
                f"{one.name} and {other.name}: the bases overlap, at a distance of {apart:.3f} m, "
                f"expected {MIN_BASE_DISTANCE:g} m or more. Check arms.{other.name}.position"
            )
    return result


MAX_VERIFIED_DELAY = 0.007
"""Maximum sum of delays and lags for which ``hold`` is verified to stop an arm [s].

The sum includes the motors of compliant actuators. ``hold`` stopped arms in any state of motion,
also with 0.8 of the inertia. With 10 ms it failed in 1 of 8 motions, with 14 ms in all. See
doc/faults.md."""
DELAY_KEYS = ("state_delay", "command_delay", "torque_lag")


def check_latency(config: CellConfig) -> list[str]:
    """Return warnings about arms with delays too long for ``hold`` to stop them reliably."""
    result = []
    for name, arm in config.arms.items():
        late = sum(getattr(arm.perturbation, key) for key in DELAY_KEYS) + arm.motor_lag
        if late > MAX_VERIFIED_DELAY + 1e-9:
            result.append(
                f"arms.{name}.perturbation: got {1e3 * late:.3g} ms in total of "
                f"{', '.join(DELAY_KEYS)}"
                f"{' and motor lag' if arm.motor_lag else ''}, expected "
                f"{1e3 * MAX_VERIFIED_DELAY:g} ms or "
                "less. With more, hold may oscillate instead of stopping the arm"
            )
    return result


def check_rates(config: CellConfig) -> list[str]:
    """Return warnings about publishing rates that are too high and therefore reduced.

    The maximum is the lower one of cycle rate and ``joint_state_rate``. Default rates are reduced
    without a warning.
    """
    cell = config.cell
    name = "joint_state_rate" if cell.joint_state_rate < cell.rate else "rate"
    max_value = float(getattr(cell, name))
    return [
        f"cell.{one}: got {rate:g} Hz, reduced to {max_value:g} Hz, the value of cell.{name}"
        for one in ("joint_state_rate", "tf_rate", "introspection_rate")
        if one in cell.model_fields_set and (rate := float(getattr(cell, one))) > max_value
    ]


CONFIGURATION_COUNT = 400
"""Number of random configurations for the search of the maximum gravity torques."""


def check_spring_torques(config: CellConfig) -> list[str]:
    """Return warnings about arms whose springs and motors are weaker than rigid joints.

    A joint is reported if springs and motors exert less than the torque limit of the rigid joint
    plus its maximum gravity torque.
    """
    result = []
    for name, arm in config.arms.items():
        rigid, whole = arm.rigid_robot.limits.torque, arm.robot.limits.whole_torque
        if not arm.robot.limits.bears_weight:
            continue
        max_value, here = _gravity_torques(config, name)
        insufficient = np.flatnonzero(whole < rigid + max_value).tolist()
        parts = [
            f"{arm.robot.joints[joint].name} {whole[joint]:.3g} Nm instead of "
            f"{rigid[joint]:.3g} Nm, of which the weight takes {here[joint]:.2g} Nm at q_start "
            f"and up to {max_value[joint]:.2g} Nm"
            + (", more than available" if max_value[joint] > whole[joint] else "")
            for joint in insufficient
        ]
        if parts:
            result.append(
                f"arms.{name}.actuators: springs and motors exert less than the torque limits "
                f"plus the weight, so controllets have less torque: {'; '.join(parts)}"
            )
    return result


def _gravity_torques(config: CellConfig, arm_name: str) -> tuple[Vector, Vector]:
    """Return maximum gravity torques of an arm, and those at ``q_start``, (n,) each [Nm]."""
    arm = config.arms[arm_name]
    model = model_with_gravity(describe_arm(arm_name, arm))
    data, (low, high) = model.createData(), arm.robot.limits.span
    rng, max_value = np.random.default_rng(0), np.zeros(arm.robot.n_joints)

    def gravity_torque(q: Vector) -> Vector:
        result: Vector = np.abs(pin.computeGeneralizedGravity(model, data, q)).round(6)
        return result

    for _ in range(CONFIGURATION_COUNT):
        np.maximum(max_value, gravity_torque(rng.uniform(low, high)), out=max_value)
    here = gravity_torque(np.array(arm.q_start))
    return np.maximum(max_value, here), here


def check_motor_ranges(config: CellConfig) -> list[str]:
    """Return warnings about arms whose motor stops prevent joints from reaching their limits.

    The check neglects the deflection of springs under load.
    """
    short_stops = []
    for name, arm in config.arms.items():
        names = tuple(joint.name for joint in arm.rigid_robot.joints)
        parts = [
            part
            for key, at in joint_indices(arm.actuators, names).items()
            for part in _short_of(arm, arm.actuators[key], at)
        ]
        if parts:
            short_stops.append(
                f"arms.{name}.actuators: motor stops are inside the joint ranges, so only the "
                f"deflection of springs moves joints beyond them. Widen min_position and "
                f"max_position: "
                f"{'; '.join(parts)}"
            )
    return short_stops


def _short_of(arm: ArmConfig, group: ActuatorConfig, at: list[int]) -> Iterator[str]:
    if group.motor is None or group.mode in WITHOUT_SPRINGS:
        return
    springs, (start, end) = group.actuator(len(at)), arm.rigid_robot.limits.span
    joint_low, joint_high, q = start[at], end[at], np.array(arm.q_start)[at]
    ahead = springs.references(np.zeros(len(at)), np.zeros(len(at)) + group.preset)
    both = (group.motor, group.motor_2 or group.motor)[: 2 if springs.is_antagonistic else 1]
    low = np.max([np.subtract(motor.min_position, one) for motor, one in zip(both, ahead)], axis=0)
    high = np.min(
        [np.subtract(motor.max_position, one) for motor, one in zip(both, ahead)], axis=0
    )
    short = (low > np.where(np.isfinite(joint_low), joint_low, q)) | (
        high < np.where(np.isfinite(joint_high), joint_high, q)
    )
    for i in np.flatnonzero(short):
        lost = "" if low[i] <= q[i] <= high[i] else f"; it starts at {q[i]:.3g} rad"
        yield (
            f"{arm.rigid_robot.joints[at[i]].name} reaches {low[i]:.3g} to {high[i]:.3g} rad, its "
            f"range is {joint_low[i]:.3g} to {joint_high[i]:.3g} rad{lost}"
        )
