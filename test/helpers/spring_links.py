# SPDX-License-Identifier: Apache-2.0
"""Links on springs: MuJoCo models, and their equations independent of the package."""

from __future__ import annotations

import math

import mujoco
import numpy as np
from scipy.integrate import solve_ivp

from multipanda_py.simulation.actuators import CompliantJoints, CompliantRobot
from multipanda_py.simulation.actuators.compliant_actuators import Awas2, Bavs, Qbmove, Sea

INERTIA, DAMPING, MASS, LENGTH, GRAVITY = 0.00232, 0.02, 0.2, 0.04, 9.81
"""Link: inertia about its joint [kg m^2], Nm s/rad, kg, distance to its centre [m], m/s^2."""


def clip(x, limit):
    return min(max(x, -limit), limit)


def sea(k):
    return lambda q, a, b: k * clip(a - q, 0.8)


def awas2(q, a, s):
    d = clip(a - q, 0.3)
    return 20.0 * (0.05 / 0.015 * s / (0.05 - s)) ** 2 * math.sin(d) * math.cos(d)


def bavs(q, a, b):
    one, other = (math.exp(8.71 * clip(motor - q, 0.27)) for motor in (a, b))
    push, pull = 1.6e5 * 1.21e-6, 1.6e5 * 2.38e-6
    return pull * one - push / one + push * other - pull / other


def qbmove(q, a, b):
    return sum(0.0019 * math.sinh(8.9992 * clip(motor - q, 0.8)) for motor in (a, b))


CASES = {
    "sea soft": (Sea, {"stiffness": 200.0}, 0.0, sea(200.0)),
    "sea stiff": (Sea, {"stiffness": 400.0}, 0.0, sea(400.0)),
    "awas2 soft": (Awas2, {}, 0.005, awas2),
    "awas2 stiff": (Awas2, {}, 0.04, awas2),
    "bavs soft": (Bavs, {}, 0.001, bavs),
    "bavs stiff": (Bavs, {}, 0.22, bavs),
    "qbmove soft": (Qbmove, {}, 0.2, qbmove),
    "qbmove stiff": (Qbmove, {}, 0.6, qbmove),
}
"""Actuator, parameters, preset, and spring torque as a function of q and both motors."""


def motors_at(kind, equilibrium, preset):
    """Return the positions of both motors."""
    if kind in (Qbmove, Bavs):
        return equilibrium + preset, equilibrium - preset
    return equilibrium, preset


def chain(
    n, damping=DAMPING, gravity=GRAVITY, step=1e-3, inertia=INERTIA, loss=0.0, tip="", world=""
):
    """Return a model of n equal links in series, with joints j1 to jn."""
    own = inertia - MASS * LENGTH**2
    link = (
        f'<body pos="0 0 {{at}}"><joint name="j{{i}}" type="hinge" axis="0 1 0" '
        f'damping="{damping}" frictionloss="{loss}"/><inertial pos="0 0 -{LENGTH}" mass="{MASS}" '
        f'diaginertia="{own} {own} {own}"/>'
    )
    links = "".join(link.format(i=i + 1, at=0 if i == 0 else -2.0 * LENGTH) for i in range(n))
    return mujoco.MjModel.from_xml_string(
        f'<mujoco><option timestep="{step}" gravity="0 0 -{gravity}"/><worldbody>{links}'
        f"{tip}{'</body>' * n}{world}</worldbody></mujoco>"
    )


def pendulum(kind, params=None, mode=3, motors=None, n=1, **model):
    """Return n links in series on springs of one type."""
    options = {name: model.pop(name) for name in ("scheme", "max_substeps") if name in model}
    joints = CompliantJoints([(kind(n, params), range(n))], n, motors, mode, **options)
    return CompliantRobot(chain(n, **model), [f"j{i + 1}" for i in range(n)], joints)


def exact(torque, times, theta, start=(0.0, 0.0), damping=DAMPING, gravity=GRAVITY):
    """Return the angles of a link with fixed motors, by an eighth-order method."""

    def rates(_, state):
        q, dq = state
        weight = MASS * gravity * LENGTH * math.sin(q)
        return dq, (torque(q, *theta) - damping * dq - weight) / INERTIA

    found = solve_ivp(
        rates, (0.0, times[-1]), start, method="DOP853", rtol=1e-9, atol=1e-12, t_eval=times
    )
    return found.y[0]


def run(robot, steps):
    """Return the angles after every step, (steps, n)."""
    found = np.empty((steps, robot.joints.n_joints))
    for i in range(steps):
        robot.step()
        found[i] = robot.q
    return found
