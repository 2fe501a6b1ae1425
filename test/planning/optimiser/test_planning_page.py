# SPDX-License-Identifier: Apache-2.0
"""What the page on paths and postures shows runs as it stands."""

from __future__ import annotations

import re

import numpy as np
import pytest
from repository import ROOT

import multipanda_py.planning.optimiser as optimiser
from multipanda_py.planning.optimiser.term import Objective

pytestmark = pytest.mark.inline
PAGE = (ROOT / "doc/planning.md").read_text()


@pytest.mark.long
def test_what_the_page_shows_runs(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    known = {}
    for code in re.findall(r"```python\n(.*?)```", PAGE, re.S):
        exec(compile(code, "doc/planning.md", "exec"), known)
    assert capsys.readouterr().out.startswith("solved in")
    assert np.abs(known["q"]).max() < np.pi


def test_every_objective_is_on_the_page():
    public = [getattr(optimiser, name) for name in optimiser.__all__]
    objectives = [
        one.__name__
        for one in public
        if isinstance(one, type) and issubclass(one, Objective) and one is not Objective
    ]
    assert len(objectives) == 15
    assert not [name for name in objectives if f"`{name}" not in PAGE]
