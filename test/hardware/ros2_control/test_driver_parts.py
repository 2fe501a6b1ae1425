# SPDX-License-Identifier: Apache-2.0
"""Driver settings, torques without the loop, and checks of cell files."""

from __future__ import annotations

import json

import mujoco
import numpy as np
import pytest

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.hardware.driver.torque_limiter import TorqueLimiter
from multipanda_py.hardware.ros2_control.driver import RestingTorque
from multipanda_py.hardware.ros2_control.settings import (
    Ros2ControlSettings,
    TopicDriverSettings,
    changed_settings,
    driver_settings,
    unpacked,
)
from multipanda_py.realtime.cycle_record import record_dtype
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.dynamics.arm_dynamics import ArmGravity
from multipanda_py.simulation.scene_mjcf import build_scene
from multipanda_py.state import ArmState

pytestmark = pytest.mark.inline

ARM = ArmDescription("arm", "ur5e", compensates_gravity=False)


def test_driver_compensates_gravity_as_loop_and_damps_by_limits():
    """The model of the driver comes from a text, that of the loop is another object."""
    settings = Ros2ControlSettings(load_mass=1.5, load_com=[0.01, 0.02, 0.1])
    reported = driver_settings(settings, ARM, [0])
    reported = TopicDriverSettings.from_json(reported.to_json())
    assert len(reported.to_json()) < 8192  # the text must fit into one write to a pipe
    row = np.zeros(1, record_dtype(1, 0, 1, 6))
    state = ArmState("arm", ARM.limits, row["arms"][0, :1].reshape(()))
    gravity = ArmGravity(ARM, state, 1e-3)
    gravity.set_load(settings.load)
    resting = RestingTorque(unpacked(reported), reported.damping, carries=reported.carries)
    for q in np.random.default_rng(0).uniform(-3.0, 3.0, (10, 6)):
        state.q[:] = q
        gravity.update()
        np.testing.assert_allclose(resting.of(q, np.zeros(6)), state.tau_gravity, atol=1e-9)
        fast = np.subtract(resting.of(q, ARM.limits.velocity), state.tau_gravity)
        np.testing.assert_allclose(fast, -0.3 * ARM.limits.torque, atol=1e-9)
    lighter = changed_settings(reported, Ros2ControlSettings(), ARM)
    assert json.loads(lighter.to_json())["load_mass"] == 0.0
    assert (
        RestingTorque(unpacked(reported), reported.damping, carries=False).of(q, [0.0] * 6)
        == [0.0] * 6
    )


def test_large_joints_had_torque_rate_of_wrists():
    """The loop assumed 1800 Nm/s for large joints of a UR5e, but the driver allowed 1000."""
    reported = driver_settings(Ros2ControlSettings(rate=500.0), ARM, [0])
    limiter = TorqueLimiter(reported.torque_limits, reported.torque_steps)
    for sign in (1.0, -1.0):
        limiter.start()
        sent = limiter.answer((sign * 28.0 * np.ones(6)).tolist(), [0.0] * 6)
        np.testing.assert_allclose(sent, sign * ARM.limits.torque_rate / 500.0)
    assert sent[0] == -3.6


def test_moving_arm_without_loop_comes_to_rest():
    reported = driver_settings(Ros2ControlSettings(), ARM, [0])
    resting = RestingTorque(unpacked(reported), reported.damping, carries=True)
    model = build_scene([ARM], timestep=2e-3).compile()
    data = mujoco.MjData(model)
    for q in ([0.4, -1.2, 1.4, -1.3, -1.4, 0.3], [0.0, -0.4, 0.5, 0.0, 0.0, 0.0]):
        mujoco.mj_resetData(model, data)
        data.qpos[:], data.qvel[:] = q, 0.3 * ARM.limits.velocity
        for _ in range(1500):
            data.ctrl[:] = resting.of(data.qpos, data.qvel)
            mujoco.mj_step(model, data)
        assert np.abs(data.qvel).max() < 0.01


def cell(arm=None, settings=None, **more):
    return {
        "cell": {"rate": 500, **more},
        "arms": {
            "ur": {
                "backend": "ros2_control", "model": "ur5e", "compensates_gravity": False,
                "ros2_control": settings or {}, **(arm or {}),
            }
        },
    }  # fmt: skip


def test_cell_file_accepts_ros2_control_arm():
    config = CellConfig.from_dict(cell())
    assert config.arms["ur"].settings == Ros2ControlSettings()


@pytest.mark.parametrize(
    ("data", "pattern"),
    [
        (cell(rate=1000), r"arms\.ur\.ros2_control\.rate: .*\b500 Hz"),
        (cell(settings={"state_topic": "a b"}), r"state_topic: .*'a b'"),
        (cell(settings={"joint_names": "a b"}), r"joint_names: .*\b2\b.*\b6\b"),
        (cell(settings={"joint_names": "a a b c d e"}), r"joint_names: .*\b5\b.*\b6\b"),
        (cell(settings={"command_type": "twist"}), r"command_type"),
        (cell(settings={"damping": 2.0}), r"damping"),
    ],
)
def test_invalid_settings_are_refused_with_path(data, pattern):
    with pytest.raises(ConfigurationError, match=pattern):
        CellConfig.from_dict(data)


def test_common_command_topic_of_two_arms_is_refused():
    data = cell()
    data["arms"]["other"] = dict(data["arms"]["ur"])
    with pytest.raises(ConfigurationError, match=r"arms\.other\..*command_topic: .*\bur\b"):
        CellConfig.from_dict(data)
