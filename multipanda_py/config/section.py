# SPDX-License-Identifier: Apache-2.0
"""What all sections of a cell file have in common."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator

from multipanda_py.config.plain import in_plain_types


class Section(BaseModel):
    """One section: it refuses keys that it does not know, and stays as it was read.

    Values have the type that is asked for, as those of laws' parameters; a whole number is a
    number too.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    @model_validator(mode="before")
    @classmethod
    def _in_plain_types(cls, data: Any) -> Any:
        return in_plain_types(data)

    @property
    def is_default(self) -> bool:
        """Whether nothing is other than by default, for any number of joints."""
        return all(
            value == default
            or (isinstance(value, list) and [*value[:1]] * len(default) == default
                and len(set(value)) == 1)
            for name, field in type(self).model_fields.items()
            for value, default in [(getattr(self, name), field.default)]
        )  # fmt: skip
