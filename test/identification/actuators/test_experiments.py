# SPDX-License-Identifier: Apache-2.0
"""Experiments of the paper on compliant actuators, and their components."""

from __future__ import annotations

import base64
import json
import math
import re
from functools import cache

import mujoco
import numpy as np
import pytest
from long_form import LONG, every_nth

from multipanda_py.apps.cli import main
from multipanda_py.exceptions import ActuatorRejected
from multipanda_py.identification.actuators.experiments import (
    EXPERIMENTS,
    START_CONFIGURATION,
    bandwidth,
    closed_loop_ik,
    gains,
    tip_at,
    weights,
)
from multipanda_py.identification.actuators.learning_control import learn, minimum_jerk
from multipanda_py.identification.actuators.report import drawn
from multipanda_py.identification.actuators.robots import (
    FIVE_LINKS,
    PENDULUM,
    TWO_LINKS,
    SpringMotion,
    chain_model,
    identified,
    offset,
    robot_of,
)
from multipanda_py.registry import pyplot

pytestmark = [pytest.mark.sim, pytest.mark.inline]
SPEED = "of real time"
"""Statement that depends on the load of the machine."""


@cache
def experiment(name):
    """Return the cached result of an experiment, because each takes seconds."""
    return EXPERIMENTS[name](not LONG)


@pytest.mark.long
@pytest.mark.parametrize("name", every_nth(3, EXPERIMENTS))
def test_statements_of_paper_hold(name):
    found = experiment(name)
    assert found.name == name
    failed = [check for check in found.checks if not check.holds and SPEED not in check.statement]
    assert failed == []
    received = json.loads(json.dumps(found.as_dict()))  # as in the file
    assert all(math.isfinite(value) for value in received["figures"].values())
    for panel in found.panels:
        assert all(len(curve.x) == len(curve.y) > 0 for curve in panel.curves)


def test_learning_error_follows_analytical_convergence():
    """The error of a plant with gain K shrinks by 1 - c K exp(-n/N) in iteration n."""
    desired = np.linspace(0.0, 1.0, 50)[:, None] * (1.0, -0.5)
    found = learn(lambda references: 0.7 * references, desired, tolerance=0.08)
    expected, n = [0.3], 0
    while expected[-1] >= 0.08:
        n += 1
        expected.append(expected[-1] * (1.0 - 0.7 * 0.5 * math.exp(-n / 10.0)))
    assert found.errors == pytest.approx(expected, rel=1e-12)
    assert len(found.runs) == n + 1
    assert found.norms[0] == pytest.approx(0.3 * math.hypot(1.0, 0.5))
    assert np.abs(desired - 0.7 * found.references).max() == pytest.approx(expected[-1])


def test_learning_without_progress_ends_at_max_iterations():
    found = learn(lambda references: 0.0 * references, np.ones((3, 1)), max_iterations=4)
    assert found.errors == (1.0,) * 5


@pytest.mark.parametrize(
    ("values", "reported"),
    [({"gain": 0.0}, "gain: got 0"), ({"fading": math.nan}, "fading: got nan"),
     ({"tolerance": -1.0}, "tolerance: got -1"), ({"max_iterations": 0}, "max_iterations: got 0")],
)  # fmt: skip
def test_invalid_learning_settings_are_rejected(values, reported):
    with pytest.raises(ActuatorRejected, match=reported):
        learn(lambda references: references, np.ones((3, 1)), **values)


@pytest.mark.parametrize("given", [np.full((3, 1), np.nan), np.ones((2, 1))])
def test_invalid_run_is_rejected_with_shape(given):
    with pytest.raises(ActuatorRejected, match=rf"run 1: .*{re.escape(str(given.shape))}"):
        learn(lambda references: given, np.ones((3, 1)))


def test_minimum_jerk_starts_and_ends_at_rest():
    time = np.linspace(0.0, 20.0, 2001)
    position = minimum_jerk(time, 20.0)
    assert (position[0], position[1000], position[-1]) == pytest.approx((0.0, 0.5, 1.0))
    speed = np.gradient(position, time)
    assert abs(speed[[0, -1]]).max() < 1e-5
    assert speed.max() == pytest.approx(1.875 / 20.0, rel=1e-5)


def test_bandwidth_matches_known_filter():
    """A first-order lag of 2 Hz under a slow chirp."""
    time, rise = np.arange(0.0, 200.0, 1e-3), 5.5 / 200.0
    commanded = np.sin(math.tau * (0.5 + 0.5 * rise * time) * time)
    frequency = 0.5 + rise * time
    ratio = 1.0 / np.sqrt(1.0 + (frequency / 2.0) ** 2)
    phase = -np.arctan(frequency / 2.0)
    q = ratio * np.sin(math.tau * (0.5 + 0.5 * rise * time) * time + phase)
    at, gain = gains(SpringMotion(time, q[:, None], q[:, None], commanded[:, None]), rise)
    np.testing.assert_allclose(gain, 1.0 / np.sqrt(1.0 + (at / 2.0) ** 2), rtol=0.02)
    # 3 dB below the first gain, at 0.5 Hz: 1 + (f/2)^2 = 2 (1 + 0.25^2)
    assert bandwidth(at, gain) == pytest.approx(2.0 * math.sqrt(2.0 * 1.0625 - 1.0), rel=0.02)


def test_end_of_sweep_was_taken_for_bandwidth():
    assert bandwidth(np.array([1.0, 2.0]), np.array([1.0, 0.9])) == math.inf
    found = experiment("chirp")
    assert "stiff bandwidth Hz" not in found.figures
    assert 1.0 < found.figures["soft bandwidth Hz"] < 3.0
    assert "stiff above" in found.checks[1].found


@pytest.mark.slow
def test_fast_oscillation_was_drawn_solid_and_legend_covered_curves():
    """At most 60 periods of an oscillation are distinguishable in a panel."""
    plots = pyplot()
    for name in ("steps", "chirp"):
        found = experiment(name)
        for panel in found.panels:
            for curve in panel.curves:
                extrema = np.count_nonzero(np.diff(np.sign(np.diff(curve.y))))
                assert extrema <= 2 * 60 or np.ptp(curve.y) < 0.01, (name, panel.title)
    figure = drawn(found, plots)
    figure.canvas.draw()
    for axis in figure.axes[: len(found.panels)]:
        legend, inside = axis.get_legend().get_window_extent(), axis.get_window_extent()
        assert legend.y0 >= inside.y1 - 1.0
    plots.close(figure)


def test_closed_loop_ik_tracks_path_and_removes_offset():
    model, start = chain_model(FIVE_LINKS), np.array(START_CONFIGURATION)
    path = tip_at(model, start) + np.linspace(0.0, 0.1, 300)[:, None] * (1.0, 0.2, 0.3)
    found = closed_loop_ik(model, start, path, 2e-3)
    tips = np.array([tip_at(model, q) for q in found[50::50]])
    np.testing.assert_allclose(tips, path[50::50], atol=2e-4)
    # An initial error converges too.
    found = closed_loop_ik(model, start, np.repeat(path[-1:], 600, axis=0), 2e-3)
    np.testing.assert_allclose(tip_at(model, found[-1]), path[-1], atol=1e-4)


def test_weights_are_gradient_of_potential_energy():
    model, q = chain_model(FIVE_LINKS), np.array([[0.3, -0.2, 0.4, -1.1, 0.5]])
    data, energies = mujoco.MjData(model), []
    for k in range(5):
        for side in (1e-6, -1e-6):
            data.qpos[:] = q[0] + side * (np.arange(5) == k)
            mujoco.mj_kinematics(model, data)
            mujoco.mj_comPos(model, data)
            energies.append(9.81 * np.dot(model.body_mass, data.xipos[:, 2]))
    slopes = np.diff(np.reshape(energies, (5, 2))[:, ::-1], axis=1)[:, 0] / 2e-6
    np.testing.assert_allclose(weights(model, q)[0], slopes, atol=1e-7)


def test_identified_springs_had_swapped_parameters():
    """As printed in the paper, the stiffness would be 0.413 Nm/rad for every preset."""
    springs, zero = identified(2), np.zeros(2)
    soft, stiff = (
        springs.link_stiffness(zero, *springs.references(zero, np.full(2, preset)))
        for preset in (0.2, 0.6)
    )
    assert (soft[0], stiff[0]) == pytest.approx((0.58, 3.21), abs=5e-3)
    beside = offset(springs, 0.6)
    assert np.abs(beside).min() > 0.01
    theta = springs.references(0.3 + beside, np.full(2, 0.6))
    assert springs.elastic_torque(np.full(2, 0.3), *theta).link == pytest.approx(zero, abs=1e-12)


def test_models_have_documented_inertia_and_mass():
    robot = robot_of(chain_model([PENDULUM]), identified(1), 0.2)
    assert 1.0 / robot.compliance[0, 0] == pytest.approx(0.002 + 0.2 * 0.04**2)
    assert chain_model(TWO_LINKS).body_mass.sum() == pytest.approx(0.65)


def test_validate_command_writes_report_and_numbers(tmp_path, capsys):
    target = tmp_path / "found.html"
    assert main(["actuators", "validate", "--quick", "--only", "horizontal", "-o",
                 str(target)]) == 0  # fmt: skip
    reported = capsys.readouterr()
    assert "1 of 1: horizontal" in reported.err
    assert reported.out.count("holds  ") == 2
    text = target.read_text(encoding="utf-8")
    assert "Two joints in a horizontal plane" in text
    assert "http" not in text
    picture = text.split("base64,")[1].split("'")[0]
    assert base64.b64decode(picture).startswith(b"\x89PNG")
    numbers = json.loads(target.with_suffix(".json").read_text(encoding="utf-8"))
    (one,) = numbers["experiments"]
    assert numbers["quick"] is True
    assert one["figures"]["soft rest error rad"] < 0.06
    assert all(check["holds"] for check in one["checks"])


def test_validate_command_with_invalid_output_writes_nothing(tmp_path, capsys):
    assert main(["actuators", "validate", "-o", str(tmp_path / "no" / "found.html")]) != 0
    assert main(["actuators", "validate", "-o", str(tmp_path / "found.txt")]) != 0
    assert list(tmp_path.iterdir()) == []
    assert len(capsys.readouterr().err.strip().splitlines()) == 2
