# SPDX-License-Identifier: Apache-2.0
"""Parts of a driver without a robot: torque limiter, memory, frames, errors, model check."""

from __future__ import annotations

import struct
from types import SimpleNamespace

import numpy as np
import pinocchio as pin
import pytest

from multipanda_py.hardware.driver.memory import DriverMemory, Record
from multipanda_py.hardware.driver.torque_limiter import RAMP_TIME, TorqueLimiter
from multipanda_py.hardware.franka.errors import fault_of_mode, names_of, words_of
from multipanda_py.hardware.franka.model_check import ModelCheck, difference_message
from multipanda_py.hardware.franka.robot_connection import PROBE_SPEED, from_frame
from multipanda_py.hardware.franka.settings import FrankaSettings
from multipanda_py.robots import ARMATURE, READY_CONFIGURATION, ArmDescription
from multipanda_py.robots.dynamics.arm_dynamics import build_pinocchio
from multipanda_py.robots.franka import FR3_LIMITS

pytestmark = pytest.mark.inline

LIMITS = FR3_LIMITS.torque.tolist()


def test_ramp_is_linear_to_zero():
    guard = TorqueLimiter(LIMITS)
    tau = [10.0, -10.0, 5.0, 0.0, 1.0, -1.0, 0.5]
    assert guard.answer(tau, tau) == tau
    executed = tau
    for k in range(1, 21):
        executed = guard.silent(k * 1e-3, executed)
        np.testing.assert_allclose(executed, np.array(tau) * (1.0 - k * 1e-3 / RAMP_TIME),
                                   atol=1e-12)  # fmt: skip
    assert not any(executed)


def test_rate_limit_precedes_ramp():
    guard = TorqueLimiter(LIMITS)
    executed = [80.0] * 4 + [0.0] * 3
    guard.answer(executed, executed)
    cycles = 0
    while any(executed):
        cycles += 1
        following = guard.silent(cycles * 1e-3, executed)
        assert max(abs(a - b) for a, b in zip(following, executed)) <= 1.0
        executed = following
    assert cycles == 81


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), float("-inf")])
def test_non_finite_torque_is_refused_and_discarded(wrong):
    guard = TorqueLimiter(LIMITS)
    good = [0.5] * 7
    guard.answer(good, good)
    assert guard.answer([0.0, wrong] + [0.0] * 5, good) is None
    np.testing.assert_allclose(guard.silent(0.0, good), good)


def test_torques_are_bounded_around_executed_torque():
    guard = TorqueLimiter(LIMITS)
    bounded = guard.answer([100.0, -100.0, 0.3, 0.0, 100.0, 13.0, -13.0],
                           [0.0, 0.0, 0.0, 0.0, 11.9, 11.9, -11.9])  # fmt: skip
    assert bounded == pytest.approx([0.999, -0.999, 0.3, 0.0, 12.0, 12.0, -12.0])


def test_rehearsal_changes_no_state():
    rehearsed, other = TorqueLimiter(LIMITS), TorqueLimiter(LIMITS)
    executed = [1.0, -2.0, 3.0, -4.0, 5.0, -6.0, 7.0]
    for guard in (rehearsed, other):
        guard.answer([0.5] * 7, [0.0] * 7)
    assert rehearsed.rehearse(executed) == executed
    assert rehearsed.silent(1e-3, executed) == other.silent(1e-3, executed)
    assert rehearsed.answer([9.0] * 7, executed) == other.answer([9.0] * 7, executed)


def test_record_being_written_is_not_read():
    memory = memoryview(bytearray(64))
    form = struct.Struct("2d")
    record = Record(memory, 0, form)
    record.write(1.0, 2.0)
    assert record.read() == (1.0, 2.0)
    memory[:8].cast("q")[0] += 1  # a writer has started
    assert record.read() is None
    record.repair()
    assert record.read() == (1.0, 2.0)


def test_both_sides_share_memory():
    ours = DriverMemory(7)
    theirs = DriverMemory(7, ours.fd)
    theirs.state.write(*range(32))
    ours.torque.write(*range(8))
    ours.words[3] = 42
    np.testing.assert_array_equal(np.asarray(ours.state.numbers), np.arange(32.0))
    assert theirs.torque.read() == tuple(range(8))
    assert theirs.words[3] == 42


def test_pose_relative_to_another_frame():
    one, other = pin.SE3.Random(), pin.SE3.Random()
    flat = [pose.homogeneous.ravel(order="F").tolist() for pose in (one, other)]
    expected = np.linalg.inv(one.homogeneous) @ other.homogeneous
    np.testing.assert_allclose(np.reshape(from_frame(*flat), (4, 4), order="F"), expected)


def test_errors_are_named_by_attribute_():
    errors = SimpleNamespace(joint_reflex=True, cartesian_reflex=False, power_limit_violation=True)
    assert names_of(errors) == ("joint_reflex", "power_limit_violation")
    assert "(an external joint torque" in words_of(names_of(errors))
    assert fault_of_mode("Reflex", ("joint_reflex",))[0] == "reflex"
    assert fault_of_mode("UserStopped", ())[0] == "user_stop"
    assert fault_of_mode("Unheard", ()) == (
        "not_ready",
        "the robot is in mode Unheard; check Desk",
    )


def _robot_reports(arm):
    """Compute the model values of a robot without rotor inertia."""
    model = build_pinocchio(arm)
    model.armature = np.zeros(7)
    data, q, dq = model.createData(), READY_CONFIGURATION.copy(), np.full(7, PROBE_SPEED)
    gravity = pin.computeGeneralizedGravity(model, data, q).copy()
    mass = pin.crba(model, data, q).copy()
    mass = np.triu(mass) + np.triu(mass, 1).T
    frame = model.getFrameId(arm.ee_frame)
    jacobian = pin.computeFrameJacobian(model, data, q, frame, pin.LOCAL_WORLD_ALIGNED)
    return {
        "q": q.tolist(), "mass": mass.ravel(order="F").tolist(), "gravity": gravity.tolist(),
        "coriolis": (pin.nonLinearEffects(model, data, q, dq) - gravity).tolist(),
        "jacobian": jacobian.ravel(order="F").tolist(),
    }  # fmt: skip


def test_model_check_removes_rotor_inertia_and_names_joint():
    arm = ArmDescription("left")
    found = _robot_reports(arm)
    assert difference_message(ModelCheck(arm).compare(FrankaSettings(), found)) == ""
    # With rotor inertia the check would fail.
    assert ARMATURE.min() > FrankaSettings().tolerance_mass
    found["gravity"][3] += 0.7
    text = difference_message(ModelCheck(arm).compare(FrankaSettings(), found))
    assert "gravity at joint 4" in text
    assert "difference +0.7, allowed 0.5" in text
    assert "mass" not in text.split("The usual cause")[0]
    found["jacobian"][6 * 2 + 1] += 0.01
    assert "jacobian at joint 3, y" in difference_message(
        ModelCheck(arm).compare(FrankaSettings(), found)
    )
    found["mass"][2 + 7 * 5] = float("nan")
    assert "mass at joints 3 and 6" in difference_message(
        ModelCheck(arm).compare(FrankaSettings(), found)
    )


def test_hanging_base_is_detected():
    """The model check compares gravity in the base frame of the cell file."""
    hanging = ArmDescription("left", rotation_base_in_world=np.diag([1.0, -1.0, -1.0]))
    found = _robot_reports(ArmDescription("left"))
    assert "gravity at joint" in difference_message(
        ModelCheck(hanging).compare(FrankaSettings(), found)
    )
