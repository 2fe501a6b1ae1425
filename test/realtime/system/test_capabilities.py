# SPDX-License-Identifier: Apache-2.0
"""Capabilities of root, which a container restricts at its start."""

from __future__ import annotations

import os
import resource

import pytest

from multipanda_py.apps.bench.wired import may_have_priority
from multipanda_py.realtime.system import scheduling as rights
from multipanda_py.realtime.system.checks import examine_machine

pytestmark = pytest.mark.inline
ALL, OF_A_CONTAINER = "000001ffffffffff", "00000000a80425fb"  # the second is the default of Docker


@pytest.fixture
def granted(monkeypatch, tmp_path):
    """Return a function that sets the capabilities of root, with resource limits of 0."""

    def grant(mask):
        (tmp_path / "status").write_text(f"Name:\tx\nCapEff:\t{mask}\n")
        monkeypatch.setattr(rights, "STATUS", tmp_path / "status")
        monkeypatch.setattr(os, "geteuid", lambda: 0)
        monkeypatch.setattr(resource, "getrlimit", lambda which: (0, 0))
        return {finding.name: finding for finding in examine_machine()}

    return grant


@pytest.mark.parametrize("limit", ["rtprio", "memlock"])
def test_root_in_container_was_reported_with_missing_capabilities(granted, limit):
    found = granted(OF_A_CONTAINER)[f"limit {limit}"]
    assert (found.ok, found.value) == (False, "0")
    assert f"--ulimit {limit}=" in found.fix


def test_benchmark_robots_were_refused_priority_and_omitted(granted):
    granted(OF_A_CONTAINER)
    assert not may_have_priority()


def test_root_has_no_limits_(granted):
    found = granted(ALL)
    assert found["limit rtprio"].ok
    assert found["limit memlock"].value == "root"
    assert may_have_priority()
