# SPDX-License-Identifier: Apache-2.0
"""How this package starts Python processes of its own."""

from __future__ import annotations

import sys

_SAFE_PATH = (3, 11)
"""First Python with ``-P``."""
_BOOTSTRAP = (
    "import sys; del sys.path[0], sys.argv[0]; import runpy; "
    "runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
)


def module_command(
    module: str, *arguments: str, version: tuple[int, ...] = tuple(sys.version_info[:2])
) -> list[str]:
    """Return the command that runs a module of an installed package.

    ``python -m`` looks for every import in the current directory first: a file ``pydantic.py``
    left there would run within the control loop. So the current directory is left out, while
    ``PYTHONPATH``, through which colcon's workspaces are found, is kept; ``-I`` would ignore it.
    An older Python cannot be told so, and takes the directory out before it imports anything.

    Args:
        module: Its full name.
        arguments: What follows.
        version: Of the interpreter.
    """
    if version >= _SAFE_PATH:
        return [sys.executable, "-P", "-m", module, *arguments]
    return [sys.executable, "-c", _BOOTSTRAP, module, *arguments]
