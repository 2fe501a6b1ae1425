# SPDX-License-Identifier: Apache-2.0
"""A run of a task in a file, so that nobody has to do it again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import LogError
from multipanda_py.files.regular_file import open_regular
from multipanda_py.logs import ArmLog
from multipanda_py.logs.arm_log import JOINT_COLUMNS
from multipanda_py.machine.whole_file import replacing
from multipanda_py.validation.record import Run

COLUMNS = ("time", *JOINT_COLUMNS, "tau_ext", "position_ee_in_base", "wrench_ext_in_base")
"""What is kept of each arm: all that comparisons, identification and reports look at."""
_ABOUT = "about"
_FACTS = ("arm", "robot", "joints", "gravity_in_tau", "gravity_in_tau_commanded", "laws", "starts")
_LOGS = ("logs", "settling")
_PLAIN = ("fault", "force_is_measured")
_TABLES = ("force", "force_error", "force_time", "tank_time")


def save_run(path: Path, run: Run) -> None:
    """Write a run as ``.npz``, whole or not at all.

    Raises:
        ConfigurationError: If the file cannot be written.
    """
    arrays: dict[str, Any] = {name: getattr(run, name) for name in _TABLES}
    arrays |= {f"tank {k}": values for k, values in enumerate(run.tanks.values())}
    about: dict[str, Any] = {"tanks": list(run.tanks)}
    about |= {name: getattr(run, name) for name in _PLAIN}
    for part in _LOGS:
        logs: Mapping[str, ArmLog] = getattr(run, part)
        about[part] = {}
        for k, (name, log) in enumerate(logs.items()):
            about[part][name] = {fact: getattr(log, fact) for fact in _FACTS}
            if log.gravity_in_base is not None:
                arrays[f"{part} {k} gravity_in_base"] = log.gravity_in_base
            for column in log.names:
                if column in COLUMNS:
                    arrays[f"{part} {k} {column}"] = log[column]
    with replacing(path) as partial, partial.open("wb") as file:
        np.savez(file, **{_ABOUT: np.array(json.dumps(about)), **arrays})


def load_run(path: Path) -> Run:
    """Return a run that was written.

    Raises:
        LogError: If it is none, or cannot be read.
    """
    try:
        with open_regular(path) as opened, np.load(opened, allow_pickle=False) as file:
            arrays = dict(file)
        about = json.loads(str(arrays.pop(_ABOUT)))
        found: dict[str, Any] = {part: _logs(part, about[part], arrays) for part in _LOGS}
        found |= {name: arrays[name] for name in _TABLES}
        found["tanks"] = {name: arrays[f"tank {k}"] for k, name in enumerate(about["tanks"])}
        return Run(**found, **{name: about[name] for name in _PLAIN})
    except (OSError, EOFError, ValueError, LookupError, TypeError, BadZipFile) as error:
        words = " ".join(str(error).split())
        raise LogError(f"{path}: not a run of a task: {words}") from None


def _logs(
    part: str, facts: Mapping[str, Mapping[str, Any]], arrays: Mapping[str, NDArray[Any]]
) -> dict[str, ArmLog]:
    found = {}
    for k, (name, own) in enumerate(facts.items()):
        head = f"{part} {k} "
        columns = {
            name.removeprefix(head): values
            for name, values in arrays.items()
            if name.startswith(head)
        }
        gravity = columns.pop("gravity_in_base", None)
        told: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in own.items()
        }
        log = ArmLog(**told, time=columns["time"], q=columns["q"], gravity_in_base=gravity)
        found[name] = log.with_columns(columns, log.starts)
    return found
