# SPDX-License-Identifier: Apache-2.0
"""Stages of an imperfect arm agree with plain numpy formulas to the last bit.

The stages of a drive compute in place, without new arrays.
"""

from __future__ import annotations

import copy
import math
from collections import deque

import mujoco
import numpy as np
import pinocchio as pin
import pytest

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.perturbation import PerturbationSpec
from multipanda_py.identification.validation import make_task
from multipanda_py.identification.validation.record import TaskCell
from multipanda_py.robots.dynamics.arm_dynamics import model_with_gravity
from multipanda_py.simulation.drivetrain.friction import (
    JointFriction,
    Ripple,
)
from multipanda_py.simulation.drivetrain.sensors import (
    CommandDelay,
    MeasuredStep,
    SensorNoise,
    TorqueStep,
)
from multipanda_py.simulation.perturbed_arm import (
    ESTIMATE_FILTER_TIME,
    ModelError,
    Perturbation,
    perturbed,
    with_all_friction,
)

pytestmark = [pytest.mark.sim, pytest.mark.inline]
MEASURED = ("q", "dq", "tau_J", "tau_ext")
IMPERFECT = {
    "arms": {
        "all": {
            "perturbation": {
                "link_mass": {"range": [0.8, 1.2]}, "coulomb": {"range": [0.1, 0.5]},
                "viscous": {"range": [0.1, 0.6]}, "stribeck": {"range": [0.05, 0.15]},
                "friction_offset": {"range": [-0.1, 0.1]}, "command_delay": 0.002,
                "torque_bias": {"range": [-0.1, 0.1]}, "torque_lag": 0.001,
            },
            "transmission": {"ripple": {"range": [0.02, 0.1]}},
            "joint_friction": [0.1, 0.0, 0.2, 0.0, 0.1, 0.0, 0.0],
            "noise": {
                "q": 1e-5, "dq": 1e-3, "tau": 0.05, "tau_bias": {"range": [-0.1, 0.1]},
                "tau_drift": [0.01] * 7, "q_resolution": 1e-6, "tau_resolution": 0.01,
                "torque_resolution": 0.005,
            },
        }
    }
}  # fmt: skip


class Plain:
    """Plain formulas on copies."""

    def __init__(self, backend):
        arm, settings = backend.descriptions[0], with_all_friction(backend.config.arms["arm"])
        self.model, self.data = backend.model, backend.data
        self.spoiled, self.noise, self.joints = (
            settings.perturbation, settings.noise, settings.transmission
        )  # fmt: skip
        real = perturbed(arm, self.spoiled, settings.robot_of_body)
        self.models = [model_with_gravity(one) for one in (arm, real)]
        self.datas = [model.createData() for model in self.models]
        stages = {type(stage): stage for stage in backend.drives[0].stages}
        late, noisy = stages[CommandDelay], stages[SensorNoise]
        self.past = deque(np.roll(late.pending, -late.at, axis=0).copy())
        self.motor, self.error = stages[Perturbation].motor, stages[ModelError].error.copy()
        self.walk, self.random, self.walking = (
            copy.deepcopy(getattr(noisy, name)) for name in ("offset", "noise_rng", "walk_rng")
        )
        self.known = stages[JointFriction].known  # Joint friction 0.1, 0, 0.2 ... with rounding.
        self.speeds = self.data.qvel[:7].copy()  # Speeds of the last friction bounds.

    def execute(self, stage, tau):
        if isinstance(stage, TorqueStep):
            return np.rint(tau / 0.005) * 0.005
        if isinstance(stage, CommandDelay):
            self.past.append(tau)
            return self.past.popleft()
        if isinstance(stage, Perturbation):
            if self.motor is None:
                self.motor = tau.copy()
            follow = 1.0 - float(np.exp(-1e-3 / self.spoiled.torque_lag))
            self.motor = self.motor + follow * (tau - self.motor)
            return self.motor + np.array(self.spoiled.torque_bias)
        if isinstance(stage, ModelError):
            q = self.data.qpos[:7]
            carried = [pin.computeGeneralizedGravity(*m, q) for m in zip(self.models, self.datas)]
            return tau + carried[0] - carried[1]
        if isinstance(stage, JointFriction):
            self.speeds = self.data.qvel[:7].copy()
            return tau - np.array(self.spoiled.friction_offset)
        if isinstance(stage, Ripple):
            angle = np.array(self.joints.ripple_waves) * self.data.qpos[:7] % math.tau
            return tau + np.array(self.joints.ripple) * np.sin(angle)
        return tau

    def measure(self, stage, q, dq, tau_J, tau_ext):
        if isinstance(stage, MeasuredStep):
            q = np.rint(q / 1e-6) * 1e-6
            tau_J, tau_ext = (np.rint(tau / 0.01) * 0.01 for tau in (tau_J, tau_ext))
        if isinstance(stage, SensorNoise):
            draw = self.random.standard_normal
            q, dq, torque = q + 1e-5 * draw(7), dq + 1e-3 * draw(7), 0.05 * draw(7)
            step = np.array(self.noise.tau_drift) * math.sqrt(1e-3)
            self.walk = self.walk + step * self.walking.standard_normal(7)
            tau_J, tau_ext = tau_J - (torque + self.walk), tau_ext + (torque + self.walk)
        if isinstance(stage, Perturbation):
            tau_ext = tau_ext + np.array(self.spoiled.torque_bias)
        if isinstance(stage, ModelError):
            believed, true = (
                pin.rnea(*m, q, dq, self.data.qacc[:7]) for m in zip(self.models, self.datas)
            )
            follow = -math.expm1(-1e-3 / ESTIMATE_FILTER_TIME)
            self.error = self.error + follow * (believed - true - self.error)
            tau_ext = tau_ext + self.error
        if isinstance(stage, JointFriction):
            offset = np.array(self.spoiled.friction_offset)
            tau_ext = tau_ext + (
                -np.array(self.spoiled.viscous) * dq - offset + self.dry_friction()
            )
            tau_J = tau_J + offset
        return q, dq, tau_J, tau_ext

    def dry_friction(self):
        """Return the unknown dry friction from the constraint Jacobian of MuJoCo."""
        spoiled, data = self.spoiled, self.data
        decay = np.exp(-((self.speeds / np.array(spoiled.stribeck_speed)) ** 2))
        own = np.array(spoiled.coulomb) + np.array(spoiled.stribeck) * decay
        of_joints = data.efc_type == int(mujoco.mjtConstraint.mjCNSTR_FRICTION_DOF)
        dry = np.zeros(self.model.nv)
        mujoco.mj_mulJacTVec(self.model, data, dry, np.where(of_joints, data.efc_force, 0.0))
        return own / (self.known + own) * dry[:7]


def test_stages_agree_with_formulas_in_motion_and_contact():
    config = PerturbationSpec.from_dict(IMPERFECT).draw(
        CellConfig.from_dict({"arms": {"arm": {}}}), 5
    )
    rig = TaskCell(make_task(4, "ufic", 1.0), config)
    cell = rig.open_cell(7)
    backend = cell.loop.backends[0]
    drive, plain, observed, wrong = backend.drives[0], Plain(backend), set(), []

    def compare(stage, quantity, got, expected):
        observed.add(type(stage))
        if not np.array_equal(got, expected):
            wrong.append((type(stage).__name__, quantity, got.copy(), expected))

    def executing(stage):
        def step(tau):
            expected = plain.execute(stage, tau.copy())
            stage.execute(tau)
            compare(stage, "tau", tau, expected)

        return step

    def measuring(stage):
        def step(state):
            before = [getattr(state, name).copy() for name in MEASURED]
            expected = plain.measure(stage, *before)
            stage.measure(state)
            for name, value in zip(MEASURED, expected):
                compare(stage, name, getattr(state, name), value)

        return step

    for steps, wrap in ((drive.executing, executing), (drive.measuring, measuring)):
        steps[:] = [wrap(step.__self__) for step in steps]
    try:
        cell.step(2)
        assert not wrong, wrong[0]
        assert not (faults := [str(event) for event in cell.events() if event.event.is_fault]), (
            faults
        )
        rig.task.settling_cycles = 700
        rig.task.settle(cell, cell.step)
        for k in range(10):
            rig.task.set_targets(cell, 0.01 * k)
            cell.step(10)
        assert not wrong, wrong[0]
        assert backend.data.ncon > 0
        assert not cell.latest_record()["arms"]["fault"].any()
    finally:
        rig.close()
    assert {TorqueStep, CommandDelay, Perturbation, ModelError, JointFriction, Ripple} <= observed
