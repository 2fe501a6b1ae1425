# SPDX-License-Identifier: Apache-2.0
"""Page in a real browser: drag, switch and stop."""

from __future__ import annotations

import pytest

pytest.importorskip("viser", reason="viser is not installed: extra panel")
from browser import PROGRAM
from panel_rig import PanelRig
from panel_story import drags_switches_and_stops

pytestmark = pytest.mark.inline


@pytest.fixture
def rig():
    made = PanelRig()
    yield made
    made.close()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(PROGRAM is None, reason="chromium is not installed")
def test_user_drags_switches_and_stops(rig, tmp_path):
    drags_switches_and_stops(rig, tmp_path)
