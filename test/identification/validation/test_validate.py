# SPDX-License-Identifier: Apache-2.0
"""Validation tasks on two cells: runs, errors, reports and rejected input."""

from __future__ import annotations

import json

import numpy as np
import pytest
import yaml

from multipanda_py.apps.cli import main
from multipanda_py.cell import Cell
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arm
from multipanda_py.exceptions import ConfigurationError, ValidationRejected
from multipanda_py.identification.validation import Run, compare, make_task, run_task, validate
from multipanda_py.identification.validation.compare import gravity_of, quantities
from multipanda_py.identification.validation.pressing_tasks import PlainForce
from multipanda_py.identification.validation.record import TaskCell
from multipanda_py.identification.validation.report import write_report
from multipanda_py.identification.validation.task import pointing, tool_in_world
from multipanda_py.identification.validation.validate import runs_of
from multipanda_py.realtime.recording import ArmLog, Log
from multipanda_py.robots import MODELS

pytestmark = [pytest.mark.sim, pytest.mark.inline]

ONE = {"arms": {"arm": {"position": [0.0, 0.0, 0.0]}}}
TWO = {"arms": {"left": {"position": [0.0, 0.3, 0.0]}, "right": {"position": [0.0, -0.3, 0.0]}}}
REAL = {"backend": "franka", "robot_ip": "127.0.0.1"}


def cell(data=ONE, **arm):
    return CellConfig.from_dict(
        {"arms": {name: {**own, **arm} for name, own in data["arms"].items()}}
    )


def test_identical_cells_have_zero_error():
    (found,) = validate(cell(), cell(), [1], repeats=1, seconds=0.5)
    assert set(found.errors["arm"]) == {
        "q", "dq", "tau", "position", "wrench", "control error",
    }  # fmt: skip
    assert max(np.abs(rows).max() for rows in found.errors["arm"].values()) == 0.0
    assert found.faults == ()


def test_cell_without_noise_runs_once_for_all_repeats():
    task, reported = make_task(1, seconds=0.5), []
    first, second, third = runs_of(task, cell(), 3, 0, reported.append)
    assert first is second is third
    assert reported[2].endswith("repeat 3 of 3: equal to the first, since nothing is random")
    rig = TaskCell(task, cell())
    for seed in (0, 1):
        log = rig.run(seed).logs["arm"]
        for name in log.names:
            np.testing.assert_array_equal(log[name], first.logs["arm"][name], name)
    rig.close()
    noisy = runs_of(task, cell(noise={"tau": 0.02}), 2, 0)
    assert np.abs(np.subtract(*(run.logs["arm"].tau for run in noisy))).max() > 0.01


def test_errors_are_root_mean_squares_of_log_differences():
    """Two logs that differ by a sine of 0.1 rad in one joint."""
    task, time = make_task(1, seconds=2.0), np.arange(0, 2.0, 1e-3)
    arm = describe_arm("arm", cell().arms["arm"])
    logs = []
    for size in (0.0, 0.1):
        q = np.tile(arm.robot.ready, (len(time), 1))
        q[:, 2] += size * np.sin(2 * np.pi * time)
        names = tuple(joint.name for joint in arm.robot.joints)
        logs.append(ArmLog("arm", "fr3", names, time, q))
    runs = [Run({"arm": log}) for log in logs]
    found = compare(task, runs[:1], runs[1:], {"arm": arm})
    expected = np.zeros(7)
    expected[2] = 0.1 / np.sqrt(2)
    np.testing.assert_allclose(found.errors["arm"]["q"][0], expected, atol=1e-4)
    assert found.overall("arm", "q")[0] == pytest.approx(0.1 / np.sqrt(14), abs=1e-4)
    assert found.worst("q") == pytest.approx(0.1 / np.sqrt(2), abs=1e-4)
    assert set(found.errors["arm"]) == {"q", "position"}  # computed from q


def test_control_error_is_bias_of_executed_torque():

    for bias in (0.0, 0.3):
        config = cell(perturbation={"torque_bias": [bias] * 7})
        task = make_task(1, seconds=0.5)
        run = run_task(task, config)
        arm = describe_arm("arm", config.arms["arm"])
        found = quantities(run.logs["arm"], arm, np.arange(0.0, 0.5, 1e-3))
        np.testing.assert_allclose(found["control error"].mean(axis=0), -bias, atol=5e-3)
        weight = gravity_of(arm, run.logs["arm"].q[:1])
        assert np.abs(weight).max() > 5.0


@pytest.mark.long
@pytest.mark.parametrize("law", ["ufic", "plain_pi"])
def test_force_on_table_tracks_sine(law):
    run = run_task(make_task(3, law, 1.5), cell())
    requested = 15.0 * (1.0 - np.cos(2 * np.pi * run.force_time / 1.5))
    assert run.fault == ""
    assert np.sqrt(np.mean((run.force[:, 0] - requested) ** 2)) < 1.5
    assert run.force.max() > 27.0
    assert bool(run.tanks) == (law == "ufic")
    # The estimate, which a real arm has too, agrees with the contact force.
    estimated = run.logs["arm"].columns["wrench_ext_in_base"][:, 2]
    at = np.interp(run.force_time, run.logs["arm"].time, estimated)
    assert np.sqrt(np.mean((at - run.force[:, 0]) ** 2)) < 1.0


@pytest.mark.parametrize("model", ["ur5e", "kinova_gen3"])
def test_other_arms_start_above_table(model):
    task = make_task(4, seconds=0.5)
    config = task.scene(cell(model=model))
    arm = describe_arm("arm", config.arms["arm"])
    tool = tool_in_world(arm, np.array(config.arms["arm"].q_start))
    np.testing.assert_allclose(tool.rotation[:, 2], [0, 0, -1], atol=2e-3)
    table = config.objects["table"]
    top = table.position[2] + table.size[2]
    assert tool.position[2] - top == pytest.approx(0.003, abs=1e-3)
    assert np.abs(tool.position - table.position)[:2].max() < 0.12


@pytest.mark.long
def test_two_arms_lift_box():
    task = make_task(5, seconds=2.0)
    box = TaskCell(task, cell(TWO))
    try:
        run = box.run(0)
        assert run.fault == ""
        height = box.cell.objects()["box"].position[2]
    finally:
        box.close()
    assert height - 0.4 == pytest.approx(0.2, abs=0.01)
    assert np.abs(run.force[-1] - 20.0).max() < 2.0


def test_fault_during_run_is_reported_and_next_repeat_starts():
    """Friction in joint 5 of the plant exceeds the collision threshold and stops the arm."""
    limits = {"franka": {"upper_torque_thresholds": [10.0, 10.0, 10.0, 10.0, 0.8, 10.0, 10.0]}}
    joint_friction = {
        "coulomb": [0.0] * 4 + [0.4, 0.0, 0.0],
        "viscous": [0.0] * 4 + [2.0, 0.0, 0.0],
    }
    faulty = cell(perturbation=joint_friction, **limits)
    (found,) = validate(faulty, cell(), [1], repeats=2, seconds=0.8)
    assert len(found.faults) == 2
    assert found.faults[1].startswith("plant, repeat 2, after 0.")
    assert "joint 5" in found.faults[0]
    assert found.repeats == 2  # up to the fault
    assert found.series["time"][-1] < 0.7
    assert found.as_dict()["faults"] == list(found.faults)


def test_seed_determines_noise_of_run():
    config = cell(noise={"q": 1e-4})
    box = TaskCell(make_task(1, seconds=0.5), config)
    try:
        first, second, third = (box.run(seed).logs["arm"].q for seed in (3, 4, 3))
    finally:
        box.close()
    np.testing.assert_array_equal(first, third)
    assert np.abs(first - second).max() > 1e-5


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: validate(cell(), cell(), [6]), "task: got 6, allowed 1, 2, 3, 4, 5"),
        (lambda: validate(cell(), cell(), [5]), "a cell with 1 arm, allowed 2"),
        (lambda: validate(cell(), cell(), [1], repeats=0), "repeats: got 0"),
        (lambda: validate(cell(), cell(), [1], seconds=float("nan")), "allowed 0.5 to 600 s"),
        (lambda: validate(cell(), cell(model="ur5e"), [1]), "with 7 joints"),
        (lambda: validate(cell(), cell(**REAL), [1]), "twin: real arms among arm would move"),
        (lambda: make_task(3, "impedance"), "controllet: got 'impedance', allowed ufic, plain_pi"),
        (lambda: validate(Log({}), cell(), [1, 2]), "tasks: got 2 for a log of one task"),
    ],
)
def test_invalid_comparison_is_rejected(call, words):
    with pytest.raises(ValidationRejected) as caught:
        call()
    assert words in str(caught.value)


def test_plain_force_controller_is_feed_forward_and_pi():
    law, total = PlainForce(1.0, 2.0), 0.0
    for k in range(100):
        measured = 5.0 + 0.01 * k
        total += (10.0 - measured) * 1e-3
        expected = 10.0 + (10.0 - measured) + 2.0 * total
        assert law.force(10.0, measured, 1e-3) == pytest.approx(expected)


def test_plain_force_controller_integrated_fixed_period():
    """On real arms it runs every tenth cycle, but integrated 1 ms for each call."""
    task, periods = make_task(3, "plain_pi", 1.0), []
    task.settling_cycles = 600  # contact begins after about 350 cycles
    with Cell(task.scene(cell())) as running:
        task.settle(running, running.step)
        force = task.plain.force

        def recording_force(requested, measured, period):
            periods.append(period)
            return force(requested, measured, period)

        task.plain.force = recording_force
        for k in range(5):
            task.set_targets(running, 0.01 * k)
            running.step(10)
    assert periods == pytest.approx([0.01] * 5)


def test_pointing_gives_rotation_with_requested_axis():
    rng = np.random.default_rng(0)
    for _ in range(20):
        rotation_matrix = pointing(
            np.linalg.qr(rng.normal(size=(3, 3)))[0], np.array([0.0, 0.0, -1.0])
        )
        np.testing.assert_allclose(rotation_matrix[:, 2], [0.0, 0.0, -1.0], atol=1e-9)
        np.testing.assert_allclose(rotation_matrix.T @ rotation_matrix, np.eye(3), atol=1e-9)


@pytest.mark.slow
def test_validate_command_writes_self_contained_report_and_numbers(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    file, noisy = tmp_path / "cell.yaml", tmp_path / "plant.yaml"
    file.write_text(yaml.safe_dump({"/**": {"ros__parameters": ONE}}))
    arms = {"arms": {"arm": {"noise": {"tau": 0.2}}}}
    noisy.write_text(yaml.safe_dump({"/**": {"ros__parameters": arms}}))
    page = tmp_path / "report.html"
    arguments = ["validate", "--plant", str(noisy), "--twin", str(file), "--repeats", "1",
                 "--seconds", "0.5", "--task", "1", "--task", "3",
                 "--controllet", "ufic"]  # fmt: skip
    assert main([*arguments, "-o", str(page)]) == 0
    text = page.read_text()
    assert "http" not in text.replace("http-equiv", "")
    assert text.count("data:image/png;base64,") == 3
    assert "paper, maximum" in text
    numbers = json.loads(page.with_suffix(".json").read_text())
    assert [task["task"] for task in numbers["tasks"]] == [1, 3]
    error = numbers["tasks"][0]["errors"]["arm"]["tau"]
    assert np.mean(error["per_axis_mean"]) == pytest.approx(0.2, rel=0.15)
    assert main([*arguments, "-o", str(tmp_path / "report.txt")]) == 1
    assert "must be a file .html" in capsys.readouterr().err


def test_report_page_was_written_without_its_numbers(tmp_path):
    """A new page stood beside the numbers of an earlier run."""
    page = tmp_path / "report.html"
    page.with_suffix(".json").mkdir()
    with pytest.raises(ConfigurationError, match=r"report\.json: cannot be written"):
        write_report([], page, "plant", "twin")
    assert not page.exists()


def test_force_chattered_on_circle_with_friction():
    config = CellConfig.from_yaml("config/dual_sim.yaml")
    run = run_task(make_task(4, "ufic", 1.5), config)
    settled = run.force[run.force_time > 0.7]  # was 0 to 20 N with a friction of 1
    np.testing.assert_allclose(settled, 9.81, atol=2.0)


@pytest.mark.parametrize(
    ("joints", "q", "words"),
    [
        (7, 3.0, r"joint1: .*\b3\b"),
        (
            7,
            [2.0, 1.0, 2.0, -0.5, 2.0, 1.0, 2.0],
            r"\barm\b.*\d rad",
        ),
        (6, 0.0, r"\b6\b.*\b7\b"),
    ],
)
def test_log_of_other_motion_is_rejected_as_plant(joints, q, words):
    names = tuple(f"joint{k}" for k in range(1, joints + 1))
    time = np.linspace(0.0, 1.0, 100)
    log = Log(
        {"arm": ArmLog("arm", None, names, time, np.tile(np.broadcast_to(q, joints), (100, 1)))}
    )
    with pytest.raises(ValidationRejected, match=words):
        validate(log, cell(), [1], seconds=1.0)


def test_log_of_other_robot_is_rejected_as_plant():
    ready = np.tile(MODELS["fer"].ready, (100, 1))
    joints = tuple(joint.name for joint in MODELS["fer"].joints)
    log = Log({"arm": ArmLog("arm", "fer", joints, np.linspace(0.0, 1.0, 100), ready)})
    with pytest.raises(ValidationRejected, match=r"arm: .*\bfer\b.*\bfr3\b"):
        validate(log, cell(), [1], seconds=1.0)
