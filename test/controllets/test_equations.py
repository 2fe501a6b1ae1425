# SPDX-License-Identifier: Apache-2.0
"""Each controllet against a dense evaluation of its equation."""

from __future__ import annotations

import numpy as np
import pytest
from dense_impedance import impedance
from models import pairs

from multipanda_py.controllets.cartesian_impedance import (
    CartesianImpedance,
    CartesianImpedanceParams,
)
from multipanda_py.controllets.joint_impedance import JointImpedance, JointImpedanceParams
from multipanda_py.robots.dynamics.task_inertia import TaskInertia
from multipanda_py.targets import CartesianImpedanceTarget, JointTarget
from multipanda_py.testing import PERIOD, StateMaker

pytestmark = pytest.mark.inline

SOFT = CartesianImpedanceParams(np.full(6, 2.0), error_clip=np.full(6, 10.0))
"""So soft that a rotation by pi needs less than 0.9 of the wrist's 12 Nm."""
CONTEXT = {n: StateMaker(n).context for n in (1, 2)}
PAIRS = [("fr3", "fr3"), *pairs()]


def rotation_vector(r):
    """Return angle times axis, from the eigenvector of eigenvalue one."""
    angle = np.arccos(np.clip((np.trace(r) - 1) / 2, -1, 1))
    w, v = np.linalg.eig(r)
    axis = np.real(v[:, np.argmin(np.abs(w - 1))])
    axis /= np.linalg.norm(axis)
    skew = np.array([r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1]])
    return angle * axis * (np.sign(skew @ axis) or 1.0)


def random_rotation(rng):
    q, r = np.linalg.qr(rng.normal(size=(3, 3)))
    q = q @ np.diag(np.sign(np.diag(r)))
    return q if np.linalg.det(q) > 0 else -q


@pytest.mark.parametrize("pair", PAIRS)
def test_joint_impedance_matches_equation(pair):
    """Different arms have different gains."""
    rng = np.random.default_rng(5)
    maker = StateMaker(2, pair)
    for _ in range(20):
        gains = [(rng.uniform(10, 800, n), rng.uniform(0.1, 2, n)) for n in maker.joints]
        if len({*pair}) == 1:
            gains = gains[:1] * 2
            params = JointImpedanceParams(*gains[0])
        else:
            params = JointImpedanceParams(*zip(*gains))
        law, target = JointImpedance(maker.context, params), JointTarget(2, n_joints=maker.joints)
        states = maker.random(rng, speed=1.0)
        for arm, n in enumerate(maker.joints):
            target.q[arm][:] = rng.normal(size=n)
            target.dq[arm][:] = rng.normal(size=n)
        law.update(states, target, PERIOD)
        for arm, s in enumerate(states):
            k, z = (np.diag(gain) for gain in gains[arm])
            k, d = impedance(s.mass_matrix, k, z)
            expected = k @ (target.q[arm] - s.q) + d @ (target.dq[arm] - s.dq)
            assert np.allclose(law.tau[arm], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("frame", "pair"), [*(("base", pair) for pair in PAIRS), ("tool", PAIRS[0])]
)
def test_cartesian_impedance_matches_equation(frame, pair):
    rng = np.random.default_rng(6)
    maker = StateMaker(2, pair)
    checked = faded = grown = 0
    while checked < 100:
        params = CartesianImpedanceParams(
            rng.uniform(10, 2000, 6),
            rng.uniform(0.1, rng.choice([0.5, 2]), 6),
            gain_frame=frame,
            error_clip=np.full(6, 10.0),
        )
        law = CartesianImpedance(maker.context, params)
        target = CartesianImpedanceTarget(2, n_joints=maker.joints)
        states = maker.random(rng, speed=rng.choice([1.0, 3.0]))
        for arm in range(2):
            target.position_ee_in_base[arm][:] = rng.normal(size=3)
            target.rotation_ee_in_base[arm][:] = random_rotation(rng)
        law.update(states, target, PERIOD)
        for arm, s in enumerate(states):
            j, m = s.jacobian, s.mass_matrix
            r, r_d = s.rotation_ee_in_base, target.rotation_ee_in_base[arm]
            inverse = j @ np.linalg.inv(m) @ j.T
            if np.linalg.eigvalsh(inverse)[0] < 1.1 * TaskInertia.MIN_MANIPULABILITY:
                continue
            checked += 1
            e_p = target.position_ee_in_base[arm] - s.position_ee_in_base
            e = np.concatenate([e_p, rotation_vector(r_d @ r.T)])
            rotator = np.kron(np.eye(2), r) if frame == "tool" else np.eye(6)
            k, z = np.diag(params.stiffness), np.diag(params.damping_ratio)
            k, d = impedance(rotator.T @ np.linalg.inv(inverse) @ rotator, k, z)
            pull, damper = (
                j.T @ rotator @ k @ rotator.T @ e,
                j.T @ rotator @ d @ rotator.T @ j @ s.dq,
            )
            pull *= min(1.0, 0.9 / (np.abs(pull) / s.limits.torque).max())
            used = (np.abs(s.dq) / s.limits.velocity).max()
            faded += used > 0.72
            pull *= np.clip((1.0 - used) / 0.28, 0.0, 1.0)
            w = np.linalg.eigvals(
                rotator.T @ inverse @ rotator @ np.diag(params.stiffness)
            ).real.max()
            missing = (
                max(1.0, min(1.0, 60.0 / np.sqrt(w)) / max(params.damping_ratio.max(), 0.3)) - 1.0
            )
            grown += missing > 0.0 and used > 0.35
            damper *= 1.0 + missing * np.clip((used - 0.35) / 0.3, 0.0, 1.0)
            assert np.allclose(law.tau[arm], pull - damper, rtol=1e-8, atol=1e-7)
    assert faded > 5
    assert grown > 5


@pytest.mark.parametrize("angle", [0.0, 1e-9, 1e-4, 3.0, np.pi - 1e-6, np.pi])
def test_rotation_error_up_to_pi(angle):
    (state,) = StateMaker().states_at([np.array([0, -0.785, 0, -2.356, 0, 1.571, 0.785])])
    axis = np.array([1.0, 2.0, -0.5])
    axis /= np.linalg.norm(axis)
    skew = np.array([[0, -axis[2], axis[1]], [axis[2], 0, -axis[0]], [-axis[1], axis[0], 0]])
    rotator = np.eye(3) + np.sin(angle) * skew + (1 - np.cos(angle)) * skew @ skew
    law, target = CartesianImpedance(CONTEXT[1], SOFT), CartesianImpedanceTarget(1)
    law.on_activate([state], target)
    target.rotation_ee_in_base[0][:] = rotator @ state.rotation_ee_in_base
    law.update([state], target, PERIOD)
    k = SOFT.stiffness
    torques = [state.jacobian.T @ (k * np.array([0, 0, 0, *(s * angle * axis)])) for s in (1, -1)]
    errors = [np.abs(law.tau[0] - t).max() for t in torques]
    assert errors[0] < 1e-5 or (angle > np.pi - 1e-5 and errors[1] < 1e-5)
