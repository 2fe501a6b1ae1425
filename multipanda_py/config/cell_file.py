# SPDX-License-Identifier: Apache-2.0
"""Cell file: reading, checking and rewriting."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from multipanda_py.config.arm_section import ArmConfig
from multipanda_py.config.backend_section import check_sections
from multipanda_py.config.model_section import relative_to
from multipanda_py.config.parameter_file import (
    PARAMETERS,
    ParameterFile,
    Parameters,
    merged,
    with_sections,
)
from multipanda_py.config.rules import Faults, check_cell
from multipanda_py.config.section import messages
from multipanda_py.config.sections import CellSections
from multipanda_py.exceptions import ConfigurationError


class CellConfig(CellSections):
    """Checked configuration of a cell.

    Use :meth:`from_dict` to create it. The constructor raises errors of pydantic, and does not
    check rules that span several sections.
    """

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], source: str = "cell") -> CellConfig:
        """Check a nested dictionary and build the configuration; messages begin with ``source``.

        Raises:
            ConfigurationError: If the data are faulty; the error lists all faults.
        """
        faults: Faults = []
        config = None
        try:
            config = cls.model_validate(_without_invalid_backend_sections(data, faults))
        except ValidationError as error:
            faults.extend(messages(error, cls))
        if config is not None:
            check_cell(config, faults)
        if config is None or faults:
            raise ConfigurationError(*(f"{source}: {fault}" for fault in faults))
        return config

    @classmethod
    def from_yaml(cls, path: str | Path, namespace: str | None = None) -> CellConfig:
        """Read and check a cell file.

        Args:
            path: Path of the file.
            namespace: ROS namespace of the cell. Sections of nodes in other namespaces are
                ignored. None: no section is ignored.

        Raises:
            ConfigurationError: If the file cannot be read, is no ROS parameter file, or is faulty.
        """
        file = ParameterFile.read(path)
        faults = [f"{path}: {fault}" for fault in file.faults]
        data, _ = with_sections(file.cell, file.others, namespace)
        try:
            config = cls.from_dict(relative_to([Path(path).parent], data), str(path))
        except ConfigurationError as error:
            raise ConfigurationError(*dict.fromkeys((*faults, *error.faults))) from None
        if faults:
            raise ConfigurationError(*faults)
        return config


def _without_invalid_backend_sections(cell_data: Any, faults: Faults) -> Any:
    if not isinstance(cell_data, Mapping) or not isinstance(cell_data.get("arms"), Mapping):
        return cell_data
    known = tuple(ArmConfig.model_fields)
    arms = dict(cell_data["arms"])
    for name, arm in arms.items():
        if not isinstance(arm, Mapping):
            continue
        arms[name] = result = dict(arm)
        extra = {key: value for key, value in arm.items() if key not in known}
        for key, values, section_faults in check_sections(name, extra, known):
            faults.extend(section_faults)
            if values is None:
                del result[key]
            else:
                result[key] = values
    return {**cell_data, "arms": arms}


def changed_text(path: str | Path, change: Parameters, head: str) -> str:
    """Return the text of a cell file with some values changed and its file paths made absolute.

    Args:
        path: Path of the cell file.
        change: Values that override those of the cell file.
        head: Comment at the top of the text.

    Raises:
        ConfigurationError: If the file cannot be read, or has no section for a cell's node.
    """
    file = ParameterFile.read(path)
    cell = merged(relative_to([Path(path).parent], file.cell), change)
    data = {"/**": {PARAMETERS: cell}, **{name: {PARAMETERS: own} for name, own in file.others}}
    text = yaml.safe_dump(data, sort_keys=False, default_flow_style=None, width=99)
    return f"{head}\n{text}"


def fingerprint(config: CellConfig) -> str:
    """Return a hash of a configuration, including the contents of the files of its robots."""
    text = config.model_dump_json() + "".join(
        repr(arm.robot_of_body) + repr(arm.robot_of_laws) for arm in config.arms.values()
    )
    return hashlib.sha256(text.encode()).hexdigest()
