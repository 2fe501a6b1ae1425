# SPDX-License-Identifier: Apache-2.0
"""Docstring rules of CONTRIBUTING.md in tools/check_language.py."""

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


def test_valid_docstring_has_no_fault(check):
    assert check(GOOD) == []


def test_documented_argument_must_be_in_signature(check):
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
def test_fault_is_reported_with_line_number(check, old, new, line):
    faults = check(GOOD.replace(old, new))
    assert [fault[0] for fault in faults] == [line]


@pytest.mark.parametrize(
    "source",
    ["wanted_pose = 1", "def ask(thing): pass", "class SaidState: pass", "self.seen = []"],
)
def test_non_standard_name_is_reported(check, source):
    assert [fault[0] for fault in check(source)] == [1]


def test_non_standard_word_inside_other_word_is_accepted(check):
    assert check("almost_singular = nothing = essay = 1") == []
