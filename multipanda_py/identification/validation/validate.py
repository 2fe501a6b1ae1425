# SPDX-License-Identifier: Apache-2.0
"""Execution of tasks on a plant and on its twin, and their comparison."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arm
from multipanda_py.exceptions import ValidationRejected
from multipanda_py.identification.validation.compare import PERIOD, Comparison, at_times, compare
from multipanda_py.identification.validation.record import Run, TaskCell
from multipanda_py.identification.validation.task import SIMULATED_BACKEND, TARGET_CYCLES, Task
from multipanda_py.identification.validation.tasks import (
    TASKS,
    has_real_arms,
    make_task,
    setup_instructions,
    with_tools_of,
)
from multipanda_py.realtime.recording import Log
from multipanda_py.realtime.recording.log import check_columns, check_completeness
from multipanda_py.robots import MODELS, ArmDescription
from multipanda_py.robots.dynamics.arm_dynamics import ToolJacobian
from multipanda_py.state import Vector

WRENCH_COLUMN = "wrench_ext_in_base"


def with_measured_force(task: Task, run: Run, arms: Mapping[str, ArmDescription]) -> Run:
    """Add the forces that the arms measured to a run of real arms.

    Args:
        task: Task of the run, after a call of :meth:`.Task.scene` with the cell of these arms.
        run: Recorded run, returned unchanged if it has simulated forces or the task requests no
            force.
        arms: Descriptions of the arms by their names in the run.
    """
    requests = task.requested_force(np.zeros(1)) is not None
    logs = [run.logs[name] for name in arms if name in run.logs]
    if (
        not requests
        or len(run.force)
        or not logs
        or any(WRENCH_COLUMN not in log.columns for log in logs)
    ):
        return run
    times = np.arange(0.0, min(task.seconds, run.seconds), TARGET_CYCLES * PERIOD)
    in_world = [
        at_times(times, log.time, log.columns[WRENCH_COLUMN][:, :3]) @ arm.rotation_base_in_world.T
        for log, arm in zip(logs, arms.values())
    ]
    forces = [task.force_component(exerted) for exerted in np.stack(in_world, axis=1)]
    return replace(run, force=np.array(forces), force_time=times, force_is_measured=True)


THRESHOLD_MARGIN = 1.5
"""Minimum ratio of contact thresholds to the task's force, since controllets overshoot."""
FORCE_THRESHOLD_KEY, TORQUE_THRESHOLD_KEY = "upper_force_thresholds", "upper_torque_thresholds"


def check_thresholds(task: Task, scene: CellConfig) -> None:
    r"""Refuse a task whose force would trigger the collision reflex of a real arm.

    .. math:: F_{max} \ge 1.5\,\|f\|, \qquad \tau_{max} \ge 1.5\,|J(q_0)^T f|.

    Symbols: collision thresholds :math:`F_{max}` and :math:`\tau_{max}` of the arm, force f of the
    task, and Jacobian J of the tool at the start configuration :math:`q_0`.

    Args:
        task: Task that made ``scene``.
        scene: Result of :meth:`.Task.scene`, with the arms at the start of the task.

    Raises:
        ValidationRejected: If thresholds are too low. The message names the required values.
    """
    for name, force in task.forces_on_objects.items():
        arm = scene.arms[name]
        forces, torques = (
            getattr(arm.settings, key, None) for key in (FORCE_THRESHOLD_KEY, TORQUE_THRESHOLD_KEY)
        )
        if arm.backend == SIMULATED_BACKEND or forces is None or torques is None:
            continue
        described = describe_arm(name, arm)
        jacobian = ToolJacobian(described).compute(np.array(arm.q_start))[:3]
        needed = {
            FORCE_THRESHOLD_KEY: np.array(
                [THRESHOLD_MARGIN * np.linalg.norm(force)] * 3 + [0.0] * 3
            ),
            TORQUE_THRESHOLD_KEY: THRESHOLD_MARGIN
            * np.abs(jacobian.T @ described.rotation_base_in_world.T @ force),
        }
        lacking = [
            f"{key}: {_sufficient_thresholds(np.array(value), needed[key])}"
            for key, value in ((FORCE_THRESHOLD_KEY, forces), (TORQUE_THRESHOLD_KEY, torques))
            if (np.array(value) < needed[key]).any()
        ]
        if lacking:
            raise ValidationRejected(
                f"task {task.number}: {name} would trigger its collision reflex, because it "
                f"exerts {np.linalg.norm(force):.3g} N. In arms.{name}.{arm.section} of the cell "
                f"file, set {', '.join(lacking)} or more."
            )


def _sufficient_thresholds(present: Vector, needed: Vector) -> str:
    """Return the larger of present and required thresholds [N, Nm], as text for a cell file."""
    values = np.maximum(present, np.ceil(needed))
    return f"[{', '.join(f'{value:.1f}' for value in values)}]"


MAX_START_DISTANCE = 0.2
"""Maximum distance of the first sample of a log from the start of the task [rad, m]."""

LogFunction = Callable[[str], None]
Keep = Callable[[str, Callable[[], Run]], Run]
"""Function that returns the run stored under a name, or performs it with the given function."""


def do_now(name: str, make: Callable[[], Run]) -> Run:
    """Call ``make`` and return its run, without loading or storing it."""
    return make()


def validate(
    plant: CellConfig | Log,
    twin: CellConfig,
    tasks: Sequence[int] = tuple(TASKS),
    *,
    repeats: int = 5,
    seconds: float = 10.0,
    seed: int = 0,
    controllets: Sequence[str] = (),
    recover: bool = False,
    report: LogFunction = lambda text: None,
) -> list[Comparison]:
    """Run the same tasks on a plant and on its twin, and compare the recordings.

    Repeat k uses the seed ``seed + k`` on plant and twin. A simulation without noise is run once.
    A run that ends on a fault is compared up to that time.

    Args:
        plant: Simulated or real cell, or the log of one task.
        twin: Simulated cell with the same arms.
        tasks: Numbers of the tasks.
        repeats: Number of runs of every task, on the plant and on the twin.
        seconds: Duration of each task [s].
        seed: Random seed of the first repeat.
        controllets: Names of force controllets. If empty, all controllets of a task are used.
        recover: True to recover real arms with a fault before the next run.
        report: Callback that receives progress messages.

    Raises:
        ValidationRejected: If a task cannot run on these cells or the cells do not match.
    """
    if repeats < 1:
        raise ValidationRejected(f"repeats: got {repeats}, allowed 1 or more")
    if isinstance(plant, Log) and len(tasks) != 1:
        raise ValidationRejected(
            f"tasks: got {len(tasks)} for a log of one task. Give the number of this task."
        )
    planned = [
        make_task(number, controllet, seconds)
        for number in tasks
        for controllet in laws_of(number, controllets)
    ]
    if not isinstance(plant, Log):
        twin = with_tools_of(plant, twin)
    for task in planned:  # All tasks are checked before the first one moves arms.
        check_sides(task, plant, twin)
    for sentence in () if isinstance(plant, Log) else setup_instructions(planned, plant):
        report(sentence)
    return [_compare_task(task, plant, twin, repeats, seed, recover, report) for task in planned]


def laws_of(number: int, controllets: Sequence[str]) -> Sequence[str]:
    """Return the requested controllets that a task has, or all its controllets if none matches."""
    known = make_task(number).controllets
    return [controllet for controllet in known if controllet in controllets] or known


def check_sides(task: Task, plant: CellConfig | Log, twin: CellConfig) -> None:
    """Check that plant and twin can run a task with matching arms, and that the twin is simulated.

    Raises:
        ValidationRejected: If a check fails.
    """
    names = task.names(twin)
    if has_real_arms(twin, task):
        raise ValidationRejected(
            f"task {task.number}: twin: real arms among {', '.join(names)} would move. Use "
            "simulated arms."
        )
    scene = task.scene(twin)
    if isinstance(plant, Log):
        _check_log_of_task(task, plant, scene)
        return
    check_thresholds(task, task.scene(plant))
    for one, other in zip(task.names(plant), names):
        pair = [cell.arms[arm].robot for cell, arm in ((plant, one), (twin, other))]
        if pair[0].n_joints != pair[1].n_joints:
            raise ValidationRejected(
                f"task {task.number}: plant's {one} is a {pair[0].name} with {pair[0].n_joints} "
                f"joints, but the twin's {other} is a {pair[1].name} with {pair[1].n_joints}. Use "
                "the same robot model."
            )


def _check_log_of_task(task: Task, plant: Log, scene: CellConfig) -> None:
    if len(plant.arms) < task.arms:
        raise ValidationRejected(
            f"task {task.number}: {plant.source_description}: got {len(plant.arms)} arm, allowed "
            f"{task.arms} "
            "or more"
        )
    for log, (name, arm) in zip(plant.arms.values(), scene.arms.items()):
        if len(log.joints) != arm.robot.n_joints:
            raise ValidationRejected(
                f"task {task.number}: {plant.source_description}: {log.arm}: got "
                f"{len(log.joints)} joints, "
                f"allowed {arm.robot.n_joints}, as for arm {name} of the twin"
            )
        robot = arm.robot.name if arm.robot.name in MODELS else None
        if warnings := check_columns(log, robot) + check_completeness(log):
            raise ValidationRejected(
                f"task {task.number}: {plant.source_description}: {warnings[0]}"
            )
        away = float(np.abs(log.q[0] - np.array(arm.q_start)).max())
        if not away <= MAX_START_DISTANCE:
            raise ValidationRejected(
                f"task {task.number}: {plant.source_description}: {log.arm} starts {away:.2f} "
                f"rad from the "
                f"start of the task, allowed {MAX_START_DISTANCE:g} rad. Use a log of this task "
                f"that "
                "begins at the first target."
            )


def _compare_task(
    task: Task,
    plant: CellConfig | Log,
    twin: CellConfig,
    repeats: int,
    seed: int,
    recover: bool,
    log: LogFunction,
) -> Comparison:
    of_plant = runs_of(
        task, plant, repeats, seed, lambda text: log(f"plant, {text}"), recover=recover
    )
    of_twin = runs_of(task, twin, repeats, seed, lambda text: log(f"twin, {text}"))
    return compare_runs(task, twin if isinstance(plant, Log) else plant, of_plant, of_twin)


def runs_of(
    task: Task,
    side: CellConfig | Log,
    repeats: int,
    seed: int,
    log: LogFunction = lambda text: None,
    keep: Keep = do_now,
    recover: bool = False,
) -> list[Run]:
    """Run a task several times on a cell with consecutive seeds, or convert a log to a run.

    A simulation without noise is run once, because all runs would be identical.

    Args:
        task: Task to run.
        side: Cell to run the task on, or log of the task.
        repeats: Number of runs.
        seed: Random seed of the first repeat.
        log: Callback that receives progress messages.
        keep: Function that returns a stored run or performs it. The name of a run is the number of
            its repeat, from 1.
        recover: True to recover real arms with a fault before the next run.
    """
    if isinstance(side, Log):
        return [run_of_log(side)] * repeats
    cell, runs = TaskCell(task, side, recover=recover), list[Run]()

    def once(repeat: int) -> Run:
        which = f"task {task.number} ({task.controllet}), repeat {repeat + 1} of {repeats}"
        if runs and not cell.is_random:
            log(f"{which}: equal to the first, since nothing is random")

            return runs[0]
        log(which)
        return cell.run(seed + repeat)

    try:
        for repeat in range(repeats):
            runs.append(keep(f"{repeat + 1}", partial(once, repeat)))
    finally:
        cell.close()
    return runs


def compare_runs(
    task: Task, plant_cell: CellConfig, plants: Sequence[Run], twins: Sequence[Run]
) -> Comparison:
    """Compare runs of a plant with those of a twin. Their arms are paired by order."""
    scene = task.scene(plant_cell)
    arms = {name: describe_arm(name, arm) for name, arm in scene.arms.items()}
    of_plant, of_twin = (
        [with_measured_force(task, _named(run, list(arms)), arms) for run in runs]
        for runs in (plants, twins)
    )
    return compare(task, of_plant, of_twin, arms)


def _named(run: Run, names: Sequence[str]) -> Run:
    return replace(run, logs=dict(zip(names, run.logs.values())))


def run_of_log(log: Log) -> Run:
    """Convert a log to a run whose time starts at its first sample."""
    return Run({
        name: arm.with_columns(
            {**{column: arm[column] for column in arm.names}, "time": arm.time - arm.time[0]}
        )
        for name, arm in log.arms.items()
    })  # fmt: skip
