# SPDX-License-Identifier: Apache-2.0
"""Parts of an arm that may be files: where those are, and the section that names them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from multipanda_py.config.section import Section

PATHS = ("urdf", "mjcf", "extra", "parameters")
"""Keys that are paths of files."""
WITH_FILES = ("model", "hand")
"""Keys of an arm that may be files."""
OF_PARAMETERS = (
    ("", "identified"),
    ("perturbation", "parameters"),
    ("residual", "state"),
    ("residual", "wrench"),
)
"""Sections and keys of an arm that are files of identified parameters, or of trained residuals."""


def resolved(section: type[Section], value: Any) -> Any:
    """Return a section with absolute paths for a mapping with files; anything else as it is."""
    paths = _absolute(value)
    with contextlib.suppress(ValidationError):  # which is said by the section itself
        return section.model_validate(paths) if isinstance(paths, Mapping) else value
    return value


def _absolute(files: Any) -> Any:
    """Return a mapping with files with absolute paths; anything else, or none, as it is."""
    if not isinstance(files, Mapping):
        return files
    if not all(isinstance(files.get(key, ""), str) for key in PATHS):
        return files
    return {
        key: str(Path(value).absolute()) if key in PATHS and value else value
        for key, value in files.items()
    }


def with_absolute_paths(arm: Mapping[str, Any]) -> dict[str, Any]:
    """Return an arm whose files of parameters have absolute paths."""
    return _with_paths(arm, lambda path: str(Path(path).absolute()))


def _with_paths(arm: Mapping[str, Any], place: Callable[[str], str]) -> dict[str, Any]:
    """Return an arm whose files of parameters are elsewhere."""
    found = dict(arm)
    for section, key in OF_PARAMETERS:
        own = found.get(section) if section else found
        if isinstance(own, Mapping) and isinstance(own.get(key), str) and own[key]:
            given = {**own, key: place(own[key])}
            found = {**found, section: given} if section else given
    groups = found.get("actuators")
    if isinstance(groups, Mapping):
        found["actuators"] = {name: _placed(group, place) for name, group in groups.items()}
    return found


def _placed(group: Any, place: Callable[[str], str]) -> Any:
    """Return a group of actuators whose file of springs is elsewhere."""
    path = group.get("identified") if isinstance(group, Mapping) else None
    return {**group, "identified": place(path)} if isinstance(path, str) and path else group


def relative_to(folders: Sequence[Path], data: Any) -> Any:
    """Return a cell whose arms' models and hands have absolute paths.

    Args:
        folders: A relative path is one in the first of them that has such a file, or else in the
            first.
        data: As a cell file has it, well formed or not.
    """
    arms = data.get("arms") if isinstance(data, Mapping) else None
    if not isinstance(arms, Mapping):
        return data
    return {**data, "arms": {name: _arm_relative_to(folders, arm) for name, arm in arms.items()}}


def _arm_relative_to(folders: Sequence[Path], arm: Any) -> Any:
    found = dict(arm) if isinstance(arm, Mapping) else {}
    for part in WITH_FILES:
        files = found.get(part)
        if not isinstance(files, Mapping):
            continue
        paths = {key: files[key] for key in PATHS if isinstance(files.get(key), str)}
        found[part] = {**files, **{key: _found_in(folders, path) for key, path in paths.items()}}
    return _with_paths(found, lambda path: _found_in(folders, path)) or arm


def _found_in(folders: Sequence[Path], path: str) -> str:
    """Return the path in the first folder that has such a file, or else in the first."""
    places = [folder.absolute() / path for folder in folders]
    is_there = (place for place in places if place.is_file())
    return str(next(is_there, places[0])) if path else path
