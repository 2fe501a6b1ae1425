# SPDX-License-Identifier: Apache-2.0
"""Rights of root, which in a container are those that it was started with."""

from __future__ import annotations

import os
import resource

import pytest

from multipanda_py.apps.bench.wired import may_have_priority
from multipanda_py.realtime.system import scheduling as rights
from multipanda_py.realtime.system.checks import examine_machine

pytestmark = pytest.mark.inline
ALL, OF_A_CONTAINER = "000001ffffffffff", "00000000a80425fb"  # the latter is Docker's default


@pytest.fixture
def granted(monkeypatch, tmp_path):
    """Return a function that sets what root is granted, with no limits raised."""

    def grant(mask):
        (tmp_path / "status").write_text(f"Name:\tx\nCapEff:\t{mask}\n")
        monkeypatch.setattr(rights, "STATUS", tmp_path / "status")
        monkeypatch.setattr(os, "geteuid", lambda: 0)
        monkeypatch.setattr(resource, "getrlimit", lambda which: (0, 0))
        return {finding.name: finding for finding in examine_machine()}

    return grant


@pytest.mark.parametrize("limit", ["rtprio", "memlock"])
def test_root_in_a_container_was_said_to_have_rights_that_it_had_not(granted, limit):
    found = granted(OF_A_CONTAINER)[f"limit {limit}"]
    assert (found.ok, found.value) == (False, "0")
    assert f"--ulimit {limit}=" in found.fix


def test_robots_of_a_benchmark_were_refused_a_priority_and_left_out(granted):
    granted(OF_A_CONTAINER)
    assert not may_have_priority()


def test_root_has_no_limits(granted):
    found = granted(ALL)
    assert found["limit rtprio"].ok
    assert found["limit memlock"].value == "root"
    assert may_have_priority()
