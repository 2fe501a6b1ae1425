# SPDX-License-Identifier: Apache-2.0
"""Emulated hosts on one machine, with separate networks that are removed at the end."""

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from repository import BENCHMARKS

sys.path.append(str(BENCHMARKS))
network = import_module("parts.network")

NO_ROOT = "from parts.network import why_not; import os; os.setuid(65534); print(why_not())"
SERVE = "import socket; s = socket.create_server(('', 5000)); print(flush=True); s.accept()"
CALL = f"import socket; socket.create_connection(('{network.NET}.1', 5000), 5.0)"


@pytest.mark.skipif(bool(network.why_not()), reason="needs root and network namespaces")
def test_hosts_connect_and_count_traffic():
    interfaces = set(os.listdir("/sys/class/net"))
    with network.Network("first", "second") as hosts:
        server = subprocess.Popen(
            [*hosts.enter("first"), sys.executable, "-c", SERVE], stdout=subprocess.PIPE
        )
        assert server.stdout.readline() == b"\n"
        before = hosts.sent("second")
        subprocess.run([*hosts.enter("second"), sys.executable, "-c", CALL], check=True)
        assert server.wait(10.0) == 0
        server.stdout.close()
        sent, packets = (b - a for a, b in zip(before, hosts.sent("second")))
        assert packets >= 3  # minimum of a TCP connection
        assert sent >= 3 * 54
        assert set(os.listdir("/sys/class/net")) == interfaces
        switch_pid = hosts.switch.process.pid
    assert not Path(f"/proc/{switch_pid}/ns/net").exists()


def test_network_without_root_reports_reason_in_one_line():
    done = subprocess.run(
        [sys.executable, "-c", NO_ROOT], capture_output=True, text=True, check=False,
        env=os.environ | {"PYTHONPATH": f"{BENCHMARKS}{os.pathsep}{BENCHMARKS.parent}"},
    )  # fmt: skip
    if os.getuid() and not done.stdout:
        pytest.skip("no other user is available")
    assert "root" in done.stdout or "apt install" in done.stdout
    assert len(done.stdout.splitlines()) == 1
