# SPDX-License-Identifier: Apache-2.0
"""Draft of a robot's YAML file: the data that its URDF or MJCF lacks, with their sources."""

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
from multipanda_py.robots.tree import MOVING_TYPES, REVOLUTE_TYPES, Chain, Tree, chain_of


@dataclass(frozen=True)
class ArmEnds:
    """Ends of the serial chain of an arm.

    Attributes:
        base: First link.
        tip: Last link.
        joints: Names of the moving joints, from base to tip.
    """

    base: str
    tip: str
    joints: tuple[str, ...]

    def __str__(self) -> str:
        count = len(self.joints)
        return f"--base {self.base} --tip {self.tip}  ({count} joint{'s' * (count > 1)})"


def find_arm(tree: Tree, base: str = "", tip: str = "") -> ArmEnds:
    """Find the arm in a URDF or MJCF. ``base`` and ``tip`` select one of several arms.

    An arm starts with the link before its first joint. It ends with the link after its last
    revolute joint, or with a link fixed to it. Later prismatic joints are fingers.

    Args:
        tree: Links and joints of the URDF or MJCF.
        base: Name of the base link; empty to find it.
        tip: Name of the last link; empty to find it.

    Raises:
        ConfigurationError: There is no arm, or there are several; the message lists them. Base or
            tip is not a link, or they are not on one chain.
    """
    if base and tip:
        joints = tree.path_to(base, tip)
        return ArmEnds(
            base, tip, tuple(joint.name for joint in joints if joint.kind in MOVING_TYPES)
        )
    if base or tip:
        tree.path_to(base or tip, tip or base)  # Raises an error if the name is not a link.
    matches = [_arm_ending_at(tree, end, base) for end in ([tip] if tip else _possible_tips(tree))]
    arms = [arm for arm in matches if arm.joints and base in ("", arm.base)]
    arms = [arm for arm in arms if not any(set(arm.joints) < set(other.joints) for other in arms)]
    if len(arms) == 1:
        return arms[0]
    path = " and ".join(
        f"{role} {link!r}" for role, link in (("base", base), ("tip", tip)) if link
    )
    within = f" with {path}" if path else ""
    if not arms:
        raise ConfigurationError(
            f"{tree.path}: found no arm{within}. An arm is a chain with a joint of type "
            f"{', '.join(REVOLUTE_TYPES)}{_ends(tree)}"
        )
    longest = sorted(arms, key=lambda arm: -len(arm.joints))
    known = "\n".join(f"  {arm}" for arm in longest) + _ends(tree)
    raise ConfigurationError(
        f"{tree.path}: found {len(arms)} arms{within}. Choose one of them:\n{known}"
    )


def _ends(tree: Tree) -> str:
    others = [j for j in tree.above.values() if j.kind not in (*MOVING_TYPES, "fixed")]
    names = ", ".join(f"{joint.name} ({joint.kind})" for joint in others[:10])
    return f"\nAn arm ends at these joints, because of their type: {names}" if names else ""


def _possible_tips(tree: Tree) -> list[str]:
    tips = []
    for link, joint in tree.above.items():
        behind = tree.below.get(link, [])
        if joint.kind in REVOLUTE_TYPES and not any(
            other.kind in REVOLUTE_TYPES for other in behind
        ):
            # The tip is a link fixed to the last link of the arm, or the last link itself.
            fixed = (other.child for other in behind if other.kind == "fixed")
            tips.append(next(fixed, link))
    return tips


def _arm_ending_at(tree: Tree, tip: str, base: str) -> ArmEnds:
    joints: list[str] = []
    link = start = tip
    for _ in tree.above:  # A bounded loop, because the joints may form a ring.
        joint = tree.above.get(link)
        if link == base or joint is None or joint.kind not in (*MOVING_TYPES, "fixed"):
            break
        link = joint.parent
        if joint.kind in MOVING_TYPES:
            joints.insert(0, joint.name)
            start = link
    return ArmEnds(base if link == base else start, tip, tuple(joints))


@dataclass(frozen=True, eq=False)
class RobotDraft:
    """Arm imported from a URDF or MJCF, with fitted capsules and default values.

    Attributes:
        kind: Format of the imported file: ``urdf`` or ``mjcf``.
        robot: Complete robot.
        arm: Base and tip.
        chain: Chain of the arm in the imported file.
        fit: Capsules that enclose the links.
        shapes: Geometry, by link name, and by ``collision`` and ``visual``.
        known: Keys of the YAML file that the user gave.
        left_out: Notes on links and joints of the imported file that are not part of the arm.
        ready: Comment for the new YAML file on the source of the ready configuration.
        warnings: Warnings on implausible values of the imported file.
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
    warnings: tuple[str, ...]


def draft_robot(
    source: Path,
    *,
    base: str = "",
    tip: str = "",
    name: str = "",
    extra: Path | None = None,
    packages: Sequence[Path] = (),
    max_capsules: int = 2,
) -> RobotDraft:
    """Import an arm from a URDF or MJCF, fit its capsules and choose default values.

    Args:
        source: Path of the URDF or MJCF.
        base: First link; by default that of the only arm, see :func:`find_arm`.
        tip: Last link; by default that of the only arm.
        name: Name of the robot; by default the name of the file.
        extra: YAML file with known data, which replace default values. Its keys ``capsules`` and
            ``overlapping`` are not used.
        packages: Folders for ``package://`` URLs.
        max_capsules: Maximum number of capsules per link.

    Raises:
        ConfigurationError: The file cannot be read, or it has no arm or several arms with this
            base and tip. The arm has no limits, a link without a valid body, or a missing mesh.
    """
    if not source.is_file():
        raise ConfigurationError(f"{source}: file does not exist. Name a URDF or MJCF file.")
    known = {} if extra is None else read_extra(extra)
    kind = kind_of(source)
    tree = tree_of(source)
    arm = find_arm(tree, base or known.get("base", ""), tip or known.get("tip", ""))
    name = name or re.sub(r"\W", "_", source.stem)
    files = {"urdf": source} if kind == "urdf" else {"mjcf": source}

    def read(path: Path | None) -> Robot:
        return read_robot(path, **files, base=arm.base, tip=arm.tip, name=name)

    # Read the file of the user first, so that errors in it have its name, not that of the draft.
    read(extra)
    chain = chain_of(tree, arm.base, arm.tip)
    shapes = shapes_of(source, list(chain.link_indices), packages)
    fit = fit_capsules(chain, shapes, max_capsules)
    matches: dict[str, Any] = known | {
        "overlapping": [],
        "capsules": {
            link: [[list(c.start), list(c.end), c.radius] for c in capsules]
            for link, capsules in fit.capsules.items()
        },
    }

    def robot() -> Robot:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "extra.yaml"
            path.write_text(yaml.safe_dump(matches), encoding="utf-8")
            return read(path)

    postures = RandomPostures(robot())
    overlapping = postures.overlapping()
    matches["overlapping"] = [list(pair) for pair in overlapping]
    origin = "as given"
    if "ready" not in known:
        origin = "most dexterous of simple configurations without collision; change it as needed"
        if (ready := postures.ready(overlapping)) is None:
            origin = "every simple configuration is in collision. CHECK this one"
        else:
            matches["ready"] = np.round(ready, 6).tolist()
    left_out = tuple(_left_out(tree, chain))
    names = tuple(known)
    drafted = robot()
    return RobotDraft(
        kind, drafted, arm, chain, fit, shapes, names, left_out, origin, drafted.warnings
    )


def _left_out(tree: Tree, chain: Chain) -> Iterator[str]:
    for joint in tree.path_to(tree.root_of(chain.links[0]), chain.links[0]):
        if joint.kind != "fixed":
            yield (
                f"the arm starts at {chain.links[0]}, behind joint {joint.name} ({joint.kind}). "
                "This joint is not part of the arm and must not move while the arm moves"
            )
    for link in chain.link_indices:
        for joint in tree.below.get(link, ()):
            if joint.child not in chain.link_indices:
                mass = tree.bodies[joint.child].mass
                yield (
                    f"{joint.child} ({mass:.3g} kg), attached by joint {joint.name} "
                    f"({joint.kind}), is left out with all links behind it"
                )


_LIMITS = {
    "acceleration": "rad/s^2",
    "jerk": "rad/s^3",
    "torque_rate": "Nm/s; maximum rate of a commanded torque",
}
_OVERRIDES = {"lower": "rad", "upper": "rad", "velocity": "rad/s", "torque": "Nm"}
_FIGURES = {
    "stiffness": "Nm/rad; default of joint springs",
    "most_stiffness": "Nm/rad; maximum of joint springs",
    "lag": "rad; maximum deflection of joint springs by an unknown payload",
    "contact_torque": "Nm; external torque at which a motion stops",
    "barrier_torque": "Nm; torque of the barrier at a position limit",
    "lacking_torque": "Nm; typical model error, which bounds nullspace and residual torques",
    "posture_stiffness": "Nm/rad; default of nullspace springs",
    "leader_damping": "Nm s/rad; damping of a leader arm in teleoperation",
    "most_leader_damping": "Nm s/rad",
    "tare_torque": "Nm; maximum tare: sensor errors and half a kilogram of payload",
    "unmeasured_torque": "Nm; maximum torque of friction and bias that is not measured",
    "settling": "factor on the joint damping of hold until the arm is at rest",
    "growth": "s; time for fading in the joint springs of hold",
    "slow": "fraction of the torque limit with which hold stops a slow joint",
    "friction_phi_1": "Nm; identified friction, zero by default",
    "friction_phi_2": "s/rad",
    "friction_phi_3": "rad/s",
}


def draft_yaml(draft: RobotDraft, source: str) -> str:
    """Return the text of a YAML file for an imported robot, with a comment on every number.

    Args:
        draft: Imported robot.
        source: Path of its URDF or MJCF relative to the folder of the YAML file.
    """
    robot, fit = draft.robot, draft.fit
    check = {key: "" if key in draft.known else ". CHECK" for key in _LIMITS}
    lines = [
        f"# Data that {source} lacks, drafted by `multipanda robot import`.",
        "# CHECK marks rules of thumb (multipanda_py.robots.extra_data): replace them by the",
        "# manufacturer's values. One number per joint, from base to tip:",
        f"# {', '.join(joint.name for joint in robot.joints)}",
        *(_sliding(robot) if robot.limits.slides.any() else ()),
        f"{draft.kind}: {_text(source)}",
        f"base: {_text(draft.arm.base)}",
        f"tip: {_text(draft.arm.tip)}",
        "",
        "# Joint limits that the description lacks or that replace its own.",
        *(
            f"{key}: {_row(getattr(robot.limits, key))}  # {unit}{check.get(key, '')}"
            for key, unit in {**_OVERRIDES, **_LIMITS}.items()
            if key in _LIMITS or key in draft.known
        ),
        f"# Apparent rotor inertia at the joints [kg m^2]{_armature(draft)}",
        f"armature: {_row(robot.armature)}",
        f"# rad; {draft.ready}.",
        f"ready: {_row(robot.ready)}",
        "",
        "# Link numbers, from the base, of upper arm, forearm and wrist: sections for collision",
        "# avoidance with other arms.",
        f"sections: {[list(section) for section in robot.sections]}",
        "# Pairs of links whose capsules touch in more than 10 % of random configurations.",
        f"overlapping: {[list(pair) for pair in robot.overlapping]}",
        "",
        "# Start, end, radius [m] in the frame of the description's link.",
        "capsules:" if fit.capsules else "capsules: {}",
    ]
    for link, capsules in fit.capsules.items():
        lines.append(f"  {_text(link)}:  # {fit.origins[link]}")
        lines += [f"    - {_capsule_text(capsule)}" for capsule in capsules]
    lines += [
        "",
        "# Defaults and bounds of controllet parameters, from the limits. CHECK",
        "figures:",
    ]
    for key, values in robot.figures.items():
        lines.append(f"  {key}: {_row(values)}  # {_FIGURES.get(key, '')}".rstrip(" #"))
    return "\n".join(lines) + "\n"


def _sliding(robot: Robot) -> Iterator[str]:
    pairs = zip(robot.joints, robot.limits.slides)
    names = ", ".join(joint.name for joint, slides in pairs if slides)
    yield f"# m, N and kg instead of rad, Nm and kg m^2 for prismatic joints: {names}"


def _armature(draft: RobotDraft) -> str:
    if "armature" in draft.known:
        return ""
    if all("armature" in joint.limits for joint in draft.chain.joints):
        return (
            f",\n# from the {draft.kind.upper()}. CHECK for an arm with joint torque sensors: its "
            "torque control reduces the apparent inertia"
        )
    return ", from the torque limits. CHECK"


def _text(value: str) -> str:
    return value if value.replace("_", "a").replace("/", "a").isalnum() else f'"{value}"'


def _row(values: Iterable[float]) -> str:
    return f"[{', '.join(_number_text(value) for value in values)}]"


def _number_text(value: float) -> str:
    text = f"{value:.6g}"
    # ROS distinguishes 1 and 1.0.
    return text if any(mark in text for mark in ".en") else f"{text}.0"


def _capsule_text(capsule: Capsule) -> str:
    ends = [
        f"[{', '.join(f'{x + 0.0:.4f}' for x in end)}]" for end in (capsule.start, capsule.end)
    ]
    # Due to the larger radius, the rounded capsule still contains its link.
    return f"[{ends[0]}, {ends[1]}, {capsule.radius + 1e-4:.4f}]"
