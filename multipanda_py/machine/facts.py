# SPDX-License-Identifier: Apache-2.0
"""What a machine is, for a report of figures that were measured on it."""

from __future__ import annotations

import os
import platform
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from multipanda_py.extras import VERSION
from multipanda_py.machine.checks import examine_machine

LIBRARIES = ("numpy", "pin", "coal", "eigenpy", "mujoco", "pylibfranka", "ros-rclpy")
_UNKNOWN = "unknown"


def machine_facts() -> dict[str, str]:
    """Return processor, cores, kernel and versions, then what ``multipanda doctor`` finds."""
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
    found = {finding.what: finding.found for finding in examine_machine()}
    wanted = ("limit rtprio", "limit memlock", "CPU governor", "sleep states of cores")
    return facts | {name: found[name] for name in wanted if name in found}


def _processor() -> str:
    found = re.search(r"^model name\s*:\s*(.+)$", _read("/proc/cpuinfo"), re.MULTILINE)
    clock = re.search(r"^cpu MHz\s*:\s*([0-9.]+)$", _read("/proc/cpuinfo"), re.MULTILINE)
    name = found[1] if found else platform.processor() or platform.machine()
    return f"{name}, {float(clock[1]) * 1e-3:.1f} GHz now" if clock else name


def _memory() -> str:
    found = re.search(r"^MemTotal:\s+(\d+) kB", _read("/proc/meminfo"), re.MULTILINE)
    return f"{int(found[1]) / 2**20:.0f} GiB" if found else _UNKNOWN


def _preemption() -> str:
    if _read("/sys/kernel/realtime") == "1":
        return "PREEMPT_RT"
    mode = re.search(r"\((\w+)\)", _read("/sys/kernel/debug/sched/preempt"))
    found = re.search(r"PREEMPT\w*", platform.version())
    return f"{found[0] if found else 'none'}{f' ({mode[1]})' if mode else ''}"


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
