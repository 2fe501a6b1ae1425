# SPDX-License-Identifier: Apache-2.0
"""Unmodified crisp_py in separate processes, as installed by ``tools/crisp_env.py``."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys

import pytest
from processes import TIMEOUT_SCALE, wait_until
from repository import ROOT

FOLDER = ROOT / "config" / "crisp"
sys.path.append(str(ROOT / "tools"))

_BEFORE = """
import json, sys
import numpy as np
from crisp_py.robot import make_robot

def wait_for_parameters(client):
    '''Wait for all services. The function of crisp_py returns after the first one.'''
    rate = client.node.create_rate(20)
    names = ('get_params_client', 'set_parameters_client', 'list_params_client')
    for service in (getattr(client, name) for name in names):
        while not service.service_is_ready():
            rate.sleep()
    return client

def stay(robot, seconds):
    rate = robot.node.create_rate(20)
    for _ in range(int(20 * seconds)):
        rate.sleep()
"""
_AFTER = "\nprint('came to its end', flush=True)\n"


class Program:
    """Running program that uses crisp_py.

    Its exit code has no meaning, because threads may abort it after the end of the main thread.
    """

    def __init__(self, script, log, words, path):
        self._log = log
        paths = [path, *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(paths),
            "CRISP_CONFIG_PATH": str(FOLDER),
        }
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _BEFORE + script + _AFTER, *words], env=environment,
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            )  # fmt: skip

    @property
    def reported(self):
        return self._log.read_text(errors="replace")

    def has_come_to_its_end(self):
        """Return whether the program ran to its last line; fail if it ended before."""
        ended = self._process.poll() is not None
        if "came to its end" in self.reported:  # its threads may not end
            return True
        assert not ended, self.reported
        return False

    def found(self):
        """Return the JSON that the program printed after the word "found"."""
        assert "found " in self.reported, self.reported
        return json.loads(self.reported.partition("found ")[2].splitlines()[0])

    def stop(self):
        # A kill while it creates a port would block other participants at that port.
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(3.0)
        self._process.kill()
        self._process.wait(TIMEOUT_SCALE)


@pytest.fixture
def crisp(tmp_path):
    """Function that starts a script with crisp_py; skips the test without crisp_py."""
    crisp_env = pytest.importorskip("crisp_env", reason="the tools folder is missing")
    path = crisp_env.python_path()
    if path is None:
        pytest.skip(
            f"crisp_py is not installed: `{crisp_env.MAKE}` installs it from the package index"
        )
    started = []

    def start(script, *words):
        log = tmp_path / f"crisp_{len(started)}.log"
        started.append(Program(script, log, words, path))
        return started[-1]

    yield start
    for program in started:
        program.stop()


@pytest.fixture
def run_crisp(crisp):
    """Function that runs a script with crisp_py to its end and returns its program."""

    def run(script, *words, timeout=60.0):
        program = crisp(script, *words)
        wait_until(program.has_come_to_its_end, timeout, lambda: program.reported)
        program.stop()
        return program

    return run
