# SPDX-License-Identifier: Apache-2.0
"""A box that an FR3 and an arm of another model hold and move together."""

from __future__ import annotations

import numpy as np
import pytest
from held_box import BESIDE, BOTH, HeldBox
from models import over_others

from multipanda_py.pose import Pose

pytestmark = [pytest.mark.sim, pytest.mark.inline]


WEIGHT = 1.5 * 9.81
COUPLED = ("coupled_impedance", "coupled_force_impedance")


@pytest.mark.long
@pytest.mark.parametrize("right", BESIDE)
def test_box_between_different_arms_is_lifted_and_carried_over_switches(make_cell, right):
    """Statics within 1 % of MuJoCo's contact forces and of the object's spring."""
    box = HeldBox(make_cell, 1.5, right=right)
    box.lift(30.0)
    report = box.cell.report("force_pair")
    forces = [box.cell.simulation.contact_force("box", box.tools[arm]) for arm in BOTH]
    assert forces[0][1] == pytest.approx(-30.0, rel=0.01)
    assert forces[1][1] == pytest.approx(30.0, rel=0.01)
    assert forces[0][2] + forces[1][2] == pytest.approx(WEIGHT, rel=0.01)
    assert report["internal force [N]"] == pytest.approx(30.0, rel=0.01)
    active = box.cell.loop.owners.active[0]
    # The object position weights each gripper's deviation by its fraction of the load.
    shift = active.law.held.sharing.shift[2]
    sag = active.target.position_object_in_world[2] - report["object_z [m]"] + shift
    assert 600.0 * sag == pytest.approx(WEIGHT, rel=0.01)
    before, start = box.in_hands(), box.cell.objects()["box"].position
    for name in ("pair", "force_pair"):
        result = box.switch(name)
        assert "internal force continues with" in result.message
        report = box.cell.report(name)
        here = np.array([report[f"object_{axis} [m]"] for axis in "xyz"])
        for k in range(30):  # at 0.1 m/s
            goal = Pose(here + [0.0, 0.001 * k, WEIGHT / 600.0], np.eye(3))
            box.cell.set_object_target(name, goal)
            box.cell.step(10)
        box.cell.step(200)
    assert np.linalg.norm(box.in_hands() - before, axis=1).max() < 2e-3
    moved = box.cell.objects()["box"].position - start
    assert moved[1] > 0.03
    assert abs(moved[2]) < 5e-3


@pytest.mark.parametrize(
    ("late", "right"),
    over_others([(law, scale) for law in COUPLED for scale in (0.8, 1.2)]),
)
def test_free_grippers_of_different_arms_are_stable_at_5_ms_delay(make_cell, late, right):
    law, scale = late
    perturbation = {"state_delay": 0.005, "torque_lag": 0.002, "inertia_scale": scale}
    arms = {
        "left": {"position": [0.0, 0.4, 0.0], "perturbation": perturbation},
        "right": {"position": [0.0, -0.4, 0.0], "perturbation": perturbation, "model": right},
    }
    cell = make_cell(arms, {"pair": {"type": law, "arms": BOTH}}, ["pair"])
    cell.step(20)
    hand = next(body for body in cell.simulation.bodies if body.startswith("left_fr3_hand"))
    cell.simulation.apply_wrench(hand, [15.0, -10.0, 15.0])
    cell.step(30)
    cell.simulation.apply_wrench(hand)
    cell.step(970)
    start, _ = cell.records()
    cell.step(200)
    _, rows = cell.records(start)
    assert not any(cell.state(arm).fault for arm in BOTH)
    assert np.abs(rows["arms"]["dq"]).max() < 0.02
