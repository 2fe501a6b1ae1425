# SPDX-License-Identifier: Apache-2.0
"""Install crisp_py, a client that others wrote, beside the environment of ``make env``.

Prints what to put on ``PYTHONPATH`` of that environment's Python, which brings rclpy, the ROS
interfaces, numpy and scipy: with it ``import crisp_py`` works, and without it nothing changes.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

from kept_folder import PIP, is_made, kept_folder, make_once

OURS = Path(__file__).resolve().parent / "crisp"
REQUIREMENTS = OURS / "requirements.txt"
MAKE = "python tools/crisp_env.py"


def environment() -> Path:
    """Return the folder with crisp_py, which need not exist."""
    return kept_folder("crisp", REQUIREMENTS)


def python_path() -> str | None:
    """Return folders for ``PYTHONPATH``; None if crisp_py is not installed."""
    if not is_made(environment()):
        return None
    # tf2_ros is in no package index; that of an apt ROS 2 is the better one.
    stand_in = [] if find_spec("tf2_ros") else [str(OURS)]
    return os.pathsep.join([str(environment()), *stand_in])


def make() -> str:
    """Install what is missing; return why that failed, or an empty string."""
    folder = environment()
    pip = [sys.executable, *PIP, "--target", str(folder), "-r", str(REQUIREMENTS)]
    return make_once(folder, [pip])


if __name__ == "__main__":
    if failure := make():
        sys.stderr.write(f"crisp_py: not installed: {failure}\n")
        sys.exit(1)
    sys.stdout.write(f"{python_path()}\n")
