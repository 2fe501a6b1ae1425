# SPDX-License-Identifier: Apache-2.0
"""The paper's five tasks, as shipped in the examples, within their tolerances."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.sim

PATH = Path(__file__).parent.parent / "examples" / "04_paper_tasks.py"
spec = importlib.util.spec_from_file_location("paper_tasks", PATH)
tasks = importlib.util.module_from_spec(spec)
sys.modules["paper_tasks"] = tasks
spec.loader.exec_module(tasks)


def test_free_motion():
    assert tasks.task1().result["rmse of joint 4 [rad]"] < 0.01
    assert tasks.task2().result["rmse [m]"] < 0.015


def test_force_follows_a_sine_of_30_newton():
    assert tasks.task3().result["force rmse [N]"] < 0.5


def test_constant_force_on_a_circle():
    result = tasks.task4().result
    assert result["force rmse [N]"] < 0.5
    assert result["largest path error [m]"] < 0.02


def test_contact_loss_is_caught():
    result = tasks.task4(drop_table=True).result
    assert result["fall after contact loss [m]"] < 0.05
    assert result["speed [m/s]"] < 0.3


def test_two_arms_squeeze_and_lift_a_box():
    result = tasks.task5().result
    assert result["left force rmse [N]"] < 1.0
    assert result["right force rmse [N]"] < 1.0
    assert result["lifted [m]"] == pytest.approx(0.2, abs=0.005)
    assert result["slip of box in the hands [m]"] < 0.01


@pytest.mark.robustness
def test_forces_hold_with_bias_drift_a_forgotten_load_and_elastic_joints(episodes):
    """After a tare; the unknown weight still rests on the table where 0 N are asked for."""
    seconds = episodes(4, 10)
    sine = tasks.task3(realistic=True, seconds=seconds).result
    assert sine["force rmse [N]"] < 1.2
    assert sine["force rmse above 5 N [N]"] < 0.6
    circle = tasks.task4(realistic=True, seconds=episodes(6, 10)).result
    assert circle["force rmse [N]"] < 0.8
    assert circle["largest path error [m]"] < 0.025


@pytest.mark.robustness
def test_a_box_is_lifted_with_bias_drift_forgotten_loads_and_elastic_joints(episodes):
    result = tasks.task5(realistic=True, seconds=episodes(3, 10)).result
    assert result["left force rmse [N]"] < 1.0
    assert result["right force rmse [N]"] < 1.0
    assert result["lifted [m]"] == pytest.approx(0.2, abs=0.005)
    assert result["slip of box in the hands [m]"] < 0.01


def test_plots_are_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    trace = tasks.Trace()
    for k in range(10):
        trace.add(k * 0.1, force=k, force_desired=5.0)
    tasks.plot({"3": trace}, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 1000
