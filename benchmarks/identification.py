# SPDX-License-Identifier: Apache-2.0
"""Torque and inertia errors of identified models of perturbed, simulated arms.

    .venv/bin/python benchmarks/identification.py               # ten plants, in two minutes
    .venv/bin/python benchmarks/identification.py --plants 3 --friction sigmoid

A plant is a simulated FR3. Its inertial parameters, friction, delay and sensors are drawn from
ranges (``multipanda_py/config/data/typical.yaml``, or ``--spec``), with seeds from 1. The
identified model predicts the torques of the last 30 % of the motion. The floor is the error of the
true inertial parameters with the best fit of the same friction model. It consists of Stribeck
friction, ripple and noise, which this friction model does not describe.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pinocchio as pin

from multipanda_py.cell import Cell
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.perturbation import TYPICAL_ERRORS_FILE, PerturbationSpec
from multipanda_py.identification.arm.estimators import FrictionShape, fit
from multipanda_py.identification.arm.excitation import Clearance, Excitation, ExcitationOptions
from multipanda_py.identification.arm.identify import FRICTION_MODELS, Options, identify
from multipanda_py.identification.arm.regressor import ArmRegressor, pseudo_inertia
from multipanda_py.identification.arm.stack import stack
from multipanda_py.realtime.recording.arm_log import motion_of
from multipanda_py.realtime.recording.log_reader import log_of_rows
from multipanda_py.realtime.recording.measured_motion import MeasuredMotion
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.dynamics.arm_dynamics import model_with_gravity
from multipanda_py.simulation.perturbed_arm import perturbed
from multipanda_py.state import Matrix, Vector
from multipanda_py.targets import TRAJECTORY_POINTS

ARM, LAW = "arm", "law"
NOMINAL = ArmDescription(ARM, "fr3")
EVALUATIONS = 1000
READ_INTERVAL = 500
"""Cycles between two readings of the record ring."""
RATIO, MASS = 1.15, 0.02
"""Maximum accepted medians: ratio of error to floor, relative error of the mass matrix."""


@dataclass(frozen=True)
class Figures:
    """Accuracy of the identification of one plant.

    Attributes:
        ratio: Held-out torque errors of the identified model relative to the floor, (n,).
        before: Held-out torque errors of the datasheet model relative to the floor, (n,).
        floor: Minimum torque errors, (n,) [Nm].
        mass: Relative error of the mass matrix, Frobenius norm, median over configurations.
        before_mass: The same error of the datasheet model.
        bodies: True if the inertial parameters of all links are physically consistent.
        condition: Condition number of the stacked regressor.
        seconds: Processor time of the identification [s].
    """

    ratio: Vector
    before: Vector
    floor: Vector
    mass: float
    before_mass: float
    bodies: bool
    condition: float
    seconds: float


def excitation(evaluations: int = EVALUATIONS) -> Matrix:
    """Return the points of a motion of ``multipanda excite``, (p, 1 + 3 n)."""
    search = Excitation(NOMINAL, ExcitationOptions(evaluations=evaluations), Clearance(NOMINAL))
    motion = search.search()
    return motion.table(motion.points(TRAJECTORY_POINTS))


def plant(spec: PerturbationSpec, seed: int, points: Matrix) -> CellConfig:
    """Return a perturbed FR3 at the start of a motion."""
    n = NOMINAL.n_joints
    cell = {
        "cell": {"placement": "inline"},
        "arms": {ARM: {"q_start": points[0, 1 : 1 + n].tolist()}},
        "controllets": {LAW: {"type": "joint_trajectory"}},
        "active": [f"{ARM}/{LAW}"],
    }
    return spec.draw(CellConfig.from_dict(cell), seed)


def measured(config: CellConfig, points: Matrix) -> MeasuredMotion:
    """Return the measurements of a plant that executes a motion."""
    with Cell(config) as cell:
        cell.step(1000)  # settles, as its model differs from that of its controllets
        cell.set_target(ARM, q=points[0, 1 : 1 + NOMINAL.n_joints])
        cell.step(1000)
        observed, _ = cell.records(10**15)
        cell.follow_trajectory(ARM, points)
        parts = []
        for _ in range(int(1e3 * points[-1, 0]) // READ_INTERVAL + 1):
            cell.step(READ_INTERVAL)
            observed, rows = cell.records(observed)
            parts.append(rows)
    rows = np.concatenate(parts)[: int(1e3 * points[-1, 0])]  # static friction is not observable
    return motion_of(log_of_rows(rows, config).arms[ARM], ARM)


def floor(real: ArmDescription, motion: MeasuredMotion, options: Options) -> Vector:
    """Return held-out torque errors of true inertias with the best friction, (n,) [Nm]."""
    n, regressor = real.n_joints, ArmRegressor(real)
    shape = FrictionShape.sharp(n)
    parts = [
        stack(regressor, [part], shape, options.cutoff) for part in motion.split(options.held_out)
    ]
    known = np.concatenate([regressor.prior, real.robot.armature])
    rows = [
        np.concatenate([part.rows[..., 11 * n :], -part.slope[..., None]], axis=2)
        for part in parts
    ]
    residuals = [part.tau - part.rows[..., : 11 * n] @ known for part in parts]
    best = fit(rows[0], residuals[0])
    found: Vector = np.sqrt(((residuals[1] - rows[1] @ best.values) ** 2).mean(axis=0))
    return found


def mass_error(
    real: ArmDescription, identified: ArmDescription, configurations: int = 50
) -> float:
    """Return the median relative error of the mass matrix over random configurations."""
    models = [model_with_gravity(real), model_with_gravity(identified)]
    rng, errors = np.random.default_rng(0), []
    for q in rng.uniform(*real.limits.span, (configurations, real.n_joints)):
        true, found = (pin.crba(model, model.createData(), q) for model in models)
        true, found = (np.triu(mass) + np.triu(mass, 1).T for mass in (true, found))
        errors.append(np.linalg.norm(found - true) / np.linalg.norm(true))
    return float(np.median(errors))


def figures(config: CellConfig, motion: MeasuredMotion, options: Options) -> Figures:
    """Identify a plant and compare the result with the true model."""
    settings = config.arms[ARM].perturbation
    real = perturbed(NOMINAL, settings)
    begin = time.process_time()
    found = identify([motion], NOMINAL, options)
    seconds = time.process_time() - begin
    identified = replace(NOMINAL, model=found.robot)
    minimum = floor(real, motion, options)
    links = ArmRegressor(identified).prior.reshape(-1, 10)
    return Figures(
        found.held_out["consistent"] / minimum,
        found.held_out["datasheet"] / minimum,
        minimum,
        mass_error(real, identified),
        mass_error(real, NOMINAL),
        all(np.linalg.eigvalsh(pseudo_inertia(link)).min() > 0.0 for link in links),
        found.condition,
        seconds,
    )


def table(found: Sequence[Figures]) -> str:
    """Return medians and maxima over plants, for each joint, as Markdown."""
    lines = [f"| {'joint':22} |" + "".join(f" {k + 1:6} |" for k in range(len(found[0].ratio)))]
    lines.append("|---" * (1 + len(found[0].ratio)) + "|")
    ratios = np.array([one.ratio for one in found])
    rows = {
        "floor [Nm]": np.median([one.floor for one in found], axis=0),
        "datasheet / floor": np.median([one.before for one in found], axis=0),
        "identified / floor": np.median(ratios, axis=0),
        "the same, worst plant": ratios.max(axis=0),
    }
    for name, values in rows.items():
        lines.append(f"| {name:22} |" + "".join(f" {value:6.3f} |" for value in values))
    return "\n".join(lines)


def main() -> int:
    """Print the accuracy over all plants; return 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--plants", type=int, default=10, help="number of plants, default 10")
    parser.add_argument(
        "--spec",
        type=Path,
        default=TYPICAL_ERRORS_FILE,
        help="file with the ranges of perturbations",
    )
    parser.add_argument("--friction", choices=FRICTION_MODELS, default=FRICTION_MODELS[0])
    parser.add_argument(
        "--evaluations", type=int, default=EVALUATIONS, help="of the search for the motion"
    )
    options = parser.parse_args()
    if options.plants < 1:
        parser.error(f"--plants: got {options.plants}, allowed 1 or more")
    spec, chosen = PerturbationSpec.from_yaml(options.spec), Options(friction=options.friction)
    points = excitation(options.evaluations)
    found = []
    for seed in range(1, options.plants + 1):
        config = plant(spec, seed, points)
        found.append(figures(config, measured(config, points), chosen))
        one = found[-1]
        sys.stderr.write(
            f"plant {seed}: error / floor {np.round(one.ratio, 2).tolist()}, mass matrix "
            f"{one.mass:.2%} (datasheet {one.before_mass:.1%}), {one.seconds:.1f} s of CPU\n"
        )
    ratio = np.median([one.ratio for one in found], axis=0)
    mass = float(np.median([one.mass for one in found]))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(table(found))
    print(
        f"mass matrix: {mass:.2%}, datasheet {np.median([one.before_mass for one in found]):.1%}"
    )
    print(f"condition number {np.median([one.condition for one in found]):.0f}")
    print(f"identification: {max(one.seconds for one in found):.1f} s of CPU, {memory:.0f} MiB")
    good = bool((ratio < RATIO).all() and mass < MASS and all(one.bodies for one in found))
    print(
        "goals met" if good else f"goals missed: {RATIO} times the floor, mass matrix {MASS:.0%}"
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
