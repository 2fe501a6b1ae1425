# SPDX-License-Identifier: Apache-2.0
"""Iterative learning control of soft arms, and transfer to arms with other parameters."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from multipanda_py.exceptions import ActuatorRejected
from multipanda_py.identification.actuators.report import Check, Curve, ExperimentResult, Panel
from multipanda_py.identification.actuators.robots import (
    SOFT_PRESET,
    TWO_LINKS,
    chain_model,
    follow,
    identified,
    robot_of,
)
from multipanda_py.planning.trajectory.quintic import rest_to_rest
from multipanda_py.state import Matrix, Vector

GOAL_ANGLE, DURATION, TOLERANCE, MAX_ITERATIONS = 0.8, 20.0, 0.08, 15
"""Goal of both joints [rad], duration of the motion [s], maximum error at which learning ends
[rad], and maximum number of iterations."""
MAX_PLANT_ERROR = 0.1
"""Maximum error that references learned in simulation may have on a plant [rad]."""
MIN_SPEEDUP = 20.0
"""Speed relative to real time that a simulated run has to exceed."""
TIME_STEP = 8e-3
"""Time step of the simulation [s]. Joint angles differ by 0.0003 rad from those of a simulation
with steps of 1 ms."""
PLANT_COUNT = 5
"""Number of simulated plants, each with random deviations of its parameters."""
_SETTLE_TIME = 1.0  # Time before each run in which the robot comes to rest [s].


@dataclass(frozen=True, eq=False)
class Learned:
    """Result of :func:`learn` for k samples of n joints.

    Attributes:
        references: Learned joint positions to command, (k, n) [rad].
        errors: Maximum joint error of every run [rad].
        norms: Maximum over time of the 2-norm of the joint errors, for every run [rad].
        runs: Resulting motion of every run, (k, n) each [rad].
    """

    references: Matrix
    errors: tuple[float, ...]
    norms: tuple[float, ...]
    runs: tuple[Matrix, ...]


def learn(
    run: Callable[[Matrix], Matrix],
    desired_path: Matrix,
    *,
    gain: float = 0.5,
    fading: float = 10.0,
    tolerance: float = TOLERANCE,
    max_iterations: int = MAX_ITERATIONS,
) -> Learned:
    r"""Learn the joint positions to command so that a soft robot executes a desired motion.

    .. math::
        \theta_n(t) = \theta_{n-1}(t) + K e^{-n/N} \left(q^*(t) - q_{n-1}(t)\right), \qquad
        \theta_0 = q^*.

    Symbols: commanded positions :math:`\theta_n` and resulting motion :math:`q_n` of run n,
    desired motion :math:`q^*`, gain K and fading constant N. Learning ends with the first run
    whose error is below the tolerance at all times.

    Args:
        run: Function that executes commanded positions, always from the same initial state, and
            returns the resulting motion. Both are (k, n) [rad].
        desired_path: Desired motion :math:`q^*`, (k, n) [rad].
        gain: Gain K.
        fading: Fading constant N, in iterations.
        tolerance: Maximum error at which learning ends [rad].
        max_iterations: Maximum number of iterations.

    Raises:
        ActuatorRejected: If a setting is out of range, or the motion of a run has another shape
            or values that are not finite.

    Source: Angelini et al., Decentralized trajectory tracking control for soft robots interacting
    with the environment, 2018.
    """
    for name, value in (("gain", gain), ("fading", fading), ("tolerance", tolerance)):
        if not 0.0 < value < math.inf:
            raise ActuatorRejected(f"learning: {name}: got {value!r:.40}, allowed more than 0")
    if max_iterations < 1:
        raise ActuatorRejected(
            f"learning: max_iterations: got {max_iterations}, allowed 1 or more"
        )
    references = np.array(desired_path, dtype=np.float64)
    errors, norms, runs = [], [], []
    for n in range(1, max_iterations + 2):
        result = np.asarray(run(references.copy()))
        if result.shape != desired_path.shape or not np.isfinite(result).all():
            raise ActuatorRejected(
                f"learning: run {n}: returned shape {result.shape} or values that are not finite, "
                f"allowed finite numbers of shape {desired_path.shape}"
            )
        error = desired_path - result
        errors.append(float(np.abs(error).max()))
        norms.append(float(np.linalg.norm(error, axis=1).max()))
        runs.append(result)
        if errors[-1] < tolerance or n > max_iterations:
            break
        references += gain * math.exp(-n / fading) * error
    return Learned(references, tuple(errors), tuple(norms), tuple(runs))


def minimum_jerk(time: Vector, seconds: float) -> Vector:
    """Return a quintic from 0 to 1 with zero velocity and acceleration at both ends, (k,).

    Args:
        time: Times, (k,) [s].
        seconds: Duration of the motion [s].
    """
    return rest_to_rest(np.clip(time / seconds, 0.0, 1.0))


def two_joint_run(
    springs: float = 1.0, masses: float = 1.0, friction: float = 1.0, damping: float = 1.0
) -> Callable[[Matrix], Matrix]:
    """Return a function ``run`` for :func:`learn` that simulates a soft arm under gravity.

    Args:
        springs: Scale factor of the spring constants.
        masses: Scale factor of the link masses.
        friction: Scale factor of the joint friction.
        damping: Scale factor of the joint damping.
    """
    links = [
        replace(
            link, mass=link.mass * masses, inertia=link.inertia * masses,
            friction=link.friction * friction, damping=link.damping * damping,
        )
        for link in TWO_LINKS
    ]  # fmt: skip
    model = chain_model(links, step=TIME_STEP)

    def run(references: Matrix) -> Matrix:
        robot = robot_of(model, identified(2, scale=springs), SOFT_PRESET)
        rows = iter([references[0], *references])
        return follow(robot, lambda _: next(rows), len(references) * TIME_STEP, _SETTLE_TIME).q

    return run


def learn_and_transfer(quick: bool) -> ExperimentResult:
    """Learn references in simulation, and execute them on simulated arms with other parameters.

    Springs, masses, friction and damping of these arms deviate at random.

    Args:
        quick: True for a motion of 4 s, executed on one arm. False for 20 s and five arms.
    """
    seconds = 4.0 if quick else DURATION
    moments: Vector = TIME_STEP * np.arange(1.0, round(seconds / TIME_STEP) + 1.0)
    desired = np.repeat(GOAL_ANGLE * minimum_jerk(moments, seconds)[:, None], 2, axis=1)
    used: list[float] = []
    simulated = two_joint_run()

    def timed(references: Matrix) -> Matrix:
        start = time.process_time()
        result = simulated(references)
        used.append(time.process_time() - start)
        return result

    learned = learn(timed, desired)
    faster = (seconds + _SETTLE_TIME) / min(used)
    rng, on_plants = np.random.default_rng(0), []
    for _ in range(1 if quick else PLANT_COUNT):
        off = rng.uniform(-1.0, 1.0, 4)
        plant = two_joint_run(*(1.0 + off * (0.03, 0.03, 0.5, 0.3)))
        on_plants.append(plant(learned.references))
    plant_errors = [float(np.abs(desired - one).max()) for one in on_plants]
    errors, count = learned.errors, len(learned.errors) - 1
    numbers = np.arange(count + 1.0)
    falls = all(later < sooner for sooner, later in pairwise(errors))
    checks = (
        Check("the error decreases with every run",
              ", ".join(f"{error:.3f}" for error in errors) + " rad", falls),
        Check(f"the largest error is below {TOLERANCE:g} rad after {MAX_ITERATIONS} iterations "
              "or fewer",
              f"{errors[-1]:.4f} rad after {count}",
              errors[-1] < TOLERANCE and count <= MAX_ITERATIONS),
        Check("deviating plants, without further learning, have a largest error of "
              f"{MAX_PLANT_ERROR:g} rad or less",
              ", ".join(f"{error:.3f}" for error in plant_errors) + " rad",
              max(plant_errors) <= MAX_PLANT_ERROR),
        Check(f"each run takes less than 1/{MIN_SPEEDUP:g} of real time in processor time",
              f"{faster:.1f} times", faster >= MIN_SPEEDUP),
    )  # fmt: skip
    worst = on_plants[int(np.argmax(plant_errors))]
    panels = [
        Panel("error of each iteration", "error [rad]", (
            Curve("largest of any joint", numbers, np.array(errors), "o-"),
            Curve("largest 2-norm", numbers, np.array(learned.norms), "s-"),
            Curve("tolerance", np.array([0.0, float(count)]), np.full(2, TOLERANCE), "k:"),
        ), "iteration"),
        Panel("error over time", "error [rad]", tuple(
            Curve(f"joint {k + 1}, {name}", moments, (desired - one)[:, k], style)
            for name, one, style in (("learned", learned.runs[-1], "-"), ("plant", worst, "--"))
            for k in range(2)
        )),
        *(
            Panel(f"joint {k + 1}", "angle [rad]", (
                Curve("wanted", moments, desired[:, k], "k:"),
                Curve("first run", moments, learned.runs[0][:, k]),
                Curve("last run", moments, learned.runs[-1][:, k]),
                Curve("worst plant", moments, worst[:, k], "--"),
                Curve("learned equilibrium", moments, learned.references[:, k], "-."),
            ))
            for k in range(2)
        ),
    ]  # fmt: skip
    figures = {
        "iterations": float(count), "last error rad": errors[-1],
        "worst plant error rad": max(plant_errors), "times real time": faster,
    }  # fmt: skip
    return ExperimentResult(
        "learning", "References learned in simulation and used on a plant",
        f"Two joints under gravity, soft, mode 6, minimum jerk to 0.8 rad in {seconds:g} s, "
        "correction by 0.5 exp(-n/10) of the error. Springs and masses of the plants deviate by "
        "up to 3 %, friction by up to 50 %, damping by up to 30 %.",
        "Learning converges below 0.08 rad after 11 iterations, with link masses that are not "
        "stated. On the robot the second joint stays within the band and the first leaves it "
        "for a few seconds.",
        checks, tuple(panels), figures,
    )  # fmt: skip
