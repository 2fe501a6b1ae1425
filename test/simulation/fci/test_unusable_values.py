# SPDX-License-Identifier: Apache-2.0
"""Invalid values are rejected in one line, and robots continue."""

from __future__ import annotations

import json
import socket

import pytest

from multipanda_py.apps.cli import main
from multipanda_py.simulation.fci.fault_injection import ADMIN_PORT, MAX_REQUEST_SIZE

HUGE = "1" + "0" * 400

REQUESTS = [
    '{"command": "delay", "milliseconds": 1e308}',
    f'{{"command": "delay", "milliseconds": {HUGE}}}',
    '{"command": "delay", "milliseconds": -1}',
    '{"command": "delay", "milliseconds": NaN}',
    '{"command": "reboot", "seconds": 1e308}',
    '{"command": "reflex", "at": Infinity}',
    '{"command": "reflex", "at": NaN}',
    '{"command": "reflex", "at": "soon"}',
    '{"command": "reflex", "at": true}',
    f'{{"command": "reflex", "at": {HUGE}}}',
    '{"command": "reflex", "at": -1}',
    '{"command": "version", "robot": 65536}',
    '{"command": "version", "robot": -1}',
    '{"command": "version", "robot": 10, "gripper": 65536}',
    f'{{"command": "drop", "states": {HUGE}}}',
    '{"command": "drop", "commands": -1}',
    '{"command": "drop", "probability": 2}',
    f'{{"command": "push", "tau": [{HUGE}, 0, 0, 0, 0, 0, 0]}}',
    '{"command": "push", "wrench": [1e308, 0, 0, 0, 0, 0]}',
    '{"command": "place", "q": [1e308, 0, 0, 0, 0, 0, 0]}',
    f'{{"command": "object", "width": {HUGE}}}',
    '{"command": "fault", "errors": []}'.replace("[]", "[[]]"),
    f'{{"command": "delay", "milliseconds": {"1" * 5000}}}',
    "[" * 100_000,
    "[]",
    "\x00",
]


def request(link, line):
    link.sendall(line.encode() + b"\n")
    return json.loads(link.makefile().readline())


@pytest.mark.clock
def test_invalid_values_ended_every_simulated_robot(sim, address):
    before = sim.admin(address, "stats")
    with socket.create_connection((address, ADMIN_PORT), timeout=5.0) as link:
        for line in REQUESTS:
            answer = request(link, line)
            assert answer["ok"] is False, line[:80]
            assert "\n" not in answer["error"], line[:80]
            assert len(answer["error"]) < 250, line[:80]
        assert request(link, '{"command": "reflex", "at": 5}') == {"ok": True}
    after = sim.admin(address, "stats")
    assert (after["mode"], after["q"]) == ("idle", before["q"])


@pytest.mark.clock
def test_endless_request_is_disconnected(sim, address):
    with socket.create_connection((address, ADMIN_PORT), timeout=5.0) as link:
        try:
            link.sendall(b"x" * (MAX_REQUEST_SIZE + 65536 + 1))
            assert link.recv(1) == b""
        except ConnectionError:
            pass
    assert sim.admin(address, "stats")["running"]


@pytest.mark.inline
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("delay milliseconds=1e308", "milliseconds: got 1e+308, allowed 0 to 10000"),
        ("version robot=65536", "robot: got 65536, allowed 0 to 65535"),
        (f"drop states={HUGE}", f"states: got {HUGE[:60]}..., allowed 0 to 1e+06"),
    ],
)
def test_command_line_rejects_invalid_values_in_one_line(line, words, capsys):
    assert main(["inject", "127.0.0.253", *line.split()]) == 1
    reported = capsys.readouterr()
    assert reported.out == ""
    assert reported.err.count("\n") == 1
    assert words in reported.err


@pytest.mark.inline
@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("--phase=1e308", "got 1e308, allowed 0 to 1000"),
        ("--phase=nan", "got nan, allowed 0 to 1000"),
        ("--ppm=inf", "got inf, allowed -100000 to 100000"),
        (f"--priority={HUGE}", "allowed 0 to 99"),
    ],
)
def test_invalid_clock_options_are_rejected(argument, words, capsys):
    with pytest.raises(SystemExit):
        main(["fci-sim", argument])
    assert words in capsys.readouterr().err
