# SPDX-License-Identifier: Apache-2.0
"""Identification of link inertia, rotor inertia and joint friction from logs of a moving arm."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import IdentificationRejected
from multipanda_py.identification.arm.estimators import (
    Estimate,
    FrictionEstimate,
    FrictionShape,
    ParameterPrior,
    fit,
    fit_consistent,
    fit_friction,
)
from multipanda_py.identification.arm.regressor import (
    ArmRegressor,
    BaseParameters,
    base_parameters,
    unobservable_offsets,
)
from multipanda_py.identification.arm.stack import (
    Stack,
    check_excitation,
    check_motion,
    stack,
    thinned,
)
from multipanda_py.realtime.recording.measured_motion import MeasuredMotion
from multipanda_py.registry import needed
from multipanda_py.robots import ArmDescription, Robot
from multipanda_py.robots.inertial import NO_LOAD, Load, inertial_of
from multipanda_py.state import Matrix, Vector

MAX_SIGMOID_WIDTH, MIN_SIGMOID_WIDTH = 1.0, 0.005
"""Bounds of the width of a sigmoid [rad/s, m/s]. A wider one acts as viscous friction."""
CANDIDATE_WIDTHS = np.geomspace(MIN_SIGMOID_WIDTH, MAX_SIGMOID_WIDTH, 9)
"""Widths of a sigmoid to try for the initial guess [rad/s, m/s]."""
JOINT_SWEEPS = 2
"""Number of sweeps over all joints, each of which selects the best width of one joint after the
other for the initial guess."""
MAX_RELATIVE_SHIFT = 5.0
"""Maximum shift of a sigmoid, relative to the prior standard deviation of shifts."""


def fit_shape(
    stack: Stack, base: BaseParameters, cutoff: float, noise: Vector, prior: float = 0.02
) -> FrictionShape:
    r"""Fit width and shift of each joint's Coulomb friction near zero velocity.

    .. math:: \min_{w, s} \min_{\beta, f, \delta} \sum_j \nu \sigma_j^{-2}
        \| A_{b,j} \beta + F_{w_j, s_j} f_j - \delta \dot \tau_j - \tau_j \|^2.

    Symbols: widths w and shifts s of all joints. Joint j has the measured torques :math:`\tau_j`
    with the noise :math:`\sigma_j`. Base parameters :math:`\beta` and friction coefficients f have
    the regressors :math:`A_b` and F. The torques are late by the delay :math:`\delta`, and
    :math:`\nu` is the fraction of independent samples. For each shape, :math:`\beta`, f and
    :math:`\delta` are eliminated (variable projection).

    Args:
        stack: Filtered torques and regressors of the measured motions.
        base: Base parameters of the arm.
        cutoff: Cutoff frequency of the filter of ``stack`` [Hz].
        noise: Standard deviations of the torques, (n,) [Nm].
        prior: Standard deviation of the prior of the shifts, which are expected to be zero
            [rad/s].

    Source: Golub and Pereyra, The differentiation of pseudo-inverses and nonlinear least squares
    problems whose variables separate, 1973.
    """
    search = _ShapeProblem(stack, base, cutoff, noise, prior)
    n = len(noise)
    x = np.concatenate(
        [np.full(n, np.log(CANDIDATE_WIDTHS[len(CANDIDATE_WIDTHS) // 2])), np.zeros(n)]
    )
    for _ in range(JOINT_SWEEPS):
        for joint in range(n):
            trials = np.tile(x, (len(CANDIDATE_WIDTHS), 1))
            trials[:, joint] = np.log(CANDIDATE_WIDTHS)
            x = min(trials, key=lambda trial: float((search.residual(trial) ** 2).sum()))
    low = np.concatenate([np.full(n, np.log(MIN_SIGMOID_WIDTH)), np.full(n, -MAX_RELATIVE_SHIFT)])
    high = np.concatenate([np.full(n, np.log(MAX_SIGMOID_WIDTH)), np.full(n, MAX_RELATIVE_SHIFT)])
    inside = 1e-6
    start = np.clip(x, low + inside, high - inside)
    optimise = needed("scipy.optimize")
    result = optimise.least_squares(search.residual, start, bounds=(low, high), max_nfev=40).x
    return FrictionShape(np.exp(result[:n]), result[n:] * prior)


class _ShapeProblem:
    """Least-squares problem of :func:`fit_shape`, with widths and shifts as its only unknowns."""

    def __init__(
        self, stack: Stack, base: BaseParameters, cutoff: float, noise: Vector, prior: float
    ) -> None:
        samples, n = stack.tau.shape
        weight = np.tile(np.sqrt(stack.independent) / noise, samples)
        columns = np.concatenate([stack.rows[:, :, base.columns], -stack.slope[..., None]], axis=2)
        known = columns.reshape(samples * n, -1) * weight[:, None]
        length = np.linalg.norm(known, axis=0)
        q, r = np.linalg.qr(known[:, length > 0.0] / length[length > 0.0])
        self._known: Matrix = q[:, np.abs(np.diagonal(r)) > 1e-9]
        tau = stack.tau.ravel() * weight
        self._left: Vector = tau - self._known @ (self._known.T @ tau)
        self._parts, self._cutoff, self._prior = stack.parts, cutoff, prior
        self._weight = weight.reshape(samples, n)
        self._columns: list[Matrix] = [np.zeros((samples * n, 3)) for _ in range(n)]
        self._shapes = [(np.nan, np.nan)] * n

    def residual(self, x: Vector) -> Vector:
        """Return torque residuals and shifts, both divided by their standard deviations."""
        n = len(self._shapes)
        for joint in range(n):
            # x: logarithms of the widths, then the normalised shifts.
            self._set_friction_columns(joint, float(x[joint]), float(x[n + joint]))
        terms = np.hstack(self._columns)
        values, *_ = np.linalg.lstsq(terms, self._left, rcond=1e-10)
        return np.concatenate([terms @ values - self._left, x[n:]])

    def _set_friction_columns(self, joint: int, log_width: float, normalised_shift: float) -> None:
        if self._shapes[joint] == (log_width, normalised_shift):
            return
        self._shapes[joint] = (log_width, normalised_shift)
        shape = FrictionShape(
            np.array([np.exp(log_width)]), np.array([normalised_shift * self._prior])
        )
        columns = np.concatenate(
            [
                thinned(shape.columns(p.dq[:, joint : joint + 1])[:, 0], self._cutoff, p.rate)
                for p in self._parts
            ]
        )
        columns = columns * self._weight[:, joint, None]
        n = len(self._shapes)
        # Being orthogonal to the columns of base parameters and delay eliminates both.
        terms = -(self._known @ (self._known[joint::n].T @ columns))
        terms[joint::n] += columns
        self._columns[joint] = terms


FRICTION_MODELS = ("coulomb", "sigmoid")
ROTOR_MODES = ("auto", "fit", "known", "unseen")
MASS_RANGE = (0.7, 1.3)
"""Bounds of the total moving mass, relative to that of the model."""
MIN_VELOCITY = 0.1
"""Joint velocity below which torques are not used for inertial parameters [rad/s, m/s]. There,
friction decreases with speed (Stribeck effect), which the friction model does not describe."""
SLOW_JOINT_FRACTION = 0.25
"""Fraction of the root mean square velocity of a joint. If the joint moves so slowly that this is
below :data:`MIN_VELOCITY`, it replaces that threshold."""
MAX_DELAY = 0.02
"""Maximum delay of measured torques that is corrected [s]. A larger estimate is ignored."""
FIXED_OFFSET_DEVIATION = 1e-3
"""Prior standard deviation of the torque offset of a joint whose offset cannot be separated from a
weight [Nm, N]. The small value assigns the torque to the weight of the links."""
REPORTED_REST_TIME = 1.0
"""Duration of the rest removed at both ends of a log from which it is reported [s]."""


@dataclass(frozen=True)
class Options:
    """Options of an identification.

    Attributes:
        friction: Friction model, one of :data:`FRICTION_MODELS`.
        rotors: Treatment of rotor inertia, one of :data:`ROTOR_MODES`. ``fit`` identifies it,
            ``known`` takes it from the robot model. ``unseen`` sets it to zero, for torque sensors
            between gear and link. ``auto`` selects ``fit`` or ``unseen`` by the sensor stated in
            the logs.
        cutoff: Cutoff frequency of the filter of torques and regressors [Hz].
        held_out: Fraction of every motion, at its end, that is used only for testing. 0: All
            samples are used for both fit and test.
    """

    friction: str = "coulomb"
    rotors: str = "auto"
    cutoff: float = 5.0
    held_out: float = 0.3


@dataclass(frozen=True, eq=False)
class Identified:
    """Result of an identification.

    Attributes:
        robot: Robot with identified masses, inertias and friction.
        friction: Friction of its joints.
        base: Base parameters of the inertial regressor, without friction.
        estimate: Weighted least-squares estimate of the base parameters, then of the friction.
        names: Names of the parameters of ``estimate``.
        deviations: Standard deviations of the physically consistent parameters in ``robot``, (14
            n,): ten per link, then rotor inertia, viscous friction, Coulomb friction and offset of
            all joints.
        condition: Condition number of the regressor stack with columns of unit length.
        delay: Delay of the measured torques relative to the positions [s].
        rotors: Applied treatment of rotor inertia, one of :data:`ROTOR_MODES`.
        held_out: Root mean square torque errors on held-out samples by model, (n,) each [Nm]. The
            models are ``datasheet`` (link inertia of the robot model), ``least squares``,
            ``weighted`` (by torque noise) and ``consistent`` (parameters in ``robot``).
        residual: Measured minus predicted torques of the held-out samples by model, with the same
            names, (N, n) each [Nm].
        time: Times of the held-out samples, (N,) [s].
        measured: Filtered measured torques of the held-out samples without those of gripper, tool
            and payload, (N, n) [Nm].
    """

    robot: Robot
    friction: FrictionEstimate
    base: BaseParameters
    estimate: Estimate
    names: tuple[str, ...]
    deviations: Vector
    condition: float
    delay: float
    rotors: str
    held_out: Mapping[str, Vector]
    residual: Mapping[str, Matrix] = field(default_factory=dict)
    time: Vector = field(default_factory=lambda: np.zeros(0))
    measured: Matrix = field(default_factory=lambda: np.zeros((0, 0)))


def identify(
    motions: Sequence[MeasuredMotion],
    arm: ArmDescription,
    options: Options | None = None,
    *,
    load: Load = NO_LOAD,
    progress: Callable[[str], None] = lambda text: None,
) -> Identified:
    r"""Identify the inertia of an arm's links and rotors and the friction of its joints.

    .. math::
        \tau = Y(q, \dot q, \ddot q) (\pi + \pi_{carried}) + I_r \ddot q + f_v \dot q
        + f_c \tanh\frac{\dot q + s}{w} + f_o.

    Symbols: regressor Y, rotor inertias :math:`I_r`, and inertial parameters :math:`\pi` of the
    links and :math:`\pi_{carried}` of attached bodies. Friction consists of viscous friction
    :math:`f_v`, Coulomb friction :math:`f_c` with width w and shift s, and offset :math:`f_o`.

    Args:
        motions: Measured logs of one arm.
        arm: Arm with the gripper and tool used in the logs. The link inertias of its model are the
            prior.
        options: Options of the identification.
        load: Payload at the flange in addition to gripper and tool.
        progress: Callback that receives progress messages.

    Raises:
        IdentificationRejected: If a log is implausible or does not determine the parameters.
    """
    options = options or Options()
    n = arm.n_joints
    regressor = ArmRegressor(arm, load)
    for motion in motions:
        check_motion(motion, regressor)
    if not motions:
        raise IdentificationRejected("logs: got none, allowed one or more")
    options = _resolve_auto_rotors(motions, options)
    moving_parts = [motion.without_rest() for motion in motions]
    for motion, part in zip(motions, moving_parts):
        rest = float(np.ptp(motion.time) - np.ptp(part.time))
        if rest >= REPORTED_REST_TIME:
            progress(f"{motion.name}: {rest:.1f} s of rest at both ends are dropped")
    pairs = [
        motion.split(options.held_out) if options.held_out else (motion, motion)
        for motion in moving_parts
    ]
    progress("filtering and computing regressors")
    shape = FrictionShape.sharp(n)
    train = stack(regressor, [pair[0] for pair in pairs], shape, options.cutoff)
    test = stack(regressor, [pair[1] for pair in pairs], shape, options.cutoff)
    if min(len(train), len(test)) < 10:
        raise IdentificationRejected(
            f"{motions[0].name}: too short: {motions[0].time[-1] - motions[0].time[0]:.3g} s. "
            "Record several seconds without gaps for the training part and the held-out part."
        )
    gravities = [motion.gravity_in_base for motion in motions]
    fits_rotors = options.rotors == "fit"
    base = base_parameters(regressor, gravities, rotors=fits_rotors)
    unobservable = unobservable_offsets(regressor, base, gravities, rotors=fits_rotors)
    rotors = _known_rotors(regressor, options)
    train, test = (_without_rotor_torques(part, rotors, n) for part in (train, test))
    progress(f"{len(base)} base parameters, {len(train)} samples")
    speed = np.sqrt((train.dq**2).mean(axis=0))
    moving = train.moving(np.minimum(MIN_VELOCITY, SLOW_JOINT_FRACTION * speed), options.cutoff)
    of_friction = np.delete(np.arange(3 * n), 2 * n + np.array(unobservable, int))
    columns = np.concatenate([base.columns, 11 * n + of_friction])
    if unobservable:
        which = ", ".join(arm.robot.joints[joint].name for joint in unobservable)
        progress(f"constant torque of {which}: equal to that of a weight, attributed to the links")
    if options.friction == "sigmoid":
        progress("fitting friction at low speed")
        noise = fit(train.rows[:, :, columns], train.tau, train.independent, used=moving).noise
        shape = fit_shape(train, base, options.cutoff, noise)
        train, test = (part.with_shape(shape, options.cutoff) for part in (train, test))
    delay = _torque_delay(train, columns, moving)
    train, test = train.with_delay(delay), test.with_delay(delay)
    of_joints = _friction_names(arm)
    names = (*base.names, *(of_joints[k] for k in of_friction))
    estimate = fit(train.rows[:, :, columns], train.tau, train.independent, used=moving)
    check_excitation(estimate, names)
    plain = fit(train.rows[:, :, columns], train.tau, train.independent, weighted=False)
    progress("computing consistent parameters")
    weight = moving * np.sqrt(train.independent) / estimate.noise
    result = fit_consistent(
        (train.rows * weight[:, :, None]).reshape(-1, 14 * n),
        (train.tau * weight).ravel(),
        [Load(link.inertial.mass, np.array(link.inertial.com), link.inertial.inertia)
         for link in arm.robot.links[1:]],
        _rotor_and_friction_prior(arm, options, unobservable),
        masses=_total_mass_range(arm.robot),
    )  # fmt: skip
    armature, known = result.others[:n], 11 * n
    left = train.tau - train.rows[:, :, :known] @ result.values[:known]
    friction = fit_friction(train.rows[:, :, known:], left, shape)
    values = np.concatenate([result.values[:known], *friction.terms])
    robot = _robot(
        arm.robot, result.loads, friction, armature if options.rotors == "fit" else None
    )
    predictions = {
        "datasheet": test.rows[:, :, : 10 * n] @ regressor.prior,
        "least squares": test.rows[:, :, columns] @ plain.values,
        "weighted": test.rows[:, :, columns] @ estimate.values,
        "consistent": test.rows @ values,
    }
    residual = {name: test.tau - tau for name, tau in predictions.items()}
    return Identified(
        robot=robot,
        friction=friction,
        base=base,
        estimate=estimate,
        names=names,
        deviations=result.deviations,
        condition=estimate.condition,
        delay=delay,
        rotors=options.rotors,
        held_out={name: np.sqrt((r**2).mean(axis=0)) for name, r in residual.items()},
        residual=residual,
        time=test.time,
        measured=test.tau,
    )


def _friction_names(arm: ArmDescription) -> list[str]:
    terms = ("viscous friction", "Coulomb friction", "offset")
    return [f"{term} of {joint.name}" for term in terms for joint in arm.robot.joints]


def _total_mass_range(robot: Robot) -> tuple[float, float]:
    """Return the minimum and maximum total mass of the moving links [kg]."""
    described_mass = sum(link.inertial.mass for link in robot.links[1:])
    return MASS_RANGE[0] * described_mass, MASS_RANGE[1] * described_mass


def _resolve_auto_rotors(motions: Sequence[MeasuredMotion], options: Options) -> Options:
    if options.rotors != "auto":
        return options
    kinds = {motion.rotors_in_tau for motion in motions}
    if len(kinds) > 1:
        raise IdentificationRejected(
            "logs: some torques include rotor inertia and some do not. Use logs of one kind of "
            "torque sensor."
        )
    return replace(options, rotors="fit" if kinds == {True} else "unseen")


def _known_rotors(regressor: ArmRegressor, options: Options) -> Vector | None:
    """Return rotor inertias that are not fitted, (n,), or None if they are fitted."""
    if options.rotors == "fit":
        return None
    robot = regressor.arm.robot
    return np.array(robot.armature) if options.rotors == "known" else np.zeros(robot.n_joints)


def _without_rotor_torques(part: Stack, rotors: Vector | None, n: int) -> Stack:
    if rotors is None:
        return part
    rows = part.rows.copy()
    tau = part.tau - rows[:, :, 10 * n : 11 * n] @ rotors
    rows[:, :, 10 * n : 11 * n] = 0.0
    return replace(part, rows=rows, tau=tau)


def _torque_delay(train: Stack, columns: Matrix, moving: NDArray[np.bool_]) -> float:
    """Return the delay of measured torques [s], 0 if it is insignificant or implausibly large."""
    rows = np.concatenate([train.rows[:, :, columns], -train.slope[:, :, None]], axis=2)
    result = fit(rows, train.tau, train.independent, used=moving)
    delay, deviation = float(result.values[-1]), float(result.deviations[-1])
    return delay if abs(delay) > 3.0 * deviation and abs(delay) < MAX_DELAY else 0.0


def _rotor_and_friction_prior(
    arm: ArmDescription, options: Options, inseparable_offsets: Sequence[int]
) -> ParameterPrior:
    n = arm.n_joints
    rotors = np.array(arm.robot.armature) if options.rotors == "fit" else np.zeros(n)
    nothing = np.full(n, np.inf)
    offset = nothing.copy()
    # The prior keeps offsets near zero that cannot be separated from weights.
    offset[list(inseparable_offsets)] = FIXED_OFFSET_DEVIATION
    prior = np.concatenate([rotors, np.zeros(3 * n)])
    loose = 0.5 * rotors + 0.02 if options.rotors == "fit" else np.ones(n)
    return ParameterPrior(
        prior,
        np.concatenate([loose, nothing, nothing, offset]),
        np.concatenate([np.zeros(3 * n), np.full(n, -np.inf)]),
    )


def _robot(
    robot: Robot, bodies: Sequence[Load], friction: FrictionEstimate, armature: Vector | None
) -> Robot:
    links = [
        replace(link, inertial=inertial_of(body)) for link, body in zip(robot.links[1:], bodies)
    ]
    own = friction.sigmoid_parameters()
    return replace(
        robot,
        links=(robot.links[0], *links),
        armature=robot.armature if armature is None else armature,
        damping=friction.viscous,
        friction=friction.coulomb,
        torque_offset=friction.offset,
        figures={**robot.figures, **{k: v for k, v in own.items() if k in robot.figures}},
    )
