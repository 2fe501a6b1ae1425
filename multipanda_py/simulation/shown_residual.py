# SPDX-License-Identifier: Apache-2.0
"""What a real arm would have shown, by what was learned of it."""

from __future__ import annotations

from multipanda_py.residual.live import LiveResidual
from multipanda_py.simulation.drive import Measured, Stage


class ShownResidual(Stage):
    r"""Add a learned residual to what was measured.

    .. math:: (q, \dot q, \tau_J) \leftarrow (q, \dot q, \tau_J) + r, \qquad
        \tau_{ext} \leftarrow \tau_{ext} - r_\tau

    A torque that the joint shows and the model does not is felt from outside, the other way round.
    After another seed the network looks on anew, see :class:`.LiveResidual`; a loaded state of the
    world goes on as it was.

    Args:
        live: Of the arm.

    Thread: control.
    """

    CHANGING = ("memory",)

    def __init__(self, live: LiveResidual) -> None:
        self._live = live

    @property
    def memory(self) -> object:
        """What the network remembers."""
        return self._live.memory()

    @memory.setter
    def memory(self, saved: object) -> None:
        self._live.remember(saved)

    def measure(self, state: Measured) -> None:
        """Add it to positions, velocities and torques."""
        n = state.n_joints
        found = self._live.step(state.q, state.dq, state.tau_J)
        state.q += found[:n]
        state.dq += found[n : 2 * n]
        state.tau_J += found[2 * n :]
        state.tau_ext -= found[2 * n :]

    def reseed(self, seed: int) -> None:
        """Look on anew."""
        self._live.reset()
