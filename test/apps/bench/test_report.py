# SPDX-License-Identifier: Apache-2.0
"""Reports: complete tables, and reasons for missing measurements."""

from __future__ import annotations

import errno
import json
import re
import tempfile
from pathlib import Path

import numpy as np
import pytest

from multipanda_py.apps.bench import run as bench
from multipanda_py.apps.bench.conditions import ARM_POSITIONS, CONDITIONS, Effort
from multipanda_py.apps.bench.plots import draw, draw_scaling
from multipanda_py.apps.bench.records import summary
from multipanda_py.apps.bench.report import markdown
from multipanda_py.apps.bench.run import end_of_1_khz
from multipanda_py.apps.cli import main
from multipanda_py.exceptions import BenchError
from multipanda_py.realtime.system.checks import machine_facts

pytestmark = pytest.mark.inline
VALUES = np.linspace(10.0, 110.0, 101)


def figures():
    """Return a complete report."""
    us = summary(VALUES)
    usage = [
        {"name": "realtime.process", "cores": 0.2, "resident_mib": 9.0, "proportional_mib": 5.0}
    ]
    condition = {
        "control_us": us, "cycle_us": us, "lateness_us": us, "cycles": 1500, "over_300_us": 1,
        "missed": 2, "held": 0, "not_seen": 0, "processes": usage,
        "floor": {"lateness_us": us, "cycles": 1500, "missed": 0},
    }  # fmt: skip
    arm = {"state_to_torque_us": us, "loop_to_robot_us": us, "cross_correlation_us": 61.0,
           "lost_of_10000": 1.5, "longest_run": 2}  # fmt: skip
    wired = {name: dict.fromkeys(ARM_POSITIONS, arm) | {"processes": usage} for name in CONDITIONS}
    wired["C-MA"] = {"trouble": "left did not follow\nand more"}
    switching = {"trials": 50, "mean_ms": 0.43, "std_ms": 0.2, "delay_us": us, "service_us": us}
    return {
        "machine": machine_facts(),
        "effort": {"seconds": 30.0, "trials": 50},
        "left_out": {"cpp": "no Eigen"},
        "hot": {name: {"median_us": 40.0, "p99_us": 60.0} for name in CONDITIONS},
        "paced": {
            "conditions": dict.fromkeys(CONDITIONS, condition), "switching": switching,
            "topic_to_use_us": us, "targets_per_second": 1000.0, "start_to_active_s": 3.0,
        },
        "wired": wired,
    }  # fmt: skip


def test_table_rows_have_length_of_header():
    text = markdown(json.loads(json.dumps(figures())), "report.png")
    assert "](report.png)" in text
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        assert len({line.count("|") for line in table.splitlines()}) == 1, table


def scaling_figures():
    """Return results of one and eight arms, and a failed measurement of two arms."""
    us, condition = summary(VALUES), figures()["paced"]["conditions"]["DC-NF"]
    condition |= {"targets_per_second": 1000.0}
    one = condition | {"cycle_us": us | {"median": 100.0, "p99": 200.0}}
    eight = condition | {"cycle_us": us | {"median": 450.0, "p99": 900.0}}
    rows = {"1": one, "2": {"trouble": "arms held in 40 % of the cycles\nand more"}, "8": eight}
    hot = {
        name.format(n): {"median_us": 20.0 * n, "p99_us": 30.0 * n}
        for n in (1, 2, 8)
        for name in ("{}", "{} CA-MA", "{}: physics")
    }
    return {
        "hot": hot, "arms": rows, "end": end_of_1_khz(rows),
        "cells": {"one cell": [one], "two on one domain": [one, {"trouble": "no"}]},
    }  # fmt: skip


def test_scaling_tables_and_1_khz_limit_follow_measurements():
    end = scaling_figures()["end"]
    assert (end["few"], end["many"]) == (1, 8)
    assert end["cycle_median"] == pytest.approx(19.0)
    assert end["cycle_p99"] == pytest.approx(9.0)
    assert end["ros_process"] == float("inf")
    more = dict(scaling_figures()["arms"])
    more["4"] = more["1"] | {"cycle_us": {"median": 400.0, "p99": 1300.0}}
    more["8"] = more["1"] | {"cycle_us": {"median": 1500.0, "p99": 2700.0}}
    end = end_of_1_khz(more)  # A line through 1 and 8 arms alone once gave 5 arms.
    assert end["cycle_median"] == pytest.approx(4.0 + 4.0 * 600.0 / 1100.0)
    assert end["cycle_p99"] == pytest.approx(1.0 + 3.0 * 800.0 / 1100.0)
    report = figures() | {"scaling": scaling_figures()}
    text = markdown(report, "", "scaling.png")
    assert "19.0 arms" in text
    assert "its core at no number of arms" in text
    assert "](scaling.png)" in text
    tables = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    assert all(len({line.count("|") for line in t.splitlines()}) == 1 for t in tables)


def test_rows_of_holding_arms_were_reported_as_figures():
    report = figures() | {"scaling": scaling_figures()}
    text = markdown(report)
    (row,) = [line for line in text.splitlines() if line.startswith("| 2 |")]
    assert "40 %" in row
    assert "| two on one domain | 2 | not measured: no |" in text
    report["paced"]["conditions"] = {"DC-NF": {"trouble": "arms held"}}
    assert "not measured: arms held" in markdown(report)


def test_1_khz_limit_needs_two_numbers_of_arms(tmp_path):
    report = figures() | {"scaling": scaling_figures()}
    rows = report["scaling"]["arms"]
    rows["8"] = rows["2"]
    report["scaling"]["end"] = end_of_1_khz(rows)
    assert "fewer than two numbers of arms" in markdown(report)
    draw_scaling(report, tmp_path / "one.png")
    rows["1"] = rows["2"]
    with pytest.raises(BenchError, match="no measurement succeeded"):
        draw_scaling(report, tmp_path / "none.png")


def test_scaling_had_no_plot(tmp_path):
    draw_scaling(figures() | {"scaling": scaling_figures()}, tmp_path / "scaling.png")
    assert (tmp_path / "scaling.png").read_bytes()[:4] == b"\x89PNG"


def test_scaling_report_has_title_and_busy_machine_note():
    report = figures()
    only = {key: report[key] for key in ("machine", "effort", "left_out")}
    only["scaling"] = scaling_figures()
    for load, is_busy in (("0.3 4.0 4.0", False), ("17.0 1.0 1.0", True)):
        only["machine"] = report["machine"] | {"load before": load, "cores": "2 of 2"}
        text = markdown(only)
        assert text.startswith("# Number of arms")
        assert ("those of a busy machine" in text) == is_busy


def test_missed_cycles_exceeded_total():
    """Skipped cycles were missing from the total: 827 of 179."""
    report = figures()
    condition = report["paced"]["conditions"]["DC-NF"] | {"cycles": 179, "missed": 827}
    report["paced"]["conditions"] = {"DC-NF": condition}
    assert ", 827 of 1006 |" in markdown(report)


def test_report_lists_missing_parts_with_reasons():
    text = markdown(figures())
    assert "- cpp: no Eigen" in text
    assert "left did not follow" in text


def test_empty_report_names_machine():
    report = {"machine": machine_facts(), "effort": {"seconds": 1.0}, "left_out": {"hot": "no"}}
    text = markdown(report)
    assert report["machine"]["processor"] in text
    assert "control loop" not in text


def test_plots_without_samples_are_rejected(tmp_path):
    with pytest.raises(BenchError, match="no samples were measured"):
        draw(figures(), {}, tmp_path / "report.png")


def test_plots_show_available_samples(tmp_path):
    times = dict.fromkeys(("control", "cycle", "lateness"), VALUES)  # Without compiler and robots.
    paced = dict.fromkeys(CONDITIONS, times) | {"switching": {"delay": VALUES * 10}}
    draw(figures(), {"paced": paced}, tmp_path / "report.png")
    assert (tmp_path / "report.png").read_bytes()[:4] == b"\x89PNG"


def test_missing_packages_skip_only_their_parts(monkeypatch):
    monkeypatch.setattr(bench, "find_spec", lambda name: None)
    reported = []
    report, samples = bench.run(Effort(parts=("hot", "paced", "wired")), reported.append)
    assert set(report["left_out"]) == {"hot", "cpp", "paced", "wired", "scaling"}
    assert report["left_out"]["wired"] == (
        "mujoco, pylibfranka, rclpy, controller_manager_msgs not installed"
    )
    assert not samples


@pytest.mark.parametrize("words", [["--seconds", "0"], ["--trials", "1.5"], ["--seconds", "nan"]])
def test_invalid_options_are_rejected_before_start(words, capsys, tmp_path):
    with pytest.raises(SystemExit) as ended:
        main(["bench", "-o", str(tmp_path / "no"), *words])
    assert ended.value.code == 2
    assert "allowed" in capsys.readouterr().err
    assert not (tmp_path / "no").exists()


def no_room(*words, **options):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_unwritable_folder_was_reported_after_ten_minutes(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(bench, "run", lambda *_: pytest.fail("measured"))
    monkeypatch.setattr(tempfile, "TemporaryFile", no_room)
    assert main(["bench", "-o", str(tmp_path)]) == 1
    assert capsys.readouterr().err.splitlines() == [
        f"multipanda bench: {tmp_path}: the report cannot be written: No space left on device"
    ]


def test_full_disk_lost_measurements(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(bench, "run", lambda *_: (figures(), {}))
    monkeypatch.setattr(Path, "write_text", no_room)
    assert main(["bench", "-o", str(tmp_path)]) == 1
    assert "Time of the control loop" in capsys.readouterr().out
