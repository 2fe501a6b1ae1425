# SPDX-License-Identifier: Apache-2.0
"""Example of doc/policies.md."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

PAGE = (Path(__file__).parents[3] / "doc" / "policies.md").read_text(encoding="utf-8")


def test_example_of_policies_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names = {}
    exec(block, names)
    names["env"].close()
    assert names["info"]["policy"] == ""
    heights = np.load("run.npz")["arm/measured"][:, 2]
    assert heights[0] - heights[-1] > 0.05, "the arm moves down repeatedly"
