# SPDX-License-Identifier: Apache-2.0
"""What a round is worth, and what its bodies are found from."""

from __future__ import annotations

import json
from importlib import import_module

import numpy as np
import pytest
from measured_arm import some_motion

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import IdentificationRefused, ValidationRefused
from multipanda_py.logs import ArmLog
from multipanda_py.refinement import Refinement, Round, refine, report
from multipanda_py.refinement.refine import RefinementPlan
from multipanda_py.robots import ArmDescription
from multipanda_py.validation import Comparison, Run
from multipanda_py.validation.quantities import QUANTITIES

MODULE = import_module("multipanda_py.refinement.refine")


def comparison(number, error):
    """Return a task with one error everywhere, or one that could not be done."""
    errors = {} if error is None else {"arm": {q.name: np.full((1, 7), error) for q in QUANTITIES}}
    repeats = 0 if error is None else 1
    return Comparison(number, "", "", repeats, errors, {}, {}, {}, {}, (), {})


def test_a_round_in_which_a_task_fails_is_not_better_for_having_fewer_errors():
    first = Round(0, [comparison(1, 1.0), comparison(4, 9.0)])
    second = Round(1, [comparison(1, 0.9), comparison(4, None)])
    found = Refinement([first, second], (), "")
    assert found.best is first
    said = json.loads(report.numbers(found, {}), parse_constant=pytest.fail)
    assert [one["score"] is None for one in said["rounds"]] == [False, True]


def test_a_twin_that_could_not_do_a_task_at_first_is_beaten_by_one_that_can():
    rounds = [Round(0, [comparison(1, None)]), Round(1, [comparison(1, 1.0)])]
    assert Refinement(rounds, (), "").best is rounds[1]


def test_a_plant_that_cannot_do_a_task_is_refused(tmp_path, monkeypatch):
    cell = CellConfig.from_yaml("config/dual_sim.yaml")
    monkeypatch.setattr(MODULE, "runs_of", lambda *args: [Run({}, fault="left: reflex")])
    with pytest.raises(ValidationRefused, match="task 1: the plant cannot do it: left: reflex"):
        refine(cell, cell, tmp_path, RefinementPlan(tasks=[1]))


def test_the_load_that_a_robot_was_told_of_is_not_put_into_the_last_link(tmp_path, monkeypatch):
    def told(motions, arm, *, load, progress):
        raise IdentificationRefused(f"the flange carried {load.mass} kg")

    twin = CellConfig.from_dict({"arms": {"arm": {}}})
    plant = CellConfig.from_dict({"arms": {"arm": {"franka": {"load_mass": 0.8}}}})
    run = Run({"arm": type("Log", (), {"time": np.array([0.0, 1.0])})()})
    monkeypatch.setattr(MODULE, "runs_of", lambda *args: [run])
    monkeypatch.setattr(MODULE, "compare_runs", lambda *args: comparison(1, 1.0))
    monkeypatch.setattr(MODULE, "measure", lambda *args: None)
    monkeypatch.setattr(MODULE, "identify", told)
    motion = some_motion(ArmDescription("arm"))
    points = motion.table(motion.times(10.0))
    with pytest.raises(IdentificationRefused, match=r"the flange carried 0\.8 kg"):
        refine(plant, twin, tmp_path, RefinementPlan(tasks=[1]), {"arm": points})


def test_an_arm_that_stopped_on_its_way_is_not_identified(monkeypatch):
    """It held then, without a fault, for as long as the motion was to last."""
    arm = import_module("multipanda_py.refinement.arm")
    motion = some_motion(ArmDescription("arm"), period=4.0)
    points = motion.table(motion.times(10.0))
    names = tuple(f"joint{k + 1}" for k in range(7))
    q = points[np.minimum(np.arange(len(points)), 15), 1:8]
    log = ArmLog("arm", "fr3", names, points[:, 0], q, tau=np.zeros_like(q))
    monkeypatch.setattr(arm, "run_task", lambda *args: Run({"arm": log}))
    cell = CellConfig.from_dict({"arms": {"arm": {}}})
    with pytest.raises(ValidationRefused, match=r"arm: stopped \d\.\d\d rad from the end"):
        arm.measure(cell, "arm", points, 1)
