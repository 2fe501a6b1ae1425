# SPDX-License-Identifier: Apache-2.0
"""Agreement of doc/parameters.md with the declarations in the code."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
import yaml
from repository import ROOT

from multipanda_py import registry
from multipanda_py.apps.cli import main
from multipanda_py.apps.commands.list import entry, markdown
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.parameters import specs_of
from multipanda_py.targets import built_in_channels

pytestmark = [pytest.mark.inline, pytest.mark.workspace]

PAGE = ROOT / "doc" / "parameters.md"


def written() -> str:
    done = subprocess.run(
        [sys.executable, "-m", "multipanda_py.apps.cli", "list", "--markdown", "--built-in"],
        capture_output=True, text=True, timeout=60, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_parameter_page_is_up_to_date():
    assert PAGE.read_text() == written(), "run `make docs`"


@pytest.mark.parametrize("kind", ["controllets", "features", "actuators"])
def test_every_parameter_has_documented_row(kind):
    page = PAGE.read_text()
    for name in registry.names(kind):
        part = registry.find(kind, name)
        if not part.__module__.startswith("multipanda_py."):
            continue
        section = page.split(f"\n### {name}\n", 1)[1].split("\n### ", 1)[0]
        for spec in specs_of(part.Params, f"{name}." if kind == "features" else ""):
            (row,) = re.findall(rf"^\| `{re.escape(spec.name)}` \|.*$", section, re.MULTILINE)
            assert spec.unit in row
            assert spec.doc in row
            assert spec.doc, f"{name}: {spec.name} has no doc"
            assert row.count("|") == 7


def test_markdown_lists_third_party_controllets_unless_built_in_only(capsys):
    assert main(["list", "--markdown"]) == 0
    assert "\n### misbehaving\n" in capsys.readouterr().out
    assert main(["list", "--markdown", "--built-in"]) == 0
    assert "misbehaving" not in capsys.readouterr().out


def test_every_channel_has_row_with_topic_and_method():
    page = PAGE.read_text()
    assert set(built_in_channels()) >= {
        "pose",
        "joint",
        "twist",
        "wrench",
        "stiffness",
        "object",
        "internal_force",
    }
    for channel in built_in_channels().values():
        (row,) = re.findall(rf"^\| {channel.name} \|.*$", page, re.MULTILINE)
        assert channel.doc
        assert channel.doc in row
        assert f"`{channel.topic_path}`, {channel.message.replace('/msg/', '/')}" in row
        assert f"`{channel.method}`" in row


def test_vertical_bar_in_doc_is_escaped():
    item = entry("controllets", "gravity_compensation")
    item["parameters"][0]["doc"] = "this | or rather"
    row = next(
        line for line in markdown({"controllets": [item]}).split("\n") if "or rather" in line
    )
    assert row.replace(r"\|", "").count("|") == 7


def test_examples_of_parameter_page_are_valid():
    page = PAGE.read_text()
    assert "controllets: {soft:" in page
    line = next(line for line in page.split("\n") if line.startswith("controllets:"))
    CellConfig.from_dict({"arms": {"left": {}}, **yaml.safe_load(line)})
