# SPDX-License-Identifier: Apache-2.0
"""Environment like that of ``pip install '.[EXTRA]'``, made of installed distributions.

Pip builds and installs the wheel. The requirements of the extra are linked recursively from this
environment. No other packages are available, in particular no ROS.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from processes import TIMEOUT_SCALE
from repository import ROOT

SOURCES = ("setup.py", "setup.cfg", "package.xml", "README.md", "resource", "config", "launch",
           "urdf", "multipanda_py")  # fmt: skip
_NAME = re.compile(r"[\w.-]+")
_EXTRA = re.compile(r"extra\s*==\s*['\"]([\w-]+)['\"]")


def build_wheel(folder):
    """Build the wheel from a copy of the sources without a network, and return its path."""
    copy = folder / "source"
    for name in SOURCES:
        origin = ROOT / name
        if origin.is_dir():
            shutil.copytree(
                origin, copy / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
            )
        else:
            copy.mkdir(exist_ok=True)
            shutil.copy(origin, copy / name)
    _pip("wheel", "--no-deps", "--no-build-isolation", "-w", folder / "wheels", copy)
    return next((folder / "wheels").glob("*.whl"))


def required(package, extras=()):
    """Return the recursive requirements of a distribution with some extras."""
    found, todo = {}, [(package, frozenset(extras))]
    while todo:
        dist, expected = todo.pop()
        for line in dist.requires or ():
            text, _, marker = line.partition(";")
            extra = _EXTRA.search(marker)
            if (extra and extra[1] not in expected) or not _holds(marker):
                continue
            name = _NAME.match(text.strip())[0]
            key = re.sub(r"[-_.]+", "-", name).lower()
            more = re.search(r"\[([^\]]*)\]", text)
            try:
                one = distribution(name)
            except PackageNotFoundError:
                raise AssertionError(f"{line}: required, but not installed") from None
            if key not in found:
                found[key] = one
                names = more[1].split(",") if more else ()
                todo.append((one, frozenset(part.strip() for part in names)))
    return found


def _holds(marker):
    from packaging.markers import Marker

    return not marker or Marker(marker).evaluate({"extra": (_EXTRA.search(marker) or "  ")[1]})


class PipEnvironment:
    """Virtual environment with the wheel and the requirements of one extra."""

    def __init__(self, folder, wheel, extra):
        self.path = folder / (extra or "none")
        subprocess.run(
            [sys.executable, "-m", "venv", "--without-pip", self.path], check=True, env=_clean()
        )
        _pip(
            "--python",
            self.path / "bin" / "python",
            "install",
            "-q",
            "--no-deps",
            "--no-compile",
            wheel,
        )
        self.site = next(self.path.glob("lib/python3.*/site-packages"))
        ours = next(Path(self.site).glob("multipanda_py-*.dist-info"))
        expected = [extra] if extra else []
        for one in required(Distribution.at(ours), expected).values():
            self._link(one)

    def _link(self, dist):
        origin = Path(sysconfig.get_path("purelib"))
        for file in dist.files or ():
            top = file.parts[0]
            if top in ("..", "__pycache__") or (self.site / top).exists():
                continue
            (self.site / top).symlink_to(origin / top)

    def run(self, *words, timeout=60.0):
        """Run a program of the environment; return its exit code and output."""
        program, *rest = words
        done = subprocess.run(
            [self.path / "bin" / program, *map(str, rest)],
            cwd=self.path, env=_clean(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT_SCALE * timeout,
        )  # fmt: skip
        return done.returncode, done.stdout


def _clean():
    """Return environment variables without the paths of this process."""
    ours = ("PYTHONPATH", "AMENT_PREFIX_PATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "PYTHONHOME")
    return {name: value for name, value in os.environ.items() if name not in ours}


def _pip(*words):
    done = subprocess.run(
        [sys.executable, "-m", "pip", *map(str, words)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**_clean(), "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INDEX": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
