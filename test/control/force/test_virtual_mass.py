# SPDX-License-Identifier: Apache-2.0
"""Virtual mass-spring-damper against closed forms, and at its bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from multipanda_py.control.force.virtual_mass import VirtualBody, remaining

pytestmark = pytest.mark.inline

M, D, K = 4.0, 20.0, 200.0
J, B, C = 0.2, 1.0, 10.0


def body(
    period=1e-3, time=0.0, deadband=(0.0, 0.0), bounds=(1.0, 2.0), speed=(1.5, 2.5), k=(K, C)
):
    made = VirtualBody(period)
    made.set_gains(
        np.repeat([M, J], 3), np.repeat([D, B], 3).astype(float), np.repeat(k, 3).astype(float)
    )
    made.set_bounds(bounds, speed)
    made.set_filter(time, deadband)
    made.reset(0.0)
    return made


def response(m, d, k, force, times):
    """Return the position after a force step, by the matrix exponential."""
    a = np.array([[0.0, 1.0], [-k / m, -d / m]])
    w, v = np.linalg.eig(a)
    rest = np.array([force / k, 0.0])
    start = np.linalg.solve(v, -rest.astype(complex))
    return np.array([rest[0] + np.real(v[0] @ (np.exp(w * t) * start)) for t in times])


def run(made, wrench, cycles):
    path = []
    for _ in range(cycles):
        made.step(np.asarray(wrench, dtype=float))
        path.append(made.displacement.copy())
    return np.array(path)


@pytest.mark.parametrize("axis", range(6))
def test_dynamics_converge_to_closed_form_with_period(axis):
    wrench = np.zeros(6)
    wrench[axis] = force = 8.0 if axis < 3 else 0.6
    gains = (M, D, K) if axis < 3 else (J, B, C)
    errors = []
    for period in (1e-3, 5e-4, 2.5e-4):
        cycles = round(2.0 / period)
        path = run(body(period), wrench, cycles)
        exact = response(*gains, force, period * np.arange(1, cycles + 1))
        errors.append(np.abs(path[:, axis] - exact).max() / np.abs(exact).max())
        assert np.abs(np.delete(path, axis, axis=1)).max() == 0.0
    assert errors[0] < 5e-3
    assert errors[0] / errors[1] == pytest.approx(2.0, rel=0.1)
    assert errors[1] / errors[2] == pytest.approx(2.0, rel=0.1)


def test_rotation_about_fixed_axis_agrees_with_runge_kutta():
    """Runge-Kutta on the rotation matrix, with the spring along its logarithm."""
    torque = np.array([0.9, -0.5, 0.7])

    def hat(w):
        return np.array([[0, -w[2], w[1]], [w[2], 0, -w[0]], [-w[1], w[0], 0]])

    def log(r):
        s = np.array([r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1]]) / 2
        size = np.linalg.norm(s)
        return s * (np.arctan2(size, (np.trace(r) - 1) / 2) / size if size > 1e-12 else 1.0)

    inertia, damping, stiffness = np.array([0.2, 0.4, 0.3]), np.full(3, 0.5), np.full(3, 2.0)
    made = body()
    made.set_gains(
        np.concatenate([np.full(3, M), inertia]),
        np.concatenate([np.full(3, D), damping]),
        np.concatenate([np.full(3, K), stiffness]),
    )

    def rate(r, w):
        return hat(w) @ r, (torque - damping * w - stiffness * log(r)) / inertia

    r, w, h = np.eye(3), np.zeros(3), 1e-3
    for _ in range(1500):
        made.step(np.array([0, 0, 0, *torque]))
        a = rate(r, w)
        b = rate(r + h / 2 * a[0], w + h / 2 * a[1])
        c = rate(r + h / 2 * b[0], w + h / 2 * b[1])
        d = rate(r + h * c[0], w + h * c[1])
        r = r + h / 6 * (a[0] + 2 * b[0] + 2 * c[0] + d[0])
        w = w + h / 6 * (a[1] + 2 * b[1] + 2 * c[1] + d[1])
    assert np.linalg.norm(log(r)) > 0.3
    assert np.allclose(made.rotation, log(r), atol=2e-3)
    assert np.abs(made.translation).max() == 0.0


def test_static_displacement_is_force_over_stiffness():
    wrench = np.array([10.0, -6.0, 4.0, 0.3, -0.2, 0.1])
    path = run(body(), wrench, 6000)
    assert np.allclose(path[-1], wrench / [K, K, K, C, C, C], rtol=1e-4, atol=1e-7)


def test_no_drift_without_force_or_spring():
    made = body(k=(0.0, 0.0), deadband=(1.0, 0.2))
    path = run(made, [0.3, 0.2, -0.3, 0.05, 0.0, 0.05], 5000)  # inside the deadband
    assert np.abs(path).max() == 0.0


@pytest.mark.parametrize("size", [1e3, 1e9])
def test_huge_force_is_bounded_and_returns_without_windup(size):
    made = body(bounds=(0.2, 0.5), speed=(0.3, 1.0))
    direction = np.array([0.6, 0.0, -0.8, 0.0, 1.0, 0.0])
    path = run(made, size * direction, 3000)
    steps = np.diff(path, axis=0)
    assert np.linalg.norm(path[:, :3], axis=1).max() <= 0.2 * (1 + 1e-12)
    assert np.linalg.norm(path[:, 3:], axis=1).max() <= 0.5 * (1 + 1e-12)
    assert np.linalg.norm(steps[:, :3], axis=1).max() <= 0.3e-3 * (1 + 1e-9)
    assert np.linalg.norm(steps[:, 3:], axis=1).max() <= 1.0e-3 * (1 + 1e-9)
    assert np.allclose(path[-1], [0.12, 0, -0.16, 0, 0.5, 0], atol=1e-9)
    assert np.abs(made.velocity).max() < 1e-12
    back = run(made, np.zeros(6), 1)[0]
    assert np.linalg.norm(back[:3]) < 0.2
    assert np.linalg.norm(back[3:]) < 0.5
    # From rest at the bound it returns as a body released there.
    path = run(made, np.zeros(6), 300)
    free = body(bounds=(0.2, 0.5), speed=(0.3, 1.0))
    free.displacement[:] = [0.12, 0, -0.16, 0, 0.5, 0]
    c, s = np.cos(0.5), np.sin(0.5)
    free.rotation_matrix = np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])
    assert np.allclose(run(free, np.zeros(6), 301)[1:], path, atol=1e-12)


def test_body_slides_along_bound():
    made = body(bounds=(0.05, 0.5), k=(0.0, 0.0))
    run(made, [20.0, 0, 0, 0, 0, 0], 2000)
    path = run(made, [20.0, 3.0, 0, 0, 0, 0], 2000)
    assert path[-1][1] > 5e-3
    assert np.linalg.norm(path[-1][:3]) == pytest.approx(0.05)


def test_narrowed_bound_is_approached_at_maximum_speed():
    made = body(bounds=(0.2, 1.0), speed=(0.3, 1.0))
    wrench = np.array([30.0, 0, 0, 0, 8.0, 0])
    before = run(made, wrench, 4000)[-1]
    made.set_bounds((0.02, 0.1), (0.3, 1.0))
    path = np.vstack([before, run(made, wrench, 2000)])
    assert np.abs(np.diff(path, axis=0))[:, :3].max() <= 0.3e-3 * (1 + 1e-9)
    assert np.abs(np.diff(path, axis=0))[:, 3:].max() <= 1e-3 * (1 + 1e-9)
    assert np.allclose(path[-1], [0.02, 0, 0, 0, 0.1, 0])


def test_low_pass_has_its_time_constant():
    made = body(time=0.05)
    for _ in range(50):
        made.step(np.array([10.0, 0, 0, 0, 0, 0]))
    assert made.wrench[0] == pytest.approx(10.0 * (1 - math.exp(-1)), rel=1e-9)


def test_mean_wrench_after_activation_is_tared():
    rng = np.random.default_rng(0)
    made = body()
    made.reset(0.2)
    bias = np.array([5.0, -3.0, 8.0, 0.4, -0.2, 0.1])
    noise = rng.normal(size=(200, 6))
    noise -= noise.mean(axis=0)
    for n in noise:
        made.step(bias + n)
        assert np.abs(made.displacement).max() == 0.0
    path = run(made, bias, 3000)
    assert np.abs(path).max() < 1e-12
    path = run(made, bias + [10.0, 0, 0, 0, 0, 0], 6000)
    assert path[-1][0] == pytest.approx(10.0 / K, rel=1e-4)


def test_deadband_is_smooth_and_never_amplifies():
    d = 2.0
    sizes = np.linspace(0, 8, 4001)
    out = np.array([s * remaining(np.array([0.0, s, 0.0]), d) for s in sizes])
    slope = np.diff(out) / np.diff(sizes)
    assert (out[sizes <= 1.0] == 0.0).all()
    assert np.allclose(out[sizes >= 3.0], sizes[sizes >= 3.0] - d)
    assert slope.min() >= 0.0
    assert slope.max() <= 1.0 + 1e-9
    assert np.abs(np.diff(slope)).max() < 2e-3  # no kink: the slope is continuous
    assert remaining(np.ones(3), 0.0) == 1.0
