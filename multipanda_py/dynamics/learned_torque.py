# SPDX-License-Identifier: Apache-2.0
"""External torques without what was learned of an arm's own."""

from __future__ import annotations

from multipanda_py.dynamics.external_estimate import ExternalEstimate
from multipanda_py.residual.live import LiveResidual
from multipanda_py.robots.load import Load
from multipanda_py.state import ArmState


class LearnedTorque:
    r"""Take a learned residual of measured torques off the external ones.

    .. math:: \tau_{ext} \leftarrow \tau_{ext} + r_\tau(q, \dot q, \tau_J)

    What the joints show beside the model, as friction, is felt as if from outside, the other way
    round. The residual fades out where it was not trained, see :class:`.LiveResidual`.

    Args:
        state: Of the arm, live.
        live: Of the arm.
        felt: Estimates external torques before that, if the robot's own are not to be believed.

    Thread: control.
    """

    def __init__(
        self, state: ArmState, live: LiveResidual, felt: ExternalEstimate | None = None
    ) -> None:
        self._state, self._live, self._felt = state, live, felt
        self._torques = live.residual[2 * state.n_joints :]

    def set_load(self, load: Load) -> None:
        """Count what the flange carries."""
        if self._felt is not None:
            self._felt.set_load(load)

    def restart(self) -> None:
        """Begin anew: the arm is somewhere else, at another time."""
        self._live.reset()
        if self._felt is not None:
            self._felt.restart()

    def update(self) -> None:
        """Correct ``tau_ext`` of a state that has just been read."""
        state = self._state
        if self._felt is not None:
            self._felt.update()
        self._live.step(state.q, state.dq, state.tau_J)
        state.tau_ext += self._torques
