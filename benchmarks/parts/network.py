# SPDX-License-Identifier: Apache-2.0
"""Hosts on one machine: namespaces of the kernel, joined by a switch.

A host has its own network, name, /dev/shm and /run; processor, files and clock are those of the
machine. Nothing is entered into the machine's own network, and nothing has a name: when the
processes that hold the namespaces end, by whatever, all of it is gone.
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
    """Return why there can be no hosts here, or nothing."""
    for tool, package in _TOOLS.items():
        if shutil.which(tool) is None:
            return f"{tool} is not on PATH: apt install {package}"
    tried = subprocess.run(
        ["unshare", "--net", "--mount", "--uts", "true"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if os.getuid() or tried.returncode:
        return f"network namespaces need root: {tried.stderr.strip() or 'run it with sudo'}"
    return ""


class _Holder(Closeable):
    """A process that keeps namespaces, until its standard input or its owner ends."""

    def __init__(self, name: str, script: str) -> None:
        self.process = subprocess.Popen(
            ["unshare", "--net", "--mount", "--uts", "sh", "-c", script, "sh", name],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            start_new_session=True, preexec_fn=end_with_parent,
        )  # fmt: skip
        out = self.process.stdout
        if out is None or out.readline() != "ready\n":
            self.close()
            raise OSError(f"{name}: no namespaces, see above")

    @property
    def enter(self) -> list[str]:
        """Command that starts commands in there, as the same process."""
        return ["nsenter", "-t", str(self.process.pid), "--net", "--mount", "--uts", "--"]

    def run(self, command: str) -> None:
        """Run a command line in there, to its end."""
        subprocess.run([*self.enter, "sh", "-ec", command], check=True, stdin=subprocess.DEVNULL)

    def close(self) -> None:
        """End it, and with it what it keeps."""
        self.process.kill()
        self.process.communicate()


class Network(Closeable):
    """Hosts that are joined by a switch.

    Args:
        names: Of the hosts.

    Attributes:
        switch: Holder of the network that joins the hosts.
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
                    "ip route add default dev eth0"  # multicast has no other way
                )
        except BaseException:
            self.close()
            raise

    def enter(self, name: str) -> list[str]:
        """Return the command that starts commands on a host."""
        return self._hosts[name].enter

    def sent(self, name: str) -> tuple[int, int]:
        """Return how many bytes and packets a host has sent so far, with their headers."""
        lines = Path(f"/proc/{self._hosts[name].process.pid}/net/dev").read_text().splitlines()
        fields = next(line.split() for line in lines if line.strip().startswith("eth0:"))
        return int(fields[9]), int(fields[10])

    def close(self) -> None:
        """Let go of all hosts."""
        for holder in (*self._hosts.values(), self.switch):
            holder.close()


if __name__ == "__main__":
    sys.stdout.write((why_not() or "hosts can be made here") + "\n")
