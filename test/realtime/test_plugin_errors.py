# SPDX-License-Identifier: Apache-2.0
"""Exceptions of plug-ins: confined to their arms and attributed to the plug-in."""

from __future__ import annotations

import re
import signal

import pytest

from multipanda_py.cell.switch_planning import Strictness
from multipanda_py.controllets.features.coriolis import Coriolis
from multipanda_py.exceptions import LoopError, SwitchRejected
from multipanda_py.hardware.mock import Mock
from multipanda_py.realtime.events import Event
from multipanda_py.realtime.system import signals as interruption
from multipanda_py.testing import simple_cell

pytestmark = pytest.mark.sim

LAWS = {"odd": {"type": "misbehaving"}, "joint": {"type": "joint_impedance"}}
ON = ["left/odd", "right/joint"]


def odd(fault):
    return {"odd": {"type": "misbehaving", "params": {"fault": fault}}}


@pytest.mark.inline
@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("exit", "SystemExit: this law broke (multipanda_test_laws.py:"),
        ("generator_exit", "GeneratorExit: this law broke (multipanda_test_laws.py:"),
        ("mute", "Mute: its text is not available: ValueError (multipanda_test_laws.py:"),
        ("notify_number", "TypeError: notify: got int, allowed str (multipanda_test_laws.py:"),
    ],
)
def test_unusual_exception_of_controllet_ended_loop(make_cell, fault, text):
    """Only subclasses of Exception with available text counted as a fault of the controllet."""
    cell = make_cell(controllets=LAWS, active=ON)
    cell.set_parameters("left/odd", {"fault": fault})
    cell.step(3)
    assert cell.active == ("left/hold", "right/joint")
    (event,) = cell.events()
    assert (event.event, event.arm) == (Event.CONTROLLET_ERROR, "left")
    assert event.text.startswith(text)


@pytest.mark.inline
def test_replaced_torque_arrays_commanded_zero(make_cell):
    with pytest.raises(LoopError, match=r"\bodd.*\btau: .*\blist\b"):
        make_cell(controllets=odd("replace"), active=[])
    cell = make_cell(controllets=LAWS, active=ON)
    cell.set_parameters("left/odd", {"fault": "replace", "torque": 1.0})
    cell.step(2)
    assert cell.active == ("left/hold", "right/joint")
    cell.recover()
    cell.set_parameters("left/odd", {"fault": "none"})
    cell.step(2)
    cell.switch(["left/odd"], strictness=Strictness.FORCE_AUTO)
    cell.step(300)
    assert cell.state("left").tau == pytest.approx([1.0] * 7)


@pytest.mark.inline
def test_torque_of_wrong_width_ended_loop(make_cell):
    cell = make_cell(controllets=LAWS, active=ON)
    cell.set_parameters("left/odd", {"fault": "narrow"})
    cell.step(3)
    assert cell.active == ("left/hold", "right/joint")
    (event,) = cell.events()
    assert re.search(r"arm 0 .*\(6,\).*\(7,\) \(multipanda_test_laws\.py:", event.text)


@pytest.mark.inline
def test_multiline_exception_broke_event_line(make_cell):
    cell = make_cell(controllets=LAWS, active=ON)
    cell.set_parameters("left/odd", {"fault": "lines"})
    cell.step(3)
    (event,) = cell.events()
    assert re.match(r"Lines: .* \(multipanda_test_laws\.py:\d+\)$", event.text)


@pytest.mark.inline
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_during_inline_start_was_attributed_to_controllet(
    make_cell, monkeypatch, request, number
):
    for each in interruption.SIGNALS:
        before = signal.getsignal(each)
        request.addfinalizer(lambda each=each, before=before: signal.signal(each, before))
    monkeypatch.setattr(interruption, "program_name", "a program")
    interruption.end_in_order()
    monkeypatch.setattr(Coriolis, "on_activate", lambda *_: signal.raise_signal(number))
    with pytest.raises(interruption.Interrupted) as raised:
        make_cell(controllets={"joint": LAWS["joint"]}, active=[])
    assert raised.value.code == 128 + number


@pytest.mark.inline
def test_controllet_could_change_shared_states(make_cell):
    cell = make_cell(controllets=LAWS, active=ON)
    cell.set_parameters("left/odd", {"fault": "sense"})
    before = cell.state("left").q
    cell.step(3)
    assert cell.state("left").q == pytest.approx(before, abs=1e-3)
    assert cell.active == ("left/hold", "right/joint")
    (event,) = cell.events()
    assert "destination is read-only (multipanda_test_laws.py:" in event.text


@pytest.mark.inline
def test_assigned_torque_items_are_written_in_place(make_cell):
    cell = make_cell(controllets=LAWS, active=ON)
    cell.set_parameters("left/odd", {"fault": "item", "torque": 1.0})
    cell.step(300)
    assert cell.active == ("left/odd", "right/joint")
    assert cell.state("left").tau == pytest.approx([1.0] * 7)


@pytest.mark.inline
def test_replaced_report_array_stayed_zero(make_cell):
    with pytest.raises(LoopError, match=r"\bodd.*\breport: .*\barray\b"):
        make_cell(controllets=odd("report"), active=[])


@pytest.mark.clock
def test_exit_or_interrupt_of_controllet_ended_loop_process(make_cell):
    """The process ignores SIGINT; a KeyboardInterrupt there does not come from Ctrl-C."""
    cell = make_cell(controllets={"odd": LAWS["odd"]}, active=["left/odd", "right/odd"],
                     placement="process")  # fmt: skip
    cell.set_parameters("left/odd", {"fault": "exit"})
    cell.set_parameters("right/odd", {"fault": "interrupt"})
    cell.wait(lambda: cell.active == ("left/hold", "right/hold"), 5.0, "holds")
    raised = {event.arm: event.text.split(":")[0] for event in cell.events()}
    assert raised == {"left": "SystemExit", "right": "KeyboardInterrupt"}


@pytest.mark.inline
def test_ctrl_c_in_inline_cell_reaches_its_user(make_cell, request):
    # The background jobs of a shell ignore the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    cell = make_cell(controllets=LAWS, active=ON)
    cell.set_parameters("left/odd", {"fault": "interrupt"})
    with pytest.raises(KeyboardInterrupt):
        cell.step(3)


@pytest.mark.inline
def test_invalid_text_of_transfer_ended_loop_after_switch(make_cell):
    """The text was the number 5; the error appeared after the controllet had started."""
    cell = make_cell(controllets=odd("words"), active=[])
    with pytest.raises(SwitchRejected, match=r"on_transfer .*\bmisbehaving: .*\bint\b"):
        cell.switch(["left/odd"], strictness=Strictness.STRICT)
    cell.step(2)
    assert cell.active == ("left/hold", "right/hold")
    cell.set_parameters("left/odd", {"fault": "none"})
    cell.switch(["left/odd"])


@pytest.mark.inline
def test_failed_parameters_of_inactive_controllet_faulted_arm(make_cell):
    """The active controllet continued on the faulted arm."""
    cell = make_cell(controllets=LAWS, active=["left/joint", "right/joint"])
    cell.step(2)
    cell.set_parameters("left/odd", {"fault": "init"})
    cell.step(2)
    (event,) = cell.events()
    assert (event.event, event.arm) == (Event.CONTROLLET_ERROR, "")
    assert event.controllet == "left/odd"
    assert not cell.state("left").fault
    assert cell.active == ("left/joint", "right/joint")
    with pytest.raises(SwitchRejected, match=r"^left/odd: .*\bparameters\b"):
        cell.switch(["left/odd"], strictness=Strictness.FORCE_AUTO)
    cell.set_parameters("left/odd", {"fault": "none"})
    cell.switch(["left/odd"], strictness=Strictness.FORCE_AUTO)
    cell.step(2)
    assert "left/odd" in cell.active


@pytest.mark.inline
def test_reset_activated_controllet_with_failed_parameters(make_cell):
    cell = make_cell(controllets=LAWS, active=["left/odd", "right/joint"])
    cell.step(2)
    saved = cell.simulation.save()
    cell.switch(["left/joint"], strictness=Strictness.FORCE_AUTO)
    cell.set_parameters("left/odd", {"fault": "init"})
    cell.step(2)
    cell.events()
    cell.simulation.reset(saved)
    assert Event.SWITCH_FAILED in [event.event for event in cell.events()]
    assert set(cell.active) == {"left/hold", "right/joint"}
    cell.step(2)
    assert not cell.state("left").fault


@pytest.mark.inline
@pytest.mark.parametrize(
    ("fault", "raised"), [("init", "RuntimeError"), ("activate", "RuntimeError"),
                          ("exit", "SystemExit")],
)  # fmt: skip
def test_controllet_failing_at_start_was_not_named(make_cell, fault, raised):
    source = rf"left/odd \(misbehaving\): {raised}: this law .* \(multipanda_test_laws.py:\d+\)"
    with pytest.raises(LoopError, match=source):
        make_cell(controllets=odd(fault), active=[])


@pytest.mark.inline
def test_controllet_failing_transfer_at_start_was_not_named(make_cell):
    """The first transfer happens at the start because the warm-up has none."""
    source = r"left/odd \(misbehaving\): TypeError: on_transfer of misbehaving: got int"
    with pytest.raises(LoopError, match=source):
        make_cell(controllets=odd("words"), active=["left/odd"])


@pytest.mark.clock
def test_controllet_failing_in_loop_process_was_not_named(make_cell):
    with pytest.raises(LoopError, match=r"left/odd\b.*\bSystemExit: .*\.py:\d+\)"):
        make_cell(controllets=odd("exit"), active=[], placement="process")


@pytest.mark.inline
@pytest.mark.parametrize("method", ["__init__", "add", "on_activate"])
def test_feature_failing_at_start_was_not_named(make_cell, monkeypatch, method):
    monkeypatch.setattr(Coriolis, method, _broken)
    source = r"left/joint \(joint_impedance\): OSError: broken \(test_plugin_errors.py:\d+\)"
    with pytest.raises(LoopError, match=source):
        make_cell(controllets={"joint": LAWS["joint"]}, active=[])


@pytest.mark.inline
@pytest.mark.parametrize("method", ["__init__", "connect", "read"])
def test_backend_failing_at_start_was_not_named(make_cell, monkeypatch, method):
    monkeypatch.setattr(Mock, method, _broken)
    source = r"right \(backend Mock\): OSError: broken \(test_plugin_errors.py:\d+\)"
    with pytest.raises(LoopError, match=source):
        make_cell({"left": {}, "right": {"backend": "mock", "position": [0.0, 1.0, 0.0]}})


@pytest.mark.inline
def test_invalid_faults_of_backend_ended_loop_without_name(make_cell, monkeypatch):
    arms = {"left": {}, "right": {"backend": "mock", "position": [0.0, 1.0, 0.0]}}
    cell = make_cell(arms)
    cell.step(5)
    monkeypatch.setattr(Mock, "faults", lambda self: 5)
    with pytest.raises(LoopError, match=r"right \(backend Mock\)"):
        make_cell(arms)
    cell.step(5)
    assert cell.state("right").fault
    assert not cell.state("left").fault


@pytest.mark.inline
def test_failing_close_of_backend_prevented_closing_others(monkeypatch, capfd):
    arms = {"left": {"backend": "mock"}, "right": {"position": [0.0, 1.0, 0.0]}}
    cell = simple_cell(arms)
    cell.start()
    failing, other = cell.loop.backends
    closed = []
    monkeypatch.setattr(failing, "close", _broken)
    monkeypatch.setattr(other, "close", lambda: closed.append(other))
    cell.close()
    assert closed == [other]
    assert re.search(r"\bleft .*\bMock\b.*OSError: broken \(test_plugin", capfd.readouterr().err)


def _broken(*_args, **_settings):
    raise OSError("broken")
