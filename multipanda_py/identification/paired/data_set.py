# SPDX-License-Identifier: Apache-2.0
"""Recording of the same random motions on a simulated twin and on a simulated or real plant."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path

from multipanda_py.config.cell_file import CellConfig, fingerprint
from multipanda_py.config.describe import describe_arm
from multipanda_py.exceptions import (
    ConfigurationError,
    MultipandaError,
    PlanRejected,
    ValidationRejected,
)
from multipanda_py.identification.arm.excitation import clearance_in
from multipanda_py.identification.paired.folder import (
    SKIPPED_PREFIX,
    Folder,
    LogFunction,
    Name,
    check_any_recorded,
    file_of,
    key_of,
    left_to_do,
    packed,
    run_parallel,
    write_table,
)
from multipanda_py.identification.paired.motions import (
    CONTROLLETS,
    PairMotion,
    joint_motion,
    known_law,
    linear_motion,
)
from multipanda_py.identification.paired.real_plant import RealPlant
from multipanda_py.identification.paired.recording import (
    ALIGNMENTS,
    AlignedPair,
    align_sides,
    record_pair,
    side,
)
from multipanda_py.identification.validation.task import SIMULATED_BACKEND
from multipanda_py.identification.validation.tasks import with_tools_of
from multipanda_py.registry import needed
from multipanda_py.robots.residual.inputs import SIDES


@dataclass(frozen=True)
class DataSetSpec:
    """Motions of a data set.

    Attributes:
        multi: Number of motions of several joints.
        single: Number of motions of one joint.
        linear: Number of straight-line motions of the tool.
        margin: Minimum distance to floor, objects and other arms [m].
        seed: Random seed of the motions, the noise, and the choice of motions for training,
            validation and testing.
    """

    multi: int = 850
    single: int = 870
    linear: int = 50
    margin: float = 0.03
    seed: int = 0

    def names(self) -> list[Name]:
        """Return kind and number of every motion of the data set."""
        counts = {"multi": self.multi, "single": self.single, "linear": self.linear}
        return [(kind, k) for kind, count in counts.items() for k in range(count)]


@dataclass(frozen=True, eq=False)
class Sides:
    """Cells of twin and plant, on which the motions of a data set are recorded.

    Attributes:
        twin: Simulated cell.
        plant: Another simulated cell, or a cell whose arm is real.
        arm: Name of the moving arm in both cells.
        controllets: Controllets of the twin and of the plant, from :data:`.CONTROLLETS`.
    """

    twin: CellConfig
    plant: CellConfig
    arm: str
    controllets: tuple[str, str] = (CONTROLLETS[0], CONTROLLETS[0])

    @property
    def is_real(self) -> bool:
        """True if the moving arm of the plant is real."""
        return self.plant.arms[self.arm].backend != SIMULATED_BACKEND

    @property
    def collision_cell(self) -> CellConfig:
        """Cell in which motions are checked for collisions.

        For a real plant, it contains the plant's arms with their attached bodies and the fixed
        objects of both cells.
        """
        if not self.is_real:
            return self.twin
        objects = {**self.twin.objects, **self.plant.objects}
        fixed = {name: obj for name, obj in objects.items() if not obj.mass}
        return self.plant.model_copy(update={"objects": fixed})


def record_pairs(
    twin: CellConfig,
    plant: CellConfig,
    arm: str,
    folder: Path,
    spec: DataSetSpec,
    *,
    align: str = "",
    controllets: tuple[str, str] = (CONTROLLETS[0], CONTROLLETS[0]),
    jobs: int = -1,
    parallel: str = "",
    cluster: str = "",
    log: LogFunction = lambda text: None,
) -> int:
    """Record motions on twin and plant: one file per motion at 1 kHz, then one table at 100 Hz.

    WARNING: a plant with a real arm MOVES. A fault of the real arm ends the recording. A call with
    the same arguments resumes it. Motions that fail in simulation are skipped and reported.

    Args:
        twin: Simulated cell.
        plant: Another simulated cell, or a cell whose arm is real.
        arm: Name of the moving arm in both cells.
        folder: Folder of the data set, created if missing.
        spec: Motions of the data set.
        align: Alignment in time of twin and plant in the table, see :meth:`.AlignedPair.cut`.
            Default: ``clock`` for simulated plants, ``command`` for real ones.
        controllets: Controllets of the twin and of the plant.
        jobs: Number of processes, -1 for one per core.
        parallel: Backend of joblib, see :func:`.workers`.
        cluster: Address of a Dask scheduler, see :func:`.workers`.
        log: Callback that receives progress messages.

    Returns:
        Number of motions in the table.

    Raises:
        ConfigurationError: If the folder contains motions of other cells or cannot be written.
        ValidationRejected: If the twin is real, the arms differ, a real arm stopped, or no motion
            was recorded.
        MissingExtra: If joblib or pyarrow is missing.
    """
    needed("joblib")
    needed("pyarrow")
    for controllet, option in zip(controllets, ("--controllet", "--plant-controllet")):
        known_law(controllet, option)
    sides = Sides(twin, plant, arm, controllets)
    _check_matching_arms(sides)
    align = checked_alignment(align, ALIGNMENTS[sides.is_real])
    if sides.is_real:
        sides = replace(sides, twin=with_tools_of(*_in_same_arm_order(plant, twin, arm)))
        needed("scipy")  # Path planning needs scipy, so check for it before arms move.
    if not spec.names():
        raise ConfigurationError("motions: got none, allowed one or more")
    key = [fingerprint(twin), fingerprint(plant), arm, spec.seed, spec.margin]
    key += [] if controllets == (CONTROLLETS[0], CONTROLLETS[0]) else list(controllets)
    data_folder = Folder(folder, spec.names(), key_of(*key))
    left = left_to_do(data_folder, log)
    if sides.is_real and left:
        _record_missing_one_by_one(sides, spec, data_folder, log)
    elif left:
        tasks = [(record_one, (sides, spec, name)) for name in left]
        run_parallel(data_folder, tasks, (parallel, cluster, jobs), log)
    check_any_recorded(data_folder)
    about = {
        "wished": asdict(spec),
        "twin": fingerprint(twin),
        "plant": fingerprint(plant),
        "laws": dict(zip(SIDES, controllets)),
        "plant_is_real": sides.is_real,
    }
    return write_table(data_folder, describe_arm(arm, twin.arms[arm]), spec.seed, align, about)


def checked_alignment(align: str, default: str) -> str:
    """Return the alignment ``align``, or ``default`` if it is empty.

    Raises:
        ConfigurationError: If the alignment does not exist.
    """
    if align not in ("", *ALIGNMENTS):
        raise ConfigurationError(f"align: got {align!r}, allowed {', '.join(ALIGNMENTS)}")
    return align or default


def _record_missing_one_by_one(
    sides: Sides, spec: DataSetSpec, folder: Folder, log: LogFunction
) -> None:
    arm, left = sides.arm, folder.left()
    joints = describe_arm(arm, sides.twin.arms[arm]).n_joints
    done = len(folder) - len(left)
    with RealPlant(sides.collision_cell, arm, sides.controllets[1], len(left), log) as plant:
        for number, name in enumerate(left, start=done + 1):
            pair, note = None, f"{name[0]} {name[1]}"
            try:
                motion = motion_of(sides.collision_cell, arm, spec, *name)
                of_twin = side(motion, arm, sides.twin, sides.controllets[0], spec.seed)
                try:
                    of_plant = plant.record(motion)
                # The arm has not moved if no path to the start exists. Skip only this motion.
                except PlanRejected as error:
                    raise ValidationRejected(str(error)) from None
                except MultipandaError as error:
                    words = " ".join(str(error).split())
                    raise _RealArmStopped(f"{motion.name}: {words}") from None
                pair = align_sides(of_twin, of_plant)
            except _RealArmStopped as stopped:
                raise ValidationRejected(
                    f"{stopped}; {arm} holds, {number - 1} of {len(folder)} motions are stored in "
                    f"{folder.path}. Run the same command to resume."
                ) from None
            except (ConfigurationError, ValidationRejected) as error:
                note = SKIPPED_PREFIX + " ".join(str(error).split())
            folder.put(name, packed(pair, joints, note))
            log(f"{number} of {len(folder)} motions: {note}")


class _RealArmStopped(Exception):
    """Stop of a real arm, which ends the recording."""


def motion_of(twin: CellConfig, arm: str, spec: DataSetSpec, kind: str, number: int) -> PairMotion:
    """Generate one motion of a data set from the seed of the data set.

    Args:
        twin: Cell in which the motion is checked for collisions.
        arm: Name of the moving arm.
        spec: Motions of the data set, with their seed and margin.
        kind: Kind of the motion: ``multi``, ``single`` or ``linear``.
        number: Number within its kind, from 0.

    Raises:
        ConfigurationError: If no collision-free motion is found.
    """
    violation = clearance_in(twin, arm, spec.margin).violation
    if kind == "linear":
        return linear_motion(twin, arm, number, spec.seed, violation)
    limits = describe_arm(arm, twin.arms[arm]).limits
    return joint_motion(kind, number, spec.seed, limits, violation)


def record_one(sides: Sides, spec: DataSetSpec, name: Name) -> tuple[Name, bytes]:
    """Simulate one motion on twin and plant, and return its name and the contents of its file.

    Args:
        sides: Cells of twin and plant.
        spec: Motions of the data set, with their seed and margin.
        name: Name of the motion.
    """
    twin, plant, arm = sides.twin, sides.plant, sides.arm

    def make() -> AlignedPair:
        motion = motion_of(sides.collision_cell, arm, spec, *name)
        return record_pair(motion, arm, twin, plant, spec.seed, sides.controllets)

    return name, file_of(name, describe_arm(arm, twin.arms[arm]).n_joints, make)


def _in_same_arm_order(
    plant: CellConfig, twin: CellConfig, moving_arm: str
) -> tuple[CellConfig, CellConfig]:
    """Return plant and twin, the moving arm first. The plant loses arms that the twin lacks."""
    names = [
        moving_arm,
        *(name for name in twin.arms if name != moving_arm and name in plant.arms),
    ]
    alone = {name: plant.arms[name] for name in names}
    ordered = {name: twin.arms[name] for name in [*names, *twin.arms]}
    return (
        plant.model_copy(update={"arms": alone}),
        twin.model_copy(update={"arms": ordered}),
    )


def _check_matching_arms(sides: Sides) -> None:
    arm = sides.arm
    for side_name, cell in zip(SIDES, (sides.twin, sides.plant)):
        if arm not in cell.arms:
            raise ValidationRejected(
                f"{side_name}: has no arm {arm!r}; known: {', '.join(cell.arms)}"
            )
        if side_name == "plant" and sides.is_real:
            continue
        if any(other.backend != SIMULATED_BACKEND for other in cell.arms.values()):
            raise ValidationRejected(
                f"{side_name}: got arms that are not simulated. Use the backend "
                f"{SIMULATED_BACKEND}."
            )
    robots = [describe_arm(arm, cell.arms[arm]).robot for cell in (sides.twin, sides.plant)]
    if [j.name for j in robots[0].joints] != [j.name for j in robots[1].joints]:
        raise ValidationRejected(
            f"{arm}: got {robots[0].name} as the twin and {robots[1].name} as the plant. Use arms "
            "with the same joints."
        )
