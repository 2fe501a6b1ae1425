# SPDX-License-Identifier: Apache-2.0
"""Arms with unknown loads, hand-guided, and pushed hard."""

from __future__ import annotations

import numpy as np
import pytest
from long_form import every_nth

pytestmark = [
    pytest.mark.sim,
    pytest.mark.robustness,
    pytest.mark.timeout(3600),
    pytest.mark.inline,
]

READY = {
    "fr3": [0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785],
    "kinova_gen3": [0.0, 0.26, 3.14, -2.27, 0.0, 0.96, 1.57],
    "iiwa14": [0.0, 0.5, 0.0, -1.6, 0.0, 0.9, 0.0],
    "ur5e": [0.0, -1.6, 1.9, -1.9, -1.57, 0.0],
}
LEFT_OF = ("force_impedance", "cartesian_impedance")


class HandledArm:
    """An arm under a controllet, with wrenches at the tool centre point."""

    def __init__(self, make_cell, law, model="fr3"):
        arms = {"arm": {"model": model, "position": [0.0, 0.0, 1.0], "q_start": READY[model]}}
        instance, active = {"type": law}, ["arm/law"]
        if law == "teleoperation":
            arms["other"] = {**arms["arm"], "position": [0.0, 1.5, 1.0]}
            instance["arms"], active = ["arm", "other"], ["law"]
        self.cell = make_cell(arms, {"law": instance}, active)
        simulation = self.cell.simulation
        site = [name for name in self._sites() if name.startswith("arm_")][-1]
        self.site = simulation.model.site(site).id
        self.body = simulation.model.body(int(simulation.model.site_bodyid[self.site])).name
        self.limits = self.cell.descriptions["arm"].limits.velocity
        self.cell.step(200)
        self.start, self.fastest = self.position(), 0.0

    def _sites(self):
        model = self.cell.simulation.model
        return [model.site(i).name for i in range(model.nsite)]

    def position(self):
        return self.cell.pose("arm").position

    def moved(self):
        return float(np.linalg.norm(self.position() - self.start))

    def handle(self, seconds, force, lever=0.0, ramp=0.0):
        """Exert a force at the tool centre point, or at a distance along its axis."""
        data, force = self.cell.simulation.data, np.asarray(force, dtype=float)
        for step in range(round(seconds * 100)):
            fraction = min(1.0, 0.01 * (step + 1) / ramp) if ramp else 1.0
            point = data.site_xpos[self.site].copy()
            point += lever * data.site_xmat[self.site].reshape(3, 3)[:, 2]
            self.cell.simulation.apply_wrench(self.body, force=fraction * force, point=point)
            self.cell.step(10)
            speeds = np.abs(self.cell.state("arm").dq) / self.limits
            self.fastest = max(self.fastest, float(speeds.max()))
        self.cell.simulation.apply_wrench(self.body)

    @property
    def fault(self):
        return self.cell.state("arm").fault

    def speed(self):
        return float(np.abs(self.cell.state("arm").dq).max())


@pytest.mark.parametrize("model", every_nth(2, READY))
def test_force_impedance_without_force_holds_unknown_payload(make_cell, model, episodes):
    """It sagged by 280 mm and more under 1.5 kg, as its spring was limited to 7.5 N."""
    loads = [(1.5, 0.2), (3.0, 0.0), (3.0, 0.1)]
    if model == "kinova_gen3":  # its wrist cannot bear 3 kg at 0.1 m beyond the tool
        loads.pop()
    for mass, lever in loads[: episodes(1, 3)]:
        weight, moved = [0.0, 0.0, -9.81 * mass], {}
        for law in LEFT_OF:
            arm = HandledArm(make_cell, law, model)
            arm.handle(1.5, weight, lever)
            moved[law] = arm.moved()
            assert (arm.fault, arm.speed() < 0.02) == ("", True)
        assert moved["force_impedance"] < 1.05 * moved["cartesian_impedance"] + 1e-3
        assert moved["force_impedance"] < 0.04 * mass


@pytest.mark.parametrize("law", ["cartesian_impedance", "force_impedance", "operational_space"])
def test_arm_yields_to_hard_push_and_returns(make_cell, law):
    """150 N pushed it into the velocity limit within 140 ms."""
    push = np.random.default_rng(4).normal(size=3)
    arm = HandledArm(make_cell, law)
    arm.handle(0.3, 150.0 * push / np.linalg.norm(push))
    arm.cell.step(2000)
    assert arm.fault == ""
    assert arm.fastest < 1.1
    assert arm.moved() < 0.01


def test_arm_pushed_beyond_joint_torques_ends_at_rest(make_cell, episodes):
    for seed in range(episodes(2, 20)):
        push = np.random.default_rng(seed).normal(size=3)
        arm = HandledArm(make_cell, "cartesian_impedance")
        arm.handle(0.3, 200.0 * push / np.linalg.norm(push))
        arm.cell.step(2000)
        assert arm.fault in ("", "velocity_limit", "position_limit")
        assert arm.speed() < 0.05


@pytest.mark.parametrize("law", ["gravity_compensation", "teleoperation", "admittance"])
def test_hand_guided_arm_brakes_near_speed_limits(make_cell, law, episodes):
    """Joint 6 of a Gen3, guided with 40 N, had a velocity fault within 120 ms."""
    for model in ["kinova_gen3", "iiwa14", "fr3", "ur5e"][: episodes(1, 4)]:
        for seed in range(episodes(1, 4)):
            lead = np.random.default_rng(seed).normal(size=3)
            arm = HandledArm(make_cell, law, model)
            arm.handle(1.5, 40.0 * lead / np.linalg.norm(lead), ramp=0.1)
            assert (arm.fault, arm.fastest < 1.05) == ("", True), (model, seed, arm.fastest)
