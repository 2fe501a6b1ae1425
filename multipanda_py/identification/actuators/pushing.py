# SPDX-License-Identifier: Apache-2.0
"""Validation experiment in which a five-joint arm pushes a box, soft and stiff."""

from __future__ import annotations

import mujoco
import numpy as np

from multipanda_py.identification.actuators.finding import Check, Curve, ExperimentResult, Panel
from multipanda_py.identification.actuators.learning_control import minimum_jerk
from multipanda_py.identification.actuators.robots import (
    BOX,
    BOX_EDGE,
    FIVE_LINKS,
    PRESETS,
    TIP,
    chain_model,
    identified,
    robot_of,
)
from multipanda_py.simulation.actuators import CompliantRobot
from multipanda_py.state import Matrix, Vector

TIP_RADIUS = 0.03
"""Radius of the tip [m]."""
START_CONFIGURATION = (0.2, 0.0, 0.0, -1.2, 0.0)
"""Start configuration with little weight on the shoulder, which would otherwise stiffen its
springs [rad]."""
PATH = 0.11
"""Displacement of the tip along x [m]."""
START_DISTANCE = 0.03
"""Initial distance between tip and box [m]."""
IK_GAIN = 10.0
"""Gain of the inverse kinematics [1/s]."""
TIME_STEP = 2e-3
"""Time step of the simulation [s]."""
MIN_DISPLACEMENT, MAX_DISPLACEMENT = 0.015, 0.01
"""Minimum displacement of a pushed box and maximum displacement of a box that
stops the arm [m]."""


def closed_loop_ik(model: mujoco.MjModel, q: Vector, path: Matrix, step: float) -> Matrix:
    r"""Return joint angles that move the tip along a path, by closed-loop inverse kinematics.

    .. math:: \dot q = J^+ \left(\dot x^* + K (x^* - x(q))\right).

    Symbols: desired tip position :math:`x^*`, the tip position x(q), the pseudoinverse :math:`J^+`
    of its Jacobian and the gain K.

    Args:
        model: Model with a site ``tip``, whose first joints are those of the arm.
        q: Initial joint angles, (n,) [rad].
        path: Tip positions in the world frame, (k, 3) [m].
        step: Time between path points [s].

    Returns:
        Joint angles for each path point, (k, n) [rad].

    Source: Siciliano et al., Robotics: modelling, planning and control, 2010, section 3.7.
    """
    data, site = mujoco.MjData(model), model.site(TIP).id
    jacobian, q = np.empty((3, model.nv)), np.array(q, dtype=np.float64)
    n, result = len(q), np.empty((len(path), len(q)))
    before = path[0]
    for k, desired in enumerate(path):
        data.qpos[:n] = q
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_jacSite(model, data, jacobian, None, site)
        speed = (desired - before) / step + IK_GAIN * (before - data.site_xpos[site])
        q = q + step * np.linalg.pinv(jacobian[:, :n]).dot(speed)
        result[k], before = q, desired
    return result


def tip_at(model: mujoco.MjModel, q: Vector) -> Vector:
    """Return the tip position in the world frame, (3,) [m].

    Args:
        model: Model with a site ``tip``.
        q: Joint angles, (n,) [rad].
    """
    data = mujoco.MjData(model)
    data.qpos[:] = q
    mujoco.mj_forward(model, data)
    result: Vector = data.site(TIP).xpos.copy()
    return result


def weights(model: mujoco.MjModel, q: Matrix) -> Matrix:
    """Return the gravity torques at each joint configuration, (k, n) [Nm].

    Args:
        model: Model of the arm.
        q: Joint angles, (k, n) [rad].
    """
    data, weights = mujoco.MjData(model), np.empty_like(q)
    for k, row in enumerate(q):
        data.qpos[: q.shape[1]] = row
        mujoco.mj_fwdPosition(model, data)
        mujoco.mj_fwdVelocity(model, data)
        weights[k] = data.qfrc_bias[: q.shape[1]]
    return weights


def _push(robot: CompliantRobot, aims: Matrix) -> tuple[Vector, Vector]:
    """Return the x positions of tip and box after each commanded equilibrium, (k,) each [m]."""
    tips, positions = np.empty(len(aims)), np.empty(len(aims))
    for k, aim in enumerate(aims):
        robot.joints.command("equilibrium_position", aim)
        robot.step()
        tips[k] = robot.data.site(TIP).xpos[0]
        positions[k] = robot.data.body(BOX).xpos[0]
    return tips, positions


def push_a_box(quick: bool) -> ExperimentResult:
    """Move the tip against a box, soft and stiff."""
    seconds, hold = (2.0, 1.0) if quick else (5.0, 2.0)
    start = np.array(START_CONFIGURATION)
    height = 0.5 * BOX_EDGE - float(tip_at(chain_model(FIVE_LINKS, height=0.0), start)[2])
    arm = chain_model(FIVE_LINKS, step=TIME_STEP, height=height)
    tip = tip_at(arm, start)
    face = tip[0] + TIP_RADIUS + START_DISTANCE
    moments: Vector = TIME_STEP * np.arange(1.0, round((seconds + hold) / TIME_STEP) + 1.0)
    path = np.repeat(tip[None], len(moments), axis=0)
    path[:, 0] += PATH * minimum_jerk(moments, seconds)
    angles = closed_loop_ik(arm, start, path, TIME_STEP)
    torques = weights(arm, angles)
    springs = identified(5, joint=1)
    moved, reached, curves, boxes = {}, {}, [], []
    for name, preset in PRESETS.items():
        aims = np.array([
            springs.equilibrium_for(q, torque, preset) for q, torque in zip(angles, torques)
        ])  # fmt: skip
        model = chain_model(
            FIVE_LINKS,
            step=TIME_STEP,
            height=height,
            tip_radius=TIP_RADIUS,
            box_at=face + 0.5 * BOX_EDGE,
        )
        robot = robot_of(model, springs, preset)
        robot.reset(start, torques[0])
        tips, positions = _push(robot, aims)
        moved[name] = positions[-1] - positions[0]
        reached[name] = path[-1, 0] - tips[-1]
        curves.append(Curve(name, moments, tips))
        boxes.append(Curve(name, moments, positions - positions[0]))
    checks = (
        Check(f"the box stops the soft arm and moves by {MAX_DISPLACEMENT:g} m or less",
              f"{moved['soft']:.4f} m", moved["soft"] <= MAX_DISPLACEMENT),
        Check(f"the stiff arm pushes the box by {MIN_DISPLACEMENT:g} m or more",
              f"{moved['stiff']:.4f} m", moved["stiff"] >= MIN_DISPLACEMENT),
        Check("the stiff arm comes closer to the desired tip position",
              ", ".join(f"{name} {left:.3f} m error" for name, left in reached.items()),
              abs(reached["stiff"]) < abs(reached["soft"])),
    )  # fmt: skip
    figures = {f"{name} box moved m": float(displacement) for name, displacement in moved.items()}
    figures |= {f"{name} tip left m": float(left) for name, left in reached.items()}
    return ExperimentResult(
        "pushing", "Five joints pushing a box",
        f"Closed-loop inverse kinematics for a straight path of {PATH:g} m, equilibria that "
        "compensate the spring deflection under the weight of the arm, mode 6, springs as "
        "identified for the paper's second joint, and a box of 2 kg and 0.265 m on ground with "
        "friction 0.23. The paper does not state the dimensions of the arm.",
        "The box stops the end effector of the soft arm. The stiff arm moves the box and reaches "
        "the desired position.",
        checks,
        (
            Panel("tip", "x [m]", (Curve("wanted", moments, path[:, 0], "k:"), *curves)),
            Panel("path of the box", "x [m]", tuple(boxes)),
        ),
        figures,
    )  # fmt: skip
