# SPDX-License-Identifier: Apache-2.0
"""How processes of this package let themselves be found."""

from __future__ import annotations

import os
import xml.etree.ElementTree as ET

import pytest
from repository import ROOT

from multipanda_py.realtime.system.dds import (
    PROFILE_FILE,
    PROFILE_VARIABLE,
    announce_without_types,
)

pytestmark = pytest.mark.inline

LOOPBACK = ROOT / "config" / "fastdds_loopback.xml"


def elements(file):
    return {
        node.tag.rpartition("}")[2]: (node.text or "").strip() for node in ET.parse(file).iter()
    }


@pytest.mark.parametrize("file", [PROFILE_FILE, LOOPBACK])
def test_profiles_have_nobody_told_of_types(file):
    found = elements(file)
    assert (found["name"], found["value"]) == ("fastdds.type_propagation", "disabled")


def test_a_profile_of_the_user_is_left_alone(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(PROFILE_VARIABLE, "/mine.xml")
    announce_without_types()
    assert os.environ[PROFILE_VARIABLE] == "/mine.xml"
    monkeypatch.setenv(PROFILE_VARIABLE, "")
    announce_without_types()
    assert os.environ[PROFILE_VARIABLE] == str(PROFILE_FILE)
    monkeypatch.delenv(PROFILE_VARIABLE)
    (tmp_path / "DEFAULT_FASTDDS_PROFILES.xml").touch()
    announce_without_types()
    assert PROFILE_VARIABLE not in os.environ
