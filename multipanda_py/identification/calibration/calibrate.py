# SPDX-License-Identifier: Apache-2.0
"""Validate, identify, put back, and validate again, until nothing improves."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from multipanda_py.config.cell_file import CellConfig, fingerprint
from multipanda_py.config.describe import describe_arm
from multipanda_py.exceptions import IdentificationRefused, ValidationRefused
from multipanda_py.files import replacing
from multipanda_py.identification.arm.identify import Identified, identify
from multipanda_py.identification.calibration.contact_parameters import (
    TABLE,
    FoundSurface,
    SurfaceFit,
)
from multipanda_py.identification.calibration.improvement import (
    Gain,
    find_motion,
    gain_of,
    measure,
    with_bodies,
    with_laws,
    with_surface,
)
from multipanda_py.identification.calibration.rounds import Kept, Refinement, RefinementPlan, Round
from multipanda_py.identification.validation import Comparison
from multipanda_py.identification.validation.compare import SHORTEST
from multipanda_py.identification.validation.record import Run
from multipanda_py.identification.validation.task import SIMULATED, Task
from multipanda_py.identification.validation.tasks import (
    has_real_arms,
    make_task,
    things_of,
    wanted,
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

LEAST_GAIN = 0.03
"""By which share of the score a round has to be better for another one to be worth it."""


@dataclass(eq=False)
class Work:
    """What :func:`.refine` does, in its order; arguments as there.

    Attributes:
        tasks: That the plant is to do.
        names: Of the arms that take part.
        kept: What has been done already.
        notes: What went wrong and was left out, in sentences.
    """

    plant: CellConfig
    twin: CellConfig
    folder: Path
    plan: RefinementPlan
    motions: Mapping[str, Matrix]
    say: Callable[[str], None]
    tasks: list[Task]
    names: Sequence[str]
    kept: Kept
    notes: list[str] = field(default_factory=list)

    def run(self) -> Refinement:
        """Do rounds until nothing improves.

        Raises:
            ValidationRefused: If the plant can do none of the tasks, or no arm its first motion.
            IdentificationRefused: If no body can be told in the first round.
        """
        plan, say = self.plan, self.say
        self._of_plant = self._shown()
        rounds = [Round(0, self._compared(self.twin))]
        say(f"round 0: score {rounds[0].score:.3f}")
        fit = self._surface_fit()
        measured: dict[str, list[MeasuredMotion]] = {name: [] for name in self.names}
        twin, ended = self.twin, f"{plan.rounds} rounds were asked for"
        files: dict[str, Path] = {}
        for number in range(1, plan.rounds + 1):
            found = self._bodies(measured, number)
            if not found:
                ended = f"no arm could be identified in round {number}"
                break
            files = {**files, **{name: path for name, (_, path) in found.items()}}
            twin = with_bodies(twin, files)
            surface = self._surface(fit, twin)
            twin = with_surface(twin, TABLE, surface.values) if surface.values else twin
            best = min(one.score for one in rounds)
            identified = {name: one for name, (one, _) in found.items()}
            rounds.append(Round(number, self._compared(twin), files, identified, surface))
            say(f"round {number}: score {rounds[-1].score:.3f}")
            if not rounds[-1].score < (1.0 - LEAST_GAIN) * best:
                ended = f"round {number} was not better by {100 * LEAST_GAIN:.0f} %"
                break
        best_round = Refinement(rounds, (), ended).best
        return Refinement(rounds, self._gains(best_round), ended, tuple(self.notes))

    def _note(self, text: str) -> None:
        self.notes.append(text)
        self.say(text)

    def _shown(self) -> list[tuple[Task, list[Run]]]:
        """Do the tasks on the plant; no twin can be held against one that it cannot do.

        Raises:
            ValidationRefused: If it can do none of them.
        """
        done = []
        for task in self.tasks:
            runs = self._runs("plant", task, self.plant)
            if any(run.seconds >= SHORTEST for run in runs):
                done.append((task, runs))
            else:
                self._note(f"task {task.number}: the plant cannot do it: {runs[0].fault}")
        if not done:
            raise ValidationRefused(self.notes[0])
        return done

    def _runs(self, side: str, task: Task, cell: CellConfig) -> list[Run]:
        plan = self.plan
        name = f"{side}_{task.number}_{task.law}_{fingerprint(cell)[:12]}".replace(" ", "_")
        return runs_of(
            task, cell, plan.repeats, plan.seed, lambda text: self.say(f"{side}, {text}"),
            lambda repeat, make: self.kept.run(f"{name}_{repeat}", make), plan.recover,
        )  # fmt: skip

    def _compared(self, twin: CellConfig) -> list[Comparison]:
        return [
            compare_runs(task, self.plant, runs, self._runs("twin", task, twin))
            for task, runs in self._of_plant
        ]

    def _surface_fit(self) -> SurfaceFit | None:
        """Return what finds the table of the twin, if it can be found."""
        first = self.plant.arms[next(iter(self.plant.arms))]
        if TABLE not in self.twin.objects:
            return None
        if first.backend == SIMULATED and TABLE not in self.plant.objects:
            return None
        try:
            fit = SurfaceFit(self.plant, self._of_plant, self.plan.seed)
        except ValidationRefused as error:
            self._note(f"the table is not looked for: {error}")
            return None
        for reason in fit.left_out:
            self._note(f"not all of the table is looked for: {reason}")
        return fit

    def _surface(self, fit: SurfaceFit | None, twin: CellConfig) -> FoundSurface:
        if fit is None:
            return FoundSurface()
        found = self.kept.numbers(
            f"table_{fingerprint(twin)[:12]}", lambda: asdict(fit.fit(twin, self.say))
        )
        return FoundSurface(**found)

    def _bodies(
        self, measured: Mapping[str, list[MeasuredMotion]], number: int
    ) -> dict[str, tuple[Identified, Path]]:
        """Let every arm show another motion; return what is found of those that came through it.

        Raises:
            ValidationRefused: If in the first round none did.
            IdentificationRefused: The same.
        """
        found: dict[str, tuple[Identified, Path]] = {}
        failed: list[ValidationRefused | IdentificationRefused] = []
        for name, before in measured.items():
            try:
                motion = self._moved(name, number)
                found[name] = self._body(name, [*before, motion], number)
            except (ValidationRefused, IdentificationRefused) as error:
                failed.append(error)
            else:
                before.append(motion)
        if number == 1 and not found:
            raise failed[0]
        for reason in failed:
            self._note(f"round {number}: {reason}")
        return found

    def _moved(self, name: str, number: int) -> MeasuredMotion:
        """Let an arm of the plant go through a motion that it has not shown yet."""
        seed = self.plan.seed + number
        points = self.motions.get(name)
        if points is None:
            points = self.kept.points(
                f"motion_{name}_{seed}",
                lambda: find_motion(self._room(), name, self.plan.evaluations, seed, self.say),
            )
        self.say(f"round {number}: {name} of the plant goes through {points[-1, 0]:.0f} s")
        return measure(self.plant, name, points, seed, self.kept.run, recover=self.plan.recover)

    def _room(self) -> CellConfig:
        """Return the twin among all that stands around it, or around real arms of the plant."""
        things = {**self.plant.objects, **things_of(self.tasks, self.plant)}
        if all(arm.backend == SIMULATED for arm in self.plant.arms.values()):
            return self.twin
        return self.twin.model_copy(update={"objects": {**self.twin.objects, **things}})

    def _body(
        self, name: str, measured: Sequence[MeasuredMotion], number: int
    ) -> tuple[Identified, Path]:
        """Find a body and write its file."""
        described = describe_arm(name, self.twin.arms[name])
        found = identify(
            measured,
            described,
            load=load_of(self.plant.arms[name].settings),
            progress=lambda text: self.say(f"round {number}: {name}: {text}"),
        )
        path = self.folder / f"{name}_round_{number}.yaml"
        notes = {
            "logs": [one.name for one in measured],
            "held_out_rmse": {key: rmse.round(5).tolist() for key, rmse in found.held_out.items()},
        }
        with replacing(path) as partial:
            partial.write_text(parameters_text(found.robot, notes), encoding="utf-8")
        return found, path

    def _gains(self, best: Round) -> list[Gain]:
        """Do tasks on the plant with laws that know what was identified.

        On real arms those in free space, where nothing is to be felt: only a simulation says what
        a contact truly exerts.
        """
        if not best.files:
            return []
        cell = with_laws(self.plant, best.files)
        return [
            gain_of(task, runs, self._runs("plant by identified laws", task, cell))
            for task, runs in self._of_plant
            if task.asked_force(np.zeros(1)) is None or not has_real_arms(self.plant, task)
        ]


Say = Callable[[str], None]


def refine(
    plant: CellConfig,
    twin: CellConfig,
    folder: Path,
    plan: RefinementPlan | None = None,
    motions: Mapping[str, Matrix] | None = None,
    say: Say = lambda text: None,
) -> Refinement:
    """Bring a twin nearer to its plant.

    In every round each arm of the tasks goes through another motion; what all of them showed makes
    its body. Then friction and contact of the table are found, where both cells have one that is
    simulated, and the tasks say how far the twin is. A plant of real arms MOVES.

    What a plant cannot do is left out, and said: a task, a motion of a round, the table. Runs and
    motions are kept in the folder: called again with the same, it goes on where it was cut off,
    also with more rounds.

    Args:
        plant: A cell, simulated or real.
        twin: A simulated cell with the same arms.
        folder: Where files of bodies go, one per arm and round, and what is kept.
        plan: How much is done.
        motions: Points by arm, instead of those that are searched for.
        say: Told what is under way.

    Raises:
        ValidationRefused: If no task can be done on these cells, what the folder keeps is of
            something else, or no arm came to the end of its first motion.
        IdentificationRefused: If what was measured in the first round cannot tell any body.
    """
    plan, motions = plan or RefinementPlan(), motions or {}
    twin = with_tools_of(plant, twin)
    if plan.rounds < 1 or plan.repeats < 1:
        raise ValidationRefused("rounds and repeats: allowed 1 or more of each")
    tasks = [
        make_task(number, law, plan.seconds)
        for number in plan.tasks
        for law in laws_of(number, plan.laws)[: None if plan.laws else 1]
    ]
    for task in tasks:
        check_sides(task, plant, twin)
    names = list(dict.fromkeys(name for task in tasks for name in task.names(plant)))
    if missing := [name for name in names if name not in twin.arms]:
        raise ValidationRefused(
            f"arms: got {', '.join(missing)} in the plant alone, allowed the same names in both"
        )
    for sentence in wanted(tasks, plant):
        say(sentence)
    kept = Kept(folder, _asked(plant, twin, plan, motions))
    if len(kept):
        say(f"{len(kept)} runs are there already")
    return Work(plant, twin, folder, plan, motions, say, tasks, names, kept).run()


def _asked(
    plant: CellConfig, twin: CellConfig, plan: RefinementPlan, motions: Mapping[str, Matrix]
) -> dict[str, Any]:
    """Return what runs are the answer to: all but how many rounds, and what else changes none."""
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
