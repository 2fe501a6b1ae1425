# SPDX-License-Identifier: Apache-2.0
"""Build the C++ reference against the headers in the wheel of pinocchio."""

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
"""Of the wheels that pinocchio, coal and Boost come in."""
EIGEN = (PREFIX / "include" / "eigen3", Path("/usr/include/eigen3"),
         Path("/usr/local/include/eigen3"))  # fmt: skip
FLAGS = [
    "-std=c++17", "-DNDEBUG", "-Wall", "-Wextra",
    # Boost's preprocessed lists end at 20; pinocchio has more kinds of joints.
    "-DBOOST_MPL_LIMIT_LIST_SIZE=30", "-DBOOST_MPL_CFG_NO_PREPROCESSED_HEADERS",
    # The algorithms are in the library; compiled here they would take minutes.
    "-DPINOCCHIO_ENABLE_TEMPLATE_INSTANTIATION",
]  # fmt: skip


class Missing(RuntimeError):
    """Something that the reference is built with is not there."""


def reference() -> Path:
    """Return the program, built if any source is newer.

    Raises:
        Missing: What is not there, or what the compiler said.
    """
    compiler = shutil.which("g++")
    if compiler is None:
        raise Missing("g++ is not on PATH: apt install g++")
    eigen = next((path for path in EIGEN if (path / "Eigen" / "Dense").exists()), None)
    if eigen is None:
        raise Missing("Eigen's headers are not there: apt install libeigen3-dev")
    if not (PREFIX / "include" / "pinocchio" / "multibody.hpp").exists():
        raise Missing(f"pinocchio's headers are not in {PREFIX}: pip install pin")
    FOLDER.mkdir(exist_ok=True)
    objects, commands = [], []
    for source in sorted(HERE.glob("*.cpp")):
        made = FOLDER / f"{source.stem}.o"
        objects.append(str(made))
        is_slow = source.stem == "dynamics"  # pinocchio's headers: made again if it must be
        read = [HERE / "dynamics.hpp", HERE / "record.hpp"] if is_slow else HERE.glob("*.hpp")
        newest = max(path.stat().st_mtime for path in (source, *read))
        if not made.exists() or made.stat().st_mtime < newest:
            includes = ["-isystem", str(eigen), "-isystem", str(PREFIX / "include")]
            speed = "-O1" if is_slow else "-O3"
            commands.append(
                [compiler, speed, *FLAGS, *includes, "-c", str(source), "-o", str(made)]
            )
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(_run, commands))
    program, libraries = FOLDER / "reference", PREFIX / "lib"
    link = [f"-L{libraries}", f"-Wl,-rpath,{libraries}", "-lpinocchio_default", "-lcoal"]
    _run([compiler, *objects, "-o", str(program), *link])
    return program


def _run(command: list[str]) -> None:
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise Missing(f"the compiler refused {command[-3]}: {done.stderr.strip()[:500]}")
