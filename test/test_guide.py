# SPDX-License-Identifier: Apache-2.0
"""Files and calls of doc/writing_a_controllet.md, run as they are printed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import mujoco
import numpy as np
import pytest
import yaml
from guides import TOOLS, check_style, write_package
from repository import ROOT

from multipanda_py import registry
from multipanda_py.cell import Cell
from multipanda_py.exceptions import ParameterRejected, TargetRejected
from multipanda_py.testing import simple_cell

pytestmark = [pytest.mark.inline, pytest.mark.workspace]

GUIDE = (ROOT / "doc" / "writing_a_controllet.md").read_text()


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Folder with the files of the guide, installed as by pip."""
    write_package(GUIDE, tmp_path, "rail")
    return tmp_path


@pytest.fixture
def guide_folder(package: Path, monkeypatch: pytest.MonkeyPatch):
    """Folder of the guide on the path of this process."""

    def forget():
        for cached in (registry.names, registry.find, registry.plug_ins):
            cached.cache_clear()
        sys.modules.pop("rail", None)
        sys.modules.pop("tug", None)

    monkeypatch.syspath_prepend(str(package))
    forget()
    yield package
    forget()


def test_guide_has_all_files(package: Path):
    assert {path.name for path in package.iterdir()} >= {"rail.py", "test_rail.py", "cell.yaml"}


@pytest.mark.sim
def test_guide_tests_pass(package: Path):
    path = os.pathsep.join([str(ROOT), str(package)])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_rail.py"],
        cwd=package, env={**os.environ, "PYTHONPATH": path, "PYTEST_ADDOPTS": ""},  # no selection
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


@pytest.mark.parametrize("tool", TOOLS)
def test_guide_code_passes_repository_linters(package: Path, tool: list[str]):
    check_style(package, tool, ["rail.py", "tug.py"])


@pytest.mark.sim
def test_guide_cell_runs_controllet_with_feature(guide_folder: Path):
    """The end effector slides along the rail, damped by the feature, with a spring across it."""
    with Cell.from_yaml(guide_folder / "cell.yaml", placement="inline") as cell:
        assert cell.active == ("arm/rail",)
        assert cell.parameters("arm/rail")["stiffness"] == 1200.0
        sim = cell.simulation
        hand = mujoco.mj_name2id(sim.model, mujoco.mjtObj.mjOBJ_BODY, "arm_fr3_hand")
        start = cell.pose("arm")
        across, along = start.rotation[:, 0], start.rotation[:, 2]

        def push(force: np.ndarray, cycles: int) -> np.ndarray:
            for _ in range(cycles // 10):
                lever = cell.state("arm").position_ee_in_base - sim.data.xipos[hand]
                sim.data.xfrc_applied[hand] = [*force, *np.cross(lever, force)]
                cell.step(10)
            return cell.pose("arm").position - start.position

        displacement = push(12.0 * across, 3000)
        assert across @ displacement == pytest.approx(12.0 / 1200.0, rel=0.02)
        assert cell.report("arm/rail")["distance [m]"] == pytest.approx(0.01, rel=0.02)
        push(0.0 * across, 2000)
        before = cell.pose("arm").position
        push(-8.0 * along, 1200)
        speed = -along @ cell.state("arm").twist_ee_in_base[:3]
        assert speed == pytest.approx(0.08 + 8.0 / 100.0, rel=0.1)
        assert -along @ (cell.pose("arm").position - before) > 0.08
        assert cell.report("arm/rail")["distance [m]"] < 4e-3
        assert cell.events() == []


@pytest.mark.sim
def test_ros_calls_of_guide_set_existing_parameters(guide_folder: Path):
    """Set the values by the handle that the ROS parameter node calls."""
    calls = re.findall(r"^ros2 param set /arm/rail (\S+) (\S+)$", GUIDE, re.MULTILINE)
    assert len(calls) == 2
    with Cell.from_yaml(guide_folder / "cell.yaml", placement="inline") as cell:
        for name, value in calls:
            cell.set_parameters("arm/rail", {name: yaml.safe_load(value)})
            assert cell.parameters("arm/rail")[name] == float(value)
        with pytest.raises(ParameterRejected, match=r"stiffness: .*-1\.0\b"):
            cell.set_parameters("arm/rail", {"stiffness": -1.0})
        (spec,) = (spec for spec in cell.specs if spec.name == "arm/rail")
        assert spec.channels == ("pose", "joint")


@pytest.mark.sim
def test_guide_channel_pulls_tool_and_rejects_excess_force(guide_folder: Path):
    with simple_cell({"arm": {}}, {"tug": {"type": "tug"}}, ["arm/tug"]) as cell:
        start = cell.pose("arm").position
        cell.set_channel("arm", "tug", [0.0, 0.0, 5.0])
        cell.step(300)
        assert cell.pose("arm").position[2] > start[2] + 0.005
        with pytest.raises(TargetRejected, match=r"arm: tug:.*\[-20, 20\] N"):
            cell.set_channel("arm", "tug", [0.0, 0.0, 50.0])


@pytest.mark.slow
@pytest.mark.sim
def test_entry_points_of_package_register_controllet(package: Path):
    """A separate process finds the installed package by its entry points."""
    path = os.pathsep.join([str(ROOT), str(package)])
    done = subprocess.run(
        [sys.executable, "-m", "multipanda_py.apps.cli", "run", "cell.yaml",
         "--placement", "inline", "--duration", "0.1"],
        cwd=package, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True,
        timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "active: arm/rail" in done.stdout
