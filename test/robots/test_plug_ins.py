# SPDX-License-Identifier: Apache-2.0
"""Robots of other distributions."""

from __future__ import annotations

import shutil
import sys

import pytest

from multipanda_py import registry
from multipanda_py.apps.cli import main
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.robots.models import DATA_FOLDER, MODELS

pytestmark = [pytest.mark.inline, pytest.mark.workspace]

CODE = """
from pathlib import Path

FOLDER = Path(__file__).parent
FILES, LOST, NONE = FOLDER / "theirs.yaml", FOLDER / "lost.yaml", 7
"""
POINTS = """
[multipanda_py.robots]
theirs = their_robots:FILES
lost = their_robots:LOST
none = their_robots:NONE
missing = their_robots:MISSING
fr3 = their_robots:FILES
"""


@pytest.fixture
def distribution(tmp_path, monkeypatch):
    """Install a distribution with one valid robot and four invalid ones."""
    info = tmp_path / "their_robots-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-robots\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(POINTS)
    (tmp_path / "their_robots.py").write_text(CODE)
    shutil.copy(DATA_FOLDER / "ur5e.yaml", tmp_path / "theirs.yaml")
    shutil.copy(DATA_FOLDER / "ur5e.urdf", tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    registry.plug_ins.cache_clear()
    before = dict(MODELS.loaded)
    yield tmp_path
    sys.modules.pop("their_robots", None)
    monkeypatch.undo()
    registry.plug_ins.cache_clear()
    MODELS.loaded.clear()
    MODELS.loaded.update(before)


def test_arm_may_use_robot_of_another_distribution(distribution):
    config = CellConfig.from_dict({"arms": {"left": {"model": "theirs"}}})
    assert config.arms["left"].robot.name == "theirs"
    assert config.arms["left"].robot.n_joints == 6
    assert MODELS["fr3"].n_joints == 7  # the built-in robot takes precedence


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("lost", r"lost\.yaml: "),
        (
            "none",
            r"'none'.*\btheir-robots\b.*\b7\b",
        ),
        (
            "missing",
            r"'missing'.*\btheir-robots\b.*AttributeError",
        ),
    ],
)
def test_invalid_robot_is_refused_with_its_distribution(distribution, name, reason):
    with pytest.raises(ConfigurationError, match=rf"arms.left.model: got '{name}'; .*{reason}"):
        CellConfig.from_dict({"arms": {"left": {"model": name}}})


def test_robots_are_listed(distribution, capsys):
    assert main(["list", "robots"]) == 0
    out = capsys.readouterr().out
    assert "kinova_gen3\n    7 joints, 8.2 kg, up to 39 Nm; joint_1, joint_3, joint_5," in out
    assert "theirs\n    6 joints" in out
    assert "none\n    BROKEN: robot 'none' of their-robots cannot be loaded" in out
    assert main(["list", "robots", "--built-in"]) == 0
    assert "theirs" not in capsys.readouterr().out
