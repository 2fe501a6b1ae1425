# SPDX-License-Identifier: Apache-2.0
"""Make an environment with franka-sim, a simulated robot for tests of the drivers.

Prints the path of its Python.
"""

from __future__ import annotations

import sys
from pathlib import Path

from kept_folder import PIP, is_made, kept_folder, make_once

REQUIREMENTS = Path(__file__).resolve().parent / "franka_sim" / "requirements.txt"
MAKE = "python tools/franka_sim_env.py"


def environment() -> Path:
    """Return the path of the environment."""
    return kept_folder("franka-sim", REQUIREMENTS)


def interpreter() -> Path | None:
    """Return the Python with franka-sim; None if the environment does not exist."""
    return environment() / "bin" / "python" if is_made(environment()) else None


def make() -> str:
    """Make the environment if it is missing; return the error, or an empty string."""
    folder = environment()
    pip = [str(folder / "bin" / "python"), *PIP, "-r", str(REQUIREMENTS)]
    return make_once(folder, [[sys.executable, "-m", "venv", str(folder)], pip])


if __name__ == "__main__":
    if failure := make():
        sys.stderr.write(f"franka-sim: no environment: {failure}\n")
        sys.exit(1)
    sys.stdout.write(f"{interpreter()}\n")
