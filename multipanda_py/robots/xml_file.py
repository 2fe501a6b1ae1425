# SPDX-License-Identifier: Apache-2.0
"""Bounded XML files."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.files.regular_file import MAX_DESCRIPTION, open_regular


def read_xml(path: Path) -> ElementTree.Element:
    """Return the root of an XML file.

    Raises:
        ConfigurationError: If the file cannot be read, is too large, or is not well formed.
    """
    try:
        with open_regular(path, MAX_DESCRIPTION) as file:
            return ElementTree.parse(file).getroot()
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from None
    except (ElementTree.ParseError, ValueError, LookupError) as error:  # of unknown encodings
        raise ConfigurationError(f"{path}: cannot be read: {error}") from None
