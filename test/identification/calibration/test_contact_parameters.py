# SPDX-License-Identifier: Apache-2.0
"""Identification of contact parameters of a table from runs of the plant."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import ValidationRejected
from multipanda_py.identification.calibration import contact_parameters as surface
from multipanda_py.identification.calibration.contact_parameters import ContactFit
from multipanda_py.identification.calibration.improvement import with_surface
from multipanda_py.identification.validation import make_task
from multipanda_py.identification.validation.validate import runs_of

pytestmark = [pytest.mark.sim, pytest.mark.inline, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def twin():
    return CellConfig.from_yaml("config/dual_sim.yaml")


def short_tasks(cell, *numbers, seconds=1.0):
    """Return shortened tasks with runs of a plant."""
    tasks = [make_task(number, seconds=seconds) for number in numbers]
    for task in tasks:
        task.settling_cycles = 800
    return [(task, runs_of(task, cell, 1, 0)) for task in tasks]


@pytest.mark.long
def test_contact_time_and_damping_are_identified(twin):
    there = {"contact_time": 0.015, "contact_damping": 0.75}
    plant, reported = with_surface(twin, "table", there), []
    found = ContactFit(plant, short_tasks(plant, 3, seconds=1.2), 0).fit(twin, reported.append)
    for name, value in there.items():
        own = getattr(twin.objects["table"], name)
        error = abs(np.log(found.values[name] / value))
        assert error < 0.3 * abs(np.log(own / value)), (name, found)
        low, high = found.spread[name]
        assert 0.9 * low < value < 1.1 * high
        assert low < found.values[name] < high < 2.0 * low
    assert reported


def with_wrench(run, change):
    """Return a run with another measured wrench."""
    ((name, log),) = run.logs.items()
    wrench = change(log["wrench_ext_in_base"].copy())
    log = replace(log, columns={**log.columns, "wrench_ext_in_base": wrench})
    return replace(run, logs={name: log})


@pytest.mark.long
def test_torque_sensor_bias_was_identified_as_friction(twin, monkeypatch):
    """Constant measured forces changed an identified friction of 0.19 to 0.16."""
    monkeypatch.setattr(surface, "MAX_ITERATIONS", 2)
    plant = with_surface(twin, "table", {"friction": 0.17})
    ((task, (run,)),) = short_tasks(plant, 4, seconds=2.0)
    run = with_wrench(run, lambda wrench: wrench + (0.5, -0.4, 0.0, 0.0, 0.0, 0.0))
    found = ContactFit(plant, [(task, [run])], 0).fit(twin, lambda text: None)
    assert found.values["friction"] == pytest.approx(0.17, rel=0.03)


@pytest.mark.long
def test_unmodelled_forces_widen_friction_range_or_drop_friction(twin, monkeypatch):
    """Residual forces could oppose the motion as friction does."""
    monkeypatch.setattr(surface, "MAX_ITERATIONS", 2)
    plant = with_surface(twin, "table", {"friction": 0.19})
    ((task, (run,)),) = short_tasks(plant, 4)
    noise = np.random.default_rng(0).normal(size=(40, 6)).repeat(50, axis=0)
    found = []
    for part in (0.1 * noise, 3.0 * noise):
        noisy = with_wrench(run, partial(np.add, part[: len(run.logs["left"])]))
        fit = ContactFit(plant, [(task, [noisy])], 0)
        found.append(fit.fit(twin, lambda text: None))
    narrow, wide = (one.spread["friction"] for one in found)
    assert narrow[0] < 0.19 < narrow[1] < 2.0 * narrow[0]
    assert wide[1] > surface.MAX_RANGE_RATIO * wide[0]
    assert list(found[0].values) == ["friction"]
    assert found[1].values == {}


def test_log_without_wrench_raised_key_error(twin):
    ((task, (run,)),) = short_tasks(twin, 4, seconds=0.5)
    ((name, log),) = run.logs.items()
    columns = {key: log.columns[key] for key in ("tau_ext", "position_ee_in_base")}
    run = replace(run, logs={name: replace(log, columns=columns)})
    with pytest.raises(ValidationRejected, match=r"left: .*wrench_ext_in_base"):
        ContactFit(twin, [(task, [run])], 0)


def test_early_ended_run_is_not_fitted(twin):
    ((task, (run,)),) = short_tasks(twin, 4, seconds=0.5)
    early = replace(run, fault="reflex")
    fit = ContactFit(twin, [(task, [early, early])], 0)
    assert fit.left_out == ["task 4 ended early: reflex"]
    assert fit.fit(twin, pytest.fail).values == {}
    assert ContactFit(twin, [(task, [early, run])], 0).left_out == []
