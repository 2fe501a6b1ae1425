# SPDX-License-Identifier: Apache-2.0
"""An episode as it stands, to go back to."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np

from multipanda_py.cell.simulation import SimulationState
from multipanda_py.gym.control import Control
from multipanda_py.gym.hand import HandControl
from multipanda_py.gym.task import GymTask
from multipanda_py.state import Vector


@dataclass(frozen=True)
class EpisodeState:
    """What :meth:`.CellEnv.save` returns; for its own environment, and its own start of the cell.

    Attributes:
        simulation: Of the world and the loop.
        steps: Since the episode's beginning.
        goal: Of the task.
        task: What the task keeps to itself.
        random: Of the generator that the next episodes are drawn from.
        controls: What targets of arms are, by arm.
        hands: Which hands are told to be open.
    """

    simulation: SimulationState
    steps: int
    goal: Vector
    task: Mapping[str, Any]
    random: Mapping[str, Any]
    controls: Mapping[str, Mapping[str, Any]]
    hands: Mapping[str, bool]


def saved(
    simulation: SimulationState,
    steps: int,
    goal: Vector,
    task: GymTask,
    random: np.random.Generator,
    controls: Mapping[str, Control],
    hands: Mapping[str, HandControl],
) -> EpisodeState:
    """Return copies of all that an episode goes on from."""
    return EpisodeState(
        simulation, steps, goal.copy(), deepcopy(vars(task)),
        deepcopy(dict(random.bit_generator.state)),
        {name: _targets(control) for name, control in controls.items()},
        {name: hand.is_open for name, hand in hands.items()},
    )  # fmt: skip


def put_back(
    state: EpisodeState,
    task: GymTask,
    random: np.random.Generator,
    controls: Mapping[str, Control],
) -> None:
    """Have task, random numbers and targets go on from a state."""
    vars(task).clear()
    vars(task).update(deepcopy(dict(state.task)))
    random.bit_generator.state = deepcopy(dict(state.random))
    for name, control in controls.items():
        vars(control).update(deepcopy(dict(state.controls[name])))


def _targets(control: Control) -> dict[str, Any]:
    """Return what of a control changes from step to step."""
    fixed = ("arm", "period", "low", "high")
    return deepcopy({key: value for key, value in vars(control).items() if key not in fixed})
