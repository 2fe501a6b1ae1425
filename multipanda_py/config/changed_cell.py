# SPDX-License-Identifier: Apache-2.0
"""A cell file with other values of some keys."""

from __future__ import annotations

from pathlib import Path

import yaml

from multipanda_py.config.files import relative_to
from multipanda_py.config.parameter_file import PARAMETERS, ParameterFile, Parameters, merged


def changed_text(path: str | Path, change: Parameters, head: str) -> str:
    """Return a cell file with other values of some keys, whose own paths are now absolute.

    Args:
        path: The file.
        change: What goes before what its cell says.
        head: A comment.

    Raises:
        ConfigurationError: As :meth:`.ParameterFile.read`.
    """
    file = ParameterFile.read(path)
    cell = merged(relative_to([Path(path).parent], file.cell), change)
    data = {"/**": {PARAMETERS: cell}, **{name: {PARAMETERS: own} for name, own in file.others}}
    text = yaml.safe_dump(data, sort_keys=False, default_flow_style=None, width=99)
    return f"{head}\n{text}"
