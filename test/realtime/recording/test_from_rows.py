# SPDX-License-Identifier: Apache-2.0
"""Logs out of rows, held against what the handle of the cell says."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py import Cell
from multipanda_py.realtime.recording.log_reader import log_of_rows
from multipanda_py.robots.dynamics.arm_dynamics import build_pinocchio

pytestmark = [pytest.mark.inline, pytest.mark.sim]


def test_logs_of_rows_have_what_the_cell_says_of_its_arms():
    with Cell.from_yaml("config/dual_sim.yaml", placement="inline") as cell:
        states = []
        for _ in range(5):
            cell.step(10)
            states.append((cell.state("left"), cell.state("right")))
        log = log_of_rows(cell.rows()[1], cell.config)
    for k, arm in enumerate(("left", "right")):
        found = log.arms[arm]
        assert found.robot == "fr3"
        assert found.joints[6] == "joint7"
        assert found.rate == pytest.approx(1000.0)
        for pair in states:
            at = np.searchsorted(found.time, pair[k].time - 1e-9)
            np.testing.assert_array_equal(found.q[at], pair[k].q)
            np.testing.assert_array_equal(found.tau[at], pair[k].tau_J)
            np.testing.assert_array_equal(found.tau_commanded[at], pair[k].tau)
            np.testing.assert_array_equal(
                found["wrench_ext_in_base"][at], pair[k].wrench_ext_in_base
            )
            assert found.laws[found["owner"][at]] == pair[k].owner


def test_measured_torques_carry_the_arm_and_commanded_ones_do_not():
    """At rest the one is gravity, the other nothing: what the flags of a log say."""
    pinocchio = pytest.importorskip("pinocchio")
    with Cell.from_yaml("config/single_sim.yaml", placement="inline") as cell:
        cell.step(200)
        (log,) = log_of_rows(cell.rows()[1], cell.config).arms.values()
        description = cell.descriptions[log.arm]
    assert log.gravity_in_tau
    assert not log.gravity_in_tau_commanded
    model = build_pinocchio(description)
    gravity = pinocchio.computeGeneralizedGravity(model, model.createData(), log.q[-1])
    np.testing.assert_allclose(log.tau[-1], gravity, atol=0.3)
    np.testing.assert_allclose(log.tau_commanded[-1], 0.0, atol=0.3)
    np.testing.assert_allclose(log.gravity_in_base, [0.0, 0.0, -9.81], atol=1e-12)
