# SPDX-License-Identifier: Apache-2.0
"""External torques of an arm by what was identified of it, instead of what its robot believes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from multipanda_py.dynamics.arm_model import LoadedFlange
from multipanda_py.dynamics.gravity import heavy_model
from multipanda_py.dynamics.momentum_observer import MomentumObserver
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.joint_losses import JointLosses
from multipanda_py.robots.load import Load
from multipanda_py.state import ArmState, Vector

CROSSOVER = 20.0
"""Below which measured torques say what is felt, and above which the robot does [1/s]."""
SMOOTHING = 0.005
"""Time constant of what the robot says, whose noise is white [s]."""
LONGEST = 0.05
"""Between two states; what the arm did in a longer gap is not counted [s]."""


class ExternalEstimate:
    r"""Replace what a robot feels by what measured torques say of the identified arm.

    .. math::
        \hat\tau_{ext} = r + \tau_s - \bar\tau, \qquad
        T \dot\tau_s = \tau_{robot} - \tau_s, \qquad
        \dot{\bar\tau} = K (\tau_s - \bar\tau)

    with the :class:`.MomentumObserver` r of the identified bodies, told the measured torque
    without friction, and the robot's own estimate :math:`\tau_{robot}`. The observer is right
    and late, the robot prompt and wrong: a complementary filter takes from each what it is good
    at. A contact is felt after T = 5 ms, and what a wrong model, friction, or an offset of the
    sensors feels like fades with 1/K = 50 ms. In motion, that is: friction of a joint at rest may
    be anything below its bound, which nobody can tell from a push.

    Over a gap, and over measurements that are no numbers, the observer keeps its last estimate and
    the filters go on with what the robot says by then: a law that feels sees no step.

    Args:
        arm: As it was identified.
        state: Its live state.
        period: Of a cycle [s].

    Thread: control.
    """

    def __init__(self, arm: ArmDescription, state: ArmState, period: float) -> None:
        self._state, self._period = state, period
        model: Any = heavy_model(arm)
        self._flange = LoadedFlange(model, arm.flange_frame)
        self._observer, self._losses = MomentumObserver(model, CROSSOVER), JointLosses(arm.robot)
        self._prompt, self._slow = np.zeros((2, arm.n_joints))
        self._begun, self._interrupted, self._before = False, False, 0.0

    def set_load(self, load: Load) -> None:
        """Count what the flange carries, instead of any load before."""
        self._flange.carry(load)

    def restart(self) -> None:
        """Begin anew with what the robot feels: the arm is somewhere else, at another time."""
        self._begun = False

    def update(self) -> None:
        """Replace ``tau_ext`` of a state that has just been read."""
        state, now = self._state, float(self._state.robot_time)
        period = now - self._before if now and self._before else self._period
        self._before = now
        if not 0.0 < period < LONGEST:
            self._interrupted, period = True, self._period
        felt, prompt, slow = state.tau_ext, self._prompt, self._slow
        if not math.isfinite(felt.dot(felt)):  # whoever checks states sees it
            self._interrupted = True
            return
        if not self._begun:
            self._begun, self._interrupted = True, False
            self._observer.restart()
            prompt[:], slow[:] = felt, 0.0
        observed = self._observe(state, period)
        prompt += period / (SMOOTHING + period) * (felt - prompt)
        slow += CROSSOVER * period / (1.0 + CROSSOVER * period) * (prompt - slow)
        found = observed + prompt - slow
        if not math.isfinite(found.dot(found)):  # by numbers beyond all bounds
            self._begun = False
            return
        felt[:] = found

    def _observe(self, state: ArmState, period: float) -> Vector:
        """Return what measured torques say, (n,) [Nm]; the last, if they say nothing."""
        if not math.isfinite(state.q.dot(state.dq) + state.tau_J.dot(state.tau_J)):
            self._interrupted = True
            return self._observer.estimate
        if self._interrupted:
            self._interrupted = False
            self._observer.resume()
        torque = state.tau_J - self._losses.torque(state.dq)
        return self._observer.update(state.q, state.dq, torque, period)
