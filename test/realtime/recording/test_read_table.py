# SPDX-License-Identifier: Apache-2.0
"""Logs of other origin in CSV and Parquet, in the spellings that people use."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.exceptions import LogError, UnknownName
from multipanda_py.realtime import recording as logs

pandas = pytest.importorskip("pandas")
pytestmark = pytest.mark.inline


def columns(names="q dq tau", first=1, joints=7, n=50):
    draw = np.random.default_rng(1)
    table = {"time": np.arange(n) * 0.01}
    for name in names.split():
        table |= {f"{name}{k + first}": draw.normal(size=n) for k in range(joints)}
    return pandas.DataFrame(table)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_table_comes_back_by_the_names_of_its_columns(tmp_path, suffix):
    table = columns().sample(frac=1.0, axis=1, random_state=3)  # in any order
    path = tmp_path / f"arm.{suffix}"
    table.to_csv(path, index=False) if suffix == "csv" else table.to_parquet(path)
    log = logs.read(path, robot="fer").the_arm()
    assert (log.arm, log.robot, log.joints[0]) == ("arm", "fer", "joint1")
    np.testing.assert_allclose(log.tau[:, 3], table["tau4"])
    np.testing.assert_allclose(log.dq[:, 0], table["dq1"])
    assert log.rate == pytest.approx(100.0)


@pytest.mark.parametrize(
    ("q", "tau", "first"),
    [("position_", "effort_", 0), ("Position", "Torque", 1), ("q_", "tau_J_", 1)],
)
def test_other_spellings_are_understood(tmp_path, q, tau, first):
    table = columns(f"{q} {tau}", first).rename(columns={"time": "Timestamp"})
    table.to_csv(tmp_path / "arm.csv", index=False)
    log = logs.read(tmp_path / "arm.csv").the_arm()
    np.testing.assert_allclose(log.tau[:, 0], table[f"{tau}{first}"])


def test_what_a_log_gives_as_a_table_is_read_back(tmp_path):
    parts = [columns().assign(arm=name, contact=1.5) for name in ("left", "right")]
    pandas.concat(parts).to_csv(tmp_path / "two.csv", index=False)
    log = logs.read(tmp_path / "two.csv")
    log.to_pandas().to_parquet(tmp_path / "again.parquet")
    again = logs.read(tmp_path / "again.parquet")
    assert list(again.arms) == ["left", "right"]
    np.testing.assert_array_equal(again.arms["right"].q, log.arms["right"].q)
    assert again.arms["left"]["contact"][0] == 1.5


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda t: t.drop(columns="time"), "column 'time' .* is missing"),
        (
            lambda t: t.rename(columns={f"q{k}": f"angle{k}" for k in range(1, 8)}),
            "joint positions .* are missing",
        ),
        (lambda t: t.drop(columns="tau3"), r"joint 3 of tau.*\b1, 2, 4\b"),
        (lambda t: t.drop(columns="tau7"), r"\b6\b.*\btau\b.*\b7\b.*\bq\b"),
        (lambda t: t.drop(columns="q1"), "joint 1 of q"),
        (lambda t: t.assign(position2=t.q2), "q2.*position2"),
        (lambda t: t.rename(columns={"dq2": "dq1"}), r"\bdq1\b"),
        (lambda t: t.assign(q3="broken"), "are not numeric"),
        (lambda t: t.iloc[::-1], "time has to increase"),
        (lambda t: t.iloc[:0], "no samples"),
        (lambda t: t.drop(columns=["q7", "dq7", "tau7"]), r"\b6\b.*\bfr3\b.*\b7\b"),
    ],
)
def test_bad_tables_are_refused_in_a_sentence(tmp_path, change, says):
    change(columns()).to_csv(tmp_path / "bad.csv", index=False)
    with pytest.raises(LogError, match=says):
        logs.read(tmp_path / "bad.csv", robot="fr3")


def test_files_that_are_none_are_refused(tmp_path):
    (tmp_path / "torn.parquet").write_bytes(b"PAR1 and no more")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "log.txt").write_text("x")
    for name, says in (("torn.parquet", "cannot be read"), ("empty.csv", "cannot be read"),
                       ("log.txt", "allowed .csv"), ("none.csv", "no such file")):  # fmt: skip
        with pytest.raises(LogError, match=says):
            logs.read(tmp_path / name)
    with pytest.raises(LogError, match="got no log"):
        logs.read([])
    columns().to_csv(tmp_path / "arm.csv", index=False)
    with pytest.raises(UnknownName, match="robot 'fr4'"):
        logs.read(tmp_path / "arm.csv", robot="fr4")


def test_several_logs_of_one_experiment_are_one_data_set(tmp_path):
    columns().to_csv(tmp_path / "arm.csv", index=False)
    (tmp_path / "b").mkdir()
    columns().to_csv(tmp_path / "b" / "arm.csv", index=False)
    log = logs.read([tmp_path / "arm.csv", tmp_path / "b" / "arm.csv"]).the_arm("arm")
    assert len(log) == 100
    assert log.segments() == [slice(0, 50), slice(50, 100)]
