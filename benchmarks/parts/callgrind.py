# SPDX-License-Identifier: Apache-2.0
"""Count the instructions of a checkout's conditions under callgrind, the same on any machine.

No address, hash or time differs between two runs: ASLR is off, hashes are seeded, the garbage
collector rests, and valgrind shows every machine with AVX2 the same processor.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
KEPT = ("HOME", "LD_LIBRARY_PATH", "PATH")
DUMP = re.compile(r"Client Request: ([^\n]+)\n.*?^summary: (\d+)", re.M | re.S)


def what_is_missing() -> str:
    """Return what counting needs and is not there, or nothing."""
    for tool, package in (("valgrind", "valgrind"), ("setarch", "util-linux"), ("gcc", "gcc")):
        if shutil.which(tool) is None:
            return f"{tool} is not on PATH: apt install {package}"
    probe = ["gcc", "-E", "-o", os.devnull, str(HERE / "callgrind.c")]
    if subprocess.run(probe, stderr=subprocess.DEVNULL).returncode:
        return "gcc does not find valgrind/callgrind.h: apt install valgrind"
    return ""


def count(checkout: Path, folder: Path, only: str = "") -> dict[str, int]:
    """Return the instructions of some cycles of every condition, and of the calibration.

    Args:
        checkout: Whose ``multipanda_py`` is counted; conditions are those of this checkout.
        folder: Where callgrind's files go, for ``callgrind_annotate``.
        only: Conditions with this in their name.

    Raises:
        subprocess.CalledProcessError: If the compiler or the counted process fails.
    """
    library, out = folder / "callgrind.so", folder / "callgrind.out"
    compiler = ["gcc", "-shared", "-fPIC", "-O2", "-o", str(library), str(HERE / "callgrind.c")]
    subprocess.run(compiler, check=True)
    environment = {name: os.environ[name] for name in KEPT if name in os.environ} | {
        "MUJOCO_GL": "disable", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0",
        "PYTHONPATH": f"{checkout.resolve()}{os.pathsep}{HERE.parent}",
    }  # fmt: skip
    command = ["setarch", "-R", "valgrind", "-q", "--tool=callgrind", "--instr-atstart=no"]
    # The environment's Python may start itself anew, to find ROS.
    command += ["--trace-children=yes", f"--callgrind-out-file={out}"]
    command += [sys.executable, str(HERE / "counted.py"), str(library), only]
    subprocess.run(command, check=True, env=environment, stdin=subprocess.DEVNULL)
    return read_dumps(folder)


def read_dumps(folder: Path) -> dict[str, int]:
    """Return the instructions of every condition, in the order in which they were counted."""
    dumps = sorted(folder.glob("callgrind.out.*"), key=_numbers)
    found = [DUMP.search(dump.read_text()) for dump in dumps]
    return {match[1]: int(match[2]) for match in found if match}


def _numbers(dump: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", dump.name)]
