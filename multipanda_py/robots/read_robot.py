# SPDX-License-Identifier: Apache-2.0
"""Read a robot from a URDF or MJCF, and a YAML file with data that the description lacks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.robots.extra_data import (
    SOURCES,
    Overrides,
    default_capsules,
    default_figures,
    default_limits,
    default_ready,
    default_sections,
    read_extra,
)
from multipanda_py.robots.geometry import Capsule, Origin, SolidOfRevolution, point_of
from multipanda_py.robots.inertial import STANDARD_GRAVITY, inertial_of
from multipanda_py.robots.read_urdf import read_urdf
from multipanda_py.robots.robot import Flange, Joint, Link, Robot
from multipanda_py.robots.tree import Chain, chain_of, link_poses, mass_matrix
from multipanda_py.state import ArmLimits

Vector = NDArray[np.float64]
S = TypeVar("S", Capsule, SolidOfRevolution)


def link_capsules(chain: Chain, extra: Overrides, tip: Vector) -> list[tuple[Capsule, ...]]:
    """Return the capsules of every link of the chain and of the links fixed to it.

    Args:
        chain: Chain of the arm.
        extra: Data of the YAML file. If it has no ``capsules``, each link gets a rod to its next
            joint.
        tip: Position of the flange in the last link, (3,) [m].
    """
    capsules = extra.capsules(list(chain.link_indices))
    capsules = default_capsules(chain, tip) if capsules is None else capsules
    link_capsules: list[tuple[Capsule, ...]] = [()] * len(chain.links)
    for link, shapes in capsules.items():
        number, pose = chain.link_indices[link]
        link_capsules[number] += tuple(moved_solid(shape, pose) for shape in shapes)
    return link_capsules


def link_looks(chain: Chain, extra: Overrides) -> list[tuple[SolidOfRevolution, ...]]:
    """Return the visual shapes in a YAML file for every link of a chain.

    A link has the shapes of all links that are fixed to it.
    """
    link_looks: list[tuple[SolidOfRevolution, ...]] = [()] * len(chain.links)
    for link, solids in extra.visuals(list(chain.link_indices)).items():
        number, pose = chain.link_indices[link]
        link_looks[number] += tuple(moved_solid(solid, pose) for solid in solids)
    return link_looks


def visual(c: Capsule) -> SolidOfRevolution:
    """Return the visual shape of a capsule."""
    return SolidOfRevolution(c.start, c.end, c.radius, c.radius, c.radius, c.radius)


def moved_solid(solid: S, pose: Vector) -> S:
    """Return a solid in a parent frame, from the pose of its own frame in the parent, (4, 4)."""
    ends = (pose[:3, :3] @ np.array(end) + pose[:3, 3] for end in (solid.start, solid.end))
    start, end = map(point_of, ends)
    return replace(solid, start=start, end=end)


def overlapping_links(
    capsules: Sequence[Sequence[Capsule]], chain: Chain, q: Vector
) -> tuple[tuple[int, int], ...]:
    """Return the pairs of non-adjacent links whose capsules touch at q, (n,) [rad, m]."""
    poses = link_poses(chain, q)
    return tuple(
        (i, j)
        for i in range(len(capsules))
        for j in range(i + 2, len(capsules))
        if any(
            _axis_distance(a, poses[i], b, poses[j]) <= a.radius + b.radius
            for a in capsules[i]
            for b in capsules[j]
        )
    )


def _axis_distance(a: Capsule, pose_a: Vector, b: Capsule, pose_b: Vector) -> float:
    one, other = (
        np.array(list(_points(c))) @ p[:3, :3].T + p[:3, 3] for c, p in ((a, pose_a), (b, pose_b))
    )
    return float(np.linalg.norm(one[:, None] - other[None], axis=2).min())


def _points(capsule: Capsule) -> Iterator[Vector]:
    start, end = np.array(capsule.start), np.array(capsule.end)
    for fraction in np.linspace(0.0, 1.0, 21):
        yield start + fraction * (end - start)


USUAL_RANGES = {
    "velocity": ("rad/s", (0.05, 50.0), (0.005, 20.0)),
    "torque": ("Nm", (0.05, 3000.0), (1.0, 50_000.0)),
}
"""Usual ranges of limits for revolute and for prismatic joints. Values outside cause a warning."""
USUAL_MASS, USUAL_GYRATION_RADIUS = (1e-3, 150.0), (1e-3, 1.0)
"""Usual ranges of the mass [kg] and radius of gyration [m] of a moving link."""
MAX_USUAL_ANGLE = 4.0 * np.pi + 1e-3
"""Maximum usual joint limit; larger ones are probably in degrees [rad]."""


def plausibility_warnings(path: Path, chain: Chain, limits: ArmLimits) -> Iterator[str]:
    r"""Yield warnings on implausible values, each with the usual range.

    The radius of gyration of a link with inertia I and mass m is
    :math:`\sqrt{\operatorname{tr} I / 2 m}`. A revolute joint should have a torque limit above
    :math:`\tfrac12 g \sum m_j \ell_j`. Later links j have the masses :math:`m_j` and the path
    lengths :math:`\ell_j` from the joint.
    """
    for link, body in zip(chain.links[1:], chain.bodies[1:]):
        location = f"{path}: link {link}"
        if not USUAL_MASS[0] <= body.mass <= USUAL_MASS[1]:
            yield (
                f"{location}: got {body.mass:g} kg, usual {USUAL_MASS[0]:g} to "
                f"{USUAL_MASS[1]:g} kg"
            )
        size = float(np.sqrt(np.trace(body.inertia) / 2.0 / body.mass))
        if not USUAL_GYRATION_RADIUS[0] <= size <= USUAL_GYRATION_RADIUS[1]:
            yield (
                f"{location}: its inertia corresponds to its mass at {size:.3g} m from its "
                f"centre, "
                f"usual {USUAL_GYRATION_RADIUS[0]:g} to {USUAL_GYRATION_RADIUS[1]:g} m. Is it in "
                f"kg m^2?"
            )
    for i, joint in enumerate(chain.joints):
        location, slides = f"{path}: joint {joint.name}", bool(limits.slides[i])
        for name, (unit, turning, sliding) in USUAL_RANGES.items():
            got, (low, high) = float(getattr(limits, name)[i]), sliding if slides else turning
            unit = limits.unit(i, unit)
            if not low <= got <= high:
                yield f"{location}: {name}: got {got:g} {unit}, usual {low:g} to {high:g} {unit}"
        farthest = max(abs(limits.lower[i]), abs(limits.upper[i]))
        if not slides and MAX_USUAL_ANGLE < farthest < np.inf:
            yield (
                f"{location}: got limits of {farthest:g} rad, usual up to {MAX_USUAL_ANGLE:.4g} "
                f"rad: degrees?"
            )
    yield from _low_torque_limits(path, chain, limits)


def _low_torque_limits(path: Path, chain: Chain, limits: ArmLimits) -> Iterator[str]:
    steps = [float(np.linalg.norm(origin[:3, 3])) for origin in chain.origins]
    for i, joint in enumerate(chain.joints):
        away = np.cumsum([0.0, *steps[i + 1 :]])
        masses = np.array([body.mass for body in chain.bodies[i + 1 :]])
        need, got = 0.5 * STANDARD_GRAVITY * float(masses @ away), float(limits.torque[i])
        # The first axis is usually vertical and carries no weight.
        if i > 0 and not limits.slides[i] and need > got:
            yield (
                f"{path}: joint {joint.name}: torque: got {got:g} Nm, usual more than "
                f"{need:.3g} Nm, the weight torque of the arm behind it when half stretched out"
            )


_FROM_URDF = ("lower", "upper", "velocity", "torque")
_DERIVED = ("acceleration", "jerk", "torque_rate", "armature")


def read_robot(
    extra: Path | None = None,
    *,
    urdf: Path | None = None,
    mjcf: Path | None = None,
    base: str = "",
    tip: str = "",
    name: str = "",
) -> Robot:
    """Read a robot from a URDF or MJCF, and a YAML file with data that the description lacks.

    The arm is the chain of joints from ``base`` to ``tip``. Joints are revolute, continuous,
    prismatic or fixed, along any axis. A link behind a fixed joint becomes a part of its parent.
    A link without visual shapes shows its capsules. Values that neither file has are computed
    from limits and inertia (:mod:`~multipanda_py.robots.extra_data`).

    Args:
        extra: YAML file; it may have ``urdf`` or ``mjcf`` (relative to it), ``base`` and ``tip``.
        urdf: URDF file; it replaces the one in the YAML file.
        mjcf: MJCF file, instead of a URDF.
        base: Link that is fixed to the world; empty: ``base`` in the YAML file.
        tip: Link that carries gripper and tool; empty: ``tip`` in the YAML file.
        name: Name of the robot; default: name of the YAML file, else of the description.

    Raises:
        ConfigurationError: A file, a key or the chain is missing. The chain has a joint of another
            kind or a link without a valid body. The length of a list is not the number of joints.
    """
    data = {} if extra is None else read_extra(extra)
    values = {key: path.absolute() for key, path in zip(SOURCES, (urdf, mjcf)) if path}
    if values:
        data = {key: value for key, value in data.items() if key not in SOURCES}
    data |= values | {key: value for key, value in (("base", base), ("tip", tip)) if value}
    sources = [key for key in SOURCES if key in data]
    location = extra or urdf or mjcf
    if location is None or len(sources) != 1:
        got = " and ".join(sources) or "neither urdf nor mjcf"
        raise ConfigurationError(
            f"{location or 'model'}: got {got}, allowed one of the keys urdf and mjcf"
        )
    for key in ("base", "tip"):
        if not isinstance(data.get(key), str):
            got = f"got {data[key]!r}, allowed" if data.get(key) is not None else "missing:"
            raise ConfigurationError(f"{location}: {key}: {got} the name of a link")
    source = location.parent / str(data[sources[0]])
    try:
        return _robot(
            source, sources[0], data, location, name or re.sub(r"\W", "_", location.stem)
        )
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{source}: cannot be read: {error}") from None


def _robot(source: Path, kind: str, data: dict[str, Any], path: Path, name: str) -> Robot:
    if kind == "mjcf":
        # Imported here, because loading MuJoCo takes half a second.
        from multipanda_py.robots.read_mjcf import read_mjcf

        tree = read_mjcf(source)
    else:
        tree = read_urdf(source)
    chain = chain_of(tree, data["base"], data["tip"])
    joints = tuple(
        Joint(joint.name, Origin.of(origin), point_of(joint.axis))
        for joint, origin in zip(chain.joints, chain.origins)
    )
    extra = Overrides(path, data, [joint.name for joint in joints])
    limits, armature = _limits(chain, extra)
    placement = chain.link_indices[chain.tip][1]
    tip = np.array(placement[:3, 3])
    configuration: Sequence[float | None] = [None] * len(joints)
    if not extra.has_all_joints("ready"):
        configuration = default_ready(chain, tip, limits.lower, limits.upper).tolist()
    ready = extra.per_joint("ready", configuration)
    for i, (q, low, high) in enumerate(zip(ready, limits.lower, limits.upper)):
        if not low <= q <= high:
            raise ConfigurationError(
                f"{path}: ready: joint {joints[i].name}: got {q:g} {limits.unit(i)}, allowed "
                f"[{low:g}, {high:g}]"
            )
    capsules = link_capsules(chain, extra, tip)
    mobility = np.array(np.linalg.inv(mass_matrix(chain, armature, ready)).diagonal())
    sections, overlapping = extra.sections(), extra.overlapping()
    if overlapping is None:
        overlapping = overlapping_links(capsules, chain, ready)
    return Robot(
        name=name,
        source=None if data.get("visuals") else source,
        limits=limits,
        joints=joints,
        links=tuple(
            Link(link, inertial_of(body), shapes, poll or tuple(map(visual, shapes)))
            for link, body, shapes, poll in zip(
                chain.links, chain.bodies, capsules, link_looks(chain, extra)
            )
        ),
        flange=_flange(chain, placement),
        armature=armature,
        ready=ready,
        sections=default_sections(len(joints)) if sections is None else sections,
        overlapping=overlapping,
        compensates_gravity=extra.flag("compensates_gravity", True),
        warnings=(*plausibility_warnings(source, chain, limits), *extra.warnings()),
        figures=extra.figures(default_figures(limits, mobility)),
    )


def _limits(chain: Chain, extra: Overrides) -> tuple[ArmLimits, Vector]:
    stated = {
        key: [joint.limits.get(key) for joint in chain.joints] for key in (*_FROM_URDF, *_DERIVED)
    }
    limits = {key: extra.per_joint(key, stated[key]) for key in _FROM_URDF}
    # Velocity and torque limits are checked first, because other default limits depend on them.
    for key in ("velocity", "torque"):
        for joint, value in zip(chain.joints, limits[key]):
            if not value > 0.0:
                raise ConfigurationError(
                    f"{extra.path}: {key}: got {value:g} for joint {joint.name}, allowed more "
                    "than 0"
                )
    otherwise = default_limits(limits["velocity"], limits["torque"])
    for key in _DERIVED:
        values = [value if own is None else own for own, value in zip(stated[key], otherwise[key])]
        limits[key] = extra.per_joint(key, values)
    armature = limits.pop("armature")
    if (armature < 0.0).any():
        raise ConfigurationError(f"{extra.path}: armature: got {armature}, allowed 0 or more")
    try:
        return ArmLimits(**limits, slides=chain.slides), armature
    except ConfigurationError as error:
        raise ConfigurationError(*(f"{extra.path}: {fault}" for fault in error.faults)) from None


def _flange(chain: Chain, position: Vector) -> Flange:
    if chain.tip in chain.links:
        return Flange(f"{chain.tip}_flange", f"{chain.tip}_flange_joint", Origin.of(position))
    return Flange(chain.tip, f"{chain.tip}_joint", Origin.of(position))
