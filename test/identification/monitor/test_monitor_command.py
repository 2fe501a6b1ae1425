# SPDX-License-Identifier: Apache-2.0
"""``multipanda monitor`` on logs: two arms, third-party tables and rejected input."""

from __future__ import annotations

import numpy as np
import pytest
import yaml

from multipanda_py import Cell
from multipanda_py.apps.cli import main
from multipanda_py.realtime import recording as logs

pytest.importorskip("mcap")
pytestmark = [pytest.mark.sim, pytest.mark.inline]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Two normal runs of two oscillating arms, and one run with a force on the right arm."""
    folder = tmp_path_factory.mktemp("monitor")
    with Cell.from_yaml("config/dual_sim.yaml", placement="inline") as cell:
        for name, pull in (("one", 0.0), ("two", 0.0), ("pulled", 8.0)):
            cell.simulation.reset()
            cell.simulation.apply_wrench("right_fr3_link7")
            cell.recorder.start(folder / f"{name}.mcap")
            start = {arm: cell.pose(arm).position for arm in cell.arms}
            for k in range(250):
                for arm in cell.arms:
                    offset = np.array([0.0, 0.02 * np.sin(0.06 * k), 0.0])
                    cell.set_target(
                        arm, type(cell.pose(arm))(start[arm] + offset, cell.pose(arm).rotation)
                    )
                if k == 150:
                    cell.simulation.apply_wrench("right_fr3_link7", force=(0.0, 0.0, -pull))
                cell.step(16)
            cell.recorder.stop()
    band = folder / "band.yaml"
    line = ["monitor", "--learn", *(str(folder / f"{n}.mcap") for n in ("one", "two"))]
    assert main([*line, "-o", str(band)]) == 0
    return folder, band


@pytest.mark.long
def test_force_on_one_of_two_arms_is_reported_and_plotted(recorded, capsys, tmp_path):
    folder, band = recorded
    line = ["monitor", str(folder / "two.mcap"), "--band", str(band)]
    assert main(line) == 0
    assert "within the band throughout" in capsys.readouterr().out
    picture = tmp_path / "both.png"
    line = ["monitor", str(folder / "pulled.mcap"), "--band", str(band), "-o", str(picture)]
    assert main(line) == 1
    reported = capsys.readouterr().out
    first = reported.splitlines()[0].split()
    begin = logs.read(folder / "pulled.mcap").arms["right"].time[0]
    assert 0.0 < float(first[0]) - begin - 150 * 0.016 < 0.5
    assert "right: external of joint" in reported
    assert "left:" not in reported
    assert "times outside the band" in reported
    for arm in ("left", "right"):
        assert (tmp_path / f"both_{arm}.png").stat().st_size > 20_000


@pytest.mark.long
def test_learning_reports_evaluated_seconds_only(recorded, capsys, tmp_path):
    folder, _ = recorded
    line = ["monitor", "--learn", *(str(folder / f"{n}.mcap") for n in ("one", "two"))]
    assert main([*line, "-o", str(tmp_path / "band.yaml")]) == 0
    assert " 6.0 s" in capsys.readouterr().out  # two runs of 4 s, less 1 s each


def test_one_of_two_arms_is_evaluated_without_band(recorded, capsys):
    folder, _ = recorded
    assert main(["monitor", str(folder / "one.mcap"), "--arm", "left", "--update"]) == 0
    line, beyond, *_ = capsys.readouterr().out.splitlines()
    assert beyond.startswith("left: carries ")
    assert abs(float(beyond.split()[2])) < 0.05
    assert line.startswith("left ")
    assert "correction" in line


def test_third_party_table_needs_cell_and_arm(recorded, capsys, tmp_path):
    folder, _ = recorded
    table = tmp_path / "run.csv"
    log = logs.read(folder / "one.mcap").arms["left"].part(slice(None, None, 5))
    log.to_pandas()[
        ["time", *(f"{n}{k}" for n in ("q", "dq", "tau") for k in range(1, 8))]
    ].to_csv(table, index=False)
    twin = ["--twin", "config/dual_sim.yaml"]
    assert main(["monitor", str(table)]) == 1
    assert "--twin CELL" in capsys.readouterr().err
    assert main(["monitor", str(table), *twin]) == 1
    assert "left, right with --arm" in capsys.readouterr().err
    assert main(["monitor", str(table), *twin, "--arm", "middle"]) == 1
    assert "'middle'" in capsys.readouterr().err
    assert main(["monitor", str(table), *twin, "--arm", "left"]) == 0
    reported = capsys.readouterr().out
    assert "wrench" not in reported
    assert "correction" in reported


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "name logs, --node for a cell that runs on this machine, or --topics"),
        ("one.mcap --node", "only one of them"),
        ("--node --topics", "only one of them"),
        ("--topics", "--topics: needs a cell file"),
        ("--topics --twin nothing.yaml", "cannot be read"),
        ("--learn one.mcap", "--learn: needs good runs and an output file"),
        ("--learn one.mcap --update -o x.yaml", "--learn: needs good runs and an output file"),
        ("--learn --node -o nowhere/x.yaml", "must be a file in an existing folder"),
        ("one.mcap --ros", "--ros, --duration: not allowed with logs"),
        ("--node x --namespace north", "--namespace: not allowed without --ros"),
        ("--node x --ros --namespace 2nd", "namespace: got '2nd', allowed names of letters"),
        ("one.mcap -o x.txt", "--output: x.txt must be a file .png or .svg or .pdf"),
        ("one.mcap -o nowhere/x.png", "there is no folder"),
        ("--learn one.mcap -o nowhere/x.yaml", "there is no folder"),
        ("one.mcap -o x.PNG.txt", "its suffix is '.txt'"),
        ("nothing.mcap", "there is no such file"),
        ("one.mcap --band one.mcap", "cannot be read as a band"),
        ("one.mcap --arm middle", "no arm 'middle'; there are left, right"),
        ("--node no_such_cell", "no"),
    ],
)
def test_invalid_arguments_are_rejected_in_one_line(
    recorded, line, message, capsys, tmp_path, monkeypatch
):
    folder, _ = recorded
    monkeypatch.chdir(tmp_path)
    words = [str(folder / w) if w in ("one.mcap", "nothing.mcap") else w for w in line.split()]
    assert main(["monitor", *words]) == 1
    (reported,) = capsys.readouterr().err.splitlines()
    assert message in reported
    assert list(tmp_path.iterdir()) == []


def test_band_of_other_joints_is_rejected(recorded, capsys, tmp_path):
    folder, band = recorded
    data = yaml.safe_load(band.read_text())
    data["arms"]["left"]["joints"][0] = "joint_a1"
    other = tmp_path / "other.yaml"
    other.write_text(yaml.safe_dump(data))
    assert main(["monitor", str(folder / "one.mcap"), "--band", str(other)]) == 1
    assert "learnt from joints joint_a1, " in capsys.readouterr().err
