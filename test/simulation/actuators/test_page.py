# SPDX-License-Identifier: Apache-2.0
"""Unchanged code of doc/compliant_arms.md."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

PAGE = Path(__file__).parents[3] / "doc" / "compliant_arms.md"
pytestmark = [pytest.mark.sim, pytest.mark.inline]


def code_of_page(number, count=2):
    found = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(found) == count
    names: dict = {}
    exec(compile(found[number], str(PAGE), "exec"), names)
    return names


def test_commands_of_page_move_cell(monkeypatch):
    monkeypatch.chdir(PAGE.parents[1])
    found = code_of_page(0)["found"]
    assert found.joints == ("joint_1", "joint_2")
    assert [int(mode) for mode in found.modes] == [6, 6]
    np.testing.assert_allclose(found.reference[:, 0], [0.8, -0.2], atol=1e-9)
    assert found.q[0] > 0.1
    assert found.stiffness[0] > 5.0 * found.stiffness[1]


def test_notebook_of_page_runs():
    found = code_of_page(1)
    assert np.abs(found["carried"]).max() > 0.01
    assert found["torque"] == pytest.approx(found["weight"], abs=2e-2)
    assert [int(mode) for mode in found["joints"].modes] == [3, 3]
    assert found["robot"].link_torque == pytest.approx(found["torque"], abs=1e-9)
