# SPDX-License-Identifier: Apache-2.0
"""Declared and reproducible sensor errors, and trained residuals in a cell."""

from __future__ import annotations

import numpy as np
import pytest
from residual_weights import arrays

from multipanda_py.config.arm_section import NoiseConfig
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.residual.inputs import Normalisation
from multipanda_py.robots.residual.network import PRECISE, REAL_TIME
from multipanda_py.robots.residual.runtime import WARM_UP_TIME, LiveResidual
from multipanda_py.robots.residual.weights import TrainedResidual
from multipanda_py.simulation.drivetrain.sensors import SensorNoise
from multipanda_py.testing import StateMaker, simple_cell

pytestmark = [pytest.mark.sim, pytest.mark.inline]

BIAS = [0.5, -0.4, 0.3, -0.2, 0.1, -0.1, 0.05]
DRIFT = [0.02, 0.03, 0.02, 0.03, 0.01, 0.01, 0.01]
PERIOD = 1e-3


def test_bias_is_in_estimate_and_sensors(make_cell):
    clean, biased = make_cell(), make_cell({"left": {"noise": {"tau_bias": BIAS}}})
    for cell in (clean, biased):
        cell.step(3)
    np.testing.assert_allclose(biased.state("left").tau_ext, BIAS, atol=1e-12)
    estimated = biased.state("left").tau_J - clean.state("left").tau_J
    np.testing.assert_allclose(
        estimated, -np.array(BIAS), atol=1e-6
    )  # The estimate is inverse dynamics less tau_J.
    wrench = biased.state("left").wrench_ext_in_base
    jacobian = biased.loop.arms[0].state.jacobian
    np.testing.assert_allclose(jacobian @ jacobian.T @ wrench, jacobian @ BIAS, atol=1e-5)


def test_drift_grows_with_square_root_of_time():
    state = StateMaker().states[0]
    early, late = [], []
    for seed in range(60):
        noise = SensorNoise(NoiseConfig(tau_drift=DRIFT), seed, PERIOD)
        for cycle in range(1, 1601):
            state.tau_ext[:] = 0.0
            noise.measure(state)
            if cycle == 400:
                early.append(state.tau_ext / DRIFT)
        late.append(state.tau_ext / DRIFT)
    assert np.std(early) == pytest.approx(np.sqrt(0.4), rel=0.12)
    assert np.std(late) == pytest.approx(np.sqrt(1.6), rel=0.12)


def test_equal_seeds_give_equal_runs_and_drift_keeps_noise():
    def run(**extra):
        state = StateMaker().states[0]
        noise = SensorNoise(NoiseConfig(q=1e-4, tau=0.1, **extra), 3, PERIOD)
        found = []
        for _ in range(50):
            state.q[:] = state.tau_ext[:] = 0.0
            noise.measure(state)
            found.append([*state.q, *state.tau_ext])
        return np.array(found)

    np.testing.assert_array_equal(run(tau_drift=DRIFT), run(tau_drift=DRIFT))
    np.testing.assert_array_equal(run(tau_drift=DRIFT)[:, :7], run()[:, :7])
    np.testing.assert_allclose(run(tau_bias=BIAS)[:, 7:] - run()[:, 7:], [BIAS] * 50, atol=1e-12)


ROBOT = ArmDescription("arm").robot
BOUND = 0.02


def residual(file, kind=REAL_TIME, **changes):
    """Write random weights for an FR3, valid in all its states."""
    joints, limits = ROBOT.joints, ROBOT.limits
    scale = Normalisation.of_limits(limits.lower, limits.upper, limits.velocity, limits.torque)
    made = {
        "arrays": arrays(kind, len(joints), units=8), "normalisation": scale,
        "robot": ROBOT.name, "joints": tuple(joint.name for joint in joints), "rate": 100.0,
        "low": np.full(21, -1.0), "high": np.full(21, 2.0), "bound": np.full(21, BOUND),
        "data": "none", **changes,
    }  # fmt: skip
    made = TrainedResidual(kind, **made)
    made.save(file)
    return made


def cell_with(**entries):
    arms = {"arm": {"residual": {use: str(file) for use, file in entries.items()}}}
    return simple_cell(arms, {"joints": {"type": "joint_impedance"}}, ["arm/joints"])


def test_simulated_arm_adds_state_residual(tmp_path):
    made = residual(tmp_path / "weights.npz")
    beside = LiveResidual(made, 1e-3, ROBOT.name, made.joints)
    with cell_with(state=tmp_path / "weights.npz") as cell:
        world, observed = cell.simulation.data, []
        joints = [f"arm_fr3_joint{number}" for number in range(1, 8)]
        q_at = [int(cell.simulation.model.joint(name).qposadr[0]) for name in joints]
        v_at = [int(cell.simulation.model.joint(name).dofadr[0]) for name in joints]
        torque = world.ctrl[:7] + world.qfrc_gravcomp[v_at]
        beside.step(
            world.qpos[q_at], world.qvel[v_at], torque
        )  # A cell reads the state once at its start.
        for cycle in range(1500):
            true = world.qpos[q_at].copy(), world.qvel[v_at].copy()
            torque = world.ctrl[:7] + world.qfrc_gravcomp[v_at]
            cell.step(1)
            state = cell.state("arm")
            expected = beside.step(*true, torque)
            shown = np.concatenate([state.q - true[0], state.dq - true[1]])
            assert shown == pytest.approx(expected[:14], abs=1e-12), cycle
            assert state.tau_ext == pytest.approx(-expected[14:], abs=0.5)  # The arm is at rest.
            observed.append(np.abs(expected).max())
    assert max(observed[: round(1e3 * WARM_UP_TIME) - 10]) == 0.0
    assert observed[-1] > 0.01


def test_world_with_residual_continues_from_saved_state(tmp_path):
    residual(tmp_path / "weights.npz")
    with cell_with(state=tmp_path / "weights.npz") as cell:
        cell.step(1200)
        saved, ends = cell.simulation.save(), []
        for more in (7, 300):
            cell.simulation.reset(saved)
            cell.step(300)
            ends.append(cell.state("arm").q.copy())
            cell.step(more)  # The history after this point must not count.
        assert np.array_equal(*ends)
        assert np.abs(ends[0] - cell.simulation.data.qpos[:7]).max() > 1e-3


def test_wrench_residual_is_subtracted_from_estimate(tmp_path):
    made = residual(tmp_path / "weights.npz")
    beside = LiveResidual(made, 1e-3, ROBOT.name, made.joints, phase=5)
    estimated = []
    for entries in ({}, {"wrench": tmp_path / "weights.npz"}):
        with cell_with(**entries) as cell:
            rows = []
            for _ in range(1200):
                cell.step(1)
                state = cell.state("arm")
                rows.append([state.q, state.dq, state.tau_J, state.tau_ext])
            estimated.append(np.array(rows))
    plain, corrected = estimated
    assert np.array_equal(plain[:, :3], corrected[:, :3])  # All other channels are unchanged.
    beside.step(*plain[0, :3])  # A cell reads the state once at its start.
    learned = np.array([beside.step(*row[:3])[14:].copy() for row in plain])
    assert corrected[:, 3] - plain[:, 3] == pytest.approx(learned, abs=1e-12)
    assert np.abs(learned[-1]).max() > 0.1


@pytest.mark.parametrize("use", ["state", "wrench"])
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"robot": "fer"}, r"\bfr3 .*\b7 .*\bfer\b"),
        ({"rate": 300.0}, "a whole number of cycles"),
        ({"kind": PRECISE}, "allowed real_time"),
        (None, r"weights\.npz\b"),
    ],
)
def test_residual_of_another_robot_is_rejected_with_its_place(tmp_path, use, changes, words):
    file = tmp_path / "weights.npz"
    residual(file, **(changes or {}))
    if changes is None:
        file.write_bytes(file.read_bytes()[:-40])
    with pytest.raises(ConfigurationError, match=rf"arms\.arm\.residual\.{use}: .*({words})"):
        cell_with(**{use: file}).start()
    with pytest.raises(ConfigurationError, match="cannot be read"):
        cell_with(**{use: tmp_path / "none.npz"}).start()
