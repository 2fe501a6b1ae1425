# SPDX-License-Identifier: Apache-2.0
"""Recovery of arms: waiting, success, failure, timeout and cancellation."""

from __future__ import annotations

import pytest
from cell_names import LEFT_JOINT

from multipanda_py.exceptions import BackendError, LoopTimeout, RecoveryFailed, UnknownName
from multipanda_py.realtime.events import Event

pytestmark = pytest.mark.inline

LAWS = {"joint_impedance_controller": {"type": "joint_impedance"}}
PRESSED = "the user stop is pressed; release it"


@pytest.fixture
def cell(make_cell):
    """Return a cell whose two arms have stopped, as after a reflex."""
    cell = make_cell(controllets=LAWS)
    cell.step(3)
    for index in range(2):
        cell.loop.recoveries.stopped(index, "as a reflex would", 0)
    cell.step(1)
    assert [cell.state(arm).fault for arm in cell.arms] == ["arm_stopped"] * 2
    return cell


@pytest.fixture
def robots(cell, monkeypatch):
    """Return the recovery of each robot: an error, or the cycles until it is ready."""
    behaviour, backend = {0: 0, 1: 0}, cell.loop.backends[0]
    recover, cycles = backend.recover, dict[int, int]()

    def begin(arm):
        cycles[arm] = 0
        if isinstance(behaviour[arm], str):
            raise BackendError(behaviour[arm])
        recover(arm)

    def is_ready(arm):
        cycles[arm] += 1
        return cycles[arm] > behaviour[arm]

    monkeypatch.setattr(backend, "recover", begin)
    monkeypatch.setattr(backend, "is_ready", is_ready)
    return behaviour


def test_switch_after_recovery_was_refused(cell, robots):
    robots[0] = 150  # the duration of an automatic recovery
    assert cell.recover(["left"]) == ("left",)
    assert cell.state("left").fault == ""
    assert cell.state("right").fault == "arm_stopped"
    assert cell.switch([LEFT_JOINT]).activated == (LEFT_JOINT,)
    assert cell.recover(["left"]) == ()


def test_failed_recovery_was_reported_as_success(cell, robots):
    robots[0] = PRESSED
    with pytest.raises(RecoveryFailed, match=PRESSED) as found:
        cell.recover(["left"])
    assert list(found.value.reasons) == ["left"]
    robots[0] = 3
    assert cell.recover(["left"]) == ("left",)


def test_failed_arm_is_named_and_other_is_recovered(cell, robots):
    robots.update({0: 40, 1: PRESSED})
    with pytest.raises(RecoveryFailed) as found:
        cell.recover()
    assert list(found.value.reasons) == ["right"]
    assert PRESSED in found.value.reasons["right"]
    assert [cell.state(arm).fault for arm in cell.arms] == ["", "arm_stopped"]


def test_recovery_timeout_reports_known_reasons(cell, robots):
    robots.update({0: 10**9, 1: PRESSED})
    with pytest.raises(LoopTimeout, match=rf"\bleft\b.*\bright\b.*{PRESSED}"):
        cell.recover(timeout=0.05)
    with pytest.raises(RecoveryFailed, match="timeout"):
        cell.recover(timeout=float("nan"))


def test_recovery_request_does_not_block_and_poll_returns_result(cell, robots):
    robots[0] = 5
    pending = cell.request_recovery(["left"])
    assert pending.arms == ("left",)
    assert pending.poll() is None
    cell.step(7)
    assert pending.poll() == ("left",)
    with pytest.raises(UnknownName):
        cell.request_recovery(["nobody"])


def test_newer_recovery_request_replaced_that_of_another_arm(cell):
    """All arms share one record, and the loop reads the newest."""
    first, second = cell.request_recovery(["left"]), cell.request_recovery(["right"])
    cell.step(3)
    assert (first.poll(), second.poll()) == (("left",), ("right",))


@pytest.mark.parametrize("number", [0, 1])
def test_cancelled_request_cancelled_arms_of_another_client(cell, number):
    requests = [cell.request_recovery(["left"]), cell.request_recovery(["right"])]
    assert "withdrawn" in requests[number].cancel()
    cell.step(3)
    other = requests[1 - number]
    assert other.poll() == other.arms
    [arm] = requests[number].arms
    assert cell.state(arm).fault == "arm_stopped"
    assert cell.cancelled["recovery"] == 1


def test_arm_requested_by_two_clients_survives_one_cancellation(cell):
    first, second = cell.request_recovery(["left", "right"]), cell.request_recovery(["left"])
    assert "withdrawn" in first.cancel()
    assert "pending" in first.cancel()  # the second cancellation has no effect
    cell.step(3)
    assert second.poll() == ("left",)
    assert cell.state("right").fault == "arm_stopped"
    assert "pending" in second.cancel()  # the loop has received it


def test_ctrl_c_cancels_recovery_not_received_by_loop(cell, monkeypatch):
    def interrupt():
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(cell.debug, "pause", interrupt)
        with pytest.raises(KeyboardInterrupt):
            cell.recover(["left"])
    cell.step(5)
    assert cell.state("left").fault == "arm_stopped"
    assert cell.cancelled["recovery"] == 1


def test_arm_that_stops_again_at_once_is_not_recovered(cell, robots):
    """The fault is cleared in one cycle and latched in the next."""
    pending = cell.request_recovery(["left"])
    cell.step(2)
    cell.loop.recoveries.stopped(0, "the obstacle is still there", 0)
    cell.step(1)
    assert Event.RECOVERED in [event.event for event in cell.events()]
    with pytest.raises(RecoveryFailed, match="obstacle"):
        pending.poll()
