# SPDX-License-Identifier: Apache-2.0
"""Random springs, motors, modes and commands: robots stay bounded and report limits."""

import contextlib
import dataclasses

import mujoco
import numpy as np
import pytest
from long_form import LONG

from multipanda_py.exceptions import ActuatorRejected, BackendError
from multipanda_py.simulation.actuators import COMMANDS, CompliantJoints, CompliantRobot, Motors
from multipanda_py.simulation.actuators.compliant_actuators import Awas2, Bavs, Qbmove, Sea

pytestmark = pytest.mark.inline

FLEW = (25, 139, 151, 160, 180, 191)
"""Seeds with links that once diverged to 1e12 rad."""
AT_THE_EDGE = (68, 110)
"""Light links on springs of more than 1e6 Nm/rad, where rounding decides if MuJoCo fails."""
SEEDS = range(1000) if LONG else FLEW + AT_THE_EDGE
LINK = (
    '<body pos="0 0 {at}"><joint name="j{i}" axis="0 1 0" damping="{damping}" range="-2 2" '
    'limited="true"/><geom type="capsule" fromto="0 0 0 0 0 -0.1" size="0.02" mass="{mass}" '
    'contype="0" conaffinity="0"/>'
)
MOTOR = {
    "inertia": [1e-6, 1e-3, 1e-1, 10], "damping": [0, 1e-3, 10, 1e3],
    "max_torque": [1e-3, 1, 100, 1e6], "max_velocity": [1e-3, 1, 1e6], "friction": [0, 0.1, 10],
    "friction_stiffness": [1, 1e3, 1e6], "p": [0, 1, 1e3, 1e6], "i": [0, 1, 1e4], "d": [0, 1, 1e3],
}  # fmt: skip


def _number(rng, default):
    if rng.random() < 0.5:
        return float(rng.choice([0.0, 1e-9, 1e-3, 1.0, 10.0, 1e3, 1e6]))
    return float((default or 0.1) * 10 ** rng.uniform(-2, 2))


def _robot(rng):
    """Return a robot of one to three links, with parameters up to their bounds."""
    kind, n = (Sea, Qbmove, Bavs, Awas2)[rng.integers(4)], int(rng.integers(1, 4))
    params = {
        field.name: _number(rng, field.default)
        for field in dataclasses.fields(kind.Params)
        if rng.random() < 0.35
    }
    motor = {name: float(rng.choice(of)) for name, of in MOTOR.items() if rng.random() < 0.4}
    links = "".join(
        LINK.format(
            i=i, at=-0.1 * (i > 0), mass=rng.choice([0.01, 0.3, 3]), damping=rng.choice([0, 0.01])
        )
        for i in range(n)
    )
    xml = f"<mujoco><worldbody>{links}{'</body>' * n}</worldbody></mujoco>"
    step, mode = float(rng.choice([1e-4, 1e-3, 4e-3])), int(rng.integers(0, 7))
    actuators = [(kind(n, params), list(range(n)))]
    joints = CompliantJoints(actuators, n, Motors.of(actuators, **motor), mode=mode)
    names = [f"j{i}" for i in range(n)]
    return CompliantRobot(mujoco.MjModel.from_xml_string(xml), names, joints, step=step)


def _command_anything(rng, joints):
    value = rng.choice([0, 0.3, -0.3, 0.01, rng.normal(), 10 * rng.normal(), np.nan, np.inf])
    with contextlib.suppress(ActuatorRejected):
        joints.command(str(rng.choice([*COMMANDS, "external_torque"])), float(value))


def _drive(rng, robot, cycles=150):
    """Change modes and commands at random; return the largest angle of a link [rad]."""
    furthest = 0.0
    for cycle in range(cycles):
        if cycle % 3 == 0:
            with contextlib.suppress(ActuatorRejected):
                robot.joints.set_mode(int(rng.integers(0, 7)))
        _command_anything(rng, robot.joints)
        _command_anything(rng, robot.joints)
        robot.step()
        assert np.isfinite(robot.link_torque).all()
        furthest = max(furthest, float(np.abs(robot.q).max()))
    return furthest


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("seed", SEEDS)
def test_random_robot_stays_bounded(seed):
    rng = np.random.default_rng(seed)
    try:
        robot = _robot(rng)
    except ActuatorRejected:
        return  # The constructor rejects these parameters.
    with contextlib.suppress(*(() if seed in FLEW else (BackendError,))):
        assert _drive(rng, robot) < 100.0


def _single(springs, mode, step, mass=0.3, **motor):
    actuators = [(springs, [0])]
    link = LINK.format(i=0, at=0, mass=mass, damping=0.0)
    model = mujoco.MjModel.from_xml_string(
        f"<mujoco><worldbody>{link}</body></worldbody></mujoco>"
    )
    joints = CompliantJoints(actuators, 1, Motors.of(actuators, **motor), mode=mode)
    return CompliantRobot(model, ["j0"], joints, step=step)


def test_reset_by_mujoco_is_reported():
    robot = _single(Sea(1), "equilibrium", 1e-3, mass=0.001)
    robot.external_torque[:] = 1e6  # The inertia is about 3e-6 kgm^2.
    with pytest.raises(BackendError, match=r"rad/s.*\b1e10 rad/s\^2.*\breset"):
        robot.step()


def test_mode_change_keeps_torque_of_weakened_dampers():
    robot = _single(Qbmove(1, {"damping": 1e6}), "motor_torque", 4e-3, inertia=1e-6)
    robot.joints.command("motor_1_command", 5.0)
    with pytest.warns(RuntimeWarning, match="dampers as weaker"):
        robot.step()
    assert abs(robot.link_torque[0]) < 10.0  # The motor has 5 Nm.
    robot.joints.set_mode("link_torque")
    robot.step()
    assert abs(robot.q[0]) < 1.0


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_rotation_per_step_is_limited_to_pi_and_reported():
    robot = _single(Sea(1), "equilibrium", 4e-3, mass=0.005)
    robot.joints.command("equilibrium_position", 1e3)
    for _ in range(100):
        before = robot.q[0]
        robot.step()
        assert abs(robot.q[0] - before) <= np.pi * (1 + 1e-12)
        assert abs(robot.dq[0]) <= np.pi / 4e-3 * (1 + 1e-12)
        if "in a step of 4 ms: limited to 3.14" in robot.joints.accuracy_warning:
            return
    pytest.fail("the link never reached the limit")
