# SPDX-License-Identifier: Apache-2.0
"""What MuJoCo warns of, kept out of the current folder and said once.

MuJoCo writes ``MUJOCO_LOG.TXT`` into the current folder and a line to the console in every step
of a simulation that has diverged. It has one handler per process for warnings instead.
"""

from __future__ import annotations

import logging

from multipanda_py.extras import require

require("mujoco")

import mujoco  # noqa: E402 -- what is missing is said by its extra

_DIVERGED = "unstable"
_GAVE_UP = [
    int(one)
    for one in (
        mujoco.mjtWarning.mjWARN_BADQPOS,
        mujoco.mjtWarning.mjWARN_BADQVEL,
        mujoco.mjtWarning.mjWARN_BADQACC,
    )
]
_KIND = 24  # characters of a warning that do not depend on numbers in it

_log = logging.getLogger(__name__)
_kinds: set[str] = set()
_newest = ""


def listen() -> None:
    """Take MuJoCo's warnings, if the program has no handler of its own."""
    if mujoco.get_mju_user_warning() is None:
        mujoco.set_mju_user_warning(_keep)


def diverged(what: str) -> str:
    """Say in one line that a simulation has diverged, and what MuJoCo found."""
    return f"{what}: {_newest}" if _DIVERGED in _newest else what


def was_reset(data: mujoco.MjData, before: float) -> bool:
    """Return whether MuJoCo has put everything to its start while it made a step.

    Time tells, but in the very first step: it begins at 0, as what was put to its start does.

    Args:
        data: After the step.
        before: Its time before [s].
    """
    return bool(data.time <= before or (before == 0.0 and data.warning.number[_GAVE_UP].any()))


def _keep(text: str) -> None:
    """Keep a warning; log the first of its kind unless the backend reports it. Thread: any."""
    global _newest
    _newest = " ".join(text.split())
    kind = _newest[:_KIND]
    if _DIVERGED not in _newest and kind not in _kinds:
        _kinds.add(kind)
        _log.warning("MuJoCo: %s", _newest)
