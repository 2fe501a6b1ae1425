# SPDX-License-Identifier: Apache-2.0
"""What a refinement has done is there again when it goes on, and nothing else is taken for it."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.exceptions import ValidationRefused
from multipanda_py.identification.calibration.rounds import RunCache
from multipanda_py.identification.validation import Run
from multipanda_py.realtime.recording import ArmLog

pytestmark = [pytest.mark.inline]
ASKED = {"plant": "one", "seconds": 4.0, "tasks": (1, 4)}


def run(fault=""):
    time = np.arange(5) * 1e-3
    return Run({"arm": ArmLog("arm", "fr3", ("joint1",), time, time[:, None])}, fault=fault)


def never():
    raise RuntimeError("done a second time")


def test_what_was_done_is_not_done_again(tmp_path):
    folder = tmp_path / "parts"
    first = RunCache(folder, ASKED)
    assert not folder.exists()  # until there is something to keep
    made = first.run("one", run)
    table = first.points("two", lambda: np.eye(3))
    numbers = first.numbers("three", lambda: {"friction": 0.2})
    again = RunCache(folder, ASKED)
    assert len(again) == 1
    np.testing.assert_array_equal(again.run("one", never).logs["arm"].q, made.logs["arm"].q)
    np.testing.assert_array_equal(again.points("two", never), table)
    assert again.numbers("three", never) == numbers


def test_a_run_that_a_fault_ended_is_done_again(tmp_path):
    kept = RunCache(tmp_path, ASKED)
    assert kept.run("one", lambda: run("left: reflex")).fault
    assert not kept.run("one", run).fault


def test_a_file_that_is_cut_off_is_done_again(tmp_path):
    kept = RunCache(tmp_path, ASKED)
    kept.run("one", run)
    whole = (tmp_path / "one.npz").read_bytes()
    for size in (0, len(whole) // 2, len(whole) - 1):
        (tmp_path / "one.npz").write_bytes(whole[:size])
        assert len(kept.run("one", run).logs["arm"]) == 5


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seconds": 2.0}, r"\bseconds\b"),
        ({"plant": "two", "tasks": (1,)}, r"\bplant\b.*\btasks\b"),
    ],
)
def test_what_is_the_answer_to_something_else_is_refused(tmp_path, change, words):
    RunCache(tmp_path, ASKED).run("one", run)
    there = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(ValidationRefused, match=words):
        RunCache(tmp_path, {**ASKED, **change})
    assert sorted(path.name for path in tmp_path.iterdir()) == there
