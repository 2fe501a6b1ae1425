# SPDX-License-Identifier: Apache-2.0
"""The command ``multipanda fci-sim``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def start():
    """Start the command; what still runs at the end is killed."""
    running = []

    def start(*arguments):
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
        process = subprocess.Popen(
            [sys.executable, "-m", "multipanda_py.cli", "fci-sim", *arguments],
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


def test_it_says_what_it_does_and_ends_quietly(start, new_address):
    addresses = [new_address(), new_address()]
    server = start(*addresses, "--object-width", "0.04")
    assert f"robots at {addresses[0]}, {addresses[1]}, at 1 kHz" in server.stdout.readline()
    status = server.stdout.readline()
    assert addresses[0] in status
    assert "idle" in status
    assert "no client" in status
    taken = start(addresses[1])
    _, complaint = taken.communicate(timeout=20)
    assert taken.returncode == 1
    assert complaint.count("\n") == 1
    assert f"{addresses[1]} port 1337 is in use" in complaint
    server.send_signal(signal.SIGINT)
    rest, complaint = server.communicate(timeout=20)
    assert server.returncode == 0
    assert rest.endswith("stopped\n")
    assert complaint == ""


def test_a_foreign_address_is_refused_in_words(start):
    process = start("192.0.2.1")
    _, complaint = process.communicate(timeout=20)
    assert process.returncode == 1
    assert "192.0.2.1 port 1337 is not an address of this machine" in complaint


def test_an_object_too_wide_is_refused_in_words(start, new_address):
    process = start(new_address(), "--object-width", "1")
    _, complaint = process.communicate(timeout=20)
    assert process.returncode == 1
    assert "object width 1.0 m is outside" in complaint
