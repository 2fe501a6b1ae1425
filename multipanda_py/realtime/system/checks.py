# SPDX-License-Identifier: Apache-2.0
"""Checks and description of a machine, for ``multipanda doctor`` and benchmark reports."""

from __future__ import annotations

import os
import platform
import re
import resource
import socket
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from multipanda_py.realtime.system.dds import unused_segment_bytes
from multipanda_py.realtime.system.scheduling import IPC_LOCK, SYS_NICE, has_capability
from multipanda_py.registry import VERSION

FCI_PORT = 1337
"""TCP port of the Franka Control Interface."""
CONNECTION_PAUSE = 0.005
"""Time between two connections, so that they do not accumulate at the robot [s]."""
MAX_ROUND_TRIP_TIME = 300e-6
"""Round-trip time to the robot above which commands are lost, from Franka's guide [s]."""


@dataclass(frozen=True)
class Finding:
    """Result of one check.

    Attributes:
        ok: True if the check has passed.
        name: Name of the check.
        value: Result as text.
        fix: Remedy as text; empty if none is needed.
        required: True if a real arm cannot run without it.
    """

    ok: bool
    name: str
    value: str
    fix: str = ""
    required: bool = False


def examine_machine() -> Iterator[Finding]:
    """Check Python, kernel, limits, cores and clock governor."""
    version = ".".join(map(str, sys.version_info[:3]))
    yield Finding(
        sys.version_info[:2] in ((3, 10), (3, 11), (3, 12)), "Python", version,
        "use 3.10, 3.11 or 3.12: pylibfranka has wheels for these", True,
    )  # fmt: skip
    yield Finding(
        find_spec("pylibfranka") is not None, "pylibfranka",
        "installed" if find_spec("pylibfranka") else "missing",
        "pip install 'multipanda_py[real]' (0.21.3 for FR3; a Panda needs libfranka below 0.10)",
        True,
    )  # fmt: skip
    flag = Path("/sys/kernel/realtime")
    realtime = flag.exists() and flag.read_text().strip() == "1"
    yield Finding(
        realtime, "kernel", f"{os.uname().release}, {'' if realtime else 'not '}PREEMPT_RT",
        "install a PREEMPT_RT kernel (Ubuntu Pro: pro enable realtime-kernel); without it a "
        "cycle may be milliseconds late",
    )  # fmt: skip
    yield _limit("rtprio", resource.RLIMIT_RTPRIO, 85, SYS_NICE)
    yield _limit("memlock", resource.RLIMIT_MEMLOCK, 2**30, IPC_LOCK)
    cores = len(os.sched_getaffinity(0))
    yield Finding(cores >= 2, "cores", str(cores), "the loop needs a separate core")
    yield _governor()
    yield _sleep_states()
    yield _network_exposure()
    yield _leftovers()


def _network_exposure() -> Finding:
    name = "ROS_AUTOMATIC_DISCOVERY_RANGE"
    desired = os.environ.get(name, "")
    return Finding(
        desired in ("LOCALHOST", "OFF"), "ROS 2 on the network",
        f"{name}={desired}" if desired else f"{name} is not set: open to the network",
        "anyone on the networks of this machine may command the arms: use a separate lab network "
        f"and a firewall, and {name}=LOCALHOST if all programs run on this machine",
    )  # fmt: skip


def _leftovers() -> Finding:
    size = unused_segment_bytes()
    return Finding(
        not size, "shared memory of killed ROS processes", f"{size / 2**20:.1f} MiB",
        "it is not in use; the next start of multimode_controller removes it",
    )  # fmt: skip


def _limit(name: str, which: int, desired: int, capability: int) -> Finding:
    _, hard = resource.getrlimit(which)
    limit = "unlimited" if hard == resource.RLIM_INFINITY else str(hard)
    free, root = has_capability(capability), os.geteuid() == 0
    ok = free or hard == resource.RLIM_INFINITY or hard >= desired
    value = "98" if name == "rtprio" else "unlimited"
    fix = f"add '@realtime - {name} {value}' to /etc/security/limits.conf, join group realtime"
    if root:
        fix = f"start the container with --ulimit {name}={98 if name == 'rtprio' else -1}"
    unbound = "root" if root else "no limit"
    return Finding(
        ok,
        f"limit {name}",
        unbound if free else limit,
        fix + ("" if root else " and log in again"),
    )


def _governor() -> Finding:
    files = list(Path("/sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_governor"))
    governors = {file.read_text().strip() for file in files}
    return Finding(
        not governors or governors == {"performance"}, "CPU governor",
        ", ".join(sorted(governors)) or "none to set",
        "cpupower frequency-set -g performance",
    )  # fmt: skip


def _sleep_states() -> Finding:
    file = Path("/dev/cpu_dma_latency")
    return Finding(
        os.access(file, os.W_OK), "sleep states of cores",
        "disabled while a loop with real-time priority or a real arm runs"
        if os.access(file, os.W_OK)
        else f"{file} cannot be written: a cycle may begin 40 us later and take twice as long",
        "udev rule: KERNEL==\"cpu_dma_latency\", GROUP=\"realtime\", MODE=\"0660\"; or accept "
        "the delay with realtime.disable_cpu_idle: false",
    )  # fmt: skip


def examine_link(ip: str, trials: int = 20) -> Iterator[Finding]:
    """Check the connection to a robot: response of its FCI port and round-trip time.

    Args:
        ip: Address of the robot.
        trials: Number of timed connections; none of them sends data to the robot.
    """
    times = []
    for _ in range(trials):
        time.sleep(CONNECTION_PAUSE)
        start = time.perf_counter()
        try:
            with socket.create_connection((ip, FCI_PORT), timeout=1.0):
                times.append(time.perf_counter() - start)
        except ConnectionRefusedError:
            yield Finding(
                False, f"robot {ip}", "reachable, but FCI does not respond",
                "unlock the joints and activate FCI in Desk", True,
            )  # fmt: skip
            return
        except OSError as error:
            yield Finding(
                False, f"robot {ip}", str(error),
                "check cable, address and subnet; plug the robot into the machine directly", True,
            )  # fmt: skip
            return
    median, worst = statistics.median(times), max(times)
    yield Finding(
        worst < MAX_ROUND_TRIP_TIME, f"link to {ip}",
        f"connects in {median * 1e6:.0f} us, at worst {worst * 1e6:.0f} us",
        "use no switch or hub, and disable power saving of the network card",
    )  # fmt: skip


LIBRARIES = ("numpy", "pin", "coal", "eigenpy", "mujoco", "pylibfranka", "ros-rclpy")
_UNKNOWN = "unknown"


def machine_facts() -> dict[str, str]:
    """Return processor, cores, kernel, versions and results of ``multipanda doctor``, by name."""
    facts = {
        "processor": _processor(),
        "cores": f"{len(os.sched_getaffinity(0))} of {os.cpu_count()}",
        "memory": _memory(),
        "kernel": f"{platform.system()} {platform.release()}",
        "preemption": _preemption(),
        "isolated cores": _read("/sys/devices/system/cpu/isolated") or "none",
        "virtual machine": "yes" if "hypervisor" in _read("/proc/cpuinfo") else "no",
        "load before": "{:.1f} {:.1f} {:.1f}".format(*os.getloadavg()),
        "Python": platform.python_version(),
        "multipanda_py": VERSION,
    }
    for library in LIBRARIES:
        facts[library] = _version(library)
    machine_facts = {finding.name: finding.value for finding in examine_machine()}
    desired = ("limit rtprio", "limit memlock", "CPU governor", "sleep states of cores")
    return facts | {name: machine_facts[name] for name in desired if name in machine_facts}


def _processor() -> str:
    match = re.search(r"^model name\s*:\s*(.+)$", _read("/proc/cpuinfo"), re.MULTILINE)
    clock = re.search(r"^cpu MHz\s*:\s*([0-9.]+)$", _read("/proc/cpuinfo"), re.MULTILINE)
    name = match[1] if match else platform.processor() or platform.machine()
    return f"{name}, {float(clock[1]) * 1e-3:.1f} GHz now" if clock else name


def _memory() -> str:
    match = re.search(r"^MemTotal:\s+(\d+) kB", _read("/proc/meminfo"), re.MULTILINE)
    return f"{int(match[1]) / 2**20:.0f} GiB" if match else _UNKNOWN


def _preemption() -> str:
    if _read("/sys/kernel/realtime") == "1":
        return "PREEMPT_RT"
    mode = re.search(r"\((\w+)\)", _read("/sys/kernel/debug/sched/preempt"))
    match = re.search(r"PREEMPT\w*", platform.version())
    return f"{match[0] if match else 'none'}{f' ({mode[1]})' if mode else ''}"


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return "not from PyPI" if library == "ros-rclpy" else "not installed"


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return ""
