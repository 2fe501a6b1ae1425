# SPDX-License-Identifier: Apache-2.0
"""Install crisp_py, a third-party client, outside of the environment of ``make env``.

Prints the ``PYTHONPATH`` with which the Python of ``.venv`` can import crisp_py. Without this
path, the environment is unchanged. It provides rclpy, ROS interfaces, numpy and scipy.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

from kept_folder import PIP, is_made, kept_folder, make_once

FOLDER = Path(__file__).resolve().parent / "crisp"
REQUIREMENTS = FOLDER / "requirements.txt"
MAKE = "python tools/crisp_env.py"


def environment() -> Path:
    """Return the path of the folder for crisp_py."""
    return kept_folder("crisp", REQUIREMENTS)


def python_path() -> str | None:
    """Return folders for ``PYTHONPATH``; None if crisp_py is not installed."""
    if not is_made(environment()):
        return None
    # No package index has tf2_ros. The replacement is used only without an apt ROS 2.
    replacement = [] if find_spec("tf2_ros") else [str(FOLDER)]
    return os.pathsep.join([str(environment()), *replacement])


def make() -> str:
    """Install crisp_py if it is missing; return the error, or an empty string."""
    folder = environment()
    pip = [sys.executable, *PIP, "--target", str(folder), "-r", str(REQUIREMENTS)]
    return make_once(folder, [pip])


if __name__ == "__main__":
    if failure := make():
        sys.stderr.write(f"crisp_py: not installed: {failure}\n")
        sys.exit(1)
    sys.stdout.write(f"{python_path()}\n")
