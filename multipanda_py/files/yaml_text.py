# SPDX-License-Identifier: Apache-2.0
"""Bounded YAML without aliases; error texts repeat nothing of the content.

The parser is libyaml if PyYAML was built with it, as in ROS 2; it takes a tenth of the time.
Depth and number of nodes are counted before anything is composed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.files.regular_file import MAX_TEXT, read_text

MAX_DEPTH = 60
"""Maximum number of nested collections."""
MAX_NODES = 100_000
"""Maximum number of values and keys."""
SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Parser and constructors of plain values."""
_WITHOUT_QUOTES = re.compile(r"(?:[^'\"]|'<[a-z ]+>'|'[-:?,\]}]')*")
"""Beginning of a reason, up to the first quotation that may be content of the file."""
_NAME = re.compile(r"[A-Za-z_/*][A-Za-z0-9_/*.-]{0,40}")
_OPENS = (yaml.MappingStartEvent, yaml.SequenceStartEvent)
_CLOSES = (yaml.MappingEndEvent, yaml.SequenceEndEvent)


class PlainLoader(SafeLoader):  # type: ignore[misc]
    """Loader whose numbers are decimal, 0x or 0 as in C.

    The numbers of base 60 of YAML 1.1 (1:30:00) take the square of their length to read.
    """


def _construct_int(_: Any, node: yaml.ScalarNode) -> int | float:
    """Read an integer; one of more than 64 bits becomes a float."""
    text = node.value.lower().lstrip("+-")
    base = 16 if text.startswith("0x") else 8 if len(text) > 1 and text[0] == "0" else 10
    try:
        number = int(node.value, base)
        return number if -(2**63) <= number < 2**63 else float(number)
    except (OverflowError, ValueError):  # more digits than any number here has
        raise yaml.constructor.ConstructorError(
            None, None, f"{len(text)} digits are no number", node.start_mark
        ) from None


def _construct_float(_: Any, node: yaml.ScalarNode) -> float:
    return float(node.value.lower().replace(".inf", "inf").replace(".nan", "nan"))


PlainLoader.add_constructor("tag:yaml.org,2002:int", _construct_int)
PlainLoader.add_constructor("tag:yaml.org,2002:float", _construct_float)


def key_names(keys: Iterable[Any]) -> list[str]:
    """Return keys by name, or by their length where they may be content of another file."""
    return [
        str(key) if _NAME.fullmatch(str(key)) else f"a key of {len(str(key))} characters"
        for key in keys
    ]


def load(text: str, loader: Any = PlainLoader) -> Any:
    """Return the data of a YAML text.

    Args:
        text: YAML of one document.
        loader: Class of the loader.

    Raises:
        yaml.YAMLError: If the text is not valid, has aliases, or is too deep or too long.
    """
    try:
        _check(text, loader)
        return yaml.load(text, loader)
    except (ValueError, TypeError, AttributeError, LookupError, ArithmeticError) as error:
        # a wrong !!tag
        raise yaml.YAMLError("a value does not fit its tag") from error
    except RecursionError as error:
        raise yaml.YAMLError("nested too deeply") from error


def read_plain(path: str | Path, max_size: int = MAX_TEXT) -> Any:
    """Return the data of a YAML file.

    Args:
        path: Path of a regular file.
        max_size: Maximum size [bytes].

    Raises:
        ConfigurationError: If it cannot be read, or is not valid.
    """
    return read(path, PlainLoader, max_size)


def read(path: str | Path, loader: Any, max_size: int = MAX_TEXT) -> Any:
    """Return the data of a YAML file, read by a given loader; see :func:`read_plain`."""
    try:
        return load(read_text(path, max_size), loader)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from None
    except yaml.YAMLError as error:
        raise ConfigurationError(f"{path}: not valid YAML: {fault_of(error)}") from None


def fault_of(error: yaml.YAMLError) -> str:
    """Return the place and the kind of an error, without content of the text.

    A client on another machine may name the file, and the log is public.
    """
    if isinstance(error, yaml.reader.ReaderError):
        return f"character {error.position}: {error.reason}"
    if not isinstance(error, yaml.MarkedYAMLError):
        return str(error)
    mark = error.problem_mark or error.context_mark
    place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
    reason = _WITHOUT_QUOTES.match(error.problem or error.context or "")
    return place + (reason[0].strip() if reason else "")


def _check(text: str, loader: Any) -> None:
    """Refuse aliases, depth and length, which cost much more than their characters."""
    depth = nodes = 0
    for event in yaml.parse(text, loader):
        mark: Any = event.start_mark
        if isinstance(event, yaml.AliasEvent):
            raise yaml.composer.ComposerError(
                None, None, "no aliases (*name) are allowed, as in ROS 2", mark
            )
        if isinstance(event, _OPENS):
            depth += 1
        elif isinstance(event, _CLOSES):
            depth -= 1
        nodes += isinstance(event, yaml.NodeEvent)
        if depth > MAX_DEPTH or nodes > MAX_NODES:
            what = f"{MAX_DEPTH} levels" if depth > MAX_DEPTH else f"{MAX_NODES} values"
            raise yaml.composer.ComposerError(None, None, f"more than {what}", mark)
