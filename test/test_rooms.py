# SPDX-License-Identifier: Apache-2.0
"""The root holds contracts and entry points; rooms are in the guard of imports and in the doc."""

from __future__ import annotations

import ast
import re
from collections import Counter

import pytest
from repository import ROOT

from multipanda_py.extras import APART, BRINGS, DEVICES, ELSEWHERE, LARGE, SELDOM

pytestmark = pytest.mark.inline

PACKAGE = ROOT / "multipanda_py"
CONTRACTS = {
    "actuator", "actuator_contract", "actuator_params", "actuator_state", "backend", "channel",
    "context", "controllet", "exceptions", "extras", "feature", "gripper_record",
    "handover", "joint_vectors", "limits", "parameter_set", "parameter_spec", "parameters", "pose",
    "registry", "report", "settings", "state", "targets",
}  # fmt: skip
ENTRY_POINTS = {"__init__", "cli", "start", "testing"}


def rooms() -> set[str]:
    return {path.parent.name for path in PACKAGE.glob("*/__init__.py")}


def layers() -> set[str]:
    """Return the names in the layers of import-linter's contract."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    block = re.search(r"^layers = \[\n(.*?)^\]", text, re.DOTALL | re.MULTILINE)
    assert block is not None
    return set(re.findall(r"[a-z_0-9]+", block[1]))


def test_the_root_holds_contracts_and_entry_points_only():
    found = {path.stem for path in PACKAGE.glob("*.py")}
    assert found == CONTRACTS | ENTRY_POINTS


def test_contracts_import_no_room():
    """But for types, and for what an upward arrow is listed for in pyproject.toml."""
    listed = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for name in sorted(CONTRACTS):
        tree = ast.parse((PACKAGE / f"{name}.py").read_text(encoding="utf-8"))
        for node in tree.body:  # imports for types stand below an if
            if isinstance(node, ast.ImportFrom) and node.module and "." in node.module:
                first, room, *_ = node.module.split(".")
                if first == "multipanda_py" and room in rooms():
                    assert f"multipanda_py.{name} -> {node.module}" in listed, node.module


def test_contracts_look_nothing_up_by_name_but_the_registry():
    """An import that the linter cannot read points anywhere; extras bring what others wrote."""
    found = {name for name in CONTRACTS if "import_module" in (PACKAGE / f"{name}.py").read_text()}
    assert found == {"registry", "extras"}
    needed = [
        name
        for path in PACKAGE.rglob("*.py")
        for name in re.findall(r"\bneeded\(\"([\w.]+)\"\)", path.read_text(encoding="utf-8"))
    ]
    assert {name.partition(".")[0] for name in needed} <= {
        module
        for modules in (BRINGS | LARGE | APART | DEVICES | SELDOM | ELSEWHERE).values()
        for module in modules
    }


def test_every_module_and_room_has_its_layer():
    assert layers() == rooms() | CONTRACTS | (ENTRY_POINTS - {"__init__"})


def test_no_two_classes_have_one_name():
    """Whoever greps for a class finds one: ``JointLimits`` was numbers and a feature."""
    found = Counter(
        node.name
        for path in PACKAGE.rglob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef)
    )
    assert not [name for name, count in found.items() if count > 1]


def test_the_architecture_names_every_room_and_contract():
    text = (ROOT / "doc" / "architecture.md").read_text(encoding="utf-8")
    missing = [room for room in sorted(rooms()) if f"{room}/" not in text]
    missing += [
        name for name in sorted(CONTRACTS | ENTRY_POINTS - {"__init__"}) if name not in text
    ]
    assert not missing


def test_paths_in_the_architecture_are_there():
    """A path with a slash in code font is one of the package, or of the repository."""
    text = (ROOT / "doc" / "architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z_]+/[a-z_/]+\.(?:py|md))`", text))
    assert len(named) > 10
    assert not [
        path for path in sorted(named) if not ((PACKAGE / path).exists() or (ROOT / path).exists())
    ]
