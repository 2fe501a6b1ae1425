# SPDX-License-Identifier: Apache-2.0
"""Announcements are paced where the middleware can, and whoever has a profile keeps it."""

from __future__ import annotations

import os
from pathlib import Path
from xml.etree import ElementTree

import pytest

from multipanda_py.machine.dds_announcements import PROFILE, VARIABLE, pace_announcements


@pytest.fixture
def prefix(tmp_path, monkeypatch):
    """A function that makes a prefix with a library; returns an environment that names it."""
    monkeypatch.chdir(tmp_path)

    def make(name):
        path = tmp_path / "ros" / "lib" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        return {"AMENT_PREFIX_PATH": os.pathsep.join(["/nowhere", str(tmp_path / "ros")])}

    return make


@pytest.mark.parametrize(
    "library", ["libfastdds.so.3.2", "libfastdds.so.3.10.1", "x86_64-linux-gnu/libfastdds.so.4.0"]
)
def test_a_release_that_paces_is_told_to(prefix, library):
    (Path("ros/lib/x86_64-linux-gnu")).mkdir(parents=True)
    environment = prefix(library)
    assert pace_announcements(environment)
    assert Path(environment[VARIABLE]) == PROFILE


@pytest.mark.parametrize(
    "library", ["libfastdds.so.3.1.9", "libfastrtps.so.2.14.4", "libother.so"]
)
def test_older_ones_would_refuse_the_profile_and_get_none(prefix, library):
    environment = prefix(library)
    assert not pace_announcements(environment)
    assert VARIABLE not in environment
    assert not pace_announcements({})


@pytest.mark.parametrize("name", [VARIABLE, "FASTRTPS_DEFAULT_PROFILES_FILE"])
def test_a_profile_of_the_user_stays_the_only_one(prefix, name):
    environment = prefix("libfastdds.so.3.2.2") | {name: "mine.xml"}
    before = dict(environment)
    assert not pace_announcements(environment)
    assert environment == before


def test_a_profile_where_the_middleware_looks_by_itself_stays_too(prefix):
    environment = prefix("libfastdds.so.3.2.2")
    Path("DEFAULT_FASTDDS_PROFILES.xml").touch()
    assert not pace_announcements(environment)


def test_the_largest_announcement_fits_into_a_period():
    """What does not would never be sent."""
    space = "{http://www.eprosima.com}"
    tree = ElementTree.parse(PROFILE)
    [size] = [int(one.text) for one in tree.iter(f"{space}max_bytes_per_period")]
    assert size >= 10_000
    [name] = [one.text for one in tree.iter(f"{space}flow_controller_name")]
    assert name in [one.text for one in tree.iter(f"{space}name")]
