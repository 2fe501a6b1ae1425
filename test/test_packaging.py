# SPDX-License-Identifier: Apache-2.0
"""Agreement of the package with package.xml, setup.py and the rules of the repository."""

from __future__ import annotations

import ast
import importlib.util
import runpy
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import setuptools
from repository import ROOT

import multipanda_py
from multipanda_py.registry import EXTRAS, SEPARATE_EXTRAS

pytestmark = [pytest.mark.inline, pytest.mark.workspace]

PACKAGE = ROOT / "multipanda_py"
SOURCES = sorted(PACKAGE.rglob("*.py"))
LAUNCH_FILES = sorted((ROOT / "launch").glob("*.py"))
# rosdep key of each import outside of the package, the standard library and PIP_ONLY.
ROSDEP_KEYS = {"numpy": "python3-numpy", "yaml": "python3-yaml", "pydantic": "python3-pydantic"}
# The rosdep key on the right installs it; coal and eigenpy are dependencies of pinocchio.
COMES_WITH = {
    "coal": "pinocchio",
    "eigenpy": "pinocchio",
    "typing_extensions": "python3-pydantic",
    "unique_identifier_msgs": "rclpy",
    "action_msgs": "rclpy",
}
PIP_ONLY = {
    "gymnasium",
    "ruckig",
    "franka_msgs",  # optional: topics with the names of franka_ros2
    "btcpp_ros2_interfaces",  # optional: the action of tasks
    *(
        module
        for extra, brings in (EXTRAS | SEPARATE_EXTRAS).items()
        if extra != "run"
        for module in brings
    ),
}


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def imported(path: Path) -> set[str]:
    """Return the top-level names of the absolute imports of a file."""
    names = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            names.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.split(".")[0])
    return names


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.fixture(scope="module")
def manifest() -> ET.Element:
    return ET.parse(ROOT / "package.xml").getroot()


@pytest.fixture(scope="module")
def setup_arguments() -> dict:
    """Run setup.py without a build and return the arguments of setup()."""
    found: dict = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        patch.setattr(setuptools, "setup", lambda **arguments: found.update(arguments))
        runpy.run_path(str(ROOT / "setup.py"))
    return found


def test_version_is_same_in_all_files(manifest, setup_arguments):
    version = manifest.findtext("version")
    assert version == setup_arguments["version"] == multipanda_py.__version__


def test_imports_are_declared_in_package_xml(manifest):
    declared = {
        element.text for tag in ("depend", "exec_depend") for element in manifest.iter(tag)
    }
    undeclared = {}
    for path in [*SOURCES, *LAUNCH_FILES]:
        for module in imported(path) - {"multipanda_py"} - PIP_ONLY - set(sys.stdlib_module_names):
            key = COMES_WITH.get(module) or ROSDEP_KEYS.get(module, module)
            if key not in declared:
                undeclared[module] = name_of(path)
    assert not undeclared, "imported, but not in package.xml"


def test_setup_declares_pytest_for_colcon(setup_arguments):
    # Without this extra, colcon runs no test and reports success.
    assert "pytest" in setup_arguments["extras_require"]["test"]


def test_shared_files_are_installed(setup_arguments):
    installed = {file for _, files in setup_arguments["data_files"] for file in files}
    shared = {
        name_of(path)
        for folder in ("config", "launch", "urdf")
        for path in (ROOT / folder).rglob("[!_.]*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert shared | {"package.xml", "resource/multipanda_py"} <= installed


def test_all_packages_are_installed(setup_arguments):
    folders = {".".join(path.parent.relative_to(ROOT).parts) for path in SOURCES}
    assert folders == set(setup_arguments["packages"]), "a folder lacks __init__.py"
    assert "py.typed" in setup_arguments["package_data"]["multipanda_py"]


@pytest.mark.parametrize("path", LAUNCH_FILES, ids=name_of)
def test_launch_file_describes_entities(path):
    tree = tree_of(path)
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert "generate_launch_description" in functions
    if importlib.util.find_spec("launch") and importlib.util.find_spec("launch_ros"):
        description = runpy.run_path(str(path))["generate_launch_description"]()
        assert description.entities


MAY_IMPORT_ROS = ("multipanda_py/ros/", "multipanda_py/hardware/ros2_control/topics.py")
"""Prefixes of files that may import ROS; the last runs in the process of a driver."""


def violations(path: Path) -> list[str]:
    """Return the lines of a file that break the rules of the repository."""
    found, text = [], path.read_text(encoding="utf-8")
    if text and not text.startswith("# SPDX-License-Identifier: Apache-2.0\n"):
        found.append("1: no licence")
    knows_ros = path.is_relative_to(ROOT) and name_of(path).startswith(MAY_IMPORT_ROS)
    if not knows_ros and {"rclpy", "launch", "launch_ros"} & imported(path):
        found.append("1: an import of ROS outside of ros/")
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Assert):
            found.append(f"{node.lineno}: assert, which -O removes")
        elif isinstance(node, ast.ExceptHandler) and node.type is None:
            found.append(f"{node.lineno}: bare except")
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "print"
        ):
            found.append(f"{node.lineno}: print")
    return found


def test_source_files_follow_rules():
    found = [f"{name_of(path)}:{line}" for path in SOURCES for line in violations(path)]
    assert not found, "\n".join(found)


def test_rule_check_finds_violations(tmp_path):
    path = tmp_path / "bad.py"
    path.write_text("import rclpy.node\ntry:\n    print(1)\nexcept:\n    assert False\n")
    assert len(violations(path)) == 5
    assert imported(path) == {"rclpy"}
