# SPDX-License-Identifier: Apache-2.0
"""Simulated arm that stops from any state of motion, and records of its motion."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np

from multipanda_py.realtime.events import Event
from multipanda_py.robots.franka import FR3_LIMITS
from multipanda_py.simulation.drivetrain.sensors import CommandDelay, Delay
from multipanda_py.simulation.perturbed_arm import Perturbation
from multipanda_py.testing import simple_cell

GRAVITY = 9.81


@dataclass
class Throw:
    """Joint configuration, velocity, last commanded torque and perturbation of an arm."""

    q: np.ndarray
    dq: np.ndarray
    tau: np.ndarray
    perturbation: dict

    @classmethod
    def random(cls, rng, payload=True, limits=FR3_LIMITS):
        n, (low, high) = limits.n_joints, limits.span
        return cls(
            rng.uniform(low + 0.3, high - 0.3),
            rng.uniform(-1.1, 1.1, n) * limits.velocity,
            rng.uniform(-1.0, 1.0, n) * limits.torque,
            {
                "state_delay": float(rng.choice([0.0, 0.005])),
                "torque_lag": float(rng.choice([0.0, 0.002])),
                "inertia_scale": float(rng.choice([0.8, 1.0, 1.2])),
                "payload": float(rng.choice([0.0, 3.0])) if payload else 0.0,
            },
        )


@dataclass
class MotionRecord:
    """Simulated motion and energies per cycle."""

    q: np.ndarray
    speed: np.ndarray  # maximum over joints
    kinetic: np.ndarray
    work_of_payload: np.ndarray

    def rest_time(self, speed):
        """Return the time from which on all joints are slower than a speed [s]."""
        fast = np.flatnonzero(self.speed > speed)
        return (fast[-1] + 1) * 1e-3 if len(fast) else 0.0


class StopRig:
    """Arm without contacts in hold, or under a function instead of the controllet."""

    def __init__(self, perturbation, model="fr3"):
        arms = {"arm": {"perturbation": perturbation, "model": model}}
        self.cell = simple_cell(arms=arms, controllets={"float": {"type": "gravity_compensation"}})
        self.cell.start()
        loop = self.cell.loop
        self.arm, self.backend, self.hold = (
            loop.arms[0],
            loop.backends[0],
            loop.instances[0].law,
        )
        self.model, self.data = self.backend.model, self.backend.data
        self.model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
        self._own_update = self.hold.update
        names = [self.model.body(i).name for i in range(self.model.nbody)]
        self._payload = names.index("arm_fr3_payload") if "arm_fr3_payload" in names else 0
        self._n = self.arm.state.n_joints
        self._momentum = np.zeros(self.model.nv)

    def throw(self, throw, law=None):
        """Set the state of the arm and restart hold, or ``law(state) -> tau``."""
        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[: self._n], self.data.qvel[: self._n] = throw.q, throw.dq
        self.data.qpos[self._n :] = self.data.ctrl[self._n :] = 0.04  # fingers
        mujoco.mj_forward(self.model, self.data)
        for stage in self.backend.drives[0].stages:
            if isinstance(stage, Perturbation):
                stage.motor = throw.tau.copy()
            elif isinstance(stage, CommandDelay):  # all delayed commands are the last one
                stage.pending[:] = throw.tau
            elif isinstance(stage, Delay):
                stage.pending.clear()
        self.arm.state.tau[:] = throw.tau
        self.backend.read([0])
        self.arm.model.update(self.arm.state)
        self.arm.fault, self.arm.released = Event.NONE, False
        self.arm.restart_hold()
        if law is None:
            self.hold.update = self._own_update
        else:
            self.hold.update = lambda states, *_: self.hold.tau[0].__setitem__(
                slice(None), law(states[0])
            )

    @property
    def kinetic(self):
        """Kinetic energy of all bodies [J]."""
        mujoco.mj_mulM(self.model, self.data, self._momentum, self.data.qvel)
        return 0.5 * float(self.data.qvel @ self._momentum)

    def run(self, seconds):
        n, data = round(seconds * 1000), self.data
        record = MotionRecord(np.zeros((n, self._n)), np.zeros(n), np.zeros(n), np.zeros(n))
        weight = self.model.body_mass[self._payload] * GRAVITY if self._payload else 0.0
        height = data.xipos[self._payload][2]
        for k in range(n):
            self.cell.step(1)
            record.q[k] = data.qpos[: self._n]
            record.speed[k] = np.abs(data.qvel[: self._n]).max()
            record.kinetic[k] = self.kinetic
            record.work_of_payload[k] = weight * (height - data.xipos[self._payload][2])
        return record


class Rigs:
    """Cached rigs by perturbation."""

    def __init__(self):
        self._rigs = {}

    def of(self, perturbation, model="fr3"):
        key = repr((model, sorted(perturbation.items())))
        if key not in self._rigs:
            self._rigs[key] = StopRig(perturbation, model)
        return self._rigs[key]

    def close(self):
        for rig in self._rigs.values():
            rig.cell.close()
