# SPDX-License-Identifier: Apache-2.0
"""Tasks of sim to real with simulated robots at 1 kHz, real driver and objects.

Run by hand, ten minutes: ``MULTIPANDA_LONG=1 pytest -s
test/hardware/franka/test_tasks_on_the_clock.py``; it prints the measurements and the number of
lost commands.
"""

from __future__ import annotations

import json
import sys
import uuid
from pathlib import Path

import numpy as np
import pytest
import yaml
from robots import unused_address

from multipanda_py.apps.cli import main
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.identification.validation.tasks import in_task
from multipanda_py.simulation.fci import FciSim

pytest.importorskip("pylibfranka")
pytest.importorskip("matplotlib")
pytestmark = [
    pytest.mark.sim, pytest.mark.long, pytest.mark.timeout(1200),
]  # fmt: skip
BASES = {"left": [0.0, 0.3, 0.0], "right": [0.0, -0.3, 0.0]}
LAWS = {"joint_trajectory_controller": {"type": "joint_trajectory"}}
THRESHOLDS = {"upper_force_thresholds": [45.0] * 3 + [25.0] * 3,
        "upper_torque_thresholds": [20.0, 30.0, 18.0, 30.0, 16.0, 14.0, 12.0]}  # fmt: skip
"""Thresholds above those of the examples, which stop at 20 N."""
TABLE = {"shape": "box", "size": [0.2, 0.2, 0.02], "position": [0.6, 0.0, 0.2], "friction": 0.2}


def write(path, body):
    path.write_text(json.dumps({"/**": {"ros__parameters": body}}))  # YAML without aliases
    return str(path)


class Bench:
    """Robots in real time, their cell, and its twin."""

    def __init__(self, folder, spec=None):
        self.folder, self.addresses = folder, [unused_address(), unused_address()]
        arms = {name: {"position": base} for name, base in BASES.items()}
        self.twin = write(
            folder / "twin.yaml", {"arms": arms, "objects": {"table": TABLE}, "controllets": LAWS}
        )
        self.world = folder / "world.yaml"
        line = ["perturb", self.twin, "-o", str(self.world), "--seed", "3"]
        if spec is not None:
            line += ["--spec", write_spec(folder, spec)]
        assert main(line) == 0
        driven = {
            name: {**arm, "backend": "franka", "robot_ip": address, "franka": dict(THRESHOLDS)}
            for (name, arm), address in zip(arms.items(), self.addresses)
        }
        cell = {"name": f"clock_{uuid.uuid4().hex[:8]}"}
        self.plant = write(
            folder / "plant.yaml", {"cell": cell, "arms": driven, "controllets": LAWS}
        )

    def robots(self, task=None):
        """Return the robots in the scene of a task."""
        config = CellConfig.from_yaml(self.world)
        if task is not None:
            config = in_task(config, task)
        path = self.folder / f"world_{task}.yaml"
        write(path, config.model_dump(include={"arms", "objects"}, exclude_defaults=True))
        return FciSim(self.addresses, cell=path, tidy=True, priority=40)

    def lost(self, sim, what):
        """Print the counters of the robots; return the longest run of lost commands [cycles]."""
        counted = [sim.admin(address, "stats") for address in self.addresses]
        for name, stats in zip(BASES, counted):
            if stats["active_cycles"]:
                sys.stderr.write(
                    f"{what}: {name}: {stats['active_cycles']} cycles, {stats['lost']} commands "
                    f"lost, at most {stats['longest_run']} in a row\n"
                )
        return max(stats["longest_run"] for stats in counted)


def write_spec(folder, spec):
    path = folder / "spec.yaml"
    path.write_text(yaml.safe_dump(spec))
    return str(path)


PERFECT = {"arms": {"all": {"perturbation": {"link_mass": 1.0}}}}


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5])
def test_unperturbed_robots_complete_task_twice(number, tmp_path):
    """Two runs, as the task has to leave its objects in their initial state."""
    bench, page = Bench(tmp_path, PERFECT), tmp_path / "report.html"
    line = ["validate", "--plant", bench.plant, "--twin", bench.twin, "--task", str(number),
            "--repeats", "2", "-o", str(page)]  # fmt: skip
    with bench.robots(number if number > 2 else None) as sim:
        assert main(line) == 0
        longest_run_lost = bench.lost(sim, f"task {number}")
    for task in json.loads(page.with_suffix(".json").read_text())["tasks"]:
        force = {side: rmse["mean"] for side, rmse in task["force_rmse"].items()}
        sys.stderr.write(f"task {number} {task['law']}: {task['worst']} force {force}\n")
        assert task["faults"] == []
        assert task["repeats"] == 2
        for name, ceiling in {"q": 0.06, "dq": 0.05, "tau": 1.3, "position": 0.013}.items():
            assert task["worst"][name] < ceiling, (name, task["worst"])
        if number > 2:
            assert max(force["plant"]) < 2.5, force
            assert task["force_as_measured_by_the_arm"] == ["plant"]
    assert longest_run_lost < 20


def test_identification_improves_validation_of_robot(tmp_path):
    """The errors of torques and of wrenches in free space fall below half."""
    bench, paths = Bench(tmp_path), {}
    for name in ("motion.csv", "run.mcap", "robot.yaml", "before.html", "after.html"):
        paths[name] = str(tmp_path / name)
    assert main(["excite", bench.twin, "--arm", "left", "-o", paths["motion.csv"]]) == 0
    better = yaml.safe_load(Path(bench.twin).read_text())["/**"]["ros__parameters"]
    better["arms"]["left"]["perturbation"] = {"parameters": paths["robot.yaml"]}
    with bench.robots() as sim:
        line = ["record", bench.plant, "--motion", paths["motion.csv"], "--arm", "left"]
        assert main([*line, "-o", paths["run.mcap"]]) == 0
        bench.lost(sim, "record")
        line = ["identify", paths["run.mcap"], "--cell", bench.twin, "--arm", "left"]
        assert main([*line, "--rotors", "unseen", "-o", paths["robot.yaml"]]) == 0
        found = {}
        for name, cell in (
            ("before", bench.twin), ("after", write(tmp_path / "better.yaml", better)),
        ):  # fmt: skip
            line = ["validate", "--plant", bench.plant, "--twin", cell, "--task", "1", "--task",
                    "2", "--repeats", "1", "-o", paths[f"{name}.html"]]  # fmt: skip
            assert main(line) == 0
            report = json.loads((tmp_path / f"{name}.json").read_text())
            found[name] = [task["worst"] for task in report["tasks"]]
            assert all(task["faults"] == [] for task in report["tasks"])
        assert bench.lost(sim, "validate") < 20
    for before, after in zip(found["before"], found["after"]):
        sys.stderr.write(f"before {before}\nafter {after}\n")
        assert after["tau"] < 0.5 * before["tau"]
        assert after["wrench"] < 0.5 * before["wrench"]


def test_calibrate_command_improves_twin(tmp_path):
    bench = Bench(tmp_path)
    line = ["calibrate", "--plant", bench.plant, "--twin", bench.twin, "--task", "1",
            "--task", "4", "--rounds", "1", "-o", str(tmp_path / "calibrated")]  # fmt: skip
    with bench.robots(4) as sim:
        assert main(line) == 0
        assert bench.lost(sim, "calibrate") < 20
    reported = json.loads((tmp_path / "refined/report.json").read_text())
    before, after = reported["rounds"]
    sys.stderr.write(f"score {before['score']:.3f} -> {after['score']:.3f}, {reported['gains']}\n")
    assert after["score"] < 0.6 * before["score"]
    (gain,) = reported["gains"]
    estimated = gain["rmse"]["false contact torque [Nm]"]
    assert estimated["identified"] < 0.5 * estimated["data sheet"]
    assert np.isfinite(after["score"])


@pytest.mark.parametrize("more", [[], ["--recover"]])
def test_robot_stop_is_reported_and_task_continues_if_requested(more, tmp_path):
    bench, page = Bench(tmp_path, PERFECT), tmp_path / "report.html"
    line = ["validate", "--plant", bench.plant, "--twin", bench.twin, "--task", "1", "--seconds",
            "3", "--repeats", "2", "-o", str(page), *more]  # fmt: skip
    with bench.robots() as sim:
        sim.admin(bench.addresses[0], "reflex", at=6000)  # the path to the start is shorter
        main(line)
    (task,) = json.loads(page.with_suffix(".json").read_text())["tasks"]
    first, *others = task["faults"]
    assert first.startswith("plant, repeat 1, after ")
    assert "reflex" in first
    assert [("--recover" in fault) for fault in others] == ([] if more else [True])
    assert task["repeats"] == (2 if more else 1)
