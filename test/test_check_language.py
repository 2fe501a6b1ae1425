# SPDX-License-Identifier: Apache-2.0
"""The check of docstrings finds what CONTRIBUTING.md forbids, and nothing else."""

from __future__ import annotations

import runpy

import pytest
from repository import ROOT

pytestmark = [
    pytest.mark.inline,
    pytest.mark.skipif(
        not (ROOT / "tools/check_language.py").exists(), reason="no tools beside the tests"
    ),
]

GOOD = '''"""Limit a joint velocity.

.. math:: \\dot q_i = \\min(\\max(\\dot q_i, -v_i), v_i) \\qquad a + b + c + d + e + f + g + h
    + i + j + k + l + m + n + o + p + q + r + s + t + u + v + w + x + y + z

Args:
    speed: Maximum speed [rad/s].
"""
'''


@pytest.fixture(scope="module")
def check():
    return runpy.run_path(str(ROOT / "tools/check_language.py"))["check_source"]


def test_a_good_docstring_has_no_fault(check):
    assert check(GOOD) == []


def test_an_argument_of_another_name_is_found(check):
    head = "def limit(dq: float) -> None:\n"
    source = head + '    """Limit.\n\n    Args:\n        {}: Velocity.\n    """\n'
    assert check(source.format("dq")) == []
    assert [fault[0] for fault in check(source.format("velocity"))] == [5]


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("Limit a joint velocity.", "What limits a joint velocity.", 1),
        ("Maximum speed", "Of the joint", 7),
        ("Limit a joint velocity.", "Limit a joint velocity" + " and more" * 15 + ".", 1),
    ],
)
def test_a_fault_is_found_in_its_line(check, old, new, line):
    faults = check(GOOD.replace(old, new))
    assert [fault[0] for fault in faults] == [line]


@pytest.mark.parametrize(
    "source",
    ["wanted_pose = 1", "def ask(thing): pass", "class SaidState: pass", "self.seen = []"],
)
def test_a_name_of_no_field_is_found(check, source):
    assert [fault[0] for fault in check(source)] == [1]


def test_parts_of_other_words_are_no_fault(check):
    assert check("almost_singular = nothing = essay = 1") == []
