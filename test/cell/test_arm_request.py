# SPDX-License-Identifier: Apache-2.0
"""What the loop is asked to do with an arm is answered, replaced or withdrawn, and counted."""

from __future__ import annotations

import pytest

from multipanda_py.exceptions import LoopTimeout, SettingsRejected, TareRejected

pytestmark = pytest.mark.inline


def test_a_request_that_a_newer_one_replaced_is_refused_and_counted(make_cell):
    cell = make_cell()
    for what, refusal, ask, answer in (
        ("tare", TareRejected, cell.request_tare, cell.tare_result),
        ("settings", SettingsRejected, cell.request_robot_settings, cell.settings_done),
    ):
        first, second = ask("left"), ask("left")
        while answer(second) is None or answer(second) is False:
            cell.step()
        with pytest.raises(refusal, match=rf"^left: .*\b{what} request\b"):
            answer(first)
        assert cell.rejected == {f"left {what}": 1}
        cell.rejected.clear()


def test_a_tare_that_nobody_waits_for_any_more_is_withdrawn_and_counted(make_cell):
    cell = make_cell()
    with pytest.raises(LoopTimeout, match=r"\bleft .*\btare\b"):
        cell.tare("left", timeout=0.0)
    assert cell.cancelled == {"tare": 1}
    cell.step(1000)
    assert not cell.tare_offset("left").any()
