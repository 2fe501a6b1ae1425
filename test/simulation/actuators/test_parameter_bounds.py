# SPDX-License-Identifier: Apache-2.0
"""Springs, motors and dampers at their bounds: motion stays bounded beyond the step limit."""

import mujoco
import numpy as np
import pytest
from long_form import every_nth

from multipanda_py.exceptions import ActuatorRejected
from multipanda_py.simulation.actuators import CompliantJoints, CompliantRobot, LinkPid, Motors
from multipanda_py.simulation.actuators.compliant_actuators import Bavs, Qbmove, Sea

pytestmark = pytest.mark.inline

MODEL = """<mujoco><worldbody><body><joint name="a" axis="0 1 0"/>
  <geom type="capsule" fromto="0 0 0 0 0 -0.1" size="0.02" mass="0.2"/>
</body></worldbody></mujoco>"""


def _robot(springs, step=1e-3, mode="equilibrium", motors=None, **more):
    actuators = [(springs, [0])]
    known = Motors.of(actuators, **motors) if motors is not None else None
    joints = CompliantJoints(actuators, 1, known, mode=mode, **more)
    return CompliantRobot(mujoco.MjModel.from_xml_string(MODEL), ["a"], joints, step=step)


def _largest_speed(robot, steps=300):
    return max(abs(_speed_after_a_step(robot)) for _ in range(steps))


def _speed_after_a_step(robot):
    robot.step()
    return float(robot.dq[0])


@pytest.mark.long
@pytest.mark.parametrize("damping", every_nth(3, [10.0, 1e3, 1e6]))
@pytest.mark.parametrize("kind", [Sea, Bavs])
def test_unresolved_damping_keeps_speed_bounded(kind, damping):
    robot = _robot(kind(1, {"damping": damping}), step=4e-3)
    robot.joints.command("equilibrium_position", 0.3)
    with pytest.warns(RuntimeWarning, match="dampers respond at"):
        robot.step()
    assert _largest_speed(robot) < 20.0
    assert robot.joints.n_inaccurate == 301


@pytest.mark.long
@pytest.mark.parametrize(
    "motor",
    every_nth(
        3,
        [
            {"inertia": 1e-12},
            {"damping": 1e6},
            {"d": 1e6},
            {"p": 1e6, "inertia": 1e-6},
            {"friction_stiffness": 1e6, "inertia": 1e-6},
        ],
    ),
)
def test_unresolved_motors_get_more_inertia_and_warning(motor):
    robot = _robot(Sea(1), mode="equilibrium_pid", motors=motor)
    robot.joints.command("equilibrium_position", 0.3)
    with pytest.warns(RuntimeWarning, match="1 ms"):
        robot.step()
    assert _largest_speed(robot) < 60.0
    assert abs(robot.joints.theta[0, 0]) < 1.0


def test_resolved_damper_is_unchanged():
    robot = _robot(Sea(1, {"damping": 0.01}), mode="equilibrium_pid", motors={})
    robot.step()
    assert robot.joints.accuracy_warning == ""


def test_link_controller_counts_in_step_limit():
    robot = _robot(
        Sea(1), step=4e-3, mode="link_pid", link_pid=LinkPid.from_config(1, p=50.0, d=100.0)
    )
    robot.joints.command("link_command", 0.3)
    with pytest.warns(RuntimeWarning, match="respond at"):
        robot.step()
    assert _largest_speed(robot) < 20.0


@pytest.mark.parametrize("value", [1e300, -2e6])
@pytest.mark.parametrize(
    ("mode", "name"),
    [
        ("link_torque", "torque_command"),
        ("link_pid", "link_command"),
        ("spring_references", "reference_1"),
        ("equilibrium", "equilibrium_position"),
    ],
)
def test_huge_finite_command_is_rejected(mode, name, value):
    robot = _robot(Qbmove(1), mode=mode)
    with pytest.raises(ActuatorRejected, match=rf"^{name} .*joint 1: .*-1e\+06\b"):
        robot.joints.command(name, value)
    robot.step()
    assert robot.joints.rejected == 1
    assert np.isfinite(robot.link_torque).all()


@pytest.mark.parametrize("kind", [Qbmove, Bavs])
def test_springs_that_overflow_at_their_limit_are_rejected(kind):
    with pytest.raises(ActuatorRejected, match=r"max_deflection.*joint 1:.*1e"):
        kind(1, {"max_deflection": 1e6})
