# SPDX-License-Identifier: Apache-2.0
"""The code of doc/compliant_arms.md, as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

PAGE = Path(__file__).parents[2] / "doc" / "compliant_arms.md"
pytestmark = pytest.mark.sim


def test_the_page_s_notebook_runs_and_says_what_it_does():
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    found: dict = {}
    exec(compile(code, str(PAGE), "exec"), found)
    assert np.abs(found["carried"]).max() > 0.01
    assert found["torque"] == pytest.approx(found["weight"], abs=2e-2)
    assert [int(mode) for mode in found["joints"].modes] == [3, 3]
    assert found["robot"].link_torque == pytest.approx(found["torque"], abs=1e-9)
