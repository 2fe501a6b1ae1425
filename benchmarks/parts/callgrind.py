# SPDX-License-Identifier: Apache-2.0
"""Count the instructions of each condition of a checkout under callgrind.

The counts are the same on any machine with AVX2, for which valgrind emulates the same processor.
Address randomisation and garbage collection are off, and hashes are seeded.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PASSED_VARIABLES = ("HOME", "LD_LIBRARY_PATH", "PATH")
DUMP = re.compile(r"Client Request: ([^\n]+)\n.*?^summary: (\d+)", re.M | re.S)


def what_is_missing() -> str:
    """Return the missing tool and its package, or an empty string."""
    for tool, package in (("valgrind", "valgrind"), ("setarch", "util-linux"), ("gcc", "gcc")):
        if shutil.which(tool) is None:
            return f"{tool} is not on PATH. Install it with: apt install {package}"
    probe = ["gcc", "-E", "-o", os.devnull, str(HERE / "callgrind.c")]
    if subprocess.run(probe, stderr=subprocess.DEVNULL).returncode:
        return "gcc does not find valgrind/callgrind.h. Install it with: apt install valgrind"
    return ""


def count(checkout: Path, folder: Path, only: str = "") -> dict[str, int]:
    """Return the instructions of some cycles of each condition and of the calibration.

    Args:
        checkout: Checkout with the ``multipanda_py`` to count. This checkout has the conditions.
        folder: Folder for the files of callgrind, which ``callgrind_annotate`` reads.
        only: Text in the names of the conditions to count.

    Raises:
        subprocess.CalledProcessError: If the compiler or the counted process fails.
    """
    library, out = folder / "callgrind.so", folder / "callgrind.out"
    compiler = ["gcc", "-shared", "-fPIC", "-O2", "-o", str(library), str(HERE / "callgrind.c")]
    subprocess.run(compiler, check=True)
    environment = {name: os.environ[name] for name in PASSED_VARIABLES if name in os.environ} | {
        "MUJOCO_GL": "disable", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0",
        "PYTHONPATH": f"{checkout.resolve()}{os.pathsep}{HERE.parent}",
    }  # fmt: skip
    command = ["setarch", "-R", "valgrind", "-q", "--tool=callgrind", "--instr-atstart=no"]
    # The Python of the environment can restart itself to find ROS.
    command += ["--trace-children=yes", f"--callgrind-out-file={out}"]
    command += [sys.executable, str(HERE / "counted.py"), str(library), only]
    subprocess.run(command, check=True, env=environment, stdin=subprocess.DEVNULL)
    return read_dumps(folder)


def read_dumps(folder: Path) -> dict[str, int]:
    """Return the instructions of each condition in the order of counting."""
    dumps = sorted(folder.glob("callgrind.out.*"), key=_dump_order)
    found = [DUMP.search(dump.read_text()) for dump in dumps]
    return {match[1]: int(match[2]) for match in found if match}


def _dump_order(dump: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", dump.name)]
