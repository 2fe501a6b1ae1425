# SPDX-License-Identifier: Apache-2.0
"""Scores and rounds of a calibration, and its cache of runs."""

from __future__ import annotations

import json
from importlib import import_module
from itertools import count

import numpy as np
import pytest
from measured_arm import some_motion

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import IdentificationRejected, ValidationRejected
from multipanda_py.identification.calibration import (
    Calibration,
    CalibrationPlan,
    Round,
    calibrate,
    report,
)
from multipanda_py.identification.calibration.improvement import ModelImprovement, gain_of
from multipanda_py.identification.calibration.rounds import RunCache
from multipanda_py.identification.validation import Comparison, Run, make_task
from multipanda_py.identification.validation.compare import QUANTITIES
from multipanda_py.realtime.recording import ArmLog
from multipanda_py.robots import ArmDescription

pytestmark = pytest.mark.inline

MODULE = import_module("multipanda_py.identification.calibration.calibrate")


def comparison(number, error, full=1):
    """Return a comparison with one error for all quantities, or of a failed task (None)."""
    errors = {} if error is None else {"arm": {q.name: np.full((1, 7), error) for q in QUANTITIES}}
    repeats = 0 if error is None else 1
    return Comparison(number, "", "", repeats, errors, {}, {}, {}, {}, (), {}, full)


def test_round_with_failed_task_is_not_best():
    first = Round(0, [comparison(1, 1.0), comparison(4, 9.0)])
    second = Round(1, [comparison(1, 0.9), comparison(4, None)])
    found = Calibration([first, second], (), "")
    assert found.best is first
    reported = json.loads(report.numbers(found, {}), parse_constant=pytest.fail)
    assert [one["score"] is None for one in reported["rounds"]] == [False, True]


def test_round_with_completed_task_is_better_than_failed():
    rounds = [Round(0, [comparison(1, None)]), Round(1, [comparison(1, 1.0)])]
    assert Calibration(rounds, (), "").best is rounds[1]


def test_plant_that_fails_only_task_is_rejected(tmp_path, monkeypatch):
    cell = CellConfig.from_yaml("config/dual_sim.yaml")
    monkeypatch.setattr(MODULE, "runs_of", lambda *args: [Run({}, fault="left: reflex")])
    with pytest.raises(ValidationRejected, match=r"task 1: .*left: reflex"):
        calibrate(cell, cell, tmp_path, CalibrationPlan(tasks=[1]))


def test_declared_load_was_identified_as_last_link(tmp_path, monkeypatch):
    def received(motions, arm, *, load, progress):
        raise IdentificationRejected(f"the flange carried {load.mass} kg")

    twin = CellConfig.from_dict({"arms": {"arm": {}}})
    plant = CellConfig.from_dict({"arms": {"arm": {"franka": {"load_mass": 0.8}}}})
    run = Run({"arm": type("Log", (), {"time": np.array([0.0, 1.0])})()})
    monkeypatch.setattr(MODULE, "runs_of", lambda *args: [run])
    monkeypatch.setattr(MODULE, "compare_runs", lambda *args: comparison(1, 1.0))
    monkeypatch.setattr(MODULE, "measure", lambda *_, **__: None)
    monkeypatch.setattr(MODULE, "identify", received)
    motion = some_motion(ArmDescription("arm"))
    points = motion.table(motion.times(10.0))
    with pytest.raises(IdentificationRejected, match=r"\b0\.8 kg"):
        calibrate(plant, twin, tmp_path, CalibrationPlan(tasks=[1]), {"arm": points})


def test_arm_that_stopped_during_motion_is_rejected(monkeypatch):
    """The arm holds its position without a fault until the end of the log."""
    arm = import_module("multipanda_py.identification.calibration.improvement")
    motion = some_motion(ArmDescription("arm"), period=4.0)
    points = motion.table(motion.times(10.0))
    names = tuple(f"joint{k + 1}" for k in range(7))
    q = points[np.minimum(np.arange(len(points)), 15), 1:8]
    log = ArmLog("arm", "fr3", names, points[:, 0], q, tau=np.zeros_like(q))
    monkeypatch.setattr(arm, "run_task", lambda *_, **__: Run({"arm": log}))
    cell = CellConfig.from_dict({"arms": {"arm": {}}})
    with pytest.raises(ValidationRejected, match=r"\barm: .*\d\.\d\d rad"):
        arm.measure(cell, "arm", points, 1)


def test_twin_with_early_end_was_scored_as_better():
    """The errors of the completed part counted as errors of the whole task."""
    rounds = [Round(0, [comparison(3, 1.0)]), Round(1, [comparison(3, 0.2, full=0)])]
    assert Calibration(rounds, (), "").best is rounds[0]


class Rig:
    """Refinement with replaced computations and selected faults (``broken``)."""

    def __init__(self, monkeypatch, tmp_path):
        self.folder, self.errors = tmp_path, (0.8**k for k in count())
        self.cell = CellConfig.from_yaml("config/dual_sim.yaml")
        found = type("Found", (), {"held_out": {}, "robot": None})()
        monkeypatch.setattr(MODULE, "runs_of", self.runs)
        monkeypatch.setattr(MODULE, "compare_runs", lambda *_: comparison(1, next(self.errors)))
        monkeypatch.setattr(MODULE, "find_motion", lambda *_: np.zeros((2, 22)))
        monkeypatch.setattr(MODULE, "measure", self.measure)
        monkeypatch.setattr(MODULE, "identify", lambda *_, **__: found)
        monkeypatch.setattr(MODULE, "parameters_text", lambda *_: "robot: fr3\n")
        gain = ModelImprovement(1, "", {}, {}, 1, (0, 0))
        monkeypatch.setattr(MODULE, "gain_of", lambda *_: gain)
        self.broken = {}

    def runs(self, task, *_):
        fault = self.broken.get(task.number, "")
        time = np.array([0.0, 0.1 if fault else 1.0])
        return [Run({"left": type("Log", (), {"time": time})()}, fault=fault)]

    def measure(self, plant, arm, points, seed, keep, *, recover):
        if fault := self.broken.get((arm, seed)):
            raise ValidationRejected(f"{arm}: {fault}")
        return type("Motion", (), {"name": f"{arm} {seed}"})()

    def calibrate(self, tasks=(1, 2, 5), rounds=2):
        return calibrate(self.cell, self.cell, self.folder, CalibrationPlan(tasks, rounds=rounds))


@pytest.fixture
def rig(monkeypatch, tmp_path):
    return Rig(monkeypatch, tmp_path)


def test_failed_task_of_plant_ended_refinement(rig):
    """The task is skipped and noted."""
    rig.broken[2] = "left: reflex"
    found = rig.calibrate(rounds=1)
    assert list(found.notes) == ["task 2: skipped, the plant fails: left: reflex"]
    assert [len(one.comparisons) for one in found.rounds] == [2, 2]
    assert json.loads(report.numbers(found, {}))["notes"] == list(found.notes)
    assert found.notes[0] in list(report.lines(found))


def test_fault_of_one_arm_discarded_earlier_round(rig):
    """After a reflex in round 2, an arm keeps its parameters of round 1."""
    rig.broken["right", 2] = "the motion ended after 3.1 of 20.0 s: reflex"
    found = rig.calibrate()
    assert list(found.notes) == ["round 2: right: the motion ended after 3.1 of 20.0 s: reflex"]
    assert found.best.number == 2
    assert {arm: path.name for arm, path in found.best.files.items()} == {
        "left": "left_round_2.yaml", "right": "right_round_1.yaml",
    }  # fmt: skip
    assert list(found.best.identified) == ["left"]


def test_failed_round_ends_refinement_with_best_round(rig):
    rig.broken["left", 2] = "reflex"
    found = rig.calibrate(tasks=(1,), rounds=3)
    assert (found.best.number, len(found.rounds)) == (1, 2)
    assert found.ended.endswith("round 2")


def test_failed_first_round_is_rejected(rig):
    rig.broken.update({("left", 1): "reflex", ("right", 1): "reflex"})
    with pytest.raises(ValidationRejected, match="left: reflex"):
        rig.calibrate()


def test_gain_compared_early_ended_run_with_complete_run():
    """Only the common part of both runs is compared."""
    task, runs = make_task(4, seconds=1.0), []
    for seconds, error in ((0.3, 1.0), (1.0, 2.0)):
        time = np.arange(0.0, seconds, 1e-3)
        log = ArmLog("arm", "fr3", ("joint1",), time, time[:, None])
        errors = np.where(time < 0.3, error, 9.0)[:, None, None] * np.array([0.0, 0.0, 1.0])
        fault = "reflex" if seconds < 1.0 else ""
        force = np.full((len(time), 1), 9.81)
        runs.append(Run({"arm": log}, force, errors, time, fault=fault))
    gain = gain_of(task, runs[:1], runs[1:])
    assert (gain.runs, gain.early) == (1, (1, 0))
    assert gain.errors["measured minus true force [N]"] == pytest.approx((1.0, 2.0))
    assert gain.as_dict()["ended_early"] == {"data sheet": 1, "identified": 0}
    shortest = gain_of(task, [Run({}, fault="reflex")], runs[1:])
    assert (shortest.errors, shortest.series) == ({}, {})


REQUESTED = {"plant": "one", "seconds": 4.0, "tasks": (1, 4)}


def stored_run(fault=""):
    time = np.arange(5) * 1e-3
    return Run({"arm": ArmLog("arm", "fr3", ("joint1",), time, time[:, None])}, fault=fault)


def never():
    raise RuntimeError("computed a second time")


def test_cached_results_are_reused(tmp_path):
    folder = tmp_path / "parts"
    first = RunCache(folder, REQUESTED)
    assert not folder.exists()  # created with the first result
    made = first.run("one", stored_run)
    table = first.points("two", lambda: np.eye(3))
    numbers = first.numbers("three", lambda: {"friction": 0.2})
    again = RunCache(folder, REQUESTED)
    assert len(again) == 1
    np.testing.assert_array_equal(again.run("one", never).logs["arm"].q, made.logs["arm"].q)
    np.testing.assert_array_equal(again.points("two", never), table)
    assert again.numbers("three", never) == numbers


def test_faulted_run_is_repeated(tmp_path):
    kept = RunCache(tmp_path, REQUESTED)
    assert kept.run("one", lambda: stored_run("left: reflex")).fault
    assert not kept.run("one", stored_run).fault


def test_truncated_cache_file_is_replaced(tmp_path):
    kept = RunCache(tmp_path, REQUESTED)
    kept.run("one", stored_run)
    whole = (tmp_path / "one.npz").read_bytes()
    for size in (0, len(whole) // 2, len(whole) - 1):
        (tmp_path / "one.npz").write_bytes(whole[:size])
        assert len(kept.run("one", stored_run).logs["arm"]) == 5


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seconds": 2.0}, r"\bseconds\b"),
        ({"plant": "two", "tasks": (1,)}, r"\bplant\b.*\btasks\b"),
    ],
)
def test_cache_of_other_settings_is_rejected(tmp_path, change, words):
    RunCache(tmp_path, REQUESTED).run("one", stored_run)
    there = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(ValidationRejected, match=words):
        RunCache(tmp_path, {**REQUESTED, **change})
    assert sorted(path.name for path in tmp_path.iterdir()) == there
