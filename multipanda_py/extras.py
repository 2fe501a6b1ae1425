# SPDX-License-Identifier: Apache-2.0
"""What pip's extras bring, and what is said where one is missing.

Nothing is required when the package is installed: a machine with an apt ROS 2 has other versions
of the same libraries from there. ``pip install '.[all]'`` is the way without ROS.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from multipanda_py.exceptions import MissingExtra

VERSION = "0.1.0"
"""Version of this package."""
BRINGS = {
    "run": ("numpy", "yaml", "pydantic", "typing_extensions", "pinocchio", "coal", "eigenpy",
            "ruckig"),
    "sim": ("mujoco", "glfw", "imageio", "imageio_ffmpeg", "PIL"),
    "real": ("pylibfranka",),
    "bench": ("matplotlib",),
    "logs": ("mcap", "rosbags", "pandas", "pyarrow", "zstandard", "lz4"),
    "identify": ("scipy", "cvxpy", "clarabel", "joblib"),
    "gym": ("gymnasium",),
}  # fmt: skip
"""Modules by extra; every extra brings those of ``run`` too, and ``all`` brings everything."""
LARGE = {"learn": ("torch",)}
"""The same of extras that ``all`` does not bring."""
APART = {"panel": ("viser", "trimesh", "websockets")}
"""Likewise, because they bring older versions of what others use."""
DEVICES = {"teleop": ("pygame", "pyspacemouse")}
"""Likewise, because most cells have none."""
SELDOM = {"cluster": ("dask", "distributed")}
"""Likewise, because few simulate on other machines."""
ELSEWHERE = {"onnx": ("onnx",)}
"""Likewise, because few run networks in other programs."""
_ROS = ("rclpy", "controller_manager_msgs", "control_msgs", "simulation_interfaces")


def require(*modules: str) -> None:
    """Raise :class:`.MissingExtra` if a module is not installed; for the head of a room."""
    for module in modules:
        if find_spec(module) is None:
            raise missing(module)


def needed(module: str) -> Any:
    """Import a module where it is used, for what most cells do without.

    Raises:
        MissingExtra: If it is not installed.
    """
    with extras_named():
        return import_module(module)


def pyplot() -> Any:
    """Return matplotlib's pyplot, without a window.

    Raises:
        MissingExtra: If it is not installed; says what to install.
    """
    needed("matplotlib").use("Agg")
    return needed("matplotlib.pyplot")


@contextmanager
def extras_named() -> Iterator[None]:
    """Name the extra where a module is not found within; other modules are left as they are."""
    try:
        yield
    except MissingExtra:
        raise
    except ModuleNotFoundError as error:
        if error.name is None or not _sentence(error.name):
            raise
        raise missing(error.name) from error


def missing(module: str) -> MissingExtra:
    """Return the error that a module is not there, which says where it comes from."""
    return MissingExtra(_sentence(module) or f"{module} is not installed", module)


def _sentence(module: str) -> str:
    top = module.partition(".")[0]
    for extra, modules in (BRINGS | LARGE | APART | DEVICES | SELDOM | ELSEWHERE).items():
        if top in modules:
            return f"{top} is not installed: pip install 'multipanda_py[{extra}]' brings it"
    if top in _ROS or top.endswith("_msgs"):
        return (
            f"{top} is not installed: the node needs ROS 2, by `make env` or apt (README); "
            "`multipanda run FILE` does without"
        )
    return ""
