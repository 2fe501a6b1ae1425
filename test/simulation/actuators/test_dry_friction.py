# SPDX-License-Identifier: Apache-2.0
"""A link that dry friction had to hold crept by 33 mrad in 10 s: MuJoCo's friction is soft."""

from __future__ import annotations

import itertools

import mujoco
import numpy as np
import pytest
from spring_links import chain, run

from multipanda_py.simulation.actuators import CompliantJoints, CompliantRobot, Motors
from multipanda_py.simulation.actuators.dry_friction import let_friction_stick
from multipanda_py.simulation.actuators.qbmove import Qbmove
from multipanda_py.simulation.actuators.sea import Sea

pytestmark = pytest.mark.inline

STEP = 1e-3
STICKS = 1e-4
"""Speed that is 1 mrad in 10 s [rad/s]."""
FASTEST = 1000.0
"""Acceleration by the load without friction up to which friction sticks so well [rad/s^2]."""
CASES = list(itertools.product([1e-3, 0.025, 0.5, 10.0], [1e-4, 5e-3, 0.1, 5.0]))
"""Friction [Nm] and inertia of the link [kg m^2]."""


def free_link(loss, inertia):
    """Return one link without weight, and its state."""
    model = mujoco.MjModel.from_xml_string(
        f'<mujoco><option timestep="{STEP}" gravity="0 0 0"/><worldbody><body><joint axis="0 0 1" '
        f'frictionloss="{loss}"/><inertial pos="0 0 0" mass="1" '
        f'diaginertia="{inertia} {inertia} {inertia}"/></body></worldbody></mujoco>'
    )
    let_friction_stick(model)
    return model, mujoco.MjData(model)


@pytest.mark.parametrize(("loss", "inertia"), CASES)
def test_a_link_sticks_slips_and_stops_as_coulomb_says(loss, inertia):
    model, data = free_link(loss, inertia)
    data.qfrc_applied[0] = load = 0.9 * loss
    mujoco.mj_step(model, data, 1000)
    assert abs(data.qvel[0]) < STICKS * max(1.0, load / inertia / FASTEST)

    data.qfrc_applied[0] = 1.5 * loss  # it breaks loose, by the half of the friction
    before = data.qvel[0]
    mujoco.mj_step(model, data, 100)
    np.testing.assert_allclose(data.qvel[0] - before, 0.05 * loss / inertia, rtol=1e-6)

    data.qfrc_applied[0] = 0.0
    speed = data.qvel[0] = 0.2025 * loss / inertia  # stops within step 203
    data.qpos[0] = 0.0
    speeds = []
    for _ in range(300):
        mujoco.mj_step(model, data)
        speeds.append(data.qvel[0])
    assert np.diff(speeds, prepend=speed).max() <= 1e-12 * speed, "it never gains speed"
    assert min(speeds) >= -1e-12 * speed, "it does not turn round"
    assert abs(speeds[-1]) < 1e-9 * speed
    np.testing.assert_allclose(data.qpos[0], 0.5 * speed * 0.2025, rtol=0.01)


@pytest.mark.parametrize(("kind", "mode"), [(Qbmove, 6), (Qbmove, 3), (Sea, 3)])
def test_a_link_on_springs_crept_where_friction_holds_it(kind, mode):
    actuators = [(kind(1), [0])]
    joints = CompliantJoints(actuators, 1, Motors.of(actuators), mode)
    robot = CompliantRobot(chain(1, loss=0.025), ["j1"], joints)
    joints.command("equilibrium_position", 0.8)
    if kind is Qbmove:
        joints.command("stiffness_preset", 0.2)
    run(robot, 3000)  # it has come to rest short of the equilibrium
    before = robot.q[0]
    run(robot, 1000)
    assert abs(robot.q[0] - before) < 1e-4
    pulled = robot.link_torque[0] - robot.weight[0]
    assert 1e-3 < abs(pulled) < 0.025, "friction carries a part of the load"


def test_parameters_that_a_model_brings_are_kept():
    xml = (
        '<mujoco><worldbody><body><joint name="a" frictionloss="1" solreffriction="0.05 1"/>'
        '<geom size="0.1"/><body><joint name="b" frictionloss="1"/><geom size="0.1"/></body>'
        "</body></worldbody></mujoco>"
    )
    model = mujoco.MjModel.from_xml_string(xml)
    let_friction_stick(model)
    np.testing.assert_allclose(model.dof_solref, [[0.05, 1.0], [2.0 * model.opt.timestep, 1.0]])
    np.testing.assert_allclose(model.dof_solimp[:, 0], [0.9, 0.9999])
