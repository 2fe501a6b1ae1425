# SPDX-License-Identifier: Apache-2.0
"""Unified force-impedance control: its equation, its passivity, its bounds."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.controllets.force_impedance import ForceImpedance, ForceImpedanceParams
from multipanda_py.exceptions import TargetRejected
from multipanda_py.pose import Pose
from multipanda_py.targets import ForceTarget
from multipanda_py.testing import PERIOD, StateMaker

READY = np.array([0, -0.785, 0, -2.356, 0, 1.571, 0.785])


def root(matrix):
    w, v = np.linalg.eigh(matrix)
    return v @ np.diag(np.sqrt(np.maximum(w, 0))) @ v.T


def test_paper_equation_in_contact():
    maker = StateMaker()
    rng = np.random.default_rng(1)
    (state,) = maker.at([READY], [rng.normal(size=7) * 0.1])
    law = ForceImpedance(maker.context, ForceImpedanceParams(kp=0.5, ki=0.0, filter_time=0.0))
    target = ForceTarget(1)
    law.on_activate([state], target)
    wrench = np.array([0.0, 0.0, -10.0, 0, 0, 0])
    target.wrench_in_base[0][:] = wrench
    law.on_target("wrench", 0, target)
    state.wrench_ext_in_base[:] = [0, 0, 8.0, 0, 0, 0]  # the tool exerts 8 N down
    for _ in range(300):
        law.update([state], target, PERIOD)
    j = state.jacobian
    k = np.diag([100.0, 100, 50, 10, 10, 10])
    w, v = np.linalg.eigh(root(k) @ j @ np.linalg.inv(state.mass) @ j.T @ root(k))
    damping = 2.0 * root(k) @ v @ np.diag(w**-0.5) @ v.T @ root(k)
    pushed = 10.0 + 0.5 * (10.0 - 8.0)
    expected = j.T @ (-damping @ j @ state.dq + pushed * wrench / 10.0)
    assert np.allclose(law.tau[0], expected, atol=1e-6)


@pytest.mark.sim
def test_force_in_the_air_is_bounded_by_the_loss_distance(make_cell):
    cell = make_cell(controllets={"force": {"type": "force_impedance"}}, active=["left/force"])
    before = cell.pose("left").position
    cell.set_target("left", wrench=[0.0, 0.0, -30.0, 0.0, 0.0, 0.0])
    start, _ = cell.rows()
    cell.step(3000)
    rows = cell.rows(start)[1]["arms"][:, 0]
    fall = before[2] - rows["position_ee_in_base"][:, 2].min()
    assert 0.01 < fall < 0.12
    assert np.linalg.norm(rows["twist_ee_in_base"][:, :3], axis=1).max() < 0.5
    assert cell.events() == []


@pytest.mark.sim
@pytest.mark.parametrize("seed", range(4))
def test_passive_over_random_contacts_targets_and_gains(make_cell, seed):
    """What the torques put into arm and world never exceeds the tanks' grants.

    The book is kept outside the law, from torques and velocities alone: with the nullspace
    purely damping, the work of all commanded torques (Coriolis torques do none beyond the
    inertia's change, so they are left out) is bounded by what both tanks were granted.
    """
    rng = np.random.default_rng(seed)
    cell = make_cell(
        arms={"arm": {"q_start": [0.0, -0.3, 0.0, -2.2, 0.0, 1.9, 0.785]}},
        controllets={
            "force": {
                "type": "force_impedance",
                "features": ["nullspace"],
                "params": {"tank_max": 3.0, "nullspace": {"stiffness": [0.0] * 7}},
            }
        },
        objects={
            "table": {"shape": "box", "size": [0.4, 0.4, 0.02], "position": [0.5, 0, 0.33]},
            "wall": {"shape": "box", "size": [0.02, 0.4, 0.4], "position": [0.62, 0, 0.4]},
        },
        active=["arm/force"],
        gate={"position": 1.0, "rotation": 3.2},
    )
    cell.step(5)
    work = largest = 0.0
    granted = 2 * 3.0  # both tanks together, at most
    start, rows = cell.rows()[0], None
    for _ in range(20):
        pose = cell.pose("arm")
        goal = pose.position + rng.normal(size=3) * 0.06
        force = rng.normal(size=3) * 15.0
        cell.set_target("arm", Pose(goal, pose.rotation), wrench=[*force, 0.0, 0.0, 0.0])
        cell.set_parameters(
            "arm/force",
            {"stiffness": [*rng.uniform(0, 800, 3), *rng.uniform(0, 40, 3)],
             "kp": float(rng.uniform(0, 0.5)), "ki": float(rng.uniform(0, 15))},
        )  # fmt: skip
        cell.step(150)
        if cell.state("arm").fault:
            pytest.fail(str(cell.events()))
        start, rows = cell.rows(start)
        tau, dq = rows["arms"]["tau"][:, 0], rows["arms"]["dq"][:, 0]
        # The torque of a cycle acts until the next: its work is with the mean velocity.
        following = np.vstack([dq[1:], dq[-1:]])
        work += float(np.sum(tau * 0.5 * (dq + following)) * 1e-3)
        largest = max(largest, work)
    assert largest <= granted + 0.1


@pytest.mark.sim
def test_bad_wrench_is_refused(make_cell):
    cell = make_cell(controllets={"force": {"type": "force_impedance"}}, active=["left/force"])
    for wrench, reason in (([1, 2, 3], "6 finite"), ([0, 0, 500, 0, 0, 0], "gate.force"),
                           ([0, 0, np.nan, 0, 0, 0], "finite")):  # fmt: skip
        with pytest.raises(TargetRejected, match=reason):
            cell.set_target("left", wrench=wrench)
