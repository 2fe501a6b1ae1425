# SPDX-License-Identifier: Apache-2.0
"""How faults of a cell file are worded: path, what was got, what is allowed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError


def sentences(error: ValidationError, cell: type[BaseModel]) -> Iterator[str]:
    """Word every fault that pydantic found: path, what was got, what is allowed."""
    for fault in error.errors(include_url=False):
        loc = [part for part in fault["loc"] if not str(part).startswith("[")]  # of pydantic's own
        path = ".".join(map(str, loc))
        if fault["type"] == "extra_forbidden":
            yield f"{path}: unknown key; known: {', '.join(_siblings(cell, loc))}"
        elif fault["type"] == "missing":
            yield f"{path}: missing"
        else:
            text = fault["msg"].removeprefix("Value error, ")  # raised by a check of ours
            message = text[0].lower() + text[1:]
            yield f"{path}: got {fault['input']!r:.80}; {message}"


def _siblings(cell: type[BaseModel], path: Sequence[int | str]) -> list[str]:
    """List the keys that exist beside an unknown one."""
    section, keys = cell, iter(path[:-1])
    for key in keys:
        annotation = section.model_fields[str(key)].annotation
        if get_origin(annotation) in (dict, list):
            next(keys, None)  # a name that the user has given, or a number
        section = next(_sections_in(annotation))
    return list(section.model_fields)


def _sections_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the sections that a type is made of: a mapping, an optional section."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _sections_in(part)
