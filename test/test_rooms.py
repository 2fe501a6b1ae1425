# SPDX-License-Identifier: Apache-2.0
"""Structure of the package: contracts in the root, subpackages in layers and in the doc."""

from __future__ import annotations

import re

import pytest
from repository import ROOT

from multipanda_py.registry import (
    EXTRAS,
    SEPARATE_EXTRAS,
)

pytestmark = pytest.mark.inline

PACKAGE = ROOT / "multipanda_py"
CONTRACTS = {
    "actuator", "backend", "context", "controllet", "exceptions", "feature", "files",
    "parameters", "pose", "registry", "state", "targets", "testing",
}  # fmt: skip
MAX_ROOMS = 13


def rooms() -> set[str]:
    return {path.parent.name for path in PACKAGE.glob("*/__init__.py")}


def layers() -> set[str]:
    """Return the names in the layers of the import-linter contract."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    block = re.search(r"^layers = \[\n(.*?)^\]", text, re.DOTALL | re.MULTILINE)
    assert block is not None
    return set(re.findall(r"[a-z_0-9]+", block[1]))


def test_root_has_contracts_only():
    assert {path.stem for path in PACKAGE.glob("*.py")} == CONTRACTS | {"__init__"}


def test_subpackages_are_few_and_have_layers():
    assert len(rooms()) <= MAX_ROOMS
    assert layers() == rooms() | CONTRACTS


def test_every_folder_has_init_file():
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    assert not [folder for folder in folders if not (folder / "__init__.py").exists()]


def test_registry_is_only_contract_with_dynamic_imports():
    """The linter cannot check dynamic imports, so that only modules of extras use them."""
    found = {name for name in CONTRACTS if "import_module" in (PACKAGE / f"{name}.py").read_text()}
    assert found == {"registry"}
    needed = [
        name
        for path in PACKAGE.rglob("*.py")
        for name in re.findall(r"\bneeded\(\"([\w.]+)\"\)", path.read_text(encoding="utf-8"))
    ]
    assert {name.partition(".")[0] for name in needed} <= {
        module for modules in (EXTRAS | SEPARATE_EXTRAS).values() for module in modules
    }


def test_architecture_page_names_every_subpackage_and_contract():
    text = (ROOT / "doc" / "architecture.md").read_text(encoding="utf-8")
    assert not [room for room in sorted(rooms()) if f"`{room}/`" not in text]
    assert not [name for name in sorted(CONTRACTS) if f"`{name}`" not in text]


def test_paths_of_architecture_page_exist():
    """Paths in code font are relative to the package or to the repository."""
    text = (ROOT / "doc" / "architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z_]+/[a-z_/]+\.(?:py|md))`", text))
    assert len(named) > 10
    assert not [
        path for path in sorted(named) if not ((PACKAGE / path).exists() or (ROOT / path).exists())
    ]
