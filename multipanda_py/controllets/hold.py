# SPDX-License-Identifier: Apache-2.0
"""Hold still: the law of every arm that no other controllet owns."""

from __future__ import annotations

from collections.abc import Sequence

from multipanda_py.controllets.joint_impedance import JointImpedanceLaw
from multipanda_py.handover import Handover
from multipanda_py.state import ArmState
from multipanda_py.targets import HeldPosture

MAX_FORCE = 50.0
"""Largest force that an arm goes on pressing with: below the 65 N that ISO/TS 15066 allows for a
quasi-static contact with a face, the least of its table, and enough to keep a held object [N]."""


class Hold(JointImpedanceLaw[HeldPosture]):
    """Brake to a stop and hold the posture measured at activation.

    The joint impedance law with a target that nobody can move. It takes over an
    arm at start, when its controllet is deactivated, and after a fault.

    What the arm was pressing with goes on, up to ``MAX_FORCE``: to let go of a held object
    because a law has failed would drop it.
    """

    Target = HeldPosture

    def on_handover(
        self, states: Sequence[ArmState], target: HeldPosture, handovers: Sequence[Handover]
    ) -> str:
        """Press on, but never hard."""
        bounded = [handover.within(MAX_FORCE) for handover in handovers]
        super().on_handover(states, target, bounded)
        words = (
            h.words(state.name, b.force / max(h.force, b.force, 1e-9))
            for state, h, b in zip(states, handovers, bounded)
        )
        return "; ".join(filter(None, words))
