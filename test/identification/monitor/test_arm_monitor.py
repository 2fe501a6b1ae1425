# SPDX-License-Identifier: Apache-2.0
"""Digital twin of an arm against MuJoCo and analytical results, for several robots."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
from monitor_rig import Rig
from robot_file import write_robot

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import MonitorRejected
from multipanda_py.identification.monitor import ArmMonitor, ArmTwin
from multipanda_py.identification.monitor.arm_monitor import (
    CORRECTION_STIFFNESS,
    QUANTITIES,
    min_half_widths,
    residual_slices,
)
from multipanda_py.identification.monitor.cell_monitor import CellMonitor
from multipanda_py.identification.validation import make_task, run_task
from multipanda_py.realtime.recording import ArmLog
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.dynamics.arm_dynamics import model_with_gravity
from multipanda_py.robots.inertial import Load

pytestmark = [pytest.mark.sim, pytest.mark.inline]


@pytest.fixture(scope="module")
def exact():
    """Arm without model errors that oscillates joints 4 and 5."""
    rig = Rig(1, noise={}, perturbation={}, joint_damping=[0.5] * 7)
    return rig, rig.log(0)


@pytest.mark.long
def test_exactly_described_arm_needs_no_correction(exact):
    """MuJoCo, an independent library with another integrator, moves the arm."""
    rig, log = exact
    found = ArmMonitor(rig.arm).follow(log)
    is_evaluated = found.evaluated
    assert np.ptp(log.q[:, 3]) > 0.7
    assert np.abs(found.q - log.q)[is_evaluated].max() < 1e-3
    assert np.abs(found.correction[is_evaluated]).max() < 0.1
    assert np.abs(found.tau - log.tau)[is_evaluated].max() < 0.1


def test_log_in_parts_has_same_residuals_as_whole_log(exact):
    rig, log = exact
    whole = ArmMonitor(rig.arm).follow(log)
    monitor = ArmMonitor(rig.arm)
    parts = [monitor.follow(log.part(slice(max(0, k - 3), k + 100))) for k in range(0, 1000, 100)]
    residuals = np.vstack([part.residuals for part in parts])
    np.testing.assert_allclose(residuals, whole.residuals[: len(residuals)], atol=2e-6)
    assert monitor.follow(log.part(slice(0, 1000))) is None


@pytest.mark.parametrize("model", ["fr3", "ur5e", "iiwa14", "kinova_gen3"])
def test_correction_equals_undeclared_torque(model):
    """At rest with an undeclared torque d, the correction is d and the error of q is d / K."""
    arm = ArmDescription("arm", model, hand=False)
    twin, n = ArmTwin(arm), arm.n_joints
    q, still = np.array(arm.robot.ready), np.zeros(n)
    undeclared = np.linspace(-0.02, 0.03, n) * arm.limits.torque
    twin.reset_to(q, still)
    for _ in range(4000):
        twin.step(q, still, twin.gravity(q) - undeclared, 1e-3)
    np.testing.assert_allclose(twin.correction, undeclared, atol=1e-3 * np.abs(undeclared).max())
    deflection = undeclared / (CORRECTION_STIFFNESS * arm.limits.torque)
    np.testing.assert_allclose(q - twin.q, deflection, atol=1e-3 * np.abs(deflection).max())


def test_declared_load_changes_gravity_of_twin():
    arm = ArmDescription("arm", "fr3")
    load = Load(1.2, np.array([0.0, 0.0, 0.1]), 1e-3 * np.eye(3))
    q = np.array(arm.robot.ready)
    more = ArmTwin(arm, load).gravity(q) - ArmTwin(arm).gravity(q)
    assert np.abs(more).max() > 4.0


def slow_log(rate, **columns):
    time = np.arange(0.0, 4.0, 1.0 / rate)
    arm = ArmDescription("arm", "fr3")
    q = np.tile(arm.robot.ready, (len(time), 1))
    q[:, 3] += 0.2 * np.sin(2.0 * time)
    names = tuple(joint.name for joint in arm.robot.joints)
    dq, ddq = np.zeros((2, *q.shape))
    dq[:, 3], ddq[:, 3] = 0.4 * np.cos(2.0 * time), -0.8 * np.sin(2.0 * time)
    model = model_with_gravity(arm)
    data = model.createData()
    tau = np.array([pin.rnea(model, data, *row) for row in zip(q, dq, ddq)])
    return arm, ArmLog("arm", "fr3", names, time, q, tau=tau, **columns)


def test_log_without_commands_is_followed_by_measured_torques():
    """Log at 30 Hz, as from a bag, with torques by inverse dynamics."""
    arm, log = slow_log(30.0)
    found = ArmMonitor(arm).follow(log)
    assert np.abs(found.q - log.q)[found.evaluated].max() < 5e-3
    at = residual_slices(7)
    assert np.isnan(found.residuals[:, at["wrench"]]).all()
    assert np.isfinite(found.residuals[:, at["tau"]][found.evaluated]).all()


def test_twin_restarts_after_gap_fault_and_nan():
    arm, log = slow_log(100.0)
    fault = np.zeros(len(log), int)
    fault[200:210] = 3
    columns = {name: log[name].copy() for name in log.names} | {"fault": fault}
    columns["tau"][300, 2] = np.nan
    columns = {name: np.delete(values, np.s_[50:100], axis=0) for name, values in columns.items()}
    monitor = ArmMonitor(arm)
    found = monitor.follow(log.with_columns(columns))
    assert monitor.skipped == 1
    assert not found.evaluated[: 50 + 100 + 10].any()
    assert np.isnan(found.q[150:160]).all()
    assert not found.evaluated[250:351].any()
    assert np.nanmax(np.abs(found.q - found.log.q)) < 0.05


def test_single_nan_made_later_residuals_nan():
    """Arm with commanded torques, evaluated at all samples."""
    arm, log = slow_log(100.0, gravity_in_tau_commanded=True)
    tau = log.tau.copy()
    tau[200, 2] = np.nan
    columns = {name: log[name] for name in log.names} | {"tau": tau, "tau_commanded": log.tau}
    found = ArmMonitor(arm).follow(log.with_columns(columns))
    residuals = found.residuals[:, residual_slices(7)["tau"]]
    assert found.evaluated[101:].all()
    assert np.isnan(residuals[200, 2])
    assert np.isfinite(residuals[201:]).all()


def test_unusable_logs_are_rejected():
    arm, log = slow_log(100.0)
    with pytest.raises(MonitorRejected, match=r"\b7 joints\b.*\b6\b"):
        ArmMonitor(ArmDescription("arm", "ur5e", hand=False)).follow(log)
    bare = ArmLog("arm", "fr3", log.joints, log.time, log.q)
    with pytest.raises(MonitorRejected, match="torques"):
        ArmMonitor(arm).follow(bare)
    with pytest.raises(MonitorRejected, match=r"\b5\.0\b.*\b10\b"):
        ArmMonitor(arm).follow(log.part(slice(None, None, 20)))


def test_every_residual_has_minimum_band():
    limits = ArmDescription("arm", "fr3").limits
    width = max(residual_range.stop for residual_range in residual_slices(7).values())
    assert min_half_widths(limits).shape == (width,)
    assert (min_half_widths(limits) > 0.0).all()
    assert len({quantity.name for quantity in QUANTITIES}) == len(residual_slices(7))


def test_twin_used_datasheet_instead_of_identified_parameters(tmp_path):
    """The arm has identified parameters; its robot compensates gravity by the datasheet."""
    write_robot(tmp_path / "robot.yaml", 3)
    file = str(tmp_path / "robot.yaml")
    arm = {"perturbation": {"parameters": file}, "identified": file}
    known = CellConfig.from_dict({"arms": {"arm": arm}})
    run = run_task(make_task(1, seconds=3.0), known)
    needed = {}
    for name, config in (("known", known), ("plain", CellConfig.from_dict({"arms": {"arm": {}}}))):
        monitor = CellMonitor(config)
        monitor.follow(run.logs)
        found = monitor.last["arm"]
        needed[name] = np.sqrt(np.mean(found.correction[found.evaluated] ** 2, axis=0))
    assert needed["plain"].max() > 1.0
    assert (needed["known"] < 0.3 * needed["plain"].max()).all(), needed
    assert np.linalg.norm(needed["known"]) < 0.2 * np.linalg.norm(needed["plain"]), needed
