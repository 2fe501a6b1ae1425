# SPDX-License-Identifier: Apache-2.0
"""Requests for arms: answers, replacements, cancellations, and their counters."""

from __future__ import annotations

import pytest

from multipanda_py.exceptions import LoopTimeout, SettingsRejected, TareRejected

pytestmark = pytest.mark.inline


def test_replaced_request_is_refused_and_counted(make_cell):
    cell = make_cell()
    for what, refusal, send, answer in (
        ("tare", TareRejected, cell.request_tare, cell.tare_result),
        ("settings", SettingsRejected, cell.request_robot_settings, cell.settings_done),
    ):
        first, second = send("left"), send("left")
        while answer(second) is None or answer(second) is False:
            cell.step()
        with pytest.raises(refusal, match=rf"^left: .*\b{what} request\b"):
            answer(first)
        assert cell.rejected == {f"left {what}": 1}
        cell.rejected.clear()


def test_timed_out_tare_is_withdrawn_and_counted(make_cell):
    cell = make_cell()
    with pytest.raises(LoopTimeout, match=r"\bleft .*\btare\b"):
        cell.tare("left", timeout=0.0)
    assert cell.cancelled == {"tare": 1}
    cell.step(1000)
    assert not cell.tare_offset("left").any()
