# SPDX-License-Identifier: Apache-2.0
"""External torques without what was learned of an arm's own."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pinocchio as pin

from multipanda_py.robots import ArmDescription
from multipanda_py.robots.dynamics.arm_model import LoadedFlange, heavy_model
from multipanda_py.robots.inertial import Load
from multipanda_py.robots.residual.runtime import LiveResidual
from multipanda_py.robots.robot import JointLosses
from multipanda_py.state import ArmState, Vector

BANDWIDTH = 50.0
"""Of the estimate, where nothing else is said [1/s]."""


class MomentumObserver:
    r"""Estimate external joint torques from the generalised momentum.

    .. math::
        r = K \left( p(t) - p(0) - \int (\tau_J + C^T \dot q - g + r) \, dt \right), \qquad
        p = M \dot q

    which follows the true torques as a first-order lag with K, and needs no accelerations (De
    Luca, Albu-Schäffer, Haddadin and Hirzinger, 2006).

    Args:
        model: Pinocchio's, with tool and load; gravity acts as its base stands.
        bandwidth: K [1/s].

    Thread: of its owner.
    """

    def __init__(self, model: Any, bandwidth: float = BANDWIDTH) -> None:
        self._bandwidth = bandwidth
        self._model, self._data = model, model.createData()
        self._integral = np.zeros(model.nv)
        self._estimate = np.zeros(model.nv)
        self._begun = self._goes_on = False

    @property
    def estimate(self) -> Vector:
        """The last one, (n,) [Nm]; live."""
        return self._estimate

    def restart(self) -> None:
        """Begin anew from zero with the next state: what was estimated is of no use any more."""
        self._begun = False
        self._estimate[:] = 0.0

    def resume(self) -> None:
        """Go on from the last estimate with the next state, whatever the arm did in between."""
        self._goes_on = True

    def update(self, q: Vector, dq: Vector, tau_J: Vector, period: float) -> Vector:
        """Return the estimate after one more period, (n,) [Nm]; zero at the first state.

        Args:
            q: (n,) [rad].
            dq: (n,) [rad/s].
            tau_J: Executed since the last state, gravity included, (n,) [Nm].
            period: Since the last state [s].
        """
        model, data = self._model, self._data
        mass = pin.crba(model, data, q)
        mass = np.triu(mass) + np.triu(mass, 1).T
        momentum = mass @ dq
        if not self._begun:
            self._begun, self._goes_on = True, False
            self._integral[:], self._estimate[:] = momentum, 0.0
        elif self._goes_on:
            self._goes_on = False
            self._integral[:] = momentum - self._estimate / self._bandwidth
        coriolis = pin.computeCoriolisMatrix(model, data, q, dq)
        gravity = pin.computeGeneralizedGravity(model, data, q)
        self._integral += period * (tau_J + coriolis.T @ dq - gravity)
        # Implicit in the new estimate, so that it is stable at any rate.
        gain = self._bandwidth / (1.0 + self._bandwidth * period)
        self._estimate[:] = gain * (momentum - self._integral)
        self._integral += period * self._estimate
        return self._estimate


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
