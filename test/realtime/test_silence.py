# SPDX-License-Identifier: Apache-2.0
"""How long an owner may be silent, and from when on that counts."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from multipanda_py.realtime.cycle_checks import START_TIMEOUT, Watchdog
from multipanda_py.realtime.shared_memory import SharedFlag

pytestmark = pytest.mark.inline

SECOND = 1_000_000_000


@pytest.fixture
def rig():
    """What tells of silence after 0.5 s, its words, and the reasons for which arms were held."""
    words, held = [0] * len(SharedFlag) * 2, []
    owners = SimpleNamespace(active=[], hold_all=lambda event, text, now_ns: held.append(text))
    return Watchdog(owners, SimpleNamespace(words=words), SECOND // 2), words, held


def test_an_owner_that_beat_while_the_loop_was_being_built_was_silent_in_its_first_cycle(rig):
    silence, words, held = rig
    words[SharedFlag.CLIENT_HEARTBEAT] = 10 * SECOND
    silence.check(13 * SECOND)
    assert held == []
    silence.check(13 * SECOND + 6 * SECOND // 10)
    assert len(held) == 1


def test_an_owner_that_has_never_beaten_is_busy_with_its_start_and_not_for_ever(rig):
    silence, _, held = rig
    silence.check(10 * SECOND)
    silence.check(int((9.9 + START_TIMEOUT) * SECOND))
    assert held == []
    silence.check(int((10.1 + START_TIMEOUT) * SECOND))
    assert len(held) == 1
