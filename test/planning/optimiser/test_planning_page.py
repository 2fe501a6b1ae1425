# SPDX-License-Identifier: Apache-2.0
"""Examples of the planning page run unchanged."""

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
def test_examples_of_page_run(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    known = {}
    for code in re.findall(r"```python\n(.*?)```", PAGE, re.S):
        exec(compile(code, "doc/planning.md", "exec"), known)
    assert capsys.readouterr().out.startswith("solved in")
    assert np.abs(known["q"]).max() < np.pi


def test_page_documents_every_objective():
    public = [getattr(optimiser, name) for name in optimiser.__all__]
    objectives = [
        one.__name__
        for one in public
        if isinstance(one, type) and issubclass(one, Objective) and one is not Objective
    ]
    assert len(objectives) == 15
    assert not [name for name in objectives if f"`{name}" not in PAGE]
