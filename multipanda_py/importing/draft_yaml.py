# SPDX-License-Identifier: Apache-2.0
"""Write the YAML with what a description lacks, and where every number is from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from multipanda_py.importing.robot_draft import RobotDraft
from multipanda_py.robots.robot import Robot
from multipanda_py.robots.shapes import Capsule

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
        "# CHECK marks rules of thumb (multipanda_py.robots.defaults): the maker's figures are",
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
