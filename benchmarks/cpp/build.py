# SPDX-License-Identifier: Apache-2.0
"""Build the C++ reference with the headers in the wheel of pinocchio."""

from __future__ import annotations

import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pinocchio

HERE = Path(__file__).resolve().parent
FOLDER = HERE / "build"
PREFIX = Path(pinocchio.__file__).parents[4]
"""Installation prefix of the wheels of pinocchio, coal and Boost."""
EIGEN = (PREFIX / "include" / "eigen3", Path("/usr/include/eigen3"),
         Path("/usr/local/include/eigen3"))  # fmt: skip
FLAGS = [
    "-std=c++17", "-DNDEBUG", "-Wall", "-Wextra",
    # pinocchio has more joint types than the 20 entries of Boost's preprocessed lists.
    "-DBOOST_MPL_LIMIT_LIST_SIZE=30", "-DBOOST_MPL_CFG_NO_PREPROCESSED_HEADERS",
    # This uses the algorithms in the library, whose compilation would take minutes.
    "-DPINOCCHIO_ENABLE_TEMPLATE_INSTANTIATION",
]  # fmt: skip


class Missing(RuntimeError):
    """Missing tool or library, or a failure of the compiler."""


def reference() -> Path:
    """Return the path of the program, and build it if a source is newer.

    Raises:
        Missing: If a tool or library is missing, or the compiler fails.
    """
    compiler = shutil.which("g++")
    if compiler is None:
        raise Missing("g++ is not on PATH. Install it with: apt install g++")
    eigen = next((path for path in EIGEN if (path / "Eigen" / "Dense").exists()), None)
    if eigen is None:
        raise Missing("Eigen's headers are missing. Install them with: apt install libeigen3-dev")
    if not (PREFIX / "include" / "pinocchio" / "multibody.hpp").exists():
        raise Missing(
            f"pinocchio's headers are not in {PREFIX}. Install them with: pip install pin"
        )
    FOLDER.mkdir(exist_ok=True)
    objects, commands = [], []
    for source in sorted(HERE.glob("*.cpp")):
        built = FOLDER / f"{source.stem}.o"
        objects.append(str(built))
        is_slow = source.stem == "dynamics"  # It includes pinocchio's headers.
        headers = [HERE / "dynamics.hpp", HERE / "record.hpp"] if is_slow else HERE.glob("*.hpp")
        newest = max(path.stat().st_mtime for path in (source, *headers))
        if not built.exists() or built.stat().st_mtime < newest:
            includes = ["-isystem", str(eigen), "-isystem", str(PREFIX / "include")]
            speed = "-O1" if is_slow else "-O3"
            commands.append(
                [compiler, speed, *FLAGS, *includes, "-c", str(source), "-o", str(built)]
            )
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(_run, commands))
    program, libraries = FOLDER / "reference", PREFIX / "lib"
    link = [f"-L{libraries}", f"-Wl,-rpath,{libraries}", "-lpinocchio_default", "-lcoal"]
    _run([compiler, *objects, "-o", str(program), *link])
    return program


def _run(command: list[str]) -> None:
    result = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    if result.returncode:
        raise Missing(f"the compiler failed on {command[-3]}: {result.stderr.strip()[:500]}")
