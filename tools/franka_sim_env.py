# SPDX-License-Identifier: Apache-2.0
"""Make an environment with franka-sim, a simulated robot for tests of the drivers.

Prints the path of its Python. The environment stays in ``~/.cache/multipanda``, and is made
again when its requirements or the interpreter change.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

REQUIREMENTS = Path(__file__).resolve().parent / "franka_sim" / "requirements.txt"
MAKE = "python tools/franka_sim_env.py"


def environment() -> Path:
    """Return the folder of the environment, which need not exist."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "multipanda"
    made_from = REQUIREMENTS.read_bytes() + sys.version.encode()
    return cache / f"franka-sim-{hashlib.sha256(made_from).hexdigest()[:12]}"


def interpreter() -> Path | None:
    """Return the Python with franka-sim; None if the environment is not made."""
    python = environment() / "bin" / "python"
    return python if (environment() / "made").exists() else None


def make() -> str:
    """Make the environment if it is missing; return why that failed, or an empty string."""
    folder = environment()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{folder}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if interpreter() is not None:
            return ""
        shutil.rmtree(folder, ignore_errors=True)
        pip = [
            str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install",
            "-q", "--progress-bar=off", "--no-deps", "--retries", "1", "--timeout", "20",
            "-r", str(REQUIREMENTS),
        ]  # fmt: skip
        for command in ([sys.executable, "-m", "venv", str(folder)], pip):
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
            )
            if done.returncode:
                lines = (done.stderr or done.stdout).strip().splitlines() or ["no reason given"]
                return lines[-1]
        (folder / "made").touch()
    return ""


if __name__ == "__main__":
    if failure := make():
        sys.stderr.write(f"franka-sim: no environment: {failure}\n")
        sys.exit(1)
    sys.stdout.write(f"{interpreter()}\n")
