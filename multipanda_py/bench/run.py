# SPDX-License-Identifier: Apache-2.0
"""All measurements of a report, one after the other; what cannot be done is left out, and said."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import multipanda_py
from multipanda_py.bench.conditions import COUPLED
from multipanda_py.bench.effort import Effort
from multipanda_py.bench.paced import Samples, paced
from multipanda_py.bench.scaling import ROW, scaling
from multipanda_py.bench.wired import wired
from multipanda_py.exceptions import BenchError, MultipandaError
from multipanda_py.machine.child import end_with_parent, module_command
from multipanda_py.machine.dds_memory import remove_leftovers
from multipanda_py.machine.facts import machine_facts

CPP = Path(multipanda_py.__file__).resolve().parents[1] / "benchmarks" / "cpp" / "run.py"
"""The same laws in C++; in a checkout only, as it needs a compiler."""
_CPP_NAMES = {"CDC-MA": COUPLED}
_CPP_TIME = 900.0  # to compile pinocchio's headers and to run [s]
Say = Callable[[str], None]


def run(effort: Effort, say: Say) -> tuple[dict[str, Any], dict[str, Samples]]:
    """Measure everything.

    Args:
        effort: How much.
        say: Told of progress.

    Returns:
        The report, and by part what is drawn.
    """
    report: dict[str, Any] = {
        "machine": machine_facts(),
        "effort": asdict(effort),
        "left_out": {},
    }
    samples: dict[str, Samples] = {}

    def part(name: str, needs: tuple[str, ...], measure: Callable[[], Any]) -> None:
        if name not in effort.parts:
            report["left_out"][name] = "not asked for"
            return
        missing = [module for module in needs if find_spec(module) is None]
        try:
            if missing:
                raise BenchError(f"{', '.join(missing)} not installed")
            report[name] = measure()
        except (MultipandaError, OSError) as error:
            report["left_out"][name] = f"{error}"
            say(f"left out: {name}: {error}")

    def kept(name: str, figures: dict[str, Any], drawn: Samples) -> dict[str, Any]:
        samples[name] = drawn
        return figures

    try:
        with tempfile.TemporaryDirectory(prefix="multipanda_bench_") as temporary:
            folder = Path(temporary)
            part("hot", ("mujoco",), lambda: hot(effort.rounds, (), say))
            part("cpp", (), lambda: cpp(say))
            ros = ("rclpy", "controller_manager_msgs")
            part("paced", ("mujoco", *ros), lambda: kept(
                "paced", *paced(effort.seconds, effort.trials, folder, say)))  # fmt: skip
            part("wired", ("mujoco", "pylibfranka", *ros), lambda: kept(
                "wired", *wired(effort.seconds, folder, say)))  # fmt: skip
            part("scaling", ("mujoco", *ros), lambda: scaling(
                effort.seconds, rows_hot(effort.rounds, say), folder, say))  # fmt: skip
    finally:  # what was ended by force leaves memory behind
        remove_leftovers()
    return report, samples


def hot(rounds: int, rows: tuple[int, ...], say: Say) -> dict[str, Any]:
    """Measure laws and parts of a cycle in a process of its own; see :mod:`.hot`.

    Raises:
        BenchError: If that fails.
    """
    say("measuring laws in a hot loop")
    command = module_command("multipanda_py.bench.hot", str(rounds), *map(str, rows))
    return _json_of(command, 60.0 + 20.0 * rounds)


def rows_hot(rounds: int, say: Say) -> dict[str, Any]:
    """Measure rows of arms so; nothing if that fails, as it does where others have the core."""
    try:
        return hot(rounds, ROW, say)
    except BenchError as error:
        say(f"left out: laws and physics in a hot loop: {error}")
        return {}


def cpp(say: Say) -> dict[str, Any]:
    """Build and measure the laws in C++.

    Raises:
        BenchError: If that cannot be done here, with the reason.
    """
    if not CPP.is_file():
        raise BenchError("only in a checkout of the repository: benchmarks/cpp")
    say("building and measuring the laws in C++")
    found = _json_of([sys.executable, str(CPP), "--json"], _CPP_TIME)
    return {_CPP_NAMES.get(name, name): figures for name, figures in found.items()}


def _json_of(command: list[str], timeout: float) -> dict[str, Any]:
    threads = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | threads, start_new_session=True,  # with a compiler, say
        preexec_fn=end_with_parent,
    )  # fmt: skip
    try:
        out, err = process.communicate(timeout=timeout)
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if isinstance(error, subprocess.TimeoutExpired):
            raise BenchError(f"not done within {timeout:g} s") from None
        raise
    if process.returncode:
        lines = (err or out).strip().splitlines()
        raise BenchError(lines[-1] if lines else f"ended with code {process.returncode}")
    found: dict[str, Any] = json.loads(out[out.index("{") :])
    return found
