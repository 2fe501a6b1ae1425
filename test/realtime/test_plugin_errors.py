# SPDX-License-Identifier: Apache-2.0
"""What plug-ins raise ends at their own arms, and says whose it is."""

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
def test_an_odd_exception_of_a_law_ended_the_loop(make_cell, fault, text):
    """Only subclasses of Exception whose text can be had were taken for a fault of the law."""
    cell = make_cell(controllets=LAWS, active=ON)
    cell.set_parameters("left/odd", {"fault": fault})
    cell.step(3)
    assert cell.active == ("left/hold", "right/joint")
    (event,) = cell.events()
    assert (event.event, event.arm) == (Event.CONTROLLET_ERROR, "left")
    assert event.text.startswith(text)


@pytest.mark.inline
def test_a_law_that_put_other_arrays_in_the_place_of_its_torques_commanded_zero(make_cell):
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
def test_a_torque_of_another_width_ended_the_loop_and_with_it_all_arms(make_cell):
    cell = make_cell(controllets=LAWS, active=ON)
    cell.set_parameters("left/odd", {"fault": "narrow"})
    cell.step(3)
    assert cell.active == ("left/hold", "right/joint")
    (event,) = cell.events()
    assert re.search(r"arm 0 .*\(6,\).*\(7,\) \(multipanda_test_laws\.py:", event.text)


@pytest.mark.inline
def test_an_exception_of_several_lines_broke_the_line_of_its_event(make_cell):
    cell = make_cell(controllets=LAWS, active=ON)
    cell.set_parameters("left/odd", {"fault": "lines"})
    cell.step(3)
    (event,) = cell.events()
    assert re.match(r"Lines: .* \(multipanda_test_laws\.py:\d+\)$", event.text)


@pytest.mark.inline
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_an_inline_start_was_blamed_on_a_law(make_cell, monkeypatch, request, number):
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
def test_a_law_that_wrote_to_its_states_misled_everybody_else(make_cell):
    cell = make_cell(controllets=LAWS, active=ON)
    cell.set_parameters("left/odd", {"fault": "sense"})
    before = cell.state("left").q
    cell.step(3)
    assert cell.state("left").q == pytest.approx(before, abs=1e-3)
    assert cell.active == ("left/hold", "right/joint")
    (event,) = cell.events()
    assert "destination is read-only (multipanda_test_laws.py:" in event.text


@pytest.mark.inline
def test_torques_assigned_to_an_arm_are_written_in_place(make_cell):
    cell = make_cell(controllets=LAWS, active=ON)
    cell.set_parameters("left/odd", {"fault": "item", "torque": 1.0})
    cell.step(300)
    assert cell.active == ("left/odd", "right/joint")
    assert cell.state("left").tau == pytest.approx([1.0] * 7)


@pytest.mark.inline
def test_a_report_in_the_place_of_the_one_that_is_read_stayed_at_zero(make_cell):
    with pytest.raises(LoopError, match=r"\bodd.*\breport: .*\barray\b"):
        make_cell(controllets=odd("report"), active=[])


@pytest.mark.clock
def test_a_law_that_raised_exits_or_interrupts_ended_the_loops_process(make_cell):
    """The process ignores SIGINT: a KeyboardInterrupt there is nobody's Ctrl-C."""
    cell = make_cell(controllets={"odd": LAWS["odd"]}, active=["left/odd", "right/odd"],
                     placement="process")  # fmt: skip
    cell.set_parameters("left/odd", {"fault": "exit"})
    cell.set_parameters("right/odd", {"fault": "interrupt"})
    cell.wait(lambda: cell.active == ("left/hold", "right/hold"), 5.0, "holds")
    raised = {event.arm: event.text.split(":")[0] for event in cell.events()}
    assert raised == {"left": "SystemExit", "right": "KeyboardInterrupt"}


@pytest.mark.inline
def test_ctrl_c_of_an_inline_cell_gets_to_its_user(make_cell, request):
    # A shell's background jobs ignore the signal, and so would this.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    cell = make_cell(controllets=LAWS, active=ON)
    cell.set_parameters("left/odd", {"fault": "interrupt"})
    with pytest.raises(KeyboardInterrupt):
        cell.step(3)


@pytest.mark.inline
def test_words_of_a_handover_that_are_none_ended_the_loop_after_the_switch(make_cell):
    """Nobody could report the number 5, and that was noticed when the law had the arm."""
    cell = make_cell(controllets=odd("words"), active=[])
    with pytest.raises(SwitchRejected, match=r"on_transfer .*\bmisbehaving: .*\bint\b"):
        cell.switch(["left/odd"], strictness=Strictness.STRICT)
    cell.step(2)
    assert cell.active == ("left/hold", "right/hold")
    cell.set_parameters("left/odd", {"fault": "none"})
    cell.switch(["left/odd"])


@pytest.mark.inline
def test_parameters_that_an_idle_law_cannot_take_latched_a_fault_on_the_arm_of_another(make_cell):
    """And the other law went on with an arm that had one."""
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
def test_a_reset_once_began_a_law_again_that_had_not_taken_its_parameters(make_cell):
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
def test_a_law_that_failed_at_the_start_was_not_named(make_cell, fault, raised):
    whose = rf"left/odd \(misbehaving\): {raised}: this law .* \(multipanda_test_laws.py:\d+\)"
    with pytest.raises(LoopError, match=whose):
        make_cell(controllets=odd(fault), active=[])


@pytest.mark.inline
def test_a_law_that_failed_to_take_over_at_the_start_was_not_named(make_cell):
    """That is where hand-overs first come in: the warm-up has none."""
    whose = r"left/odd \(misbehaving\): TypeError: on_transfer of misbehaving: got int"
    with pytest.raises(LoopError, match=whose):
        make_cell(controllets=odd("words"), active=["left/odd"])


@pytest.mark.clock
def test_a_law_that_failed_at_the_start_of_a_process_was_not_named(make_cell):
    with pytest.raises(LoopError, match=r"left/odd\b.*\bSystemExit: .*\.py:\d+\)"):
        make_cell(controllets=odd("exit"), active=[], placement="process")


@pytest.mark.inline
@pytest.mark.parametrize("method", ["__init__", "add", "on_activate"])
def test_a_feature_that_failed_at_the_start_was_not_named(make_cell, monkeypatch, method):
    monkeypatch.setattr(Coriolis, method, _broken)
    whose = r"left/joint \(joint_impedance\): OSError: broken \(test_plugin_errors.py:\d+\)"
    with pytest.raises(LoopError, match=whose):
        make_cell(controllets={"joint": LAWS["joint"]}, active=[])


@pytest.mark.inline
@pytest.mark.parametrize("method", ["__init__", "connect", "read"])
def test_a_backend_that_failed_at_the_start_was_not_named(make_cell, monkeypatch, method):
    monkeypatch.setattr(Mock, method, _broken)
    whose = r"right \(backend Mock\): OSError: broken \(test_plugin_errors.py:\d+\)"
    with pytest.raises(LoopError, match=whose):
        make_cell({"left": {}, "right": {"backend": "mock", "position": [0.0, 1.0, 0.0]}})


@pytest.mark.inline
def test_faults_of_a_backend_that_are_none_ended_the_loop_without_a_name(make_cell, monkeypatch):
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
def test_a_backend_that_did_not_close_kept_others_from_closing(monkeypatch, capfd):
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
