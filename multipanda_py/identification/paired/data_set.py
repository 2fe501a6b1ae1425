# SPDX-License-Identifier: Apache-2.0
"""Paired random motions: on simulated plants in processes, on real ones one after another."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path

from multipanda_py.config.cell_file import CellConfig, fingerprint
from multipanda_py.config.describe import describe_arm
from multipanda_py.exceptions import (
    ConfigurationError,
    MultipandaError,
    PlanRejected,
    ValidationRefused,
)
from multipanda_py.identification.arm.excitation import clearance_in
from multipanda_py.identification.paired.folder import Folder, Name, key_of, packed, write_table
from multipanda_py.identification.paired.motions import (
    LAWS,
    PairMotion,
    joint_motion,
    known_law,
    linear_motion,
)
from multipanda_py.identification.paired.parallel import (
    LEFT_OUT,
    Say,
    at_once,
    file_of,
    left_to_do,
    refuse_none,
)
from multipanda_py.identification.paired.real_plant import RealPlant
from multipanda_py.identification.paired.recording import (
    ALIGNMENTS,
    AlignedPair,
    align_sides,
    record_pair,
    side,
)
from multipanda_py.identification.validation.task import SIMULATED
from multipanda_py.identification.validation.tasks import with_tools_of
from multipanda_py.registry import needed
from multipanda_py.robots.residual.inputs import SIDES


@dataclass(frozen=True)
class Wished:
    """What a data set is to have.

    Attributes:
        multi: Motions of several joints.
        single: Motions of one joint.
        linear: Straight moves of the tool.
        margin: Least distance to floor, things and other arms [m].
        seed: Of the motions, the noise and the split.
    """

    multi: int = 850
    single: int = 870
    linear: int = 50
    margin: float = 0.03
    seed: int = 0

    def names(self) -> list[Name]:
        """Return kind and number of every motion."""
        counts = {"multi": self.multi, "single": self.single, "linear": self.linear}
        return [(kind, k) for kind, count in counts.items() for k in range(count)]


@dataclass(frozen=True, eq=False)
class Sides:
    """Who does the motions.

    Attributes:
        twin: A simulated cell.
        plant: Another one, or one whose arm is real.
        arm: Name of the arm that moves, in both.
        laws: By which the twin and the plant do it, of :data:`.LAWS`.
    """

    twin: CellConfig
    plant: CellConfig
    arm: str
    laws: tuple[str, str] = (LAWS[0], LAWS[0])

    @property
    def is_real(self) -> bool:
        """Whether the plant moves in real time."""
        return self.plant.arms[self.arm].backend != SIMULATED

    @property
    def room(self) -> CellConfig:
        """The cell in which motions have to be clear.

        With a real plant these are its arms, as they stand and with what they carry, among the
        things of both cells that are fixed.
        """
        if not self.is_real:
            return self.twin
        things = {**self.twin.objects, **self.plant.objects}
        fixed = {name: thing for name, thing in things.items() if not thing.mass}
        return self.plant.model_copy(update={"objects": fixed})


def record_pairs(
    twin: CellConfig,
    plant: CellConfig,
    arm: str,
    folder: Path,
    wished: Wished,
    *,
    align: str = "",
    laws: tuple[str, str] = (LAWS[0], LAWS[0]),
    jobs: int = -1,
    parallel: str = "",
    cluster: str = "",
    say: Say = lambda text: None,
) -> int:
    """Record a data set: a file per motion at 1 kHz, then one table at 100 Hz.

    Motions that are there already, of the same cells, seed and margin, are not done again; of
    simulated plants the table is the same to the last bit however often recording was broken off.
    A motion that a simulated side does not end is left out and said. A plant of a real arm MOVES,
    in real time, one motion after another; what stops it ends the recording.

    Args:
        twin: A simulated cell.
        plant: Another one, or one whose arm is real.
        arm: Name of the arm that moves, in both.
        folder: Made if it is not there.
        wished: What is recorded.
        align: How both sides are cut for the table, one of :data:`.ALIGNMENTS`, by default the
            first of simulated plants and the second of real ones; what is recorded is not cut.
        laws: By which the twin and the plant do the motions.
        jobs: How many processes, -1 for one per core.
        parallel: See :func:`.workers`.
        cluster: Likewise.
        say: Told what is done.

    Returns:
        How many motions the table has.

    Raises:
        ConfigurationError: If the folder has motions of other cells, or cannot be written.
        ValidationRefused: If the twin is real, the arms differ, a real arm stopped, or no motion
            was recorded.
        MissingExtra: If joblib or pyarrow is missing.
    """
    needed("joblib")
    needed("pyarrow")
    for law, option in zip(laws, ("--law", "--plant-law")):
        known_law(law, option)
    sides = Sides(twin, plant, arm, laws)
    _check(sides)
    align = checked_alignment(align, ALIGNMENTS[sides.is_real])
    if sides.is_real:
        sides = replace(sides, twin=with_tools_of(*_of_arm(plant, twin, arm)))
        needed("scipy")  # which plans the ways between motions
    if not wished.names():
        raise ConfigurationError("motions: got none, allowed at least one")
    key = [fingerprint(twin), fingerprint(plant), arm, wished.seed, wished.margin]
    key += [] if laws == (LAWS[0], LAWS[0]) else list(laws)
    kept = Folder(folder, wished.names(), key_of(*key))
    left = left_to_do(kept, say)
    if sides.is_real and left:
        _one_after_another(sides, wished, kept, say)
    elif left:
        tasks = [(record_one, (sides, wished, name)) for name in left]
        at_once(kept, tasks, (parallel, cluster, jobs), say)
    refuse_none(kept)
    about = {
        "wished": asdict(wished),
        "twin": fingerprint(twin),
        "plant": fingerprint(plant),
        "laws": dict(zip(SIDES, laws)),
        "plant_is_real": sides.is_real,
    }
    return write_table(kept, describe_arm(arm, twin.arms[arm]), wished.seed, align, about)


def checked_alignment(align: str, default: str) -> str:
    """Return how sides are cut.

    Raises:
        ConfigurationError: If there is no such way.
    """
    if align not in ("", *ALIGNMENTS):
        raise ConfigurationError(f"align: got {align!r}, allowed {', '.join(ALIGNMENTS)}")
    return align or default


def _one_after_another(sides: Sides, wished: Wished, kept: Folder, say: Say) -> None:
    """Have a real plant do what is left; a motion that its twin cannot do is not begun.

    Raises:
        ValidationRefused: If the plant stopped; it holds, and what is recorded is kept.
    """
    arm, left = sides.arm, kept.left()
    joints = describe_arm(arm, sides.twin.arms[arm]).n_joints
    done = len(kept) - len(left)
    with RealPlant(sides.room, arm, sides.laws[1], len(left), say) as plant:
        for number, name in enumerate(left, start=done + 1):
            pair, said = None, f"{name[0]} {name[1]}"
            try:
                motion = motion_of(sides.room, arm, wished, *name)
                of_twin = side(motion, arm, sides.twin, sides.laws[0], wished.seed)
                try:
                    of_plant = plant.record(motion)
                except PlanRejected as error:  # and did not move
                    raise ValidationRefused(str(error)) from None
                except MultipandaError as error:
                    words = " ".join(str(error).split())
                    raise _Stopped(f"{motion.name}: {words}") from None
                pair = align_sides(of_twin, of_plant)
            except _Stopped as stopped:
                raise ValidationRefused(
                    f"{stopped}; {arm} holds, {number - 1} of {len(kept)} motions are kept in "
                    f"{kept.path}: the same command goes on with them"
                ) from None
            except (ConfigurationError, ValidationRefused) as error:
                said = LEFT_OUT + " ".join(str(error).split())
            kept.put(name, packed(pair, joints, said))
            say(f"{number} of {len(kept)} motions: {said}")


class _Stopped(Exception):
    """A real arm does not go on."""


def motion_of(twin: CellConfig, arm: str, wished: Wished, kind: str, number: int) -> PairMotion:
    """Return a motion of a data set.

    Raises:
        ConfigurationError: If there is none that is clear.
    """
    missing = clearance_in(twin, arm, wished.margin).missing
    if kind == "linear":
        return linear_motion(twin, arm, number, wished.seed, missing)
    limits = describe_arm(arm, twin.arms[arm]).limits
    return joint_motion(kind, number, wished.seed, limits, missing)


def record_one(sides: Sides, wished: Wished, name: Name) -> tuple[Name, bytes]:
    """Simulate one motion on both sides; return its name and what its file is to have."""
    twin, plant, arm = sides.twin, sides.plant, sides.arm

    def make() -> AlignedPair:
        motion = motion_of(sides.room, arm, wished, *name)
        return record_pair(motion, arm, twin, plant, wished.seed, sides.laws)

    return name, file_of(name, describe_arm(arm, twin.arms[arm]).n_joints, make)


def _of_arm(plant: CellConfig, twin: CellConfig, arm: str) -> tuple[CellConfig, CellConfig]:
    """Return cells of which every arm is in both, the moving one first."""
    names = [arm, *(name for name in twin.arms if name != arm and name in plant.arms)]
    alone = {name: plant.arms[name] for name in names}
    ordered = {name: twin.arms[name] for name in [*names, *twin.arms]}
    return (
        plant.model_copy(update={"arms": alone}),
        twin.model_copy(update={"arms": ordered}),
    )


def _check(sides: Sides) -> None:
    """Refuse a twin that would move in earnest, and arms that do not fit.

    Raises:
        ValidationRefused: With the reason.
    """
    arm = sides.arm
    for side_name, cell in zip(SIDES, (sides.twin, sides.plant)):
        if arm not in cell.arms:
            raise ValidationRefused(
                f"{side_name}: has no arm {arm!r}, allowed {', '.join(cell.arms)}"
            )
        if side_name == "plant" and sides.is_real:
            continue
        if any(other.backend != SIMULATED for other in cell.arms.values()):
            raise ValidationRefused(
                f"{side_name}: got arms that are not simulated, allowed {SIMULATED}"
            )
    robots = [describe_arm(arm, cell.arms[arm]).robot for cell in (sides.twin, sides.plant)]
    if [j.name for j in robots[0].joints] != [j.name for j in robots[1].joints]:
        raise ValidationRefused(
            f"{arm}: got {robots[0].name} as the twin and {robots[1].name} as the plant, allowed "
            "arms with the same joints"
        )
