# SPDX-License-Identifier: Apache-2.0
"""Public names of the package for authors of plug-ins."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

import multipanda_py

pytestmark = pytest.mark.inline

MODULES = (
    "actuator", "backend", "cell", "context", "controllet", "exceptions", "feature", "parameters",
    "pose", "state", "targets",
)  # fmt: skip


@pytest.mark.parametrize("name", sorted({*multipanda_py.__all__} - {"__version__"}))
def test_public_name_is_object_of_its_module(name):
    modules = [import_module(f"multipanda_py.{module}") for module in MODULES]
    found = getattr(multipanda_py, name)
    assert any(getattr(module, name, None) is found for module in modules)


def test_package_import_loads_exceptions_only():
    code = "import multipanda_py, sys; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {f"multipanda_py.{module}" for module in MODULES} & {*run.stdout.split()}
    assert loaded == {"multipanda_py.exceptions"}
