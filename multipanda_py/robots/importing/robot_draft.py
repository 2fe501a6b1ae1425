# SPDX-License-Identifier: Apache-2.0
"""Write the YAML with what a description lacks, and where every number is from."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.robots.extra_data import read_extra
from multipanda_py.robots.geometry import Capsule
from multipanda_py.robots.importing.capsules import Fit, fit_capsules
from multipanda_py.robots.importing.configurations import RandomPostures
from multipanda_py.robots.importing.source import Shapes, kind_of, shapes_of, tree_of
from multipanda_py.robots.read_robot import read_robot
from multipanda_py.robots.robot import Robot
from multipanda_py.robots.tree import MOVING, TURNING, Chain, Tree, chain_of


@dataclass(frozen=True)
class ArmEnds:
    """Ends of a serial chain.

    Attributes:
        base: Link that it begins with.
        tip: Link that it ends with.
        joints: Names of the joints that move, from base to tip.
    """

    base: str
    tip: str
    joints: tuple[str, ...]

    def __str__(self) -> str:
        count = len(self.joints)
        return f"--base {self.base} --tip {self.tip}  ({count} joint{'s' * (count > 1)})"


def find_arm(tree: Tree, base: str = "", tip: str = "") -> ArmEnds:
    """Return the only arm of a description, or of what base and tip leave of it.

    An arm begins with the link before its first joint, and ends with the first link that is fixed
    behind the last one that turns, or with the link of that joint: axes that slide are part of it,
    fingers that do are not. An arm within a longer one does not count.

    Raises:
        ConfigurationError: If there is none; or several, which are listed; or base or tip is no
            link, or both are not on one chain.
    """
    if base and tip:
        way = tree.path_to(base, tip)
        return ArmEnds(base, tip, tuple(joint.name for joint in way if joint.kind in MOVING))
    if base or tip:
        tree.path_to(base or tip, tip or base)  # refuses what is no link
    found = [_up_from(tree, end, base) for end in ([tip] if tip else _tips(tree))]
    arms = [arm for arm in found if arm.joints and base in ("", arm.base)]
    arms = [arm for arm in arms if not any(set(arm.joints) < set(other.joints) for other in arms)]
    if len(arms) == 1:
        return arms[0]
    place = " and ".join(
        f"{what} {link!r}" for what, link in (("base", base), ("tip", tip)) if link
    )
    within = f" with {place}" if place else ""
    if not arms:
        raise ConfigurationError(
            f"{tree.path}: got no arm{within}, allowed a chain with a joint that is one of "
            f"{', '.join(TURNING)}{_ends(tree)}"
        )
    longest = sorted(arms, key=lambda arm: -len(arm.joints))
    known = "\n".join(f"  {arm}" for arm in longest) + _ends(tree)
    raise ConfigurationError(
        f"{tree.path}: got {len(arms)} arms{within}, allowed one; say which:\n{known}"
    )


def _ends(tree: Tree) -> str:
    """Say which joints are no part of any arm."""
    others = [j for j in tree.above.values() if j.kind not in (*MOVING, "fixed")]
    names = ", ".join(f"{joint.name} ({joint.kind})" for joint in others[:10])
    return f"\nan arm ends at joints of other kinds: {names}" if names else ""


def _tips(tree: Tree) -> list[str]:
    """Return a tip behind every joint that turns and has no other one right behind it."""
    tips = []
    for link, joint in tree.above.items():
        behind = tree.below.get(link, [])
        if joint.kind in TURNING and not any(other.kind in TURNING for other in behind):
            fixed = (other.child for other in behind if other.kind == "fixed")
            tips.append(next(fixed, link))
    return tips


def _up_from(tree: Tree, tip: str, base: str) -> ArmEnds:
    """Return the arm from a tip up to a base, or as far as joints move or are fixed."""
    joints: list[str] = []
    link = begin = tip
    for _ in tree.above:  # each once at most, even if they go round
        joint = tree.above.get(link)
        if link == base or joint is None or joint.kind not in (*MOVING, "fixed"):
            break
        link = joint.parent
        if joint.kind in MOVING:
            joints.insert(0, joint.name)
            begin = link
    return ArmEnds(base if link == base else begin, tip, tuple(joints))


@dataclass(frozen=True, eq=False)
class RobotDraft:
    """What was found out of a description.

    Attributes:
        kind: Of the description: ``urdf`` or ``mjcf``.
        robot: With all numbers.
        arm: Its base and tip.
        chain: As the description has it.
        fit: Its capsules.
        shapes: Its geometry, by link of the description, and ``collision`` and ``visual``.
        known: Keys that were given.
        left_out: What hangs on it and is no part of it.
        ready: Where its ready posture is from.
        doubts: What is possible and odd in the description.
    """

    kind: str
    robot: Robot
    arm: ArmEnds
    chain: Chain
    fit: Fit
    shapes: Shapes
    known: tuple[str, ...]
    left_out: tuple[str, ...]
    ready: str
    doubts: tuple[str, ...]


def draft_robot(
    source: Path,
    *,
    base: str = "",
    tip: str = "",
    name: str = "",
    extra: Path | None = None,
    packages: Sequence[Path] = (),
    most_capsules: int = 2,
) -> RobotDraft:
    """Find an arm in a URDF or MJCF, fit its capsules, and choose what the file does not say.

    Args:
        source: The file.
        base: Link to begin with; by default that before the first joint of the only arm.
        tip: Link that carries things; by default the first one fixed behind the last joint.
        name: Of the robot; by default that of the file.
        extra: A YAML with what is known already; its numbers are kept, but capsules are fitted.
        packages: Folders where ``package://`` leads to.
        most_capsules: Per link.

    Raises:
        ConfigurationError: If the file cannot be read, there is not one such arm, it has no
            limits or a link that is no body, or a mesh is not there.
    """
    if not source.is_file():
        raise ConfigurationError(f"{source}: got no file of this name, allowed a URDF or MJCF")
    known = {} if extra is None else read_extra(extra)
    kind = kind_of(source)
    tree = tree_of(source)
    arm = find_arm(tree, base or known.get("base", ""), tip or known.get("tip", ""))
    name = name or re.sub(r"\W", "_", source.stem)
    files = {"urdf": source} if kind == "urdf" else {"mjcf": source}

    def read(path: Path | None) -> Robot:
        return read_robot(path, **files, base=arm.base, tip=arm.tip, name=name)

    read(extra)  # what is missing is missing there
    chain = chain_of(tree, arm.base, arm.tip)
    shapes = shapes_of(source, list(chain.places), packages)
    fit = fit_capsules(chain, shapes, most_capsules)
    found: dict[str, Any] = known | {
        "overlapping": [],
        "capsules": {
            link: [[list(c.start), list(c.end), c.radius] for c in capsules]
            for link, capsules in fit.capsules.items()
        },
    }

    def robot() -> Robot:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "extra.yaml"
            path.write_text(yaml.safe_dump(found), encoding="utf-8")
            return read(path)

    postures = RandomPostures(robot())
    overlapping = postures.overlapping()
    found["overlapping"] = [list(pair) for pair in overlapping]
    origin = "as it was given"
    if "ready" not in known:
        origin = "of plain postures clear of floor and itself the one that moves best; to taste"
        if (ready := postures.ready(overlapping)) is None:
            origin = "no plain posture is clear of floor and itself. CHECK this one"
        else:
            found["ready"] = np.round(ready, 6).tolist()
    left_out = tuple(_left_out(tree, chain))
    names = tuple(known)
    drafted = robot()
    return RobotDraft(
        kind, drafted, arm, chain, fit, shapes, names, left_out, origin, drafted.doubts
    )


def _left_out(tree: Tree, chain: Chain) -> Iterator[str]:
    """Say which joints move a chain as a whole, and what hangs on it by joints of others."""
    for joint in tree.path_to(tree.root_of(chain.links[0]), chain.links[0]):
        if joint.kind != "fixed":
            yield (
                f"the arm begins at {chain.links[0]}, behind joint {joint.name} ({joint.kind}): "
                "it is no part of the arm, and has to stand still while the arm moves"
            )
    for link in chain.places:
        for joint in tree.below.get(link, ()):
            if joint.child not in chain.places:
                mass = tree.bodies[joint.child].mass
                yield (
                    f"{joint.child} ({mass:.3g} kg), which hangs by joint {joint.name} "
                    f"({joint.kind}), is left out with all behind it"
                )


_LIMITS = {
    "acceleration": "rad/s^2",
    "jerk": "rad/s^3",
    "torque_rate": "Nm/s; the fastest that a commanded torque may change",
}
_OVERRIDES = {"lower": "rad", "upper": "rad", "velocity": "rad/s", "torque": "Nm"}
_FIGURES = {
    "stiffness": "Nm/rad; springs of joint laws begin with it",
    "most_stiffness": "Nm/rad; and may have no more",
    "lag": "rad; what the arm may lag behind with a load that nobody told of",
    "contact_torque": "Nm; external torque at which a motion gives way",
    "barrier_torque": "Nm; of the barrier at a position limit",
    "lacking_torque": "Nm; what a model may lack: most of a posture spring, or of a residual",
    "posture_stiffness": "Nm/rad; posture springs begin with it",
    "leader_damping": "Nm s/rad; of a leading arm in teleoperation",
    "most_leader_damping": "Nm s/rad",
    "tare_torque": "Nm; what sensors and half a kilogram explain in a tare",
    "unmeasured_torque": "Nm; most that is asked for beyond what is measured",
    "settling": "factor on the dampers of held joints until they rest",
    "growth": "s; in which springs of held joints come to pull with all their torque",
    "slow": "share of torque below which a stopping joint is held",
    "friction_phi_1": "Nm; identified friction, none by default",
    "friction_phi_2": "s/rad",
    "friction_phi_3": "rad/s",
}


def draft_yaml(draft: RobotDraft, source: str) -> str:
    """Return the YAML of a robot, complete, with a comment on every number.

    Args:
        draft: What was found.
        source: The description, as seen from the YAML's folder.
    """
    robot, fit = draft.robot, draft.fit
    check = {key: "" if key in draft.known else ". CHECK" for key in _LIMITS}
    lines = [
        f"# What {source} lacks, as drafted by `multipanda robot import`.",
        "# CHECK marks rules of thumb (multipanda_py.robots.extra_data): the maker's figures are",
        "# better. One number per joint, from base to tip:",
        f"# {', '.join(joint.name for joint in robot.joints)}",
        *(_sliding(robot) if robot.limits.slides.any() else ()),
        f"{draft.kind}: {_text(source)}",
        f"base: {_text(draft.arm.base)}",
        f"tip: {_text(draft.arm.tip)}",
        "",
        "# Limits of joints that are not those of the description.",
        *(
            f"{key}: {_row(getattr(robot.limits, key))}  # {unit}{check.get(key, '')}"
            for key, unit in {**_OVERRIDES, **_LIMITS}.items()
            if key in _LIMITS or key in draft.known
        ),
        f"# Inertia of the rotors as seen at the joints [kg m^2]{_armature(draft)}",
        f"armature: {_row(robot.armature)}",
        f"# rad; {draft.ready}.",
        f"ready: {_row(robot.ready)}",
        "",
        "# Links, counted from the base, of upper arm, forearm and wrist: sections that are kept",
        "# from those of other arms.",
        f"sections: {[list(section) for section in robot.sections]}",
        "# Links whose capsules, not the links, touch in more than a tenth of random postures.",
        f"overlapping: {[list(pair) for pair in robot.overlapping]}",
        "",
        "# Start, end, radius [m] in the frame of the description's link.",
        "capsules:" if fit.capsules else "capsules: {}",
    ]
    for link, capsules in fit.capsules.items():
        lines.append(f"  {_text(link)}:  # {fit.origins[link]}")
        lines += [f"    - {_capsule(capsule)}" for capsule in capsules]
    lines += ["", "# What laws begin with or are bounded by; from the limits. CHECK", "figures:"]
    for key, values in robot.figures.items():
        lines.append(f"  {key}: {_row(values)}  # {_FIGURES.get(key, '')}".rstrip(" #"))
    return "\n".join(lines) + "\n"


def _sliding(robot: Robot) -> Iterator[str]:
    """Say which joints slide."""
    pairs = zip(robot.joints, robot.limits.slides)
    names = ", ".join(joint.name for joint, slides in pairs if slides)
    yield f"# m, N and kg instead of rad, Nm and kg m^2 for what slides: {names}"


def _armature(draft: RobotDraft) -> str:
    """Say where the armature is from, and when it is another one."""
    if "armature" in draft.known:
        return ""
    if all("armature" in joint.limits for joint in draft.chain.joints):
        return (
            f",\n# that of the {draft.kind.upper()}. CHECK on an arm with joint torque sensors: "
            "its torque loop leaves less of it"
        )
    return ", by the torque limits. CHECK"


def _text(value: str) -> str:
    """Return a text as YAML has it, in quotes if it could be read as something else."""
    return value if value.replace("_", "a").replace("/", "a").isalnum() else f'"{value}"'


def _row(values: Iterable[float]) -> str:
    return f"[{', '.join(_number(value) for value in values)}]"


def _number(value: float) -> str:
    """Return a number to six digits, with a point: ROS parameter files tell 1 from 1.0."""
    text = f"{value:.6g}"
    return text if any(mark in text for mark in ".en") else f"{text}.0"


def _capsule(capsule: Capsule) -> str:
    """Return a capsule to a tenth of a millimetre, rounded so that it still contains its link."""
    ends = [
        f"[{', '.join(f'{x + 0.0:.4f}' for x in end)}]" for end in (capsule.start, capsule.end)
    ]
    return f"[{ends[0]}, {ends[1]}, {capsule.radius + 1e-4:.4f}]"
