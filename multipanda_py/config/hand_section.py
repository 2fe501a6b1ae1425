# SPDX-License-Identifier: Apache-2.0
"""What an arm grips with: the hand of its model, none, or the files that describe one."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Discriminator, Tag

from multipanda_py.config.section import Section
from multipanda_py.robots.parallel_gripper import ParallelGripper
from multipanda_py.robots.read_gripper import read_gripper


class HandConfig(Section):
    """The files of a parallel gripper that is data; see :func:`.read_gripper`.

    Paths in a cell file are relative to it, others to the current folder.
    """

    urdf: str = ""
    extra: str = ""
    """YAML with what the URDF lacks."""

    @cached_property
    def gripper(self) -> ParallelGripper:
        """The gripper, read once.

        Raises:
            ConfigurationError: If the files describe none.
        """
        urdf, extra = (Path(path) if path else None for path in (self.urdf, self.extra))
        return read_gripper(extra, urdf=urdf)


def _readable_hand(files: HandConfig) -> HandConfig:
    """Refuse files that describe no gripper here, where it is said of the hand."""
    files.gripper  # noqa: B018 - reads it
    return files


def _kind_of_hand(value: object) -> str:
    return "[files]" if isinstance(value, Mapping | HandConfig) else "[switch]"


Hand = Annotated[
    Annotated[bool, Tag("[switch]")]
    | Annotated[HandConfig, AfterValidator(_readable_hand), Tag("[files]")],
    Discriminator(_kind_of_hand),
]
"""A switch or the files; tags in brackets are left out of messages."""
