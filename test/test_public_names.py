# SPDX-License-Identifier: Apache-2.0
"""Names that a plug-in's author imports from the package itself."""

from __future__ import annotations

import subprocess
import sys

import pytest

import multipanda_py

pytestmark = pytest.mark.inline


@pytest.mark.parametrize("name", multipanda_py.__all__)
def test_every_public_name_is_that_of_its_module(name):
    found = getattr(multipanda_py, name)
    module = multipanda_py._PUBLIC.get(name)
    assert module is None or found is getattr(sys.modules[module], name)


def test_the_package_alone_loads_errors_only():
    code = "import multipanda_py as m, sys; print(*({*m._PUBLIC.values()} & {*sys.modules}))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["multipanda_py.exceptions"]
