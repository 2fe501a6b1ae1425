# SPDX-License-Identifier: Apache-2.0
"""Files of runs of validation tasks."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arm
from multipanda_py.exceptions import LogError
from multipanda_py.identification.validation import Run, compare, make_task, run_task
from multipanda_py.identification.validation.record import COLUMNS, load_run, save_run

pytestmark = [pytest.mark.sim, pytest.mark.inline]


@pytest.fixture(scope="module")
def task():
    return make_task(3, seconds=0.5)


@pytest.fixture(scope="module")
def run(task):
    return run_task(task, CellConfig.from_dict({"arms": {"arm": {"noise": {"q": 1e-4}}}}), 3)


def test_run_survives_its_file(run, task, tmp_path):
    save_run(tmp_path / "run.npz", run)
    got = load_run(tmp_path / "run.npz")
    for name in ("force", "force_error", "force_time", "tank_time"):
        np.testing.assert_array_equal(getattr(got, name), getattr(run, name))
    assert list(got.tanks) == list(run.tanks) != []
    assert (got.fault, got.seconds) == (run.fault, run.seconds)
    reported = replace(run, fault="reflex", force_is_measured=True)
    save_run(tmp_path / "run.npz", reported)
    again = load_run(tmp_path / "run.npz")
    assert (again.fault, again.force_is_measured) == ("reflex", True)
    assert {one.name for one in fields(Run)} == {
        "force", "force_error", "force_time", "tank_time", "tanks", "logs", "settling", "fault",
        "force_is_measured",
    }, "save_run omits a field of Run"  # fmt: skip
    for mine, theirs in ((run.logs, got.logs), (run.settling, got.settling)):
        assert list(mine) == list(theirs) == ["arm"]
        for column in COLUMNS:
            np.testing.assert_array_equal(theirs["arm"][column], mine["arm"][column])
        for fact in ("robot", "joints", "laws", "starts", "gravity_in_tau"):
            assert getattr(theirs["arm"], fact) == getattr(mine["arm"], fact)
    arms = {"arm": describe_arm("arm", CellConfig.from_dict({"arms": {"arm": {}}}).arms["arm"])}
    found = compare(task, [run], [got], arms)
    assert max(np.abs(rows).max() for rows in found.errors["arm"].values()) == 0.0


def test_settling_before_first_target_is_recorded(run):
    before, log = run.settling["arm"], run.logs["arm"]
    assert -2.1 < before.time[0] < -1.9
    assert before.time[-1] < log.time[0] <= 1e-3 + 1e-9
    assert log.time[0] - before.time[-1] == pytest.approx(1e-3)
    # The tool moves down and then presses on the table with the first force.
    height = before["position_ee_in_base"][:, 2]
    assert height[0] - height[-1] > 2e-3
    assert before["wrench_ext_in_base"][-100:, 2].mean() == pytest.approx(5.0, abs=0.5)


@pytest.mark.parametrize("text", [b"", b"no run", b"PK\x03\x04 no run"])
def test_corrupt_run_file_is_rejected(tmp_path, text):
    (tmp_path / "run.npz").write_bytes(text)
    with pytest.raises(LogError, match=r"run\.npz: "):
        load_run(tmp_path / "run.npz")


def test_other_npz_file_is_rejected(tmp_path):
    np.savez(tmp_path / "run.npz", q=np.zeros(3))
    with pytest.raises(LogError, match="npz"):
        load_run(tmp_path / "run.npz")
