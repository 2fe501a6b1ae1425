# SPDX-License-Identifier: Apache-2.0
"""A tool pose that follows a goal as fast as commanded joint positions may."""

from __future__ import annotations

import numpy as np

from multipanda_py.control.governed_channel import Possible
from multipanda_py.control.governed_pose import GovernedPose
from multipanda_py.control.position_ik import MOST_DAMPING
from multipanda_py.state import Vector


class GovernedCommandedPose(GovernedPose):
    r"""Shape the pose target of an arm that is commanded positions instead of torques.

    What bounds it is not torque but the joints' limits of acceleration and speed,

    .. math:: s_a |J^+ \ddot x|_i \le \sigma\, \ddot q_{max,i}, \qquad
        s_v |J^+ \dot x|_i \le \sigma\, \dot q_{max,i}

    with a damped inverse, as the joints do not follow what is being lost either.
    """

    def _possible_of(self, acceleration: Vector, twist: Vector) -> Possible:
        limits, share = self._state.limits, self._params.share
        J, gram = self._state.jacobian, self._state.jacobian_gram
        inverse = J.T @ np.linalg.inv(gram + MOST_DAMPING**2 * np.eye(6))
        found = []
        for task, most in ((acceleration, limits.acceleration), (twist, limits.velocity)):
            largest = float((np.abs(inverse @ task) / most).max())
            found.append(share / max(largest, 1e-9))
        return Possible(torque=found[0], speed=found[1])

    @property
    def _is_direct(self) -> bool:
        """False, as a position-controlled robot has no spring between reference and tool."""
        return False
