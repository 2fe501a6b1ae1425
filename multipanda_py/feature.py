# SPDX-License-Identifier: Apache-2.0
"""The contract of a feature: a torque term that any fitting controllet can add."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Generic

from multipanda_py.context import Context
from multipanda_py.controllet import ParamsT
from multipanda_py.parameters import NoParams
from multipanda_py.state import ArmState, Vector
from multipanda_py.targets import Target


class Feature(ABC, Generic[ParamsT]):
    """A term added to a law's torques after its update.

    Attributes:
        context: The arms of its controllet and what is around them.
        params: Current parameters; replaced as a whole between two cycles.
        needs: Names that the law's target must have, such as ``posture``.
    """

    Params: ClassVar[type[Any]] = NoParams
    needs: ClassVar[tuple[str, ...]] = ()
    channels: ClassVar[tuple[str, ...]] = ()
    """Kinds of targets that a controllet takes in addition with this feature."""

    def __init__(self, context: Context, params: ParamsT) -> None:
        """Allocate everything that :meth:`add` needs. Thread: any, before the loop runs."""
        self.context = context
        self.params = params
        self.on_parameters()

    def on_parameters(self) -> None:
        """Recompute what depends on ``params`` only. Thread: control, between two cycles."""

    def on_activate(self, states: Sequence[ArmState], target: Target) -> None:
        """Reset what must not survive from an earlier activation. Thread: control."""

    @abstractmethod
    def add(
        self, states: Sequence[ArmState], target: Any, tau: Sequence[Vector], period: float
    ) -> None:
        """Add this term to ``tau``, per arm (7,) [Nm]. Thread: control, every cycle."""
