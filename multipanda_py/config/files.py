# SPDX-License-Identifier: Apache-2.0
"""Parts of an arm that may be files: where those are, and the section that names them."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from multipanda_py.config.section import Section

PATHS = ("urdf", "mjcf", "extra", "parameters")
"""Keys that are paths of files."""
WITH_FILES = ("model", "hand")
"""Keys of an arm that may be files."""


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
        for key, path in paths.items():
            places = [folder.absolute() / path for folder in folders]
            is_there = (place for place in places if place.is_file())
            paths[key] = str(next(is_there, places[0])) if path else path
        found[part] = {**files, **paths}
    return found or arm
