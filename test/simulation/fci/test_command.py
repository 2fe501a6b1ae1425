# SPDX-License-Identifier: Apache-2.0
"""Commands ``multipanda fci-sim`` and ``multipanda inject``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from repository import ROOT
from robots import unused_address

from multipanda_py.apps.cli import main
from multipanda_py.simulation.fci import FciSim
from multipanda_py.simulation.fci.fault_injection import Admin


@pytest.fixture
def start():
    """Start the command; kill remaining processes at the end."""
    running = []

    def start(*arguments):
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
        process = subprocess.Popen(
            [sys.executable, "-m", "multipanda_py.apps.cli", "fci-sim", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        )
        running.append(process)
        return process

    yield start
    for process in running:
        process.kill()
        process.communicate()


@pytest.mark.long
@pytest.mark.clock
def test_command_reports_status_and_ends_without_errors(start, new_address):
    addresses = [new_address(), new_address()]
    server = start(*addresses, "--object-width", "0.04")
    assert f"{addresses[0]}, {addresses[1]}, " in server.stdout.readline()
    status = server.stdout.readline()
    assert addresses[0] in status
    assert "idle" in status
    assert "no client" in status
    taken = start(addresses[1])
    _, error = taken.communicate(timeout=60)
    assert taken.returncode == 1
    assert error.count("\n") == 1
    assert f"{addresses[1]} port 1337 " in error
    server.send_signal(signal.SIGINT)
    rest, error = server.communicate(timeout=60)
    assert server.returncode == 0
    assert rest.endswith("stopped\n")
    assert error == ""


@pytest.mark.clock
def test_foreign_address_is_rejected_with_message(start):
    process = start("192.0.2.1")
    _, error = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "192.0.2.1 port 1337 " in error


@pytest.mark.clock
def test_too_wide_object_is_rejected_with_message(start, new_address):
    process = start(new_address(), "--object-width", "1")
    _, error = process.communicate(timeout=60)
    assert process.returncode == 1
    assert " 1.0 m" in error


@pytest.fixture(scope="module")
def robot():
    """Address of a robot, and a function that returns its statistics."""
    address = unused_address()
    with FciSim([address], lockstep=True) as sim:
        yield address, lambda: sim.admin(address, "stats")


INJECTIONS = [
    ("reflex", "reflex", "mode reflex (joint_reflex)", lambda s: s["errors"] == ["joint_reflex"]),
    ("fault errors=power_limit_violation,cartesian_reflex", "fault",
     "(power_limit_violation, cartesian_reflex)", lambda s: s["mode"] == "reflex"),
    ("user-stop", "user_stop", "mode user stopped", lambda s: s["mode"] == "user_stopped"),
    ("release", "release", "mode reflex", lambda s: s["mode"] == "reflex"),
    ("guiding pressed=true", "guiding", "mode guiding", lambda s: s["mode"] == "guiding"),
    ("object width=0.03", "object", "the robot is", lambda s: s["width"] > 0.0),
    ("drop commands=20 probability=0.5", "drop", "the robot is", lambda s: s["running"]),
    ("reboot seconds=100", "reboot", "switched off", lambda s: not s["running"]),
]  # fmt: skip


def test_faults_are_injected_and_state_is_printed(robot, capsys):
    address, stats = robot
    for line, name, words, holds in INJECTIONS:
        assert main(["inject", address, *line.split()]) == 0
        reported = capsys.readouterr().out
        assert reported.startswith(f"{address}: {name}; ")
        assert words in reported
        assert holds(stats()), line
    assert main(["inject", address, "stats"]) == 0
    assert '"torque_rate_max"' in capsys.readouterr().out


def test_help_lists_every_fault_with_description(capsys):
    with pytest.raises(SystemExit):
        main(["inject", "--help"])
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    for name, function in vars(Admin).items():
        if name.startswith("do_"):
            usage = next(i for i, text in enumerate(lines) if text.split()[:1] == [name[3:]])
            assert lines[usage + 1] == function.__doc__.splitlines()[0]
    assert "push [tau=X,X,...] [wrench=X,X,...]" in lines
    assert "reboot [seconds=1.0]" in lines


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("fly", "command 'fly' does not exist; known: delay, drop, end_motion"),
        ("reboot minutes=1", "reboot takes seconds, got minutes"),
        ("reboot seconds=soon", "seconds: got 'soon', allowed a finite number"),
        ("delay", "delay needs milliseconds"),
        ("heal now", "'now' is not an argument. Use NAME=VALUE"),
        ("heal now=1", "heal takes no arguments, got now"),
        ("user_stop pressed=maybe", "pressed: got 'maybe', allowed true or false"),
        ("push wrench=1,2,x", "wrench: got [1, 2, 'x'], allowed finite numbers"),
        ("drop states=1.5", "states: got 1.5, allowed a whole number"),
        ("version robot=9 gripper=x", "gripper: got 'x', allowed a whole number"),
        ("reflex", "no simulated robot at 127.0.0.253 (port 7331: Connection refused); start one"),
    ],
)
def test_invalid_injection_is_reported_in_one_line(line, words, capsys):
    assert main(["inject", "127.0.0.253", *line.split()]) == 1
    reported = capsys.readouterr()
    assert reported.out == ""
    assert reported.err.count("\n") == 1
    assert words in reported.err


def test_rejection_by_robot_is_reported_in_one_line(robot, capsys):
    address, _ = robot
    for line, words in (
        ("push wrench=1,2", "push: wrench: needs 6 finite numbers, got [1, 2]"),
        ("reflex error=tired", "error 'tired' does not exist"),
    ):
        assert main(["inject", address, *line.split()]) == 1
        assert words in capsys.readouterr().err
