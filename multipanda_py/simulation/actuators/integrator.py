# SPDX-License-Identifier: Apache-2.0
"""Integrator of springs and motors, and number of its substeps per step of the simulated world."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import BackendError
from multipanda_py.simulation.actuators.equations import LINK, Equations
from multipanda_py.simulation.actuators.springs import JointSprings
from multipanda_py.state import Matrix, Vector

_STAGES = (0.5, 0.5, 1.0)  # Fractions of the time step at the stages of the Runge-Kutta method.
_WEIGHTS = np.array([1.0, 2.0, 2.0, 1.0]) / 6.0


class SpringIntegrator:
    """Integrator of :class:`.Equations` by the classical fourth-order Runge-Kutta method.

    Friction slips only between substeps. A motor that crosses a stop or its maximum speed in a
    substep is set back at its end.

    Args:
        springs: Springs between motors and links.
        equations: Equations of motors and controllers.

    Attributes:
        x: Positions of links and of both motors, (3, n) [rad]; a view of the state.
        v: Velocities of links and of both motors, (3, n) [rad/s]; a view of the state.
        impulse: Integral of the torques on links, which the caller resets, (n,) [Nm s].
        state: Positions, velocities and impulses, (7n,).
        loads: Spring torques on links, first and second motors at the last evaluation, (3, n)
            [Nm].
        torques: Controller torques of links and both motors, then friction of both motors, at the
            last evaluation, (5, n) [Nm].
        change: Change of ``state`` in the last substep, (7n,).

    Thread: control.
    """

    def __init__(self, springs: JointSprings, equations: Equations) -> None:
        n = springs.n_joints
        self._springs, self._equations = springs, equations
        self.state = np.zeros(7 * n)
        self.x, self.v = self.state[: 3 * n].reshape(3, n), self.state[3 * n : 6 * n].reshape(3, n)
        self.impulse = self.state[6 * n :]
        self._motion = self.state[: 6 * n]
        # Input of all matrix products: 1, x, v, loads of springs, torques and friction, 1. The
        # ones multiply the constant columns of L and A of ``Equations``.
        now = np.zeros(2 + 14 * n)
        now[0] = now[-1] = 1.0
        self._last_state, self._stage_motion = now[: 6 * n + 1], now[1 : 6 * n + 1]
        self._stage_x = now[1 : 3 * n + 1].reshape(3, n)
        self._q, self._theta_1, self._theta_2 = self._stage_x
        self.loads = now[6 * n + 1 : 9 * n + 1].reshape(3, n)
        self._causes, self._bounded = now[3 * n + 1 :], now[9 * n + 1 : -1]
        self.torques: Matrix = self._bounded.reshape(5, n)
        self._raw, self._slipped = np.zeros(5 * n), np.zeros(2 * n)
        self._memory = equations.input_matrix[3 * n :, 0]
        # ``Equations`` updates these arrays in place, so the references stay valid.
        self._input_matrix, self._output_matrix = equations.input_matrix, equations.output_matrix
        self._low, self._high = equations.low, equations.high
        self._min, self._max = equations.lower, equations.upper
        self._raw_friction, self._friction = self._raw[3 * n :], self._bounded[3 * n :]
        self._rates = np.zeros((4, 7 * n))
        self._rate_rows = list(self._rates)
        self._motion_rates = [row[: 6 * n] for row in self._rates]
        self._motor_rates = list(self._rates[:, 4 * n : 6 * n])
        self._step, self.change = np.zeros(6 * n), np.zeros(7 * n)
        self._limited, self._excess = np.zeros(6 * n), np.zeros(6 * n)
        self._all_free = np.ones(2 * n)
        self._free: NDArray[np.float64] | None = None
        self._rate_signs, self._last_limits = np.zeros(2 * n), b""
        self._not_held, self._is_at_limits = self._all_free, False
        self._n = n
        # Views of the elements that belong to motors, in four arrays.
        self._theta, self._speed = self._motor_views(self._motion)
        self._beyond_stop, self._too_fast = self._motor_views(self._excess)
        self._displacement, self._fastest = self.change[n : 3 * n], self._max[4 * n :]
        self._are_at = np.zeros((2, 6 * n), dtype=bool)
        self._is_top, self._is_bottom = self._are_at
        self._tops, self._bottoms = map(self._motor_views, (self._is_top, self._is_bottom))

    @property
    def rates(self) -> Vector:
        """Time derivative of ``state`` from the last :meth:`start_step`, (7n,)."""
        return self._rate_rows[0]

    def evaluate(self) -> Vector:
        """Evaluate the equations at the current state; return the rates of ``state``, (7n,)."""
        self._stage_motion[:] = self._motion
        self._evaluate(3)
        return self._rate_rows[3]

    def recheck_limits(self) -> None:
        """Check all motors for stops and maximum speeds in the next step."""
        self._free = self._all_free

    def start_step(self) -> None:
        """Compute :attr:`rates` at the current state, and let friction anchors slip."""
        self._stage_motion[:] = self._motion
        self._evaluate(0)
        np.subtract(self._friction, self._raw_friction, out=self._slipped)
        np.add(self._memory, self._slipped, out=self._memory)
        if self._free is not None:
            self._stop_motors_at_limits()

    def advance(self, duration: float, substeps: int) -> None:
        """Integrate ``state`` over a duration [s] in a number of substeps."""
        dt, equations = duration / substeps, self._equations
        weights, fractions = dt * _WEIGHTS, [np.array(dt * fraction) for fraction in _STAGES]
        step, change, rates = self._step, self.change, self._motion_rates
        for _ in range(substeps):
            self.start_step()
            for stage, weight in enumerate(fractions):
                np.multiply(rates[stage], weight, out=step)
                np.add(self._motion, step, out=self._stage_motion)
                self._evaluate(stage + 1)
                if self._free is not None:
                    row = self._motor_rates[stage + 1]
                    row *= self._free
            weights.dot(self._rates, out=change)
            if equations.integrates:
                equations.integrate(dt, self.x + 0.5 * change[: 3 * self._n].reshape(3, -1))
            self.state += change
            self.enforce_limits(dt)

    def enforce_limits(self, dt: float) -> None:
        """Limit motors to their stops and maximum speeds after a step of length ``dt`` [s]."""
        limited, over = self._limited, self._excess
        np.minimum(self._motion, self._max, out=limited)
        np.maximum(limited, self._min, out=limited)
        np.subtract(self._motion, limited, out=over)
        if not over.dot(over):
            return
        self._motion[:] = limited
        overshoot, max_displacement = self._beyond_stop, dt * self._fastest
        # A motor that exceeds its maximum speed in the step moves no further than at that speed.
        excess = self._displacement - np.minimum(
            np.maximum(self._displacement, -max_displacement), max_displacement
        )
        excess *= self._too_fast != 0.0
        if overshoot.dot(overshoot):
            self._speed *= overshoot * self._speed <= 0.0
            excess *= overshoot == 0.0
        self._theta -= excess
        self._free = self._all_free

    def _evaluate(self, stage: int) -> None:
        raw, bounded = self._raw, self._bounded
        self._input_matrix.dot(self._last_state, out=raw)
        np.minimum(raw, self._high, out=bounded)
        np.maximum(bounded, self._low, out=bounded)
        self._springs.load(self._q, self._theta_1, self._theta_2, self.loads)
        self._output_matrix.dot(self._causes, out=self._rate_rows[stage])

    def _stop_motors_at_limits(self) -> None:
        rates = self._motor_rates[0]
        np.greater_equal(self._motion, self._max, out=self._is_top)
        np.less_equal(self._motion, self._min, out=self._is_bottom)
        np.sign(rates, out=self._rate_signs)
        limit_state = self._are_at.tobytes() + self._rate_signs.tobytes()
        # The set of held motors rarely changes, so its masks are computed only after a change.
        if limit_state != self._last_limits:
            up, down = self._tops[0] | self._tops[1], self._bottoms[0] | self._bottoms[1]
            held = (up & (rates > 0.0)) | (down & (rates < 0.0))
            self._not_held, self._is_at_limits = 1.0 - held, bool((up | down).any())
            self._last_limits = limit_state
        rates *= self._not_held
        self._free = self._not_held if self._is_at_limits else None

    def _motor_views(self, motion: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return views of motor positions and velocities, (2n,) each, in an array like (x, v)."""
        n = self._n
        return motion[n : 3 * n], motion[4 * n :]


SLOW_TIME_CONSTANT = 0.1
"""Filter time constant of accelerations by other forces than springs [s]. It is longer than the
vibrations of springs and shorter than the settling of an arm."""
HOLDING_TIME_CONSTANT = 0.02
"""Filter time constant of accelerations by contacts and friction [s]."""


@dataclass(eq=False)
class QuasiStaticTerm:
    """Filtered accelerations of links without the effect of springs, (n,) each [rad/s^2].

    Substeps use the filtered effect of contacts and joint friction in past steps, because the
    current forces are unknown. A link that leans on an object then stays at rest.

    Attributes:
        acceleration: Filtered acceleration without springs, contacts and friction.
        held: Filtered acceleration by contacts and friction.
        last: Unfiltered value of ``acceleration`` in the last step; NaN before the first step.

    Thread: control.
    """

    acceleration: Vector
    held: Vector
    last: Vector

    @classmethod
    def zero(cls, n_joints: int) -> QuasiStaticTerm:
        """Return the filters of joints at zero acceleration, before their first step."""
        return cls(np.zeros(n_joints), np.zeros(n_joints), np.full(n_joints, np.nan))

    def copied(self) -> tuple[Vector, ...]:
        return self.acceleration.copy(), self.held.copy(), self.last.copy()

    def update(
        self,
        dq: Vector,
        expected_dq: Vector,
        free_acceleration: Vector,
        is_substepped: Vector,
        duration: float,
    ) -> None:
        """Update the filters at the beginning of a step.

        Args:
            dq: Velocities at the beginning of the step, corrected as in :class:`.CompliantJoints`,
                (n,) [rad/s].
            expected_dq: Velocities computed for the end of the last step, (n,) [rad/s].
            free_acceleration: Accelerations without springs, contacts and friction, (n,)
                [rad/s^2].
            is_substepped: 1 for joints that move in substeps, 0 for all others, (n,).
            duration: Length of the step [s].
        """
        if math.isnan(self.last[0]):
            self.acceleration[:] = free_acceleration
        else:
            kick = 0.5 * duration * is_substepped * (free_acceleration - self.last)
            result = (dq - expected_dq - kick) / duration + self.held
            self.held += -math.expm1(-duration / HOLDING_TIME_CONSTANT) * (result - self.held)
            self.acceleration += -math.expm1(-duration / SLOW_TIME_CONSTANT) * (
                free_acceleration - self.acceleration
            )
        self.last[:] = free_acceleration


SPRING_STEP_RATIO = 0.08
"""Maximum substep relative to the inverse of the local angular frequency of springs. A vibration
of up to 200 Hz then loses less than 0.1 % of its energy in 10 s."""
FAST_STEP_RATIO = 1.0
"""Maximum substep relative to the inverse rate of controllers, friction and dampers, whose
motions decay quickly."""
STABLE_STEP_RATIO = 1.0
"""Maximum substep for stable springs, relative to the inverse of their angular frequency. Stiffer
springs are softened."""
MAX_SUBSTEPS = 50
"""Default maximum number of substeps in a step."""


class StepPlan(NamedTuple):
    """Number of substeps of springs and motors in a simulation step, and factors for stability.

    Attributes:
        substeps: Number of substeps.
        spring_scale: Factor on spring torques; below 1 if ``max_substeps`` is too few for
            stability.
        damper_scale: Factor on torques of link controllers, and of dampers between motors and
            links; below 1 if ``max_substeps`` is too few for stability.
        accuracy_warning: Reason why the step is inaccurate; empty if it is accurate.
    """

    substeps: int
    spring_scale: float
    damper_scale: float
    accuracy_warning: str


def choose_substeps(
    springs: JointSprings,
    equations: Equations,
    x: Matrix,
    compliance: Matrix,
    damping: Vector,
    own_damping: Vector,
    duration: float,
    max_substeps: int,
) -> StepPlan:
    r"""Choose the number of substeps by an upper bound of the angular frequency of springs.

    With the spring stiffness :math:`\sigma`, the inverse mass matrix C of the links and the motor
    inertias J, this bound is

    .. math::
        \omega^2 \le \omega_0^2 = \max_j \sum_k |C_{jk}|\, \sigma_k + \max_j \sigma_j / J_j .

    Some actuators have a second motor of mass m that moves a pivot. For the pivot position s, the
    load F of this motor and the spring torque :math:`\tau` on the link, the bound becomes

    .. math::
        \omega^2 \le \max\left(\omega_0^2, \max_j \frac{1}{m_j}
        \left|\frac{\partial F_j}{\partial s_j}\right|\right) + \max_j
        \left|\frac{\partial \tau_j}{\partial s_j}\right|
        \sqrt{\frac{1}{m_j} \left(\sum_k |C_{jk}| + \frac{1}{J_j}\right)} .

    Args:
        springs: Springs between motors and links.
        equations: Equations of motors and controllers.
        x: Positions of links and motors, (3, n) [rad].
        compliance: Inverse mass matrix C, (n, n) [1/(kg m^2)].
        damping: Damping of the joints in the MuJoCo model, (n,) [Nm s/rad].
        own_damping: Damping of the actuators between motors and links, (n,) [Nm s/rad].
        duration: Length of the step [s].
        max_substeps: Maximum number of substeps.

    Raises:
        BackendError: If the frequency is not finite.
    """
    sigma = np.abs(springs.largest_stiffness(x[0], x[1:])) * equations.elastic
    sigma += equations.gains[0, LINK]
    reach = np.abs(compliance)
    motor_squares = (sigma * equations.inverse_inertia).ravel().tolist()
    square = max(reach.dot(sigma).tolist()) + max(motor_squares)
    if springs.moves_pivots and equations.inverse_inertia[1].any():
        square = _bound_with_pivots(square, springs, equations, x, reach)
    omega = math.sqrt(square)
    stable_rate = STABLE_STEP_RATIO * max_substeps / duration
    link_damping = own_damping * equations.elastic
    drag = link_damping + equations.gains[2, LINK]
    dampers = max((reach.dot(drag) + link_damping * equations.inverse_inertia).ravel().tolist())
    fastest = max(equations.fastest, dampers, *reach.dot(damping).tolist())
    desired = duration * max(omega / SPRING_STEP_RATIO, fastest / FAST_STEP_RATIO)
    if not math.isfinite(desired):
        raise BackendError(
            f"springs: got stiffness {sigma.tolist()!r:.200} Nm/rad at {x.tolist()!r:.200} rad, "
            "allowed finite values only"
        )
    count = max(1, math.ceil(desired))
    accuracy_warning, spring_scale, damper_scale = (
        "",
        1.0,
        min(1.0, stable_rate / max(dampers, stable_rate)),
    )
    if omega * duration > math.pi:
        accuracy_warning = (
            f"springs vibrate at {omega / math.tau:.0f} Hz: got a step of {1e3 * duration:.3g} "
            f"ms, allowed up to {1e3 * math.pi / omega:.3g} ms, half a period. Longer steps may "
            "cause resonance. Use a shorter step or softer springs"
        )
    if count > max_substeps:
        count = max_substeps
    if duration * omega / SPRING_STEP_RATIO > max_substeps:
        accuracy_warning = (
            f"springs of {sigma.max():.4g} Nm/rad vibrate at {omega / math.tau:.0f} Hz: "
            f"{max_substeps} substeps in {1e3 * duration:.3g} ms are accurate up to "
            f"{SPRING_STEP_RATIO / STABLE_STEP_RATIO * stable_rate / math.tau:.0f} Hz"
        )
        if omega > stable_rate:
            spring_scale = (stable_rate / omega) ** 2
            accuracy_warning += f"; their stiffness is scaled by {spring_scale:.2g}"
    elif max(fastest, equations.nominal_rate) > stable_rate:
        accuracy_warning = (
            f"motors, controllers and dampers respond at "
            f"{max(fastest, equations.nominal_rate):.4g} 1/s: {max_substeps} substeps in "
            f"{1e3 * duration:.3g} ms are stable up to {stable_rate:.4g} 1/s; "
            "motors are simulated as heavier and dampers as weaker"
        )
    return StepPlan(count, spring_scale, damper_scale, accuracy_warning)


def _bound_with_pivots(
    bound_without_pivots: float,
    springs: JointSprings,
    equations: Equations,
    x: Matrix,
    absolute_compliance: Matrix,
) -> float:
    """Return the squared frequency bound with the effect of pivot motors [1/s^2]."""
    first, second = equations.inverse_inertia
    own, mixed = springs.pivot_slopes(x[0], x[1:])
    cross = np.abs(mixed) * np.sqrt(second * (absolute_compliance.sum(axis=1) + first))
    return float(max(bound_without_pivots, *(np.abs(own) * second).tolist()) + max(cross.tolist()))
