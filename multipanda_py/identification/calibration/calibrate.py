# SPDX-License-Identifier: Apache-2.0
"""Calibration loop: validate, identify, update the twin and repeat while its errors decrease."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from multipanda_py.config.cell_file import CellConfig, fingerprint
from multipanda_py.config.describe import describe_arm
from multipanda_py.exceptions import IdentificationRejected, ValidationRejected
from multipanda_py.files import replacing
from multipanda_py.identification.arm.identify import Identified, identify
from multipanda_py.identification.calibration.contact_parameters import (
    TABLE,
    ContactFit,
    ContactParameters,
)
from multipanda_py.identification.calibration.improvement import (
    ModelImprovement,
    find_motion,
    gain_of,
    measure,
    with_bodies,
    with_laws,
    with_surface,
)
from multipanda_py.identification.calibration.rounds import (
    Calibration,
    CalibrationPlan,
    Round,
    RunCache,
)
from multipanda_py.identification.validation import Comparison
from multipanda_py.identification.validation.compare import MIN_COMMON_DURATION
from multipanda_py.identification.validation.record import Run
from multipanda_py.identification.validation.task import SIMULATED_BACKEND, Task
from multipanda_py.identification.validation.tasks import (
    has_real_arms,
    make_task,
    objects_of,
    setup_instructions,
    with_tools_of,
)
from multipanda_py.identification.validation.validate import (
    check_sides,
    compare_runs,
    laws_of,
    runs_of,
)
from multipanda_py.realtime.recording.measured_motion import MeasuredMotion
from multipanda_py.registry import VERSION
from multipanda_py.robots.inertial import load_of
from multipanda_py.robots.measured_files import parameters_text
from multipanda_py.state import Matrix

MIN_IMPROVEMENT = 0.03
"""Minimum relative improvement of the score for another round."""


@dataclass(eq=False)
class CalibrationRun:
    """Calibration loop of :func:`.calibrate`, with the same arguments.

    Attributes:
        tasks: Tasks for plant and twin.
        names: Names of the participating arms.
        checkpoint: Cache of finished runs, from which an interrupted calibration resumes.
        notes: Messages about skipped tasks, motions and parameters.
    """

    plant: CellConfig
    twin: CellConfig
    folder: Path
    plan: CalibrationPlan
    motions: Mapping[str, Matrix]
    log: Callable[[str], None]
    tasks: list[Task]
    names: Sequence[str]
    checkpoint: RunCache
    notes: list[str] = field(default_factory=list)

    def run(self) -> Calibration:
        """Run rounds until the errors of the twin (:attr:`.Round.score`) stop decreasing.

        Raises:
            ValidationRejected: If the plant completes none of the tasks, or no arm completes its
                first motion.
            IdentificationRejected: If no arm can be identified in the first round.
        """
        plan, log = self.plan, self.log
        self._of_plant = self._completed_plant_runs()
        rounds = [Round(0, self._compared(self.twin))]
        log(f"round 0: score {rounds[0].score:.3f}")
        fit = self._contact_fit_or_none()
        measured: dict[str, list[MeasuredMotion]] = {name: [] for name in self.names}
        twin, ended = self.twin, f"all {plan.rounds} rounds are done"
        files: dict[str, Path] = {}
        for number in range(1, plan.rounds + 1):
            bodies = self._identify_arms(measured, number)
            if not bodies:
                ended = f"no arm could be identified in round {number}"
                break
            files = {**files, **{name: path for name, (_, path) in bodies.items()}}
            twin = with_bodies(twin, files)
            surface = self._surface(fit, twin)
            twin = with_surface(twin, TABLE, surface.values) if surface.values else twin
            best = min(one.score for one in rounds)
            identified = {name: one for name, (one, _) in bodies.items()}
            rounds.append(Round(number, self._compared(twin), files, identified, surface))
            log(f"round {number}: score {rounds[-1].score:.3f}")
            if not rounds[-1].score < (1.0 - MIN_IMPROVEMENT) * best:
                ended = (
                    f"round {number} did not improve the score by {100 * MIN_IMPROVEMENT:.0f} %"
                )
                break
        best_round = Calibration(rounds, (), ended).best
        return Calibration(rounds, self._model_improvements(best_round), ended, tuple(self.notes))

    def _note(self, text: str) -> None:
        self.notes.append(text)
        self.log(text)

    def _completed_plant_runs(self) -> list[tuple[Task, list[Run]]]:
        done = []
        for task in self.tasks:
            runs = self._runs("plant", task, self.plant)
            if any(run.seconds >= MIN_COMMON_DURATION for run in runs):
                done.append((task, runs))
            else:
                self._note(f"task {task.number}: skipped, the plant fails: {runs[0].fault}")
        if not done:
            raise ValidationRejected(self.notes[0])
        return done

    def _runs(self, side: str, task: Task, cell: CellConfig) -> list[Run]:
        plan = self.plan
        name = f"{side}_{task.number}_{task.controllet}_{fingerprint(cell)[:12]}".replace(" ", "_")
        return runs_of(
            task, cell, plan.repeats, plan.seed, lambda text: self.log(f"{side}, {text}"),
            lambda repeat, make: self.checkpoint.run(f"{name}_{repeat}", make), plan.recover,
        )  # fmt: skip

    def _compared(self, twin: CellConfig) -> list[Comparison]:
        return [
            compare_runs(task, self.plant, runs, self._runs("twin", task, twin))
            for task, runs in self._of_plant
        ]

    def _contact_fit_or_none(self) -> ContactFit | None:
        """Return the estimator of the table parameters, or None without suitable data."""
        first = self.plant.arms[next(iter(self.plant.arms))]
        if TABLE not in self.twin.objects:
            return None
        if first.backend == SIMULATED_BACKEND and TABLE not in self.plant.objects:
            return None
        try:
            fit = ContactFit(self.plant, self._of_plant, self.plan.seed)
        except ValidationRejected as error:
            self._note(f"table parameters are not estimated: {error}")
            return None
        for reason in fit.left_out:
            self._note(f"some table parameters are not estimated: {reason}")
        return fit

    def _surface(self, fit: ContactFit | None, twin: CellConfig) -> ContactParameters:
        if fit is None:
            return ContactParameters()
        result = self.checkpoint.numbers(
            f"table_{fingerprint(twin)[:12]}", lambda: asdict(fit.fit(twin, self.log))
        )
        return ContactParameters(**result)

    def _identify_arms(
        self, earlier_motions: Mapping[str, list[MeasuredMotion]], round_number: int
    ) -> dict[str, tuple[Identified, Path]]:
        bodies: dict[str, tuple[Identified, Path]] = {}
        failed: list[ValidationRejected | IdentificationRejected] = []
        for name, before in earlier_motions.items():
            try:
                motion = self._run_motion(name, round_number)
                bodies[name] = self._body(name, [*before, motion], round_number)
            except (ValidationRejected, IdentificationRejected) as error:
                failed.append(error)
            else:
                before.append(motion)
        if round_number == 1 and not bodies:
            raise failed[0]
        for reason in failed:
            self._note(f"round {round_number}: {reason}")
        return bodies

    def _run_motion(self, name: str, number: int) -> MeasuredMotion:
        seed = self.plan.seed + number
        points = self.motions.get(name)
        if points is None:
            points = self.checkpoint.points(
                f"motion_{name}_{seed}",
                lambda: find_motion(
                    self._excitation_cell(), name, self.plan.evaluations, seed, self.log
                ),
            )
        self.log(f"round {number}: {name} of the plant moves for {points[-1, 0]:.0f} s")
        return measure(
            self.plant, name, points, seed, self.checkpoint.run, recover=self.plan.recover
        )

    def _excitation_cell(self) -> CellConfig:
        """Return the cell in which excitation motions are checked for collisions."""
        objects = {**self.plant.objects, **objects_of(self.tasks, self.plant)}
        if all(arm.backend == SIMULATED_BACKEND for arm in self.plant.arms.values()):
            return self.twin
        return self.twin.model_copy(update={"objects": {**self.twin.objects, **objects}})

    def _body(
        self, name: str, measured: Sequence[MeasuredMotion], number: int
    ) -> tuple[Identified, Path]:
        described = describe_arm(name, self.twin.arms[name])
        body = identify(
            measured,
            described,
            load=load_of(self.plant.arms[name].settings),
            progress=lambda text: self.log(f"round {number}: {name}: {text}"),
        )
        path = self.folder / f"{name}_round_{number}.yaml"
        notes = {
            "logs": [one.name for one in measured],
            "held_out_rmse": {key: rmse.round(5).tolist() for key, rmse in body.held_out.items()},
        }
        with replacing(path) as partial:
            partial.write_text(parameters_text(body.robot, notes), encoding="utf-8")
        return body, path

    def _model_improvements(self, best_round: Round) -> list[ModelImprovement]:
        """Compare task errors on the plant with the data-sheet and the identified model."""
        if not best_round.files:
            return []
        cell = with_laws(self.plant, best_round.files)
        return [
            gain_of(task, runs, self._runs("plant by identified laws", task, cell))
            for task, runs in self._of_plant
            # The true contact force is known only in simulation.
            if task.requested_force(np.zeros(1)) is None or not has_real_arms(self.plant, task)
        ]


LogFunction = Callable[[str], None]


def calibrate(
    plant: CellConfig,
    twin: CellConfig,
    folder: Path,
    plan: CalibrationPlan | None = None,
    motions: Mapping[str, Matrix] | None = None,
    log: LogFunction = lambda text: None,
) -> Calibration:
    """Calibrate a simulated twin so that it behaves like its plant.

    WARNING: a plant with real arms MOVES. In every round, each arm that takes part in the
    validation tasks executes a new excitation motion on the plant. The twin gets the identified
    inertia and friction, and estimated contact parameters of its table.

    Tasks and motions that fail on the plant are skipped and reported. A call with the same
    arguments resumes an interrupted calibration. Only ``rounds`` and ``recover`` in ``plan`` may
    have changed.

    Args:
        plant: Cell to match, simulated or real.
        twin: Simulated cell with the same arms.
        folder: Folder of the parameter files, one per arm and round, and of the stored runs.
        plan: Tasks, repeats and rounds of the calibration.
        motions: Points of excitation motions by arm, (p, 1 + 3 n): times, positions, velocities
            and accelerations. They replace the search for such motions.
        log: Callback that receives progress messages.

    Raises:
        ValidationRejected: If no task can run on these cells, the folder belongs to another
            calibration, or no arm completes its first motion.
        IdentificationRejected: If no arm can be identified in the first round.
    """
    plan, motions = plan or CalibrationPlan(), motions or {}
    twin = with_tools_of(plant, twin)
    if plan.rounds < 1 or plan.repeats < 1:
        raise ValidationRejected("plan: rounds and repeats have to be 1 or more")
    tasks = [
        make_task(number, controllet, plan.seconds)
        for number in plan.tasks
        for controllet in laws_of(number, plan.laws)[: None if plan.laws else 1]
    ]
    for task in tasks:
        check_sides(task, plant, twin)
    names = list(dict.fromkeys(name for task in tasks for name in task.names(plant)))
    if missing := [name for name in names if name not in twin.arms]:
        raise ValidationRejected(
            f"twin: lacks the plant's arms {', '.join(missing)}. Use the same names in the twin."
        )
    for sentence in setup_instructions(tasks, plant):
        log(sentence)
    checkpoint = RunCache(folder, _resume_key(plant, twin, plan, motions))
    if len(checkpoint):
        log(f"{len(checkpoint)} runs are already done")
    return CalibrationRun(plant, twin, folder, plan, motions, log, tasks, names, checkpoint).run()


def _resume_key(
    plant: CellConfig, twin: CellConfig, plan: CalibrationPlan, motions: Mapping[str, Matrix]
) -> dict[str, Any]:
    """Return the arguments that must not change between interrupted and resumed calibration."""
    own = asdict(plan)
    del own["rounds"], own["recover"]
    return {
        "version": VERSION,
        "plant": fingerprint(plant),
        "twin": fingerprint(twin),
        **own,
        "motions": {arm: _digest(points) for arm, points in motions.items()},
    }


def _digest(points: Matrix) -> str:
    return hashlib.sha256(points.tobytes()).hexdigest()
