# SPDX-License-Identifier: Apache-2.0
"""Files and commands of doc/writing_an_actuator.md, run as they are printed."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from guides import TOOLS, blocks, check_style, write_package
from repository import ROOT

from multipanda_py import registry
from multipanda_py.apps.cli import main
from multipanda_py.cell import Cell
from multipanda_py.robots.measured_files import actuator_from
from multipanda_py.testing import ContractViolation, check_actuator

pytestmark = pytest.mark.inline

GUIDE = (ROOT / "doc" / "writing_an_actuator.md").read_text()
MODULES = ("maccepa", "test_maccepa", "move")


@pytest.fixture
def guide_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Folder with the files of the guide, on the path and installed as by pip."""
    write_package(GUIDE, tmp_path, "maccepa")

    def forget():
        for cached in (registry.names, registry.find, registry.plug_ins):
            cached.cache_clear()
        for name in MODULES:
            sys.modules.pop(name, None)

    monkeypatch.syspath_prepend(str(tmp_path))
    forget()
    yield tmp_path
    forget()


def test_guide_tests_pass_and_detect_wrong_sign(guide_folder: Path):
    tests = import_module("test_maccepa")
    tests.test_contract()
    tests.test_stiffness_at_the_equilibrium_is_that_of_the_pretension()
    text = (guide_folder / "maccepa.py").read_text()
    (guide_folder / "wrong.py").write_text(text.replace("motor_2=tension", "motor_2=-tension"))
    with pytest.raises(ContractViolation, match=r"\blink .*\bmotor_2\b"):
        check_actuator(import_module("wrong").Maccepa)
    sys.modules.pop("wrong")


@pytest.mark.sim
def test_joint_rests_at_documented_angle(guide_folder: Path):
    moved = import_module("move")
    assert moved.held == pytest.approx(0.8, abs=2e-3)
    assert moved.sagged < 0.7


@pytest.mark.sim
def test_guide_cell_runs_without_fault(guide_folder: Path):
    with Cell.from_yaml(guide_folder / "cell.yaml", placement="inline") as cell:
        start = cell.state("arm").q
        cell.step(500)
        state = cell.state("arm")
        assert state.fault == ""
        assert cell.active == ("arm/soft",)
        assert np.abs(state.q - start).max() < 0.02  # springs carry the wrist's weight


def test_list_shows_actuator_with_parameters(
    guide_folder: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["list", "actuators"]) == 0
    out = capsys.readouterr().out
    assert "Pull a joint in line with a lever, by a spring with a pretension." in out
    assert "2 motors per joint; stiffness presets in m" in out
    assert "source: Van Ham et al." in out
    assert re.search(r"spring +number +N/m +0 \.\. inf +5000", out)


def test_guide_command_identifies_spring_stiffness(guide_folder: Path, monkeypatch):
    monkeypatch.chdir(guide_folder)
    springs = registry.find("actuators", "maccepa")(1, {"spring": 3000.0})
    rng = np.random.default_rng(2)
    q = 0.3 + 0.6 * np.sin(np.linspace(0.0, 20.0, 200))
    theta = np.full(200, 0.3), rng.choice([0.005, 0.015], 200)
    torque = springs.elastic_torque(q[:, None], *(t[:, None] for t in theta)).link[:, 0]
    columns = (q, *theta, torque + rng.normal(scale=0.01, size=200))
    (example,), (line,) = blocks(GUIDE, "text"), blocks(GUIDE, "bash")
    head = example.split("\n")[0]
    np.savetxt("bench.csv", np.column_stack(columns), delimiter=",", header=head, comments="")
    assert main(line.split()[1:]) == 0
    assert actuator_from(guide_folder / "springs.yaml", 1).of["spring"][0] == pytest.approx(
        3e3, rel=0.01
    )


def test_example_rows_match_spring_model(guide_folder: Path):
    """The torques of the example agree with the actuator within the noise of the sensor."""
    springs = registry.find("actuators", "maccepa")(1)
    (example,) = blocks(GUIDE, "text")
    for row in example.strip().split("\n")[1:]:
        q, theta_1, theta_2, tau = (np.array([float(cell)]) for cell in row.split(","))
        assert springs.elastic_torque(q, theta_1, theta_2).link == pytest.approx(tau, abs=0.01)


@pytest.mark.parametrize("tool", TOOLS)
def test_guide_code_passes_repository_linters(guide_folder: Path, tool: list[str]):
    check_style(guide_folder, tool, ["maccepa.py"], ["maccepa.py", "move.py", "test_maccepa.py"])
