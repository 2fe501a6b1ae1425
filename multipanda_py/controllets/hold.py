# SPDX-License-Identifier: Apache-2.0
"""Hold still: the law of every arm that no other controllet owns."""

from __future__ import annotations

from multipanda_py.controllets.joint_impedance import JointImpedanceLaw
from multipanda_py.targets import HeldPosture


class Hold(JointImpedanceLaw[HeldPosture]):
    """Brake to a stop and hold the posture measured at activation.

    The joint impedance law with a target that nobody can move. It takes over an
    arm at start, when its controllet is deactivated, and after a fault.
    """

    Target = HeldPosture
