# SPDX-License-Identifier: Apache-2.0
"""MuJoCo model with springs at its joints: coupled links, contacts, friction, and limits."""

from __future__ import annotations

import math
import warnings

import mujoco
import numpy as np
import pytest
from spring_links import (
    GRAVITY,
    INERTIA,
    LENGTH,
    MASS,
    bavs,
    chain,
    pendulum,
    qbmove,
    run,
    sea,
)

from multipanda_py.exceptions import ActuatorRejected, BackendError
from multipanda_py.simulation.actuators import CompliantJoints, CompliantRobot, LinkPid, Motors
from multipanda_py.simulation.actuators.compliant_actuators import Awas2, Bavs, Qbmove, Sea
from multipanda_py.simulation.actuators.robot import suggested_step
from multipanda_py.simulation.mujoco_friction import let_friction_stick

pytestmark = [pytest.mark.sim, pytest.mark.inline]


def fine(model, torques, seconds, step=2e-5):
    """Return the angles every ms from small steps of MuJoCo, with springs as torques."""
    model.opt.timestep = step
    data, found = mujoco.MjData(model), []
    for i in range(round(seconds / step)):
        data.qfrc_applied[:] = [torque(q) for torque, q in zip(torques, data.qpos)]
        mujoco.mj_step(model, data)
        if (i + 1) % round(1e-3 / step) == 0:
            found.append(data.qpos.copy())
    return np.array(found)


def test_coupled_links_agree_with_small_steps_of_mujoco():
    """Three links in series; each joint has its own group, in another order."""
    groups = [(Bavs(1), [2]), (Sea(1, {"stiffness": 30.0}), [0]), (Qbmove(1), [1])]
    joints = CompliantJoints(groups, 3)
    robot = CompliantRobot(chain(3), ["j1", "j2", "j3"], joints)
    joints.command("stiffness_preset", [0.0, 0.5, 0.1])
    joints.command("equilibrium_position", [0.6, -0.4, 0.3])
    found = run(robot, 300)
    torques = [
        lambda q: sea(30.0)(q, 0.6, 0.0),
        lambda q: qbmove(q, 0.1, -0.9),
        lambda q: bavs(q, 0.4, 0.2),
    ]
    expected = fine(chain(3), torques, 0.3)
    assert np.ptp(expected, axis=0).min() > 0.3
    # The coupled inertia of links is constant during a step.
    assert np.abs(found - expected).max() <= 5e-3
    assert robot.q == pytest.approx(found[-1])


def test_springs_may_act_on_any_joints_of_model():
    """The second joint has a spring and the first is rigid."""
    joints = CompliantJoints([(Sea(1, {"stiffness": 30.0}), [0])], 1)
    robot = CompliantRobot(chain(2), ["j2"], joints)
    joints.command("equilibrium_position", -0.4)
    for _ in range(300):
        robot.step()
    torques = [lambda _: 0.0, lambda q: sea(30.0)(q, -0.4, 0.0)]
    assert robot.data.qpos == pytest.approx(fine(chain(2), torques, 0.3)[-1], abs=5e-3)


def test_external_torque_deflects_spring_by_its_stiffness():
    """The toolbox ignores this message."""
    robot = pendulum(Sea, {"stiffness": 20.0}, gravity=0.0, damping=0.3)
    robot.external_torque[:] = 1.0
    q = run(robot, 600)[-1, 0]
    assert q == pytest.approx(1.0 / 20.0, rel=1e-6)
    assert robot.link_torque[0] == pytest.approx(-1.0, rel=1e-5)
    assert not robot.data.qfrc_applied.any()


def test_link_at_rest_has_zero_velocity():
    """An impulse only at the start of a step would leave half of it: 0.02 rad/s."""
    robot = pendulum(Sea, {"stiffness": 5.0}, damping=0.0)
    robot.joints.command("equilibrium_position", 0.5)
    robot.model.dof_damping[0] = 0.0
    weight = MASS * GRAVITY * LENGTH
    q = 0.5
    for _ in range(50):
        q = 0.5 - weight * math.sin(q) / 5.0
    robot.reset(np.array([q]), np.array([weight * math.sin(q)]))
    for _ in range(100):
        robot.step()
        assert abs(robot.dq[0]) < 1e-9
    assert robot.q[0] == pytest.approx(q, abs=1e-10)


def test_friction_creep_is_not_above_that_of_mujoco():
    robot = pendulum(Sea, {"stiffness": 5.0}, gravity=0.0, loss=0.1)
    robot.joints.command("equilibrium_position", 0.01)
    plain = chain(1, gravity=0.0, loss=0.1)
    let_friction_stick(plain)
    data = mujoco.MjData(plain)
    for _ in range(500):
        robot.step()
        data.qfrc_applied[:] = 5.0 * (0.01 - data.qpos)
        mujoco.mj_step(plain, data)
        assert robot.q[0] == pytest.approx(data.qpos[0], abs=2e-5)


def wall(at):
    """Return a tip for the last link, and a wall that it meets at an angle [rad]."""
    return (
        f'<geom type="sphere" size="0.01" pos="0 0 -{2 * LENGTH}" contype="1" conaffinity="2"/>',
        f'<geom type="box" size="0.02 0.1 0.2" pos="{-2 * LENGTH * math.sin(at) - 0.03} 0 0" '
        'contype="2" conaffinity="1"/>',
    )


def pressing(stiffness, step=1e-3, damping=0.05):
    """Return a link that a spring presses against a wall at 0.3 rad, 0.2 rad behind it."""
    tip, box = wall(0.3)
    model = chain(1, damping, 0.0, step, tip=tip, world=box)
    joints = CompliantJoints([(Sea(1, {"stiffness": stiffness}), [0])], 1)
    robot = CompliantRobot(model, ["j1"], joints)
    joints.command("equilibrium_position", 0.5)
    return robot


@pytest.mark.parametrize("step", [1e-3, 4e-3])
def test_contact_force_balances_spring_torque(step):
    robot = pressing(5.0, step)
    run(robot, round(1.0 / step))
    assert robot.q[0] == pytest.approx(0.3, abs=2e-3)
    assert abs(robot.dq[0]) < 1e-3
    force = np.zeros(6)
    assert robot.data.ncon == 1
    mujoco.mj_contactForce(robot.model, robot.data, 0, force)
    lever = 2 * LENGTH * math.cos(robot.q[0])
    assert force[0] * lever == pytest.approx(5.0 * (0.5 - robot.q[0]), rel=1e-2)


def test_impact_penetration_is_not_above_that_of_mujoco():
    robot = pressing(5.0)
    plain, maximum = mujoco.MjData(robot.model), 0.0
    for _ in range(300):
        plain.qfrc_applied[:] = 5.0 * (0.5 - plain.qpos)
        mujoco.mj_step(robot.model, plain)
        maximum = max(maximum, plain.qpos[0])
    assert maximum > 0.3
    assert run(robot, 300).max() < maximum + 2e-3


def test_step_above_half_period_gives_one_warning():
    omega = math.sqrt(400.0 / INERTIA)
    robot = pendulum(Sea, {"stiffness": 400.0}, step=1.1 * math.pi / omega)
    with pytest.warns(RuntimeWarning, match=r"\b66 Hz.*\b8\.32 ms"):
        robot.step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        robot.step()  # The warning appears once.
    assert robot.joints.n_inaccurate == 2
    short = pendulum(Sea, {"stiffness": 400.0}, step=0.9 * math.pi / omega)
    short.step()
    assert short.joints.accuracy_warning == ""


def test_unresolved_stiffness_is_softened_and_reported():
    """Its integration once diverged."""
    robot = pendulum(Awas2, max_substeps=1, gravity=0.0)
    robot.joints.command("stiffness_preset", 0.04)
    robot.joints.command("equilibrium_position", 0.2)
    with pytest.warns(RuntimeWarning, match=r"\b3\d\d\d Nm/rad .*\b0\.[67]\d"):
        found = run(robot, 1000)
    assert robot.joints.n_inaccurate == 1000
    assert found[-1, 0] == pytest.approx(0.2, abs=0.02)


def test_non_finite_state_does_not_reach_joints():
    robot = pendulum(Sea)
    before = robot.joints.save()
    with pytest.raises(BackendError, match="finite"):
        robot.joints.advance(
            np.array([np.nan]), np.zeros(1), np.zeros(1), np.array([[400.0]]), 1e-3
        )
    assert robot.joints.save().state.tolist() == before.state.tolist()


@pytest.mark.parametrize("field", ["qpos", "qvel"])
def test_reset_by_mujoco_in_first_step_is_reported(field):
    robot = pendulum(Sea)
    getattr(robot.data, field)[0] = 1e12  # Finite, but beyond the limit of MuJoCo.
    with pytest.raises(BackendError, match=r"reset\(\)"):
        robot.step()


@pytest.mark.parametrize("mode", [3, 6])
def test_original_scheme_is_first_order_with_same_rest(mode):
    def to_rest(scheme, step):
        motors = Motors.of([(Qbmove(1), [0])])
        robot = pendulum(Qbmove, mode=mode, motors=motors, scheme=scheme, step=step, damping=0.03)
        robot.joints.command("stiffness_preset", 0.5)
        robot.joints.command("equilibrium_position", 0.5)
        every = round(1e-3 / step)
        return run(robot, 600 * every)[every - 1 :: every, 0]

    accurate = to_rest("accurate", 1e-3)
    coarse, half = (np.abs(to_rest("original", h) - accurate)[:200].max() for h in (1e-3, 5e-4))
    assert 1.7 < coarse / half < 2.3
    # The original scheme applies no impulses to links.
    assert not pendulum(Qbmove, scheme="original").joints.is_substepped.any()
    assert to_rest("original", 1e-3)[-1] == pytest.approx(accurate[-1], abs=2e-3)


def test_suggested_step_follows_stiffest_spring():
    soft, stiff = pendulum(Qbmove), pendulum(Sea, {"stiffness": 400.0})
    assert suggested_step(soft) == 4e-3
    assert suggested_step(stiff) == pytest.approx(0.5 / math.sqrt(400.0 / INERTIA))


@pytest.mark.parametrize(
    ("names", "reported"),
    [
        (["j3"], "joint 'j3'.*j1, j2"),
        (["j1", "j2"], r"2 names.*\b1\b"),
    ],
)
def test_joints_missing_in_model_are_rejected(names, reported):
    with pytest.raises(ActuatorRejected, match=reported):
        CompliantRobot(chain(2), names, CompliantJoints([(Sea(1), [0])], 1))


def test_invalid_step_integrator_or_joint_type_is_rejected():
    joints = CompliantJoints([(Sea(1), [0])], 1)
    with pytest.raises(ActuatorRejected, match=r"step:.*-1"):
        CompliantRobot(chain(1), ["j1"], joints, step=-1)
    model = chain(1)
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_RK4
    with pytest.raises(ActuatorRejected, match=r"mjINT_RK4.*mjINT_EULER"):
        CompliantRobot(model, ["j1"], joints)
    free = mujoco.MjModel.from_xml_string(
        '<mujoco><worldbody><body><freejoint name="j1"/><geom size="1"/></body></worldbody>'
        "</mujoco>"
    )
    with pytest.raises(ActuatorRejected, match="mjJNT_FREE"):
        CompliantRobot(free, ["j1"], joints)


@pytest.mark.parametrize(
    ("groups", "options", "reported"),
    [
        ([(Sea, [0])], {}, "joint 2:.*0 actuators"),
        ([(Sea, [0, 1]), (Bavs, [1])], {}, "joint 2:.*2 actuators"),
        ([(Sea, [0, 2])], {}, r"joints:.*\b2\b.*\b0\b.*\b1\b"),
        ([(Sea, [0, 1])], {"scheme": "rk4"}, "scheme:.*'rk4'.*accurate, original"),
        ([(Sea, [0, 1])], {"mode": [3]}, r"mode:.*1 modes.*\b2\b"),
        ([(Sea, [0, 1])], {"max_substeps": 0}, r"max_substeps:.*\b0\b"),
        ([(Sea, [0, 1])], {"max_substeps": "9"}, r"max_substeps:.*'9'.*\b1\b"),
        ([(Sea, [0, 1])], {"max_substeps": 1.5}, "max_substeps:.*1.5"),
        ([(Sea, [0, 1])], {"max_substeps": None}, "max_substeps:.*None"),
        ([(Sea, [0, 1])], {"motors": Motors.of([(Sea(1), [0])])}, "motors:.*1 joints"),
    ],
)
def test_actuators_that_do_not_match_joints_are_rejected(groups, options, reported):
    with pytest.raises(ActuatorRejected, match=reported):
        CompliantJoints([(kind(len(at)), at) for kind, at in groups], 2, **options)


def test_group_size_must_match_its_parameters():
    with pytest.raises(ActuatorRejected, match=r"sea: joints:.*\b1\b.*\b2\b"):
        CompliantJoints([(Sea(2), [0]), (Sea(1), [1])], 2)


@pytest.mark.parametrize(
    ("values", "reported"),
    [
        ({"inertia": 0.0}, r"motors.inertia .*1 .*joint 1: .*\b0\b"),
        ({"damping": [1.0, -1.0]}, "motors.damping .*1 .*joint 2: .*-1"),
        ({"friction": math.nan}, r"motors.friction .*1 .*joint 1: .*\bnan\b"),
        ({"max_velocity": [[1, 1], [1, math.inf]]}, r"max_velocity .*2 .*joint 2: .*\binf\b"),
        (
            {"min_position": 1.0, "max_position": 0.0},
            r"motors.min_position.*\b1\b.*max_position 0",
        ),
        ({"p": [1.0, 2.0, 3.0]}, r"motors\.p: .*\b2 x 2\b"),
        ({"pinion": 0.0}, "motors.pinion:.*0.0"),
    ],
)
def test_invalid_motor_parameters_are_rejected(values, reported):
    with pytest.raises(ActuatorRejected, match=reported):
        Motors.of([(Qbmove(2), [0, 1])], **values)


def test_pivot_motor_is_equivalent_behind_pinion():
    """The toolbox uses metres in equations of angles."""
    groups = [(Awas2(1), [0]), (Sea(1), [1])]
    motors = Motors.of(groups, pinion=0.02)
    assert motors.inertia[:, 0] == pytest.approx([0.0233, 0.0233 / 4e-4])
    assert motors.max_torque[1].tolist() == [300.0, 6.0]
    assert motors.max_velocity[1, 0] == pytest.approx(0.12)
    assert (motors.min_position[1, 0], motors.max_position[1, 0]) == (0.0, 0.04)
    joints = CompliantJoints(groups, 2, motors, 6)
    robot = CompliantRobot(chain(2, damping=0.1), ["j1", "j2"], joints)
    joints.command("stiffness_preset", [0.03, 0.0])
    joints.command("equilibrium_position", 0.3)
    run(robot, 800)
    assert joints.preset[0] == pytest.approx(0.03, abs=1e-4)
    assert joints.theta[1, 1] == 0.0  # This joint has no second motor.
    assert robot.q == pytest.approx(0.3, abs=0.02)


@pytest.mark.parametrize("wrong", ["2", 2.0, None, [2], True, -1, math.nan])
def test_joint_count_of_wrong_type_raised_bare_type_error(wrong):
    reported = r"joints: .*\b1\b"
    with pytest.raises(ActuatorRejected, match=rf"sea: {reported}"):
        Sea(wrong)
    with pytest.raises(ActuatorRejected, match=reported):
        CompliantJoints([(Sea(2), [0, 1])], wrong)
    with pytest.raises(ActuatorRejected, match=reported):
        LinkPid.from_config(wrong)


def test_joint_count_may_be_numpy_integer():
    assert CompliantJoints([(Sea(np.int64(1)), [0])], np.int32(1)).n_joints == 1


@pytest.mark.parametrize("wrong", ["0.01", None, [0.01], True, 0.0, -0.01, math.nan, math.inf])
def test_pinion_or_step_of_wrong_type_raised_bare_type_error(wrong):
    with pytest.raises(ActuatorRejected, match=r"motors.pinion:.*0 m"):
        Motors.of([(Awas2(1), [0])], pinion=wrong)
    joints = CompliantJoints([(Sea(1), [0])], 1)
    with pytest.raises(ActuatorRejected, match=r"step:.*0 s"):
        CompliantRobot(chain(1), ["j1"], joints, step=np.array(0.01) if wrong is None else wrong)


@pytest.mark.parametrize("scheme", ["accurate", "original"])
@pytest.mark.parametrize("duration", [0.0, -1e-3, math.nan, math.inf])
def test_step_of_zero_length_was_divisor(scheme, duration):
    joints = pendulum(Sea, scheme=scheme).joints
    before = joints.save()
    with pytest.raises(ActuatorRejected, match=r"step:.*0 s"):
        joints.advance(np.zeros(1), np.zeros(1), np.ones(1), np.array([[400.0]]), duration)
    assert joints.save().state.tolist() == before.state.tolist()
    assert (joints.n_inaccurate, joints.accuracy_warning) == (0, "")
