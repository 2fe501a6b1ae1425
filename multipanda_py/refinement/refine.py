# SPDX-License-Identifier: Apache-2.0
"""Validate, identify, put back, and validate again, until nothing improves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arm
from multipanda_py.exceptions import ValidationRefused
from multipanda_py.identification.identify import Identified, identify
from multipanda_py.identification.motion import MeasuredMotion
from multipanda_py.machine.whole_file import replacing
from multipanda_py.refinement.arm import find_motion, measure
from multipanda_py.refinement.gain import Gain, gain_of
from multipanda_py.refinement.put_back import with_bodies, with_laws, with_surface
from multipanda_py.refinement.rounds import Refinement, Round
from multipanda_py.refinement.surface import TABLE, SurfaceFit
from multipanda_py.robots.load import NO_LOAD
from multipanda_py.robots.parameter_file import parameters_text
from multipanda_py.state import Matrix
from multipanda_py.validation import Comparison
from multipanda_py.validation.compare import SHORTEST
from multipanda_py.validation.record import Run
from multipanda_py.validation.task import SIMULATED, Task
from multipanda_py.validation.tasks import make_task
from multipanda_py.validation.validate import check_sides, compare_runs, laws_of, runs_of

LEAST_GAIN = 0.03
"""By which share of the score a round has to be better for another one to be worth it."""
Say = Callable[[str], None]


@dataclass(frozen=True)
class RefinementPlan:
    """How much is done.

    Attributes:
        tasks: By number.
        laws: Names of force laws; the first that a task has if empty.
        seconds: Of each task.
        repeats: Of each task and side.
        rounds: Most of them.
        evaluations: Motions that are tried before one is shown to an arm.
        seed: Of noise and motions.
    """

    tasks: Sequence[int] = (1, 2, 3, 4)
    laws: Sequence[str] = ()
    seconds: float = 4.0
    repeats: int = 1
    rounds: int = 3
    evaluations: int = 600
    seed: int = 0


def refine(
    plant: CellConfig,
    twin: CellConfig,
    folder: Path,
    effort: RefinementPlan | None = None,
    motions: Mapping[str, Matrix] | None = None,
    say: Say = lambda text: None,
) -> Refinement:
    """Bring a twin nearer to its plant.

    In every round each arm of the tasks goes through another motion; what all of them showed makes
    its body. Then friction and contact of the table are found, where both cells have one that is
    simulated, and the tasks say how far the twin is. A plant of real arms MOVES.

    Args:
        plant: A cell, simulated or real.
        twin: A simulated cell with the same arms.
        folder: Where files of bodies go, one per arm and round.
        effort: How much is done.
        motions: Points by arm, instead of those that are searched for.
        say: Told what is under way.

    Raises:
        ValidationRefused: If a task cannot be done on these cells, or a motion does not end.
        IdentificationRefused: If what was measured cannot tell the bodies.
    """
    effort = effort or RefinementPlan()
    if effort.rounds < 1 or effort.repeats < 1:
        raise ValidationRefused("rounds and repeats: allowed 1 or more of each")
    tasks = [
        make_task(number, law, effort.seconds)
        for number in effort.tasks
        for law in laws_of(number, effort.laws)[: None if effort.laws else 1]
    ]
    for task in tasks:
        check_sides(task, plant, twin)
    names = list(dict.fromkeys(name for task in tasks for name in task.names(plant)))
    if missing := [name for name in names if name not in twin.arms]:
        raise ValidationRefused(
            f"arms: got {', '.join(missing)} in the plant alone, allowed the same names in both"
        )
    return _Rounds(plant, twin, folder, effort, motions or {}, say, tasks, names).run()


@dataclass(eq=False)
class _Rounds:
    plant: CellConfig
    twin: CellConfig
    folder: Path
    effort: RefinementPlan
    motions: Mapping[str, Matrix]
    say: Say
    tasks: Sequence[Task]
    names: Sequence[str]

    def run(self) -> Refinement:
        """Do rounds until nothing improves."""
        effort, say = self.effort, self.say
        self._of_plant = [self._shown(task) for task in self.tasks]
        rounds = [Round(0, self._compared(self.twin))]
        say(f"round 0: score {rounds[0].score:.3f}")
        fit = self._surface_fit()
        measured: dict[str, list[MeasuredMotion]] = {name: [] for name in self.names}
        twin, ended = self.twin, f"{effort.rounds} rounds were asked for"
        for number in range(1, effort.rounds + 1):
            identified, files = {}, {}
            for name in self.names:
                measured[name].append(self._moved(name, number))
                identified[name], files[name] = self._body(name, measured[name], number)
            twin = with_bodies(twin, files)
            surface = fit.fit(twin, say) if fit else {}
            if surface:
                twin = with_surface(twin, TABLE, surface)
            best = min(one.score for one in rounds)
            rounds.append(Round(number, self._compared(twin), files, identified, surface))
            say(f"round {number}: score {rounds[-1].score:.3f}")
            if not rounds[-1].score < (1.0 - LEAST_GAIN) * best:
                ended = f"round {number} was not better by {100 * LEAST_GAIN:.0f} %"
                break
        found = Refinement(rounds, (), ended)
        return Refinement(rounds, self._gains(found.best), ended)

    def _shown(self, task: Task) -> list[Run]:
        """Do a task on the plant.

        Raises:
            ValidationRefused: If the plant cannot do it, so that no twin could be held against it.
        """
        runs = self._runs("plant", task, self.plant)
        if all(run.seconds < SHORTEST for run in runs):
            raise ValidationRefused(f"task {task.number}: the plant cannot do it: {runs[0].fault}")
        return runs

    def _runs(self, side: str, task: Task, cell: CellConfig) -> list[Run]:
        effort = self.effort
        return runs_of(
            task, cell, effort.repeats, effort.seed, lambda text: self.say(f"{side}, {text}")
        )

    def _compared(self, twin: CellConfig) -> list[Comparison]:
        return [
            compare_runs(task, self.plant, runs, self._runs("twin", task, twin))
            for task, runs in zip(self.tasks, self._of_plant)
        ]

    def _surface_fit(self) -> SurfaceFit | None:
        """Return what finds the table of the twin, if it can be found."""
        first = self.plant.arms[next(iter(self.plant.arms))]
        pressing = any(task.number in (3, 4) for task in self.tasks)
        if not pressing or TABLE not in self.twin.objects:
            return None
        if first.backend == SIMULATED and TABLE not in self.plant.objects:
            return None
        self.say("plant, its table")
        return SurfaceFit(self.plant, self.effort.seconds, self.effort.seed)

    def _moved(self, name: str, number: int) -> MeasuredMotion:
        """Let an arm of the plant go through a motion that it has not shown yet."""
        seed = self.effort.seed + number
        points = self.motions.get(name)
        if points is None:
            points = find_motion(self.twin, name, self.effort.evaluations, seed, self.say)
        self.say(f"round {number}: {name} of the plant goes through {points[-1, 0]:.0f} s")
        return measure(self.plant, name, points, seed)

    def _body(
        self, name: str, measured: Sequence[MeasuredMotion], number: int
    ) -> tuple[Identified, Path]:
        """Find a body and write its file."""
        described = describe_arm(name, self.twin.arms[name])
        found = identify(
            measured,
            described,
            load=self.plant.arms[name].settings.load or NO_LOAD,
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
        """Do the tasks on a simulated plant whose laws know what was identified."""
        real = [name for name in self.names if self.plant.arms[name].backend != SIMULATED]
        if real or not best.files:
            return []
        cell = with_laws(self.plant, best.files)
        return [
            gain_of(task, runs, self._runs("plant by identified laws", task, cell))
            for task, runs in zip(self.tasks, self._of_plant)
        ]
