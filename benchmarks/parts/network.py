# SPDX-License-Identifier: Apache-2.0
"""Emulated hosts on one machine: kernel namespaces, connected by a switch.

A host has its own network, name, /dev/shm and /run. It shares processor, files and clock with the
machine. The network of the machine does not change. The namespaces are anonymous, so the kernel
removes them when the processes that hold them end.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from multipanda_py.realtime.system.child_process import Closeable, end_with_parent

NET = "10.87.0"
_TOOLS = {"ip": "iproute2", "unshare": "util-linux", "nsenter": "util-linux"}
_HOST = """
set -e
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /run
mkdir -p -m 700 /run/user/$(id -u)
hostname "$1"
ip link set lo up
echo ready
exec cat
"""
_SWITCH = "set -e; ip link add switch type bridge mcast_snooping 0 && ip link set switch up\n"


def why_not() -> str:
    """Return the reason why this machine cannot emulate hosts, or an empty string."""
    for tool, package in _TOOLS.items():
        if shutil.which(tool) is None:
            return f"{tool} is not on PATH. Install it with: apt install {package}"
    probe = subprocess.run(
        ["unshare", "--net", "--mount", "--uts", "true"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if os.getuid() or probe.returncode:
        return f"network namespaces need root: {probe.stderr.strip() or 'use sudo'}"
    return ""


class _Holder(Closeable):
    """Process that holds namespaces until its standard input or its owner ends."""

    def __init__(self, name: str, script: str) -> None:
        self.process = subprocess.Popen(
            ["unshare", "--net", "--mount", "--uts", "sh", "-c", script, "sh", name],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            start_new_session=True, preexec_fn=end_with_parent,
        )  # fmt: skip
        out = self.process.stdout
        if out is None or out.readline() != "ready\n":
            self.close()
            raise OSError(f"{name}: namespaces could not be created, see the output above")

    @property
    def enter(self) -> list[str]:
        """Command prefix that replaces itself by a command in the namespaces."""
        return ["nsenter", "-t", str(self.process.pid), "--net", "--mount", "--uts", "--"]

    def run(self, command: str) -> None:
        """Run a shell command in the namespaces and wait for its end."""
        subprocess.run([*self.enter, "sh", "-ec", command], check=True, stdin=subprocess.DEVNULL)

    def close(self) -> None:
        """End the process and thereby the namespaces."""
        self.process.kill()
        self.process.communicate()


class Network(Closeable):
    """Hosts that are connected by a switch.

    Args:
        names: Names of the hosts.

    Attributes:
        switch: Process that holds the network of the switch.
    """

    def __init__(self, *names: str) -> None:
        self._hosts: dict[str, _Holder] = {}
        self.switch = _Holder("switch", _SWITCH + _HOST)
        try:
            for number, name in enumerate(names, 1):
                self._hosts[name] = host = _Holder(name, _HOST)
                self.switch.run(
                    f"ip link add port{number} type veth peer name eth0 netns {host.process.pid}; "
                    f"ip link set port{number} master switch up"
                )
                host.run(
                    f"ip addr add {NET}.{number}/24 dev eth0; ip link set eth0 up; "
                    "ip route add default dev eth0"  # Multicast needs a route.
                )
        except BaseException:
            self.close()
            raise

    def enter(self, name: str) -> list[str]:
        """Return the command prefix that runs a command on a host."""
        return self._hosts[name].enter

    def sent(self, name: str) -> tuple[int, int]:
        """Return the number of bytes, with headers, and of packets that a host has sent."""
        lines = Path(f"/proc/{self._hosts[name].process.pid}/net/dev").read_text().splitlines()
        fields = next(line.split() for line in lines if line.strip().startswith("eth0:"))
        return int(fields[9]), int(fields[10])

    def close(self) -> None:
        """Remove all hosts and the switch."""
        for holder in (*self._hosts.values(), self.switch):
            holder.close()


if __name__ == "__main__":
    sys.stdout.write((why_not() or "this machine can emulate hosts") + "\n")
