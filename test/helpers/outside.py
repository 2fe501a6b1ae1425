# SPDX-License-Identifier: Apache-2.0
"""Unmodified third-party clients: the ``ros2`` command, ``ros2 control``, spawner and launch.

They are not in the package index. ``MULTIPANDA_OUTSIDE_CLIENTS`` is their path: the prefix of an
apt ROS 2, such as ``/opt/ros/kilted``, or another environment.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from processes import TIMEOUT_SCALE

VARIABLE = "MULTIPANDA_OUTSIDE_CLIENTS"
# Variables of the environment of the tests, which the clients must not inherit.
_OURS = ("_ROS_WHEELS_BOOTSTRAP_COMPLETE", "LD_LIBRARY_PATH", "AMENT_PREFIX_PATH", "PYTHONPATH")

_LINES = """
import contextlib, io, json, re, shlex, signal, sys
from ros2cli.cli import main

def on_timeout(*_):
    raise TimeoutError("Wait for service timed out")

signal.signal(signal.SIGALRM, on_timeout)

def run(line):
    sys.argv[:] = ["ros2", *shlex.split(line)]
    with contextlib.redirect_stdout(io.StringIO()) as output, contextlib.redirect_stderr(output):
        signal.alarm(30)
        try:
            problem = main()
        except SystemExit as end:
            problem = end.code
        except TimeoutError as problem_text:
            problem = str(problem_text)
        finally:
            signal.alarm(0)
    return output.getvalue() + (f"exit: {problem}" if problem else "")

lines = json.loads(sys.argv.pop())
tries = int(sys.argv.pop())
answers = []
for line in lines:
    for _ in range(tries):
        answer = run(line)
        if not re.search("Wait for service timed out|Node not found", answer):
            break
    answers.append(answer)
print(json.dumps(answers))
"""


class Outside:
    """Environment of the clients, which run in separate processes."""

    def __init__(self, path):
        self.path, self.needs_daemon_stopped = path, False

    def environment(self, **more):
        """Return the environment variables of the clients: same ROS domain, other libraries."""
        variables = {name: value for name, value in os.environ.items() if name not in _OURS}
        setup = self.path / "setup.sh"
        if setup.exists():  # an ament prefix must be sourced
            words = ["/bin/sh", "-c", '. "$0" >&2 && env -0', setup]
            done = subprocess.run(
                words, env=variables, stdout=subprocess.PIPE, text=True, check=True
            )
            variables = dict(line.split("=", 1) for line in done.stdout.split("\0") if line)
        return {**variables, "PATH": f"{self.path / 'bin'}{os.pathsep}{variables['PATH']}", **more}

    def python(self):
        """Return the Python of the prefix, or of the system if the prefix has none."""
        path = self.path / "bin" / "python"
        return path if path.exists() else Path("/usr/bin/python3")

    def run(self, program, *words, timeout=40.0, **options):
        """Run a program of the environment to its end; return its exit code and output."""
        if program == "ros2":  # ros2 may start a daemon that runs for two hours
            self.needs_daemon_stopped = True
        command = self.python() if program == "python" else self.path / "bin" / program
        done = subprocess.run(
            [command, *map(str, words)],
            env=self.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT_SCALE * timeout, **options,
        )  # fmt: skip
        return done.returncode, done.stdout

    def beside(self, *words, prefixes=(), domain=None, **options):
        """Start ``ros2`` in the Python of the tests, as in a common environment.

        Args:
            words: Arguments of the command line.
            prefixes: Prefixes of packages.
            domain: Separate ROS domain, for a cell whose names are already in use.
            options: Options of the process.
        """
        site = next(self.path.glob("lib/python3.*/site-packages"))
        main = (
            f"import sys; sys.path.append({str(site)!r}); sys.argv[0] = 'ros2'; "
            "from ros2cli.cli import main; sys.exit(main())"
        )
        return subprocess.Popen(
            [sys.executable, "-c", main, *map(str, words)],
            env={
                **os.environ,
                "AMENT_PREFIX_PATH": os.pathsep.join(map(str, prefixes)),
                **({} if domain is None else {"ROS_DOMAIN_ID": str(domain)}),
            },
            stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT, **options,
        )  # fmt: skip

    def ros2(self, *lines, timeout=60.0, tries=3):
        """Run lines of ``ros2`` in sequence in one process; return their outputs.

        A line that did not find a service or node is repeated. A node with hundreds of services
        overflows the default socket buffer, which loses a third of its announcements. ``ros2``
        waits at most 5 s for them; ``ros2 control`` has no timeout.
        """
        self.needs_daemon_stopped = True
        code, reported = self.run(
            "python", "-c", _LINES, tries, json.dumps(lines), timeout=timeout
        )
        assert code == 0, reported
        return json.loads(reported.splitlines()[-1])

    def ros2_beside(self, *lines, processes=3):
        """Run independent lines in parallel processes; return their outputs."""
        with ThreadPoolExecutor(processes) as pool:
            parts = pool.map(lambda one: self.ros2(*lines[one::processes]), range(processes))
            answers = {}
            for one, part in enumerate(parts):
                answers.update(zip(range(one, len(lines), processes), part))
        return [answers[index] for index in range(len(lines))]

    def control(self, verb, *words):
        """Run ``ros2 control``."""
        return self.run("ros2", "control", verb, *words)


def require_clients():
    """Skip the calling module or test without an environment of third-party clients."""
    if not os.environ.get(VARIABLE):
        reason = f"{VARIABLE} is not set to an environment with ros2, ros2 control and launch"
        pytest.skip(reason, allow_module_level=True)


@pytest.fixture(scope="session")
def outside():
    """Third-party clients; skips the test without them."""
    require_clients()
    path = os.environ[VARIABLE]
    if not (Path(path) / "bin" / "ros2").exists():
        pytest.fail(f"{VARIABLE}: got {path}, which has no bin/ros2")
    clients = Outside(Path(path))
    yield clients
    if clients.needs_daemon_stopped:
        clients.ros2("daemon stop")
