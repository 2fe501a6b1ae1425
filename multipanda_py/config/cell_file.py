# SPDX-License-Identifier: Apache-2.0
"""The cell file: one YAML that describes a cell, and is a ROS 2 parameter file too.

Everything below ``ros__parameters`` of the file is one :class:`CellConfig`. A file
is refused as a whole, with every fault it has: the path, what was got, what is allowed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from multipanda_py.config.backend_section import check_sections
from multipanda_py.config.cell_sections import CellSections
from multipanda_py.config.files import relative_to
from multipanda_py.config.parameter_file import ParameterFile, with_sections
from multipanda_py.config.rules import Faults, check_cell
from multipanda_py.config.sections import ArmConfig
from multipanda_py.config.sentences import sentences
from multipanda_py.exceptions import ConfigurationError


class CellConfig(CellSections):
    """Checked configuration of a cell.

    The constructor raises what pydantic raises; :meth:`from_dict` raises sentences.
    """

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], source: str = "cell") -> CellConfig:
        """Check a nested dictionary.

        Raises:
            ConfigurationError: With one sentence for every fault.
        """
        faults: Faults = []
        config = None
        try:
            config = cls.model_validate(_with_checked_sections(data, faults))
        except ValidationError as error:
            faults.extend(sentences(error, cls))
        if config is not None:
            check_cell(config, faults)
        if config is None or faults:
            raise ConfigurationError(*(f"{source}: {fault}" for fault in faults))
        return config

    @classmethod
    def from_yaml(cls, path: str | Path, namespace: str | None = None) -> CellConfig:
        """Read and check a cell file.

        Args:
            path: The file.
            namespace: Of the cell's nodes; None if sections of any are meant.

        Raises:
            ConfigurationError: If it cannot be read, is no ROS parameter file, or is faulty.
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


def _with_checked_sections(data: Any, faults: Faults) -> Any:
    """Return a cell whose arms' sections of backends are checked, and in plain types."""
    if not isinstance(data, Mapping) or not isinstance(data.get("arms"), Mapping):
        return data
    known = tuple(ArmConfig.model_fields)
    arms = dict(data["arms"])
    for name, arm in arms.items():
        if not isinstance(arm, Mapping):
            continue
        arms[name] = result = dict(arm)
        extra = {key: value for key, value in arm.items() if key not in known}
        for key, values, found in check_sections(name, extra, known):
            faults.extend(found)
            if values is None:
                del result[key]
            else:
                result[key] = values
    return {**data, "arms": arms}
