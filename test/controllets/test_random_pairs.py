# SPDX-License-Identifier: Apache-2.0
"""Two arms of any model and controllet, late, heavier and pushed: bounds hold, stops work."""

from __future__ import annotations

import contextlib

import numpy as np
import pinocchio as pin
import pytest
from cell_names import ARMS

from multipanda_py.exceptions import MultipandaError
from multipanda_py.pose import Pose
from multipanda_py.realtime.events import Event
from multipanda_py.robots import MODELS

pytestmark = pytest.mark.inline

BY_POSE = ("cartesian_impedance", "force_impedance", "admittance", "operational_space")
SINGLE = (*BY_POSE, "joint_impedance", "joint_velocity", "joint_trajectory")
COUPLED = ("coupled_impedance", "coupled_force_impedance")
FAULT = 10
BLOCK = {"shape": "box", "size": [0.2] * 3, "mass": 1.0, "position": [0.5, 0.0, 0.1]}


class Pair:
    """Random arms and controllets, with checks of their commands and motions.

    An unknown torque may drive a nearly singular arm to its speed limit.
    """

    def __init__(self, make_cell, rng):
        kinds = rng.choice(list(MODELS), 2)
        self.rng, self.robots = rng, [MODELS[kind] for kind in kinds]
        arms = {name: self.arm(kind, side) for name, kind, side in zip(ARMS, kinds, (0.45, -0.45))}
        laws = {law: {"type": law} for law in SINGLE}
        laws |= {law: {"type": law, "arms": list(ARMS)} for law in COUPLED}
        scene_objects = {"block": BLOCK} if rng.random() < 0.5 else {}
        self.cell = make_cell(arms, laws, [], objects=scene_objects)
        backend = self.cell.loop.backends[0]
        self.states, self.data = backend.states, backend.data
        self.dofs = [np.arange(dofs.start, dofs.stop) for dofs in backend.dofs]
        self.laws = COUPLED[:1]

    def arm(self, kind, side):
        robot, rng = MODELS[kind], self.rng
        low, high = robot.limits.span
        bend = rng.uniform(-1.0, 1.0, robot.n_joints) * rng.choice([0.05, 0.3, 0.8])
        bias = rng.choice([0.0, 0.03]) * robot.limits.torque * rng.choice([-1, 1], robot.n_joints)
        return {
            "model": kind,
            "position": [0.0, side, 0.0],
            "q_start": np.clip(robot.ready + bend, low + 0.2, high - 0.2).tolist(),
            "perturbation": {
                "state_delay": float(rng.choice([0.0, 0.005])),
                "torque_lag": float(rng.choice([0.0, 0.002])),
                "inertia_scale": float(rng.choice([0.8, 1.0, 1.2])),
                "payload": float(rng.choice([0.0, 1.0])),
                "torque_bias": bias.tolist(),
            },
            "noise": {"q": 1e-5, "dq": 2e-3, "tau": 0.1} if rng.random() < 0.5 else {},
        }

    def total_torques(self):
        """Return commanded torques, with gravity torques of arms that do not add them."""
        return [
            state.tau + (0.0 if robot.compensates_gravity else state.tau_gravity)
            for state, robot in zip(self.states, self.robots)
        ]

    def run(self, cycles):
        before = None
        for _ in range(cycles):
            self.cell.step(1)
            now = self.total_torques()
            for place, robot in enumerate(self.robots):
                limits = robot.limits
                assert np.isfinite(now[place]).all()
                assert (np.abs(now[place]) <= 1.0001 * limits.torque).all(), self.laws
                if before is not None:
                    step = np.abs(now[place] - before[place])
                    assert (step <= 1.0001e-3 * limits.torque_rate).all(), self.laws
                assert (np.abs(self.speeds(place)) < 1.2 * limits.velocity).all(), self.laws
            before = now
        faults = {event.event for event in self.cell.events() if event.event >= FAULT}
        assert faults <= {Event.VELOCITY_LIMIT}, (self.laws, faults)  # then it holds

    def speeds(self, place):
        return self.data.qvel[self.dofs[place]]

    def switch(self):
        rng = self.rng
        self.cell.recover()
        if rng.random() < 0.4:
            self.laws = (str(rng.choice(COUPLED)),)
        else:
            self.laws = tuple(f"{arm}/{rng.choice(SINGLE)}" for arm in ARMS)
        with contextlib.suppress(MultipandaError):
            self.cell.switch(self.laws, strictness="force_auto")

    def request(self):
        """Send a random target, which is refused if it is too far away."""
        rng = self.rng
        if len(self.laws) == 1:
            report = self.cell.report(self.laws[0])
            place = np.array([report[f"object_{axis} [m]"] for axis in "xyz"])
            if rng.random() < 0.6:
                self.cell.set_object_target(
                    self.laws[0], self.beside(Pose(place, np.eye(3)), 0.03)
                )
            else:
                self.cell.set_object_target(self.laws[0], internal_force=rng.uniform(0.0, 40.0))
            return
        for arm, law in zip(ARMS, (name.partition("/")[2] for name in self.laws)):
            n = len(self.cell.state(arm).q)
            if law in BY_POSE:
                pose = self.beside(self.cell.pose(arm), rng.choice([0.01, 0.05, 0.1]))
                force = np.concatenate([rng.normal(size=3) * 8.0, rng.normal(size=3) * 0.5])
                wrench = {"wrench": force} if law == "force_impedance" else {}
                self.cell.set_target(arm, pose, **wrench)
            elif law == "joint_velocity":
                self.cell.set_target(arm, dq=rng.normal(size=n) * 0.3)
            else:
                step = rng.normal(size=n) * rng.choice([0.02, 0.1, 0.3])
                self.cell.set_target(arm, q=self.cell.state(arm).q + step)

    def beside(self, pose, far):
        delta_rotation = pin.exp3(self.rng.normal(size=3) * 2.0 * far)
        return Pose(pose.position + self.rng.normal(size=3) * far, delta_rotation @ pose.rotation)

    def stop(self):
        """Hold; arms are at rest soon after, close to their configuration before."""
        before = [np.abs(self.speeds(place)).max() for place in range(2)]
        here = [self.cell.state(arm).q for arm in ARMS]
        self.cell.hold()
        self.run(1800)
        for place, arm in enumerate(ARMS):
            distance = np.abs(self.cell.state(arm).q - here[place]).max()
            assert np.abs(self.speeds(place)).max() < 0.05, self.laws
            assert distance < 0.1 + 0.35 * before[place], self.laws


@pytest.mark.slow
@pytest.mark.sim
@pytest.mark.robustness
def test_random_pairs_stay_within_bounds_and_stop(make_cell, episodes):
    for seed in range(episodes(1, 200)):
        rng = np.random.default_rng(seed)
        pair = Pair(make_cell, rng)
        for _ in range(4):
            pair.switch()
            for _ in range(int(rng.integers(1, 8))):
                with contextlib.suppress(MultipandaError):
                    pair.request()
                pair.run(int(rng.integers(20, 400)))
            pair.stop()
        pair.cell.close()
