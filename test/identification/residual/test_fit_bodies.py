# SPDX-License-Identifier: Apache-2.0
"""Body parameters of a residual, separated from friction."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pinocchio as pin
import pytest

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.identification.residual.motions import PairedMotion, PairedMotions
from multipanda_py.identification.residual.train import fit_bodies
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.dynamics.arm_dynamics import model_with_gravity
from multipanda_py.robots.residual.inputs import Normalisation

pytestmark = pytest.mark.inline

ARM = ArmDescription("arm")
JOINTS = tuple(joint.name for joint in ARM.robot.joints)
LIMITS = ARM.robot.limits
SCALE = Normalisation.of_limits(LIMITS.lower, LIMITS.upper, LIMITS.velocity, LIMITS.torque)


def heavier_model():
    """Return a model with heavier links than those of the arm."""
    model = model_with_gravity(ARM)
    for number in (2, 4, 6):
        model.inertias[number].mass *= 1.2
        model.inertias[number].lever += [0.01, -0.005, 0.008]
    return model


def motions(count, seed):
    rng, own, other = np.random.default_rng(seed), model_with_gravity(ARM), heavier_model()
    time = np.arange(120)[:, None] / 100.0
    for number in range(count):
        speed, phase = rng.uniform(1.0, 3.0, 7), rng.uniform(0.0, 6.0, 7)
        size = 0.3 * (LIMITS.upper - LIMITS.lower) / speed.clip(1.0)
        q = 0.5 * (LIMITS.upper + LIMITS.lower) + size * np.sin(speed * time + phase)
        dq = size * speed * np.cos(speed * time + phase)
        ddq = -size * speed**2 * np.sin(speed * time + phase)
        tau = [
            [pin.rnea(model, model.createData(), *row) for row in zip(q, dq, ddq)]
            for model in (own, other)
        ]
        friction = 0.3 * np.tanh(dq / 0.02) + 0.4 * dq + rng.normal(size=q.shape) * 0.02
        twin, plant = (np.hstack([q, dq, np.array(one)]) for one in tau)
        plant[:, 14:] += friction
        split = "train" if number < count - 2 else "test"
        yield PairedMotion("multi", split, SCALE.state(twin), SCALE.state(plant)), tau[1]


def test_bodies_are_identified_despite_friction():
    found, tau = zip(*motions(14, 0))
    pairs = PairedMotions(found, SCALE, ARM.robot.name, JOINTS, 100.0, "")
    bodies = fit_bodies(pairs, ARM)
    for motion, plant in zip(pairs.select("test"), tau[-2:]):
        q, dq, torque = np.hsplit(SCALE.state_of(motion.twin), 3)
        missing = np.array(plant) - torque
        remainder = missing - bodies.run(q, dq, 100.0)
        assert np.square(missing).mean() > 0.1
        assert np.square(remainder[1:]).mean() < 0.01 * np.square(missing).mean()
    with pytest.raises(ConfigurationError, match=r"^bodies: .*\bfr3\b.*\b7\b"):
        fit_bodies(replace(pairs, robot="ur5e"), ARM)
