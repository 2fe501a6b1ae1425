# SPDX-License-Identifier: Apache-2.0
"""Contact force of a link on a wall during changes between all seven modes."""

import mujoco
import numpy as np
import pytest

from multipanda_py.simulation.actuators import CompliantJoints, CompliantRobot, Motors
from multipanda_py.simulation.actuators.compliant_actuators import Qbmove, Sea

pytestmark = pytest.mark.inline

LINK = (
    '<body pos="0 0 {at}"><joint name="{name}" axis="0 1 0" damping="0.065"/><geom type="capsule" '
    'fromto="0 0 0 0 0 -0.1" size="0.02" mass="0.3" contype="{touches}" conaffinity="{touches}"/>'
)
MODEL = f"""<mujoco><option impratio="10"/><worldbody>
  <geom type="box" size="0.01 0.2 0.3" pos="0.13 0 -0.1"/>
  {LINK.format(at=0.0, name="a", touches=0)}
  {LINK.format(at=-0.12, name="b", touches=1)}</body></body></worldbody></mujoco>"""


def contact_force(robot):
    """Return the contact force of the links, from the contacts of MuJoCo [N]."""
    found, total = np.zeros(6), 0.0
    for contact in range(robot.data.ncon):
        mujoco.mj_contactForce(robot.model, robot.data, contact, found)
        total += found[0]
    return total


@pytest.mark.parametrize(("springs", "preset"), [(Sea(2), None), (Qbmove(2), 0.6)])
def test_mode_change_keeps_contact_force(springs, preset):
    actuators = [(springs, [0, 1])]
    joints = CompliantJoints(actuators, 2, Motors.of(actuators), mode=6)
    robot = CompliantRobot(mujoco.MjModel.from_xml_string(MODEL), ["a", "b"], joints, step=1e-3)
    if preset is not None:
        joints.command("stiffness_preset", preset)
    joints.command("equilibrium_position", [-0.55, -0.35])
    for _ in range(2000):
        robot.step()
    force, q = contact_force(robot), robot.q
    assert force > 3.0
    for mode in (0, 4, 1, 6, 2, 5, 3, 1, 4, 0, 5, 2, 6, 3):
        torque = robot.link_torque
        joints.set_mode(mode)
        np.testing.assert_allclose(robot.link_torque, torque, rtol=0.0, atol=1e-12)
        for _ in range(20):
            robot.step()
            assert contact_force(robot) == pytest.approx(force, rel=0.03)
    np.testing.assert_allclose(robot.q, q, atol=2e-3)
    assert (joints.n_inaccurate, joints.rejected) == (0, 0)
