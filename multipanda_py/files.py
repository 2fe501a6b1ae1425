# SPDX-License-Identifier: Apache-2.0
"""Safe reading of regular files and YAML, and atomic writing of files."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import yaml

from multipanda_py.exceptions import ConfigurationError, FileRejected

MAX_TEXT_SIZE = 1 << 20
"""Maximum size of hand-written files: cells, parameters, tasks, robots [bytes]."""
MAX_REMOTE_SIZE = 1 << 17
"""Maximum size of a file that a ROS client names [bytes]. It is small because the node serves no
other request while it reads."""
MAX_DESCRIPTION_SIZE = 1 << 26
"""Maximum size of a generated URDF, MJCF or JSON file [bytes]."""
MAX_RECORDING_SIZE = 1 << 33
"""Maximum size of a log or of one file of a data set [bytes]."""
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_PART = 1 << 16  # Size of the parts in which a file is read [bytes].


def open_regular(path: str | Path, max_size: int | None = None) -> BinaryIO:
    """Open a regular file for reading. Pipes and devices are rejected without blocking.

    Args:
        path: Path of the file.
        max_size: Maximum size of the file [bytes]; None for no limit.

    Raises:
        FileRejected: If it is not a regular file, or is larger than ``max_size``.
        OSError: If it cannot be opened.
    """
    try:
        descriptor = os.open(path, _FLAGS)
    except ValueError as error:  # The path contains a null character.
        raise FileRejected(errno.EINVAL, str(error), str(path)) from None
    file = os.fdopen(descriptor, "rb")
    try:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise FileRejected(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(status.st_mode):
            raise FileRejected(errno.EINVAL, "is not a regular file", str(path))
        if max_size is not None and status.st_size > max_size:
            raise _too_large(path, max_size)
    except BaseException:
        file.close()
        raise
    return file


def parts_of(path: str | Path) -> Iterator[bytes]:
    """Yield the content of a file in blocks. Raises the errors of :func:`open_regular`."""
    with open_regular(path, MAX_RECORDING_SIZE) as file:
        while part := file.read(_PART):
            yield part


def check_regular(path: str | Path, max_size: int | None = None) -> None:
    """Check a file like :func:`open_regular`, and raise its errors.

    Args:
        path: Path of the file.
        max_size: Maximum size of the file [bytes]; None for no limit.
    """
    open_regular(path, max_size).close()


def read_bytes(path: str | Path, max_size: int = MAX_TEXT_SIZE) -> bytes:
    """Return the content of a regular file of at most ``max_size`` bytes.

    Raises:
        FileRejected: If it is not a regular file, or is larger.
        OSError: If it cannot be read.
    """
    with open_regular(path, max_size) as file:
        content = bytearray()
        while part := os.read(file.fileno(), _PART):
            content += part
            if len(content) > max_size:
                raise _too_large(path, max_size)
    return bytes(content)


def read_text(path: str | Path, max_size: int = MAX_TEXT_SIZE) -> str:
    """Return the UTF-8 text of a regular file of at most ``max_size`` bytes.

    Raises:
        FileRejected: If it is not a regular file, is larger, or is not UTF-8.
        OSError: If it cannot be read.
    """
    content = read_bytes(path, max_size)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        reason = f"is not UTF-8 text: byte {error.start}"
        raise FileRejected(errno.EILSEQ, reason, str(path)) from None


def _too_large(path: str | Path, max_size: int) -> FileRejected:
    return FileRejected(errno.EFBIG, f"is larger than {max_size} bytes", str(path))


MAX_DEPTH = 60
"""Maximum nesting depth of collections in a YAML text."""
MAX_NODES = 100_000
"""Maximum number of values and keys in a YAML text."""
SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""YAML loader that constructs plain values only. The base of :class:`PlainLoader`."""
_WITHOUT_QUOTES = re.compile(r"(?:[^'\"]|'<[a-z ]+>'|'[-:?,\]}]')*")
"""Beginning of a YAML error text, up to the first quotation that may show content of the file."""
_NAME = re.compile(r"[A-Za-z_/*][A-Za-z0-9_/*.-]{0,40}")
_OPENS = (yaml.MappingStartEvent, yaml.SequenceStartEvent)
_CLOSES = (yaml.MappingEndEvent, yaml.SequenceEndEvent)


class PlainLoader(SafeLoader):  # type: ignore[misc]
    """YAML loader that reads integers as decimal, hexadecimal (0x) or octal (leading 0).

    It does not parse the base-60 numbers of YAML 1.1 (1:30:00).
    """


def _construct_int(_: Any, node: yaml.ScalarNode) -> int | float:
    text = node.value.lower().lstrip("+-")
    base = 16 if text.startswith("0x") else 8 if len(text) > 1 and text[0] == "0" else 10
    try:
        number = int(node.value, base)
        return number if -(2**63) <= number < 2**63 else float(number)
    except (OverflowError, ValueError):  # Python limits the number of digits of an integer.
        raise yaml.constructor.ConstructorError(
            None, None, f"{len(text)} digits are too many for a number", node.start_mark
        ) from None


def _construct_float(_: Any, node: yaml.ScalarNode) -> float:
    return float(node.value.lower().replace(".inf", "inf").replace(".nan", "nan"))


PlainLoader.add_constructor("tag:yaml.org,2002:int", _construct_int)
PlainLoader.add_constructor("tag:yaml.org,2002:float", _construct_float)


def key_names(keys: Iterable[Any]) -> list[str]:
    """Return the keys of a mapping as texts for messages.

    A key that does not look like a name may be a secret. Only its length is shown.
    """
    return [
        str(key) if _NAME.fullmatch(str(key)) else f"a key of {len(str(key))} characters"
        for key in keys
    ]


def load(text: str, loader: Any = PlainLoader) -> Any:
    """Return the data of a YAML text with one document.

    Raises:
        yaml.YAMLError: If the text is invalid, has aliases (``*name``), or exceeds ``MAX_DEPTH``
            or ``MAX_NODES``.
    """
    try:
        _refuse_costly_yaml(text, loader)
        return yaml.load(text, loader)
    except (ValueError, TypeError, AttributeError, LookupError, ArithmeticError) as error:
        # These errors mean that a YAML tag does not fit its value.
        raise yaml.YAMLError("a value does not fit its YAML tag") from error
    except RecursionError as error:
        raise yaml.YAMLError("nested too deeply") from error


def read_plain(path: str | Path, max_size: int = MAX_TEXT_SIZE) -> Any:
    """Return the data of a YAML file of at most ``max_size`` bytes.

    Raises:
        ConfigurationError: If the file cannot be read, or is not valid YAML.
    """
    return read(path, PlainLoader, max_size)


def read(path: str | Path, loader: Any, max_size: int = MAX_TEXT_SIZE) -> Any:
    """Return the data of a YAML file of at most ``max_size`` bytes, from a PyYAML loader class.

    Raises:
        ConfigurationError: If the file cannot be read, or is not valid YAML.
    """
    try:
        return load(read_text(path, max_size), loader)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from None
    except yaml.YAMLError as error:
        raise ConfigurationError(f"{path}: not valid YAML: {fault_of(error)}") from None


def fault_of(error: yaml.YAMLError) -> str:
    """Return position and kind of a YAML error as text, without content of the file.

    The content may be secret, and other users can read messages.
    """
    if isinstance(error, yaml.reader.ReaderError):
        return f"character {error.position}: {error.reason}"
    if not isinstance(error, yaml.MarkedYAMLError):
        return str(error)
    mark = error.problem_mark or error.context_mark
    location = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
    reason = _WITHOUT_QUOTES.match(error.problem or error.context or "")
    return location + (reason[0].strip() if reason else "")


def _refuse_costly_yaml(text: str, loader: Any) -> None:
    depth = nodes = 0
    for event in yaml.parse(text, loader):
        mark: Any = event.start_mark
        if isinstance(event, yaml.AliasEvent):
            raise yaml.composer.ComposerError(
                None, None, "aliases (*name) are not allowed, as in ROS 2", mark
            )
        if isinstance(event, _OPENS):
            depth += 1
        elif isinstance(event, _CLOSES):
            depth -= 1
        nodes += isinstance(event, yaml.NodeEvent)
        if depth > MAX_DEPTH or nodes > MAX_NODES:
            size_text = (
                f"{MAX_DEPTH} nesting levels" if depth > MAX_DEPTH else f"{MAX_NODES} values"
            )
            raise yaml.composer.ComposerError(None, None, f"more than {size_text}", mark)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path; the file written there replaces ``path`` unless an error is raised.

    Raises:
        ConfigurationError: If the file cannot be written.
    """
    if not path.name or path.is_dir():
        raise ConfigurationError(f"{path}: cannot be written, because it is a folder. Name a file")
    partial = path.with_name(f".{path.name}.partial")
    try:
        yield partial
        partial.replace(path)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be written: {error.strerror}") from None
    finally:
        partial.unlink(missing_ok=True)


def save_figure(figure: Any, path: Path, dpi: int = 110) -> None:
    """Write a matplotlib figure atomically, in the format of the file's suffix.

    Raises:
        ConfigurationError: If it cannot be written.
    """
    with replacing(path) as partial:
        figure.savefig(partial, dpi=dpi, format=path.suffix[1:].lower())
