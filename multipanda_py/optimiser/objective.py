# SPDX-License-Identifier: Apache-2.0
"""What a plan is asked for, one thing at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from multipanda_py.optimiser.kinematics import Slices
from multipanda_py.optimiser.scene import Scene
from multipanda_py.state import Matrix, Vector


class Objective(ABC):
    r"""Give numbers in every slice, and how they change with it.

    .. math:: \phi(x_t) \in R^m, \qquad
        \Delta^k \phi_t / \Delta t^k = \Delta t^{-k} \sum_j (-1)^j \binom{k}{j} \phi(x_{t-j})

    A problem makes a cost of the difference of order k, or keeps it between bounds.

    Attributes:
        order: The k of an objective that is about a rate, by default 0.
        frames: Names of the frames whose places it needs.
    """

    order: int = 0
    frames: tuple[str, ...] = ()

    @abstractmethod
    def evaluate(self, slices: Slices) -> tuple[Matrix, Matrix]:
        r"""Return :math:`\phi`, (s, m), and :math:`\partial \phi / \partial x`, (s, m, d)."""

    @abstractmethod
    def units(self, scene: Scene) -> tuple[str, ...]:
        r"""Return the units of :math:`\phi`, (m,), such as m and rad."""

    def bounds(self, scene: Scene) -> tuple[Vector, Vector] | None:
        """Return what the numbers are to be between, (m,) each, or None for a target of zero."""
        return None

    def columns(self, scene: Scene) -> np.ndarray | None:
        """Return which numbers of a slice the objective's are, where they are just these."""
        return None

    def check(self, scene: Scene) -> None:
        """Refuse what the scene does not have."""
        for name in self.frames:
            scene.frame(name)


class SliceNumbers(Objective):
    """Numbers of a slice as they are: joints of arms, places of things.

    Args:
        of: Names of arms and movable things; by default all.
    """

    def __init__(self, *of: str) -> None:
        self.of = of

    def columns(self, scene: Scene) -> np.ndarray:
        """Return their places in a slice."""
        names = self.of or tuple(scene.columns)
        return np.concatenate([np.r_[scene.columns[name]] for name in names])

    def units(self, scene: Scene) -> tuple[str, ...]:
        """Return the units of joints, and of places of things."""
        return tuple(scene.units[column] for column in self.columns(scene).tolist())

    def check(self, scene: Scene) -> None:
        """Refuse names that the scene has no numbers for."""
        for name in self.of:
            scene.known("arm or movable thing", name, [*scene.columns])

    def evaluate(self, slices: Slices) -> tuple[Matrix, Matrix]:
        """Return the numbers, and which they are."""
        columns = self.columns(slices.scene)
        x = slices.x
        selection = np.eye(x.shape[1])[columns]
        return x[:, columns], np.broadcast_to(selection, (len(x), *selection.shape))
