# SPDX-License-Identifier: Apache-2.0
"""Identification of the springs of a compliant actuator from torques and deflections."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from multipanda_py import registry
from multipanda_py.actuator import Actuator
from multipanda_py.exceptions import ActuatorRejected, IdentificationRejected
from multipanda_py.parameters import Spec, specs_of
from multipanda_py.registry import needed
from multipanda_py.state import Matrix, Vector

TORQUE_COLUMNS = {"tau": "link", "tau_1": "motor_1", "tau_2": "motor_2"}
"""Torque columns and the corresponding fields of :class:`.ElasticTorque`."""
POSITION_COLUMNS = ("q", "theta_1", "theta_2", "equilibrium", "preset", "deflection")
_ALLOWED_POSITIONS = (
    "q, theta_1 and theta_2, or q, equilibrium and preset, or deflection and preset (without "
    "theta_2 and preset if there is one motor)"
)


@dataclass(frozen=True, eq=False)
class SpringData:
    """Measured positions of one joint and its two motors, and spring torques, in N samples.

    Attributes:
        q: Joint angles, (N,) [rad].
        theta_1: Positions of the first motor, (N,) [rad].
        theta_2: Positions of the second motor, (N,) [rad]. If this motor only sets the stiffness,
            these are the stiffness presets in their unit.
        torques: Measured torques, (N, m) [Nm].
        names: Names of the torque columns from ``TORQUE_COLUMNS``, (m,).
    """

    q: Vector
    theta_1: Vector
    theta_2: Vector
    torques: Matrix
    names: tuple[str, ...]

    @classmethod
    def of(cls, columns: Mapping[str, ArrayLike], springs: Actuator[Any], path: str) -> SpringData:
        """Convert measured columns to spring data. Unknown columns are ignored.

        Torque columns are ``tau`` (joint), ``tau_1`` and ``tau_2`` (motors) [Nm]. One of them is
        enough. Position columns are one of these sets.

        - ``q`` (joint), ``theta_1`` and ``theta_2`` (motors).
        - ``q``, ``equilibrium`` (equilibrium angle) and ``preset`` (stiffness preset).
        - ``deflection`` (equilibrium minus joint angle) and ``preset``.

        Actuators with one motor need neither ``theta_2`` nor ``preset``.

        Args:
            columns: Measured values by column name, N each.
            springs: Actuator of one joint, which maps equilibrium and preset to motor positions.
            path: Prefix of error messages.

        Raises:
            IdentificationRejected: If columns are missing, have different lengths or are not
                finite.
        """
        names = tuple(name for name in TORQUE_COLUMNS if name in columns)
        if not names:
            raise IdentificationRejected(
                f"{path}: torques: no column {', '.join(TORQUE_COLUMNS)} among the columns "
                f"{_list(columns)}. Add one of them."
            )
        result = _numbers(columns, (*names, *(p for p in POSITION_COLUMNS if p in columns)), path)
        return cls(
            *_joint_and_motor_positions(result, springs, path, _list(columns)),
            np.column_stack([result[name] for name in names]),
            names,
        )

    def __len__(self) -> int:
        return len(self.q)

    def every(self, count: int) -> SpringData:
        """Return the data of up to ``count`` evenly spaced samples."""
        rows = np.linspace(0, len(self) - 1, min(count, len(self))).astype(int)
        at = (self.q[rows], self.theta_1[rows], self.theta_2[rows])
        return SpringData(*at, self.torques[rows], self.names)

    def predicted_torques(self, springs: Actuator[Any]) -> NDArray[np.float64]:
        """Return the torques predicted with k sets of spring parameters, (N, k, m) [Nm].

        N is the number of samples, and m the number of torque columns.

        Args:
            springs: Actuator with k joints, one for each set of parameters.
        """
        columns = (self.q[:, None], self.theta_1[:, None], self.theta_2[:, None])
        result = springs.elastic_torque(*columns)
        shape = (len(self), springs.n_joints)
        return np.stack(
            [np.broadcast_to(getattr(result, TORQUE_COLUMNS[name]), shape) for name in self.names],
            -1,
        )


def _joint_and_motor_positions(
    positions: Mapping[str, Vector], springs: Actuator[Any], path: str, all_columns: str
) -> tuple[Vector, Vector, Vector]:
    """Return the positions of the joint, of motor 1 and of motor 2, (N,) each."""
    zero = np.zeros(len(next(iter(positions.values()))))
    second = springs.n_motors == 2
    if {"q", "theta_1"} <= set(positions) and ("theta_2" in positions or not second):
        return positions["q"], positions["theta_1"], positions["theta_2"] if second else zero
    if "preset" in positions or not second:
        preset = positions["preset"] if second else zero
        if "deflection" in positions:
            # Deflections alone: motor positions for a joint angle of zero.
            return (zero, *springs.references(positions["deflection"], preset))
        if {"q", "equilibrium"} <= set(positions):
            return (positions["q"], *springs.references(positions["equilibrium"], preset))
    raise IdentificationRejected(
        f"{path}: positions: columns are missing among {all_columns}. Use {_ALLOWED_POSITIONS}."
    )


def _numbers(
    columns: Mapping[str, ArrayLike], names: tuple[str, ...], path: str
) -> dict[str, Vector]:
    numbers = {}
    for name in names:
        try:
            values = np.asarray(columns[name], dtype=np.float64)
        except (TypeError, ValueError):
            raise IdentificationRejected(
                f"{path}: {name}: contains values that are not numbers"
            ) from None
        if values.ndim != 1:
            raise IdentificationRejected(
                f"{path}: {name}: got an array of shape {values.shape}, allowed a column"
            )
        for row in np.flatnonzero(~np.isfinite(values)):
            raise IdentificationRejected(
                f"{path}: {name}: got {values[row]:g} in row {row + 1}, allowed finite numbers"
            )
        numbers[name] = values
    lengths = {name: len(values) for name, values in numbers.items()}
    if len(set(lengths.values())) > 1:
        text = ", ".join(f"{count} of {name}" for name, count in lengths.items())
        raise IdentificationRejected(
            f"{path}: got different numbers of values: {text}. Use columns of equal length."
        )
    return numbers


def _list(columns: Mapping[str, Any]) -> str:
    return ", ".join(map(str, columns)) or "none"


MAX_GUESS_FACTOR = 8.0
"""Maximum factor between random initial guesses and the default parameters."""
MAX_FIT_FACTOR = 1e4
"""Maximum factor between a fitted parameter and its default."""


class FittedParameters:
    r"""Conversion of spring parameters p to dimensionless optimisation variables x.

    A positive parameter has :math:`x = \ln p`. Other parameters have x = p / s, where s is the
    magnitude of the default value.

    Args:
        specs: Specifications of the spring parameters: name, default value and bounds.

    Attributes:
        names: Names of the parameters.
        lower: Lower bounds of x, one per parameter.
        upper: Upper bounds of x, one per parameter.
    """

    def __init__(self, specs: Sequence[Spec]) -> None:
        self.names = [spec.name for spec in specs]
        self._is_log = np.array([spec.bounds[0][0] >= 0.0 < spec.default for spec in specs])
        default = np.array([spec.default for spec in specs], dtype=np.float64)
        self._scale = np.where(default == 0.0, 1.0, np.abs(default))
        self._default = np.where(self._is_log, np.log(self._scale), default / self._scale)
        low, high = np.array([spec.bounds[0] for spec in specs]).T
        far, at = math.log(MAX_FIT_FACTOR), np.log(self._scale)
        with np.errstate(divide="ignore"):
            lower = np.maximum(np.log(np.maximum(low, 0.0)), at - far)
            upper = np.minimum(np.log(np.maximum(high, 0.0)), at + far)
        self.lower = np.where(self._is_log, lower, np.maximum(low / self._scale, -MAX_FIT_FACTOR))
        self.upper = np.where(self._is_log, upper, np.minimum(high / self._scale, MAX_FIT_FACTOR))

    def values(self, x: Vector) -> Vector:
        """Return the spring parameters for optimisation variables ``x``, (p,) or (k, p)."""
        return np.where(self._is_log, np.exp(np.where(self._is_log, x, 0.0)), x * self._scale)

    def slopes(self, x: Vector) -> Vector:
        """Return the derivative of each parameter with respect to its optimisation variable, (p,).

        Args:
            x: Optimisation variables at which the derivatives are computed, (p,).
        """
        return np.where(self._is_log, self.values(x), self._scale)

    def starts(self, count: int, rng: np.random.Generator) -> Matrix:
        """Return random initial guesses of the optimisation variables, (count, p).

        The first guess is the default parameters.
        """
        wide = np.where(self._is_log, math.log(MAX_GUESS_FACTOR), 1.0)
        around = rng.uniform(-1.0, 1.0, (count, len(self.names))) * wide
        around[0] = 0.0
        return np.clip(self._default + around, self.lower + 1e-4, self.upper - 1e-4)

    def at_end(self, x: Vector) -> list[str]:
        """Return the names of the parameters whose optimisation variables are at a bound."""
        near = np.minimum(x - self.lower, self.upper - x) < 1e-6
        return [name for name, one in zip(self.names, near) if one]


GUESS_COUNT = 6
"""Number of initial guesses of a fit."""
GUESS_SAMPLES = 400
"""Samples used to compare the initial guesses. The final fit uses all samples."""
MIN_SINGULAR_RATIO = 1e-7
"""Minimum ratio of the smallest to the largest singular value of the Jacobian with columns of unit
length. Below it, the parameters cannot be separated, and the fit is refused."""
MAX_RELATIVE_DEVIATION = 0.3
"""Relative standard deviation of a parameter above which the fit is refused as undetermined."""
_DIFFERENCE_STEP = 1e-5
"""Finite-difference step of an optimisation variable. Parameters change by about this fraction."""
MIN_EXPLAINED_VARIANCE = 0.5
"""Fraction of the torque variance that the springs have to explain. A worse fit is refused."""


@dataclass(frozen=True, eq=False)
class SpringEstimate:
    """Identified springs of one joint with their uncertainty.

    Attributes:
        kind: Type of the actuator.
        values: Fitted parameters by name.
        deviations: Standard deviations of the fitted parameters by name.
        fixed: Parameters that were given and not fitted, by name.
        offset: Offset of the torque sensor and its standard deviation [Nm]. None: not fitted.
        rmse: Root mean square residual of every measured torque, by column [Nm].
        explained_variance: Fraction of the torque variance that the springs explain.
        samples: Number of samples.
        independent: Number of independent samples, smaller than ``samples`` if residuals
            correlate.
    """

    kind: str
    values: dict[str, float]
    deviations: dict[str, float]
    fixed: dict[str, float]
    offset: tuple[float, float] | None
    rmse: dict[str, float]
    explained_variance: float
    samples: int
    independent: float

    @property
    def params(self) -> dict[str, float]:
        """All parameters of the actuator by name."""
        return {**self.fixed, **self.values}


def identify_springs(
    kind: str,
    columns: Mapping[str, ArrayLike],
    *,
    names: Sequence[str] = (),
    fixed: Mapping[str, float] | None = None,
    offset: bool = False,
    seed: int = 0,
    path: str = "data",
) -> SpringEstimate:
    r"""Identify the springs of one joint from measured torques, with standard deviations.

    .. math::
        \hat p = \arg\min_p \sum_i \left\| \tau_i - \tau(q_i, \theta_i; p) \right\|^2, \qquad
        \mathrm{Cov}(\hat p) = \nu\, s^2 (J^T J)^{-1}.

    Symbols: measured torque :math:`\tau_i`, joint angle :math:`q_i` and motor positions
    :math:`\theta_i` of sample i. Springs with the parameters p predict the torque
    :math:`\tau(\cdot\,; p)`. The residual has the Jacobian J and the variance :math:`s^2`. The
    factor :math:`\nu = (1 + \rho) / (1 - \rho)` accounts for the correlation :math:`\rho` of
    neighbouring samples.

    Args:
        kind: Type of the actuator, as in a cell file.
        columns: Measured columns in chronological order, see :meth:`.SpringData.of`.
        names: Parameters to fit. By default those in ``identified`` of the actuator class.
        fixed: Known values of parameters that are not fitted, by name.
        offset: True to fit the offset of the torque sensor as well.
        seed: Random seed of the initial guesses.
        path: Prefix of error messages.

    Raises:
        UnknownName: If the actuator type does not exist.
        ActuatorRejected: If a parameter does not exist or is out of range.
        IdentificationRejected: If the data are invalid or do not determine the parameters.
        MissingExtra: If SciPy is not installed.
    """
    fit = _Fit(kind, names, dict(fixed or {}), offset, path)
    data = SpringData.of(columns, fit.springs, path)
    fit.refuse_data(data)
    return fit.solved(data, np.random.default_rng(seed))


class _Fit:
    """Fit of spring parameters with the arguments of :func:`identify_springs`."""

    def __init__(
        self, kind: str, names: Sequence[str], fixed: dict[str, float], offset: bool, where: str
    ) -> None:
        self._class: type[Actuator[Any]] = registry.find("actuators", kind)
        self._kind, self._fixed, self._offset, self._path = kind, fixed, offset, where
        self.springs = self._class(1, fixed)
        specs = {spec.name: spec for spec in specs_of(self._class.Params)}
        for name in names:
            if name not in specs:
                known = ", ".join(specs)
                raise self._class.rejected(f"parameter {name!r} does not exist; known: {known}")
            if name in fixed:
                raise self._refused(f"{name}: is both fixed and fitted. Choose one of them.")
        names = names or [name for name in self._class.identified if name not in fixed]
        if not names:
            raise self._refused(f"parameters: got none to fit, allowed some of {', '.join(specs)}")
        self._fitted = FittedParameters([specs[name] for name in names])

    def refuse_data(self, data: SpringData) -> None:
        min_samples = 3 * (len(self._fitted.names) + self._offset)
        if len(data) < min_samples:
            raise self._refused(f"got {len(data)} samples, allowed {min_samples} or more")
        beyond = self.springs.at_limit(data.q, data.theta_1, data.theta_2)
        if beyond.any():
            limit = self.springs.of["max_deflection"][0]
            raise self._refused(
                f"got {int(beyond.sum())} samples with a spring deflected by max_deflection "
                f"{limit:g} rad or more, beyond the range of the spring. Check that angles are in "
                "radians, remove these samples, or fix max_deflection."
            )
        low, high = self.springs.preset_low[0], self.springs.preset_high[0]
        outside = (data.theta_2 < low) | (data.theta_2 > high)
        if self.springs.n_motors == 2 and not self.springs.is_antagonistic and outside.any():
            worst = data.theta_2[int(outside.argmax())]
            raise self._refused(
                f"preset: got {worst:g}, allowed {low:g} to {high:g} {self.springs.preset_unit}"
            )
        predicted = data.predicted_torques(self.springs)[:, 0]
        for name, column, measured in zip(data.names, predicted.T, data.torques.T):
            if np.dot(column - column.mean(), measured - measured.mean()) < 0.0:
                raise self._refused(
                    f"{name}: decreases where the predicted torque increases. Change the sign of "
                    "this column or of the deflection (motor minus joint). The column has to be "
                    "the torque of the springs on the joint, or the load of a motor."
                )

    def solved(self, data: SpringData, rng: np.random.Generator) -> SpringEstimate:
        few, fitted = data.every(GUESS_SAMPLES), self._fitted
        tried = [
            self._optimisation_result(few, start, 1e-5)
            for start in fitted.starts(GUESS_COUNT, rng)
        ]
        best = min((one for one in tried if one), key=lambda one: one.cost, default=None)
        last = best and self._optimisation_result(data, best.x, 1e-12)
        if last is None:
            raise self._refused(
                f"no spring parameters of a {self._kind} fit these torques. Check actuator type, "
                "units and signs."
            )
        left = last.fun.reshape(-1, len(data.names))
        spread = float(np.square(data.torques - data.torques.mean(axis=0)).sum())
        explained_variance = 1.0 - float(np.square(left).sum()) / spread if spread > 0.0 else 0.0
        if explained_variance < MIN_EXPLAINED_VARIANCE:
            raise self._refused(
                f"springs of a {self._kind} explain {100.0 * max(explained_variance, 0.0):.0f} % "
                f"of the torque variance, allowed {100.0 * MIN_EXPLAINED_VARIANCE:.0f} % or more. "
                "Check actuator type, units and signs."
            )
        alike, x = _samples_per_independent_sample(left), last.x[: len(fitted.names)]
        deviations = self._standard_deviations(last.jac, left, alike)
        if ends := fitted.at_end(x):
            raise self._refused(
                f"{', '.join(ends)}: reached the bound of the allowed range. Check the units or "
                "fix the parameter."
            )
        own = deviations[: len(x)] * fitted.slopes(x)
        return SpringEstimate(
            kind=self._kind,
            values=dict(zip(fitted.names, fitted.values(x).tolist())),
            deviations=dict(zip(fitted.names, own.tolist())),
            fixed={name: float(value) for name, value in self._fixed.items()},
            offset=(float(last.x[-1]), float(deviations[-1])) if self._offset else None,
            rmse=dict(zip(data.names, np.sqrt(np.square(left).mean(axis=0)).tolist())),
            explained_variance=explained_variance,
            samples=len(data),
            independent=len(data) / alike,
        )

    def _optimisation_result(self, data: SpringData, start: Vector, tolerance: float) -> Any:
        """Return SciPy's result of a least-squares fit, or None if the fit fails."""
        n = len(self._fitted.names)

        def residual(x: Vector) -> Vector:
            try:
                results = self._predicted_torques(data, x[None])[:, 0] - data.torques
            except ActuatorRejected:  # With an infinite residual, the solver shortens its step.
                return np.full(data.torques.size, np.inf)
            return results.ravel()

        def jacobian(x: Vector) -> Matrix:
            steps = _DIFFERENCE_STEP * np.eye(len(x))
            predicted = self._predicted_torques(data, np.vstack([x + steps, x - steps]))
            up, down = np.split(predicted, 2, axis=1)
            return (
                np.asarray((up - down) / (2.0 * _DIFFERENCE_STEP))
                .swapaxes(1, 2)
                .reshape(-1, len(x))
            )

        sensor = [np.inf] * self._offset
        bounds = ([*self._fitted.lower, *np.negative(sensor)], [*self._fitted.upper, *sensor])
        start = np.append(start, 0.0) if self._offset and len(start) == n else start
        optimize = needed("scipy.optimize")
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            try:
                result = optimize.least_squares(
                    residual, start, jacobian, bounds, x_scale="jac",
                    ftol=tolerance, xtol=tolerance, gtol=tolerance, max_nfev=200,
                )  # fmt: skip
            except (ActuatorRejected, ValueError, np.linalg.LinAlgError):
                return None  # The torques are not finite at the initial guess or next to it.
        return result if np.isfinite(result.jac).all() else None

    def _predicted_torques(self, data: SpringData, x: Matrix) -> NDArray[np.float64]:
        """Return the torques predicted with k sets x of optimisation variables, (N, k, m) [Nm]."""
        n, count = len(self._fitted.names), len(x)
        params: dict[str, ArrayLike] = dict(
            zip(self._fitted.names, self._fitted.values(x[:, :n]).T)
        )
        predicted = data.predicted_torques(self._class(count, {**self._fixed, **params}))
        return predicted + x[:, n, None] if self._offset else predicted

    def _standard_deviations(
        self, jacobian: Matrix, residuals: Matrix, correlated_samples: float
    ) -> Vector:
        names = [*self._fitted.names, *["the offset"] * self._offset]
        length = np.linalg.norm(jacobian, axis=0)
        if (length == 0.0).any():
            blind = ", ".join(n for n, one in zip(names, length) if one == 0.0)
            raise self._refused(
                f"these data do not depend on {blind}. Give fixed values, or record other data."
            )
        _, s, vt = np.linalg.svd(jacobian / length, full_matrices=False)
        free = max(residuals.size / correlated_samples - len(names), 1.0)
        noise = math.sqrt(float(np.square(residuals).sum()) / free)
        spread: Vector = noise * np.sqrt(np.square(vt / s[:, None]).sum(axis=0)) / length
        relative = spread[: len(self._fitted.names)]
        if s[-1] < MIN_SINGULAR_RATIO * s[0] or (relative > MAX_RELATIVE_DEVIATION).any():
            is_poorly_determined = np.abs(vt[-1]) > 0.2
            is_poorly_determined[: len(relative)] |= relative > MAX_RELATIVE_DEVIATION
            known = ", ".join(f"{name} {_percent(one)}" for name, one in zip(names, relative))
            mixed = " and ".join(name for name, one in zip(names, is_poorly_determined) if one)
            raise self._refused(
                f"these data do not determine {mixed} (standard deviations: {known}). Use larger "
                "deflections, more presets or less noise, or fix one of them."
            )
        return spread

    def _refused(self, description: str) -> IdentificationRejected:
        return IdentificationRejected(f"{self._path}: {description}")


def _percent(fraction: float) -> str:
    return f"{100.0 * fraction:.3g} %" if fraction < 9.99 else "over 1000 %"


def _samples_per_independent_sample(residuals_over_time: Matrix) -> float:
    centred = residuals_over_time - residuals_over_time.mean(axis=0)
    power = float(np.square(centred).sum())
    if power == 0.0 or len(residuals_over_time) < 3:
        return 1.0
    rho = float((centred[1:] * centred[:-1]).sum()) / power
    # A correlation of up to two standard deviations, 2 / sqrt(N), can be random. It is subtracted.
    rho = min(max(rho - 2.0 / math.sqrt(len(residuals_over_time)), 0.0), 0.99)

    return (1.0 + rho) / (1.0 - rho)
