# SPDX-License-Identifier: Apache-2.0
"""Validate, identify, put back, and validate again, until nothing improves."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.fingerprint import fingerprint
from multipanda_py.exceptions import ValidationRefused
from multipanda_py.extras import VERSION
from multipanda_py.refinement.kept import Kept
from multipanda_py.refinement.plan import RefinementPlan
from multipanda_py.refinement.rounds import Refinement
from multipanda_py.refinement.work import Work
from multipanda_py.state import Matrix
from multipanda_py.validation.surroundings import wanted, with_tools_of
from multipanda_py.validation.tasks import make_task
from multipanda_py.validation.validate import check_sides, laws_of

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
