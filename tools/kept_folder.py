# SPDX-License-Identifier: Apache-2.0
"""Folders of packages that only tests need, cached in ``~/.cache/multipanda``.

The name of a folder contains a hash of its requirements and of the Python version. A change of
either makes a new folder.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Sequence

PIP = ("-m", "pip", "--disable-pip-version-check", "install", "-q", "--progress-bar=off",
       "--no-deps", "--retries", "1", "--timeout", "20")  # fmt: skip
"""Arguments of Python that install packages without dependencies, with short timeouts."""


def kept_folder(name: str, requirements: Path) -> Path:
    """Return the path of the folder for these requirements."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "multipanda"
    inputs = requirements.read_bytes() + sys.version.encode()
    return cache / f"{name}-{hashlib.sha256(inputs).hexdigest()[:12]}"


def is_made(folder: Path) -> bool:
    """Return whether all commands that make a folder have succeeded."""
    return (folder / "made").exists()


def make_once(folder: Path, commands: Sequence[Sequence[str]]) -> str:
    """Make a folder if it is missing; return the error, or an empty string."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{folder}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if is_made(folder):
            return ""
        shutil.rmtree(folder, ignore_errors=True)
        for command in commands:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
            )
            if done.returncode:
                lines = (done.stderr or done.stdout).strip().splitlines() or ["no error message"]
                return lines[-1]
        (folder / "made").touch()
    return ""
