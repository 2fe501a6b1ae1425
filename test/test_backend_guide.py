# SPDX-License-Identifier: Apache-2.0
"""Files of doc/writing_a_backend.md, run as they are printed and with faults."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import yaml
from guides import TOOLS, blocks, check_style, write_package
from repository import ROOT

from multipanda_py import registry
from multipanda_py.apps.cli import main
from multipanda_py.cell import Cell
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import ConfigurationError, LoopError, SettingsRejected

pytestmark = [pytest.mark.inline, pytest.mark.workspace]

GUIDE = (ROOT / "doc" / "writing_a_backend.md").read_text()


@pytest.fixture
def guide_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Folder with the files of the guide, on the path and installed as by pip."""
    write_package(GUIDE, tmp_path, "bus")

    def forget():
        for cached in (registry.names, registry.find, registry.plug_ins):
            cached.cache_clear()
        sys.modules.pop("bus", None)

    monkeypatch.syspath_prepend(str(tmp_path))
    forget()
    yield tmp_path
    forget()


def test_rebound_state_arrays_stayed_zero_in_checks_and_records(guide_folder: Path):
    text = (guide_folder / "bus.py").read_text()
    assert "state.q[:], state.dq[:] = " in text
    (guide_folder / "bus.py").write_text(
        text.replace("state.q[:], state.dq[:] = ", "state.q, state.dq = ")
    )
    with pytest.raises(LoopError, match=r"\bBus\b.*\bstate\.q .*\barm: "):
        Cell.from_yaml(guide_folder / "cell.yaml", placement="inline").start()


def test_cell_runs_on_guide_backend_and_changes_settings(guide_folder: Path):
    with Cell.from_yaml(guide_folder / "cell.yaml", placement="inline") as cell:
        cell.step(200)
        assert cell.active == ("arm/soft",)
        settings = cell.robot_settings("arm")
        assert (settings.port, settings.friction) == ("/dev/ttyACM0", 4.0)
        assert settings.given == {"port", "friction"}
        with pytest.raises(SettingsRejected, match=r"\bport .*\barm\.bus\.port\b"):
            cell.set_robot_settings("arm", port="elsewhere")
        with pytest.raises(SettingsRejected, match=r"^arm: friction: .*\b21\.0\b"):
            cell.set_robot_settings("arm", friction=21.0)
        cell.switch([], ["arm/soft"])
        cell.set_robot_settings("arm", friction=3.0)
        assert cell.robot_settings("arm").friction == 3.0
        assert cell.loop.backends[0].settings[0].friction == 3.0
        cell.step(100)
        assert cell.state("arm").fault == ""
        assert cell.stall_reason() == ""
    config = CellConfig.from_yaml(guide_folder / "cell.yaml")
    assert CellConfig.model_validate_json(config.model_dump_json()) == config


@pytest.mark.parametrize(
    ("arm", "fault"),
    [
        ({"bus": {}}, "arms.arm.bus.port: "),
        ({"bus": {"port": "a", "speed": 1}}, "arms.arm.bus.speed: .*port, "),
        ({"bus": {"port": "a", "inertia": 0.0}}, "arms.arm.bus.inertia: .*0.0"),
        ({"bus": {"port": "a", "friction": "x"}}, "arms.arm.bus.friction: .*'x'"),
        ({"bus": 3}, "arms.arm.bus: .*3"),
        ({"buss": {}}, "arms.arm.buss: .*backend, "),
        ({"mujoco": {}}, "arms.arm.mujoco: .*mujoco"),
        ({"bus": {"port": "a"}, "franka": {"load_mass": -1}}, "arms.arm.franka.load_mass: .*-1"),
    ],
)
def test_invalid_backend_settings_are_rejected_with_path(guide_folder: Path, arm, fault: str):
    with pytest.raises(ConfigurationError) as refusal:
        CellConfig.from_dict({"arms": {"arm": {"backend": "bus", **arm}}})
    assert any(re.match(f"cell: {fault}", text) for text in refusal.value.faults), refusal.value


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("import numpy", "import nothing_of_that_name", "loaded: ModuleNotFoundError"),
        ("Settings = BusSettings", "Settings = None", r"Bus\.Settings:.*None"),
        ("@dataclass(frozen=True)", "", "BusSettings.* frozen dataclass"),
        ('number(2.0, unit="Nm s/rad", low=0, high=20, doc="friction of every joint")', "2.0",
         "friction:.*plain field"),
        ("yield f", "raise RuntimeError  #", "check.*backend 'bus'.*RuntimeError"),
        ("yield f", "return f", r"bus\.port: "),
    ],
)  # fmt: skip
def test_invalid_backend_class_is_rejected_with_reason(guide_folder: Path, old, new, reason):
    path = guide_folder / "bus.py"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(ConfigurationError, match=rf"arms\.arm.*{reason}"):
        CellConfig.from_dict({"arms": {"arm": {"backend": "bus"}}})


def test_missing_super_configure_blocked_settings_change(guide_folder: Path):
    path = guide_folder / "bus.py"
    path.write_text(path.read_text().replace("super().configure(arm, settings)", ""))
    with Cell.from_yaml(guide_folder / "cell.yaml", placement="inline") as cell:
        cell.switch([], ["arm/soft"])
        with pytest.raises(SettingsRejected, match=r"\bBus .*\bsuper\(\)"):
            cell.set_robot_settings("arm", friction=3.0)


def test_list_shows_backend_with_settings(guide_folder: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["list", "backends"]) == 0
    out = capsys.readouterr().out
    assert "Exchange torques and states with servos." in out
    assert "largest" not in out
    assert re.search(r"friction +number +Nm s/rad +0 \.\. 20", out)


@pytest.mark.parametrize("tool", TOOLS)
def test_guide_code_passes_repository_linters(guide_folder: Path, tool: list[str]):
    check_style(guide_folder, tool, ["bus.py"])


def test_guide_yaml_is_not_empty():
    assert yaml.safe_load(blocks(GUIDE, "yaml")[0])
