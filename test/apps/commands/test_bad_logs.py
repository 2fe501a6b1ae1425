# SPDX-License-Identifier: Apache-2.0
"""Invalid logs: commands report them in one sentence and write nothing."""

from __future__ import annotations

import numpy as np
import pytest
import yaml
from measured_arm import some_motion

from multipanda_py.apps.cli import main
from multipanda_py.cell import Cell
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.identification.arm.regressor import ArmRegressor
from multipanda_py.identification.validation import make_task, run_task
from multipanda_py.robots import ArmDescription

pandas = pytest.importorskip("pandas")
pytest.importorskip("scipy")
pytestmark = [pytest.mark.sim, pytest.mark.inline]
ARM = ArmDescription("arm", "fr3")
TWIN = "config/single_sim.yaml"
Q, DQ, TAU = ([f"{name}{k}" for k in range(1, 8)] for name in ("q", "dq", "tau"))


@pytest.fixture(scope="module")
def excited():
    """Measurements of a described arm on a motion that excites its parameters."""
    regressor, motion = ArmRegressor(ARM), some_motion(ARM, 0)
    time = motion.times(100.0)
    q, dq, ddq = motion.sample(time)
    rows = regressor.rows(q, dq, ddq)
    tau = rows @ regressor.prior + rows[..., -10:] @ regressor.carried
    tau += 0.01 * np.random.default_rng(0).normal(size=tau.shape)
    return pandas.DataFrame(
        np.hstack([time[:, None], q, dq, tau]), columns=["time", *Q, *DQ, *TAU]
    )


@pytest.fixture(scope="module")
def task_run():
    """Log of a plant in task 1."""
    plant = CellConfig.from_dict({"arms": {"arm": {"noise": {"tau": 0.02}}}})
    log = run_task(make_task(1, seconds=1.0), plant).logs["arm"]
    return log.to_pandas()[["time", *Q, *DQ, *TAU]]


def changed(table, columns, value):
    found = table.copy()
    found[columns] = value(found[columns].to_numpy())
    return found


def swapped(one, other):
    def swap(values):
        values = values.copy()
        values[:, [one, other]] = values[:, [other, one]]
        return values

    return swap


def at(sample, value):
    def put(values):
        values = values.copy()
        values[sample, 1] = value
        return values

    return put


SPOILS = {
    "gaps": lambda t: t[np.arange(len(t)) % 100 < 60],
    "clock set back": lambda t: changed(t, ["time"], lambda x: np.where(
        np.arange(len(x))[:, None] > len(x) // 2, x - 0.3, x)),
    "swapped positions": lambda t: changed(t, Q, swapped(0, 3)),
    "swapped torques": lambda t: changed(t, TAU, swapped(1, 3)),
    "degrees": lambda t: changed(t, [*Q, *DQ], np.degrees),
    "mNm": lambda t: changed(t, TAU, lambda x: 1e3 * x),
    "constant joint": lambda t: changed(changed(t, Q[2:3], lambda x: 0.0 * x + 0.1), DQ[2:3],
                                        lambda x: 0.0 * x),
    "cut off": lambda t: changed(t, TAU[1:2], lambda x: np.clip(x, -20.0, 20.0)),
    "no number": lambda t: changed(t, TAU, at(77, np.nan)),
    "text": lambda t: changed(t.astype(object), Q, at(77, "off")),
    "six joints": lambda t: t.drop(columns=["q7", "dq7", "tau7"]),
    "too short": lambda t: t[:80],
    "no torque": lambda t: t.drop(columns=TAU),
    "no time": lambda t: t.drop(columns=["time"]),
    "milliseconds": lambda t: changed(t, ["time"], lambda x: 1e3 * x),
    "one a second": lambda t: t[::100],
    "unmeasured velocities": lambda t: changed(t, DQ, lambda x: 0.0 * x),
    "huge": lambda t: changed(t, Q, lambda x: 1e300 * x),
    "no numbers at all": lambda t: changed(t, Q, lambda x: np.nan * x),
}  # fmt: skip
MORE = {
    "milliseconds": "time: got a sample every",
    "one a second": "allowed 2e-05 to 0.2: is it in milliseconds",
    "unmeasured velocities": "is zero throughout, while q changes",
    "huge": "joint1",
}
IDENTIFY = {
    "gaps": "too short: 0 s in segments",
    "clock set back": "time has to increase from sample to sample",
    "swapped positions": "joint1: got positions from",
    "swapped torques": "the torque of joint2 matches the expected torque of joint4",
    "degrees": "are positions in degrees?",
    "mNm": "is it in mNm?",
    "constant joint": "joint3: does not move",
    "cut off": "joint2: the torque is clipped at",
    "no number": "tau: not finite in 1 of",
    "text": "are not numeric",
    "six joints": "got 6 joints, allowed 7 for fr3",
    "too short": "too short",
    "no torque": "torque",
    "no time": "column 'time' [s] is missing",
    "no numbers at all": "q: not finite in 2101 of 2101 samples",
    **MORE,
}
LEARN = {
    "clock set back": "time has to increase from sample to sample",
    "swapped positions": "are columns swapped?",
    "swapped torques": "joint2 would need",
    "degrees": "are positions in degrees?",
    "mNm": "is it in mNm?",
    "text": "are not numeric",
    "six joints": "got 6 joints, allowed 7 for fr3",
    "too short": "of good runs without the first second",
    "no torque": "the log has no torques",
    "no time": "column 'time' [s] is missing",
    "no numbers at all": "no sample has finite positions",
    **MORE,
}
VALIDATE = {
    "gaps": "s lie in 10 gaps",
    "clock set back": "time has to increase from sample to sample",
    "swapped positions": "are columns swapped?",
    "degrees": "are positions in degrees?",
    "mNm": "is it in mNm?",
    "no number": "tau of joint2 is nan at",
    "text": "are not numeric",
    "six joints": "got 6 joints, allowed 7",
    "no time": "column 'time' [s] is missing",
    "no numbers at all": "q of joint1 is nan at",
    **{key: MORE[key] for key in ("milliseconds", "unmeasured velocities")},
}


def refusal(line, folder, capsys):
    """Run a command that fails; return its message."""
    before = sorted(folder.iterdir())
    assert main(line) == 1
    reported = capsys.readouterr()
    assert sorted(folder.iterdir()) == before, "the command must write nothing"
    sentences = [text for text in reported.err.splitlines() if not text.startswith("note: ")]
    assert len(sentences) == 1, reported.err
    return sentences[0]


@pytest.mark.parametrize("case", IDENTIFY)
def test_identify_rejects_invalid_log(excited, case, tmp_path, capsys):
    path = tmp_path / "bad.csv"
    SPOILS[case](excited).to_csv(path, index=False)
    line = ["identify", str(path), "--robot", "fr3", "-o", str(tmp_path / "robot.yaml")]
    assert IDENTIFY[case] in refusal(line, tmp_path, capsys)


@pytest.mark.parametrize("case", LEARN)
def test_twin_rejects_invalid_training_log(excited, case, tmp_path, capsys):
    path = tmp_path / "bad.csv"
    SPOILS[case](excited).to_csv(path, index=False)
    line = ["monitor", "--learn", str(path), "--twin", TWIN, "-o", str(tmp_path / "band.yaml")]
    assert LEARN[case] in refusal(line, tmp_path, capsys)


@pytest.mark.parametrize("case", VALIDATE)
def test_validate_rejects_invalid_log(task_run, case, tmp_path, capsys):
    path = tmp_path / "bad.csv"
    SPOILS[case](task_run).to_csv(path, index=False)
    line = ["validate", "--plant", str(path), "--twin", TWIN, "--task", "1", "--seconds", "1",
            "--repeats", "1", "-o", str(tmp_path / "report.html")]  # fmt: skip
    assert VALIDATE[case] in refusal(line, tmp_path, capsys)


FOLLOW = {key: LEARN[key] for key in LEARN if key not in ("swapped torques", "too short")}
PLOT = {
    "clock set back": "time has to increase from sample to sample",
    "text": "are not numeric",
    "no time": "column 'time' [s] is missing",
}
ODD = {
    "gaps": "s lie in",
    "swapped positions": "are columns swapped?",
    "degrees": "are positions in degrees?",
    "mNm": "is it in mNm?",
    "cut off": "joint2: the torque is clipped at",
    "no number": "tau of joint2 is nan at",
    "no numbers at all": "q of joint1 is nan at",
    **{key: MORE[key] for key in MORE if key != "one a second"},
}
"""Faults that a plot may show: it is drawn, with a note."""


@pytest.mark.parametrize("case", FOLLOW)
def test_twin_rejects_invalid_log(excited, case, tmp_path, capsys):
    path = tmp_path / "bad.csv"
    SPOILS[case](excited).to_csv(path, index=False)
    line = ["monitor", str(path), "--twin", TWIN, "-o", str(tmp_path / "monitor.png")]
    assert FOLLOW[case] in refusal(line, tmp_path, capsys)


@pytest.mark.parametrize("case", PLOT)
def test_plot_rejects_invalid_log(excited, case, tmp_path, capsys):
    path = tmp_path / "bad.csv"
    SPOILS[case](excited).to_csv(path, index=False)
    line = ["plot", str(path), "-o", str(tmp_path / "run.png")]
    assert PLOT[case] in refusal(line, tmp_path, capsys)


def test_plot_notes_faults_of_log(excited, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("multipanda_py.apps.commands.logs.draw", lambda log, output: [])
    path = tmp_path / "bad.csv"
    for case, words in ODD.items():
        SPOILS[case](excited).to_csv(path, index=False)
        assert main(["plot", str(path), "--robot", "fr3", "-o", str(tmp_path / "run.png")]) == 0
        assert words in capsys.readouterr().err, case


def motion_table():
    points = some_motion(ARM, 0, period=4.0).table(np.linspace(0.0, 6.0, 60))
    names = ["time", *(f"{quantity}{k}" for quantity in ("q", "dq", "ddq") for k in range(1, 8))]
    return pandas.DataFrame(points, columns=names)


MOTIONS = {
    "no number": (lambda t: changed(t, Q, at(7, np.inf)), "allowed finite numbers"),
    "text": (lambda t: changed(t.astype(object), Q, at(7, "off")), "not a motion"),
    "six joints": (lambda t: t.drop(columns=["q7", "dq7", "ddq7"]), "allowed finite numbers"),
    "swapped": (lambda t: t[["time", *DQ, *Q, *t.columns[15:]]], "allowed finite numbers"),
    "degrees": (lambda t: changed(t, [*Q, *DQ], np.degrees), "joint "),
    "clock set back": (lambda t: changed(t, ["time"], lambda x: x[::-1]), "times must start"),
    "ends in motion": (lambda t: t[:30], "at the last point, allowed 0"),
    "no rows": (lambda t: t[:0], "allowed finite numbers"),
}  # fmt: skip


@pytest.mark.parametrize("case", MOTIONS)
def test_invalid_motion_is_rejected_before_arm_moves(case, tmp_path, capsys):
    """Every command that runs a motion rejects it before the arm moves to its start."""
    path, cell = tmp_path / "motion.csv", "config/dual_sim.yaml"
    spoil, words = MOTIONS[case]
    spoil(motion_table()).to_csv(path, index=False)
    for line in (
        ["record", cell, "--motion", str(path), "--arm", "left", "-o", str(tmp_path / "r.mcap")],
        ["calibrate", "--plant", cell, "--twin", cell, "--motion", f"left={path}", "--task", "1",
         "-o", str(tmp_path / "refined")],
    ):  # fmt: skip
        reported = refusal(line, tmp_path, capsys)
        assert words in reported
        assert str(path) in reported


@pytest.mark.long
def test_truncated_recording_is_used_with_note(tmp_path, capsys, monkeypatch):
    """Truncated recordings were used without a note: the recorder was killed or still runs."""
    pytest.importorskip("mcap")
    monkeypatch.setattr("multipanda_py.apps.commands.logs.draw", lambda log, output: [])
    path = tmp_path / "run.mcap"
    with Cell.from_yaml(TWIN, placement="inline") as cell:
        cell.recorder.start(path)
        cell.step(2000)
        cell.recorder.stop()
    path.write_bytes(path.read_bytes()[:-2000])
    band = ["monitor", "--learn", str(path), "-o", str(tmp_path / "band.yaml")]
    compared = ["validate", "--plant", str(path), "--twin", TWIN, "--task", "1", "--seconds", "1",
                "--repeats", "1", "-o", str(tmp_path / "report.html")]  # fmt: skip
    for line in (["plot", str(path)], compared, ["identify", str(path), "-o", "r.yaml"], band):
        main(line)
        reported = capsys.readouterr().err
        assert (
            f"note: {path}: the recording is truncated: its recorder was killed, "
            "or is still running"
        ) in reported


def test_log_of_another_robot_is_rejected(excited, tmp_path, capsys):
    """A table has no joint names, so the named robot decides."""
    path = tmp_path / "bad.csv"
    excited.to_csv(path, index=False)
    line = ["identify", str(path), "--robot", "ur5e", "-o", str(tmp_path / "robot.yaml")]
    assert "got 7 joints, allowed 6 for ur5e" in refusal(line, tmp_path, capsys)


def test_log_of_another_arm_was_identified_as_named_arm(excited, tmp_path, capsys):
    log = tmp_path / "run.csv"
    excited.assign(arm="left").to_csv(log, index=False)
    line = ["identify", str(log), "--arm", "right", "-o", str(tmp_path / "robot.yaml")]
    assert "no arm 'right'; there are left" in refusal(line, tmp_path, capsys)
    line += ["--cell", "config/dual_sim.yaml"]
    assert "data of left, but not of right" in refusal(line, tmp_path, capsys)


def test_unphysical_robot_file_is_rejected_by_every_command(excited, tmp_path, capsys):
    file, cell, log = (tmp_path / name for name in ("robot.yaml", "cell.yaml", "log.csv"))
    excited.to_csv(log, index=False)
    links = {"link3": {"mass": -1.0, "com": [0.0, 0.0, 0.0], "inertia": [0.1, 0.1, 0.1, 0, 0, 0]}}
    file.write_text(yaml.safe_dump({"robot": "fr3", "links": links}))
    arm = {"model": {"base": "fr3", "parameters": str(file)}}
    body = {"arms": {"arm": arm}, "cell": {"name": "heavy"}}
    cell.write_text(yaml.safe_dump({"/**": {"ros__parameters": body}}))
    out = tmp_path / "out"
    assert main(["check", str(cell)]) == 1
    assert "link3" in "".join(capsys.readouterr())
    for line in (
        ["monitor", str(log), "--twin", str(cell)],
        ["excite", str(cell), "-o", f"{out}.csv"],
        ["identify", str(log), "--cell", str(cell), "-o", f"{out}.yaml"],
        ["identify", str(log), "--parameters", str(file), "-o", f"{out}.yaml"],
        ["record", str(cell), "-o", f"{out}.mcap"],
        ["validate", "--plant", str(cell), "--twin", TWIN, "-o", f"{out}.html"],
        ["validate", "--plant", TWIN, "--twin", str(cell), "-o", f"{out}.html"],
        ["calibrate", "--plant", str(cell), "--twin", str(cell), "-o", str(out)],
        ["sweep", str(cell), "--plants", "2", "-o", f"{out}.parquet"],
    ):
        assert "link3" in refusal(line, tmp_path, capsys), line


def test_fault_of_plant_is_in_report(tmp_path, capsys):
    """Friction of joint 5 exceeds a torque threshold and stops the arm."""
    rubbing = {"coulomb": [0.0] * 4 + [0.4, 0.0, 0.0], "viscous": [0.0] * 4 + [2.0, 0.0, 0.0]}
    arm = {"perturbation": rubbing,
           "franka": {"upper_torque_thresholds": [40.0] * 4 + [0.8, 40.0, 40.0]}}  # fmt: skip
    plant = tmp_path / "plant.yaml"
    body = {"arms": {"arm": arm}, "cell": {"name": "shaky"}}
    plant.write_text(yaml.safe_dump({"/**": {"ros__parameters": body}}))
    report = tmp_path / "report.html"
    line = ["validate", "--plant", str(plant), "--twin", TWIN, "--task", "1", "--seconds", "0.8",
            "--repeats", "1", "-o", str(report)]  # fmt: skip
    assert main(line) == 0
    for text in (report.read_text(), report.with_suffix(".json").read_text()):
        assert "joint 5" in text
        assert "plant, repeat 1, after 0." in text
