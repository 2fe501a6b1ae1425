# SPDX-License-Identifier: Apache-2.0
"""Estimates of the external joint torques of an arm, from its dynamics and learned residuals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pinocchio as pin

from multipanda_py.robots import ArmDescription
from multipanda_py.robots.dynamics.arm_dynamics import LoadedFlange, model_with_gravity
from multipanda_py.robots.inertial import Load
from multipanda_py.robots.residual.runtime import LiveResidual
from multipanda_py.robots.robot import JointFrictionModel
from multipanda_py.state import ArmState, Vector

DEFAULT_BANDWIDTH = 50.0
"""Default bandwidth of the momentum observer [1/s]."""


class MomentumObserver:
    r"""Momentum observer, which estimates external joint torques.

    .. math::
        r = K \left( p(t) - p(0) - \int (\tau_J + C^T \dot q - g + r) \, dt \right), \qquad
        p = M \dot q.

    Here K is the bandwidth and p the generalised momentum. M is the mass matrix, C the Coriolis
    matrix, g the gravity torque and :math:`\tau_J` the measured torque. The estimate r follows the
    external torque with a first-order lag of rate K.

    Source: De Luca, Albu-Schäffer, Haddadin and Hirzinger, 2006.

    Args:
        model: Pinocchio model of the arm with tool, payload and gravity.
        bandwidth: Bandwidth K of the estimate [1/s].

    Thread: one at a time.
    """

    def __init__(self, model: Any, bandwidth: float = DEFAULT_BANDWIDTH) -> None:
        self._bandwidth = bandwidth
        self._model, self._data = model, model.createData()
        self._integral = np.zeros(model.nv)
        self._estimate = np.zeros(model.nv)
        self._start_time = self._goes_on = False

    @property
    def estimate(self) -> Vector:
        """Last estimate, (n,) [Nm]; the array is updated in place."""
        return self._estimate

    def restart(self) -> None:
        """Set the estimate to zero. The next :meth:`update` defines the initial momentum."""
        self._start_time = False
        self._estimate[:] = 0.0

    def resume(self) -> None:
        """Continue from the last estimate at the next :meth:`update`, after missing states."""
        self._goes_on = True

    def update(self, q: Vector, dq: Vector, tau_J: Vector, period: float) -> Vector:
        """Return the estimate after one more period, (n,) [Nm]; zero for the first state.

        Args:
            q: Joint positions, (n,) [rad].
            dq: Joint velocities, (n,) [rad/s].
            tau_J: Torques since the last state, including gravity, (n,) [Nm].
            period: Time since the last state [s].
        """
        model, data = self._model, self._data
        mass = pin.crba(model, data, q)
        mass = np.triu(mass) + np.triu(mass, 1).T
        momentum = mass @ dq
        if not self._start_time:
            self._start_time, self._goes_on = True, False
            self._integral[:], self._estimate[:] = momentum, 0.0
        elif self._goes_on:
            self._goes_on = False
            self._integral[:] = momentum - self._estimate / self._bandwidth
        coriolis = pin.computeCoriolisMatrix(model, data, q, dq)
        gravity = pin.computeGeneralizedGravity(model, data, q)
        self._integral += period * (tau_J + coriolis.T @ dq - gravity)
        # The update is implicit in the new estimate, so that it is stable at any bandwidth.
        gain = self._bandwidth / (1.0 + self._bandwidth * period)
        self._estimate[:] = gain * (momentum - self._integral)
        self._integral += period * self._estimate
        return self._estimate


CROSSOVER_FREQUENCY = 20.0
"""Crossover frequency K of two estimates [1/s]: slower torques come from the momentum observer,
faster ones from the robot."""
FILTER_TIME = 0.005
"""Time constant T of the filter for the robot's estimate, which has white noise [s]."""
MAX_STATE_GAP = 0.05
"""Time between two states up to which the observer continues [s]. After a longer gap it starts
again from its last estimate."""


class ExternalEstimate:
    r"""External torques from the measured torques and the identified model of an arm.

    .. math::
        \hat\tau_{ext} = r + \tau_s - \bar\tau, \qquad
        T \dot\tau_s = \tau_{robot} - \tau_s, \qquad
        \dot{\bar\tau} = K (\tau_s - \bar\tau).

    r is the output of a :class:`.MomentumObserver` whose input is the measured torque minus
    modelled friction. :math:`\tau_{robot}` is the robot's own estimate, :math:`\tau_s` the same
    without noise, and :math:`\bar\tau` its slow part. T = 5 ms and 1/K = 50 ms. The sum takes slow
    changes from r, and fast ones from the robot.

    At rest, static friction of the joints appears as an external torque.

    Args:
        arm: Description of the arm with identified parameters.
        state: State of the arm, updated in place by the caller.
        period: Cycle time [s].

    Thread: control.
    """

    def __init__(self, arm: ArmDescription, state: ArmState, period: float) -> None:
        self._state, self._period = state, period
        model: Any = model_with_gravity(arm)
        self._flange = LoadedFlange(model, arm.flange_frame)
        self._observer, self._losses = (
            MomentumObserver(model, CROSSOVER_FREQUENCY),
            JointFrictionModel(arm.robot),
        )
        self._smoothed, self._low_passed = np.zeros((2, arm.n_joints))
        self._start_time, self._interrupted, self._before = False, False, 0.0

    def set_load(self, load: Load) -> None:
        """Set the payload at the flange; it replaces the previous one."""
        self._flange.set_load(load)

    def restart(self) -> None:
        """Restart from the robot's estimate, for example after the arm was moved elsewhere."""
        self._start_time = False

    def update(self) -> None:
        """Set ``tau_ext`` of the state to the estimate, once per cycle after the state is read."""
        state, now = self._state, float(self._state.robot_time)
        period = now - self._before if now and self._before else self._period
        self._before = now
        if not 0.0 < period < MAX_STATE_GAP:
            self._interrupted, period = True, self._period
        measured, prompt, slow = state.tau_ext, self._smoothed, self._low_passed
        if not math.isfinite(measured.dot(measured)):  # The loop reports the fault.
            self._interrupted = True
            return
        if not self._start_time:
            self._start_time, self._interrupted = True, False
            self._observer.restart()
            prompt[:], slow[:] = measured, 0.0
        observed = self._estimate_momentum_residual(state, period)
        prompt += period / (FILTER_TIME + period) * (measured - prompt)
        slow += (
            CROSSOVER_FREQUENCY * period / (1.0 + CROSSOVER_FREQUENCY * period) * (prompt - slow)
        )
        result = observed + prompt - slow
        if not math.isfinite(result.dot(result)):
            # Finite but huge inputs have overflowed. The estimate restarts with the next state.
            self._start_time = False
            return
        measured[:] = result

    def _estimate_momentum_residual(self, state: ArmState, period: float) -> Vector:
        if not math.isfinite(state.q.dot(state.dq) + state.tau_J.dot(state.tau_J)):
            self._interrupted = True
            return self._observer.estimate
        if self._interrupted:
            self._interrupted = False
            self._observer.resume()
        torque = state.tau_J - self._losses.torque(state.dq)
        return self._observer.update(state.q, state.dq, torque, period)


class ResidualCorrection:
    r"""Correction of external torques by a network that predicts model errors.

    .. math:: \tau_{ext} \leftarrow \tau_{ext} + r_\tau(q, \dot q, \tau_J).

    The residual :math:`r_\tau` is the part of the measured torques that the model of the arm
    lacks, such as friction. It fades to zero outside of the range of the training data.

    Args:
        state: State of the arm, updated in place by the caller.
        live: Network that predicts the residual of the arm.
        estimate: Estimator of the external torques to correct; None for those of the robot.

    Thread: control.
    """

    def __init__(
        self, state: ArmState, live: LiveResidual, estimate: ExternalEstimate | None = None
    ) -> None:
        self._state, self._live, self._tau_ext = state, live, estimate
        self._torques = live.residual[2 * state.n_joints :]

    def set_load(self, load: Load) -> None:
        """Set the payload at the flange in the estimator ``estimate``, unless it is None."""
        if self._tau_ext is not None:
            self._tau_ext.set_load(load)

    def restart(self) -> None:
        """Restart the residual and the estimator, for example after the arm was moved away."""
        self._live.reset()
        if self._tau_ext is not None:
            self._tau_ext.restart()

    def update(self) -> None:
        """Correct ``tau_ext`` of the state. Call this once after each reading of the state."""
        state = self._state
        if self._tau_ext is not None:
            self._tau_ext.update()
        self._live.step(state.q, state.dq, state.tau_J)
        state.tau_ext += self._torques
