# SPDX-License-Identifier: Apache-2.0
"""Read a robot from data: a chain of its description, and a YAML with what that lacks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.limits import ArmLimits
from multipanda_py.robots.chain import Chain, chain_of
from multipanda_py.robots.chain_motion import mass_matrix
from multipanda_py.robots.defaults import (
    default_figures,
    default_limits,
    default_ready,
    default_sections,
)
from multipanda_py.robots.doubts import doubts
from multipanda_py.robots.extra import SOURCES, Extra, read_extra
from multipanda_py.robots.link_shapes import link_capsules, link_looks, picture
from multipanda_py.robots.load import inertial_of
from multipanda_py.robots.overlap import overlapping_links
from multipanda_py.robots.read_urdf import read_urdf
from multipanda_py.robots.robot import Flange, Joint, Link, Robot
from multipanda_py.robots.shapes import Origin, point_of

Vector = NDArray[np.float64]

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
    """Return the robot that a URDF or MJCF and a YAML with what that lacks describe.

    The arm is the chain of joints from ``base`` to ``tip``; the description may have more than
    that. Joints are revolute, continuous, prismatic or fixed, along any axis; what is fixed to a
    link is part of it. Links keep their names and frames. Pictures are those of the capsules where
    nobody drew others. What neither
    file says follows from limits and inertia (:mod:`~multipanda_py.robots.defaults`).

    Args:
        extra: The YAML; it may name ``urdf`` or ``mjcf`` (relative to it), ``base`` and ``tip``.
        urdf: The URDF.
        mjcf: MuJoCo's format instead.
        base: Link that is fixed to the world.
        tip: Link that carries things.
        name: By default that of the YAML's file, else of the description's.

    Raises:
        ConfigurationError: If a file or key is missing, there is no such chain, it has a joint of
            another kind or a link that is no body, or there is not one number per joint; says
            where, what was got and what is allowed.
    """
    data = {} if extra is None else read_extra(extra)
    given = {key: path.absolute() for key, path in zip(SOURCES, (urdf, mjcf)) if path}
    if given:
        data = {key: value for key, value in data.items() if key not in SOURCES}
    data |= given | {key: value for key, value in (("base", base), ("tip", tip)) if value}
    sources = [key for key in SOURCES if key in data]
    where = extra or urdf or mjcf
    if where is None or len(sources) != 1:
        got = " and ".join(sources) or "neither urdf nor mjcf"
        raise ConfigurationError(f"{where or 'model'}: got {got}, allowed one of urdf and mjcf")
    for key in ("base", "tip"):
        if not isinstance(data.get(key), str):
            got = f"got {data[key]!r}, allowed" if data.get(key) is not None else "missing:"
            raise ConfigurationError(f"{where}: {key}: {got} the name of a link")
    source = where.parent / str(data[sources[0]])
    try:
        return _robot(source, sources[0], data, where, name or re.sub(r"\W", "_", where.stem))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{source}: cannot be read: {error}") from None


def _robot(source: Path, kind: str, data: dict[str, Any], where: Path, name: str) -> Robot:
    if kind == "mjcf":
        from multipanda_py.robots.read_mjcf import read_mjcf  # MuJoCo takes half a second

        tree = read_mjcf(source)
    else:
        tree = read_urdf(source)
    chain = chain_of(tree, data["base"], data["tip"])
    joints = tuple(
        Joint(joint.name, Origin.of(origin), point_of(joint.axis))
        for joint, origin in zip(chain.joints, chain.origins)
    )
    extra = Extra(where, data, [joint.name for joint in joints])
    limits, armature = _limits(chain, extra)
    place = chain.places[chain.tip][1]
    tip = np.array(place[:3, 3])
    posture: Sequence[float | None] = [None] * len(joints)
    if not extra.says_all("ready"):
        posture = default_ready(chain, tip, limits.lower, limits.upper).tolist()
    ready = extra.per_joint("ready", posture)
    for i, (q, low, high) in enumerate(zip(ready, limits.lower, limits.upper)):
        if not low <= q <= high:
            raise ConfigurationError(
                f"{where}: ready: joint {joints[i].name}: got {q:g} {limits.unit(i)}, allowed "
                f"[{low:g}, {high:g}]"
            )
    capsules = link_capsules(chain, extra, tip)
    mobility = np.array(np.linalg.inv(mass_matrix(chain, armature, ready)).diagonal())
    sections, overlapping = extra.sections(), extra.overlapping()
    if overlapping is None:
        overlapping = overlapping_links(capsules, chain, ready)
    return Robot(
        name=name,
        source=None if data.get("look") else source,
        limits=limits,
        joints=joints,
        links=tuple(
            Link(link, inertial_of(body), shapes, look or tuple(map(picture, shapes)))
            for link, body, shapes, look in zip(
                chain.links, chain.bodies, capsules, link_looks(chain, extra)
            )
        ),
        flange=_flange(chain, place),
        armature=armature,
        ready=ready,
        sections=default_sections(len(joints)) if sections is None else sections,
        overlapping=overlapping,
        compensates_gravity=extra.flag("compensates_gravity", True),
        doubts=(*doubts(source, chain, limits), *extra.doubts()),
        figures=extra.figures(default_figures(limits, mobility)),
    )


def _limits(chain: Chain, extra: Extra) -> tuple[ArmLimits, Vector]:
    """Return the limits, and the armature, which descriptions have beside them."""
    said = {
        key: [joint.limits.get(key) for joint in chain.joints] for key in (*_FROM_URDF, *_DERIVED)
    }
    found = {key: extra.per_joint(key, said[key]) for key in _FROM_URDF}
    for key in ("velocity", "torque"):  # others follow from them, and would be blamed
        for joint, value in zip(chain.joints, found[key]):
            if not value > 0.0:
                raise ConfigurationError(
                    f"{extra.path}: {key}: got {value:g} for joint {joint.name}, allowed more "
                    "than 0"
                )
    otherwise = default_limits(found["velocity"], found["torque"])
    for key in _DERIVED:
        values = [value if own is None else own for own, value in zip(said[key], otherwise[key])]
        found[key] = extra.per_joint(key, values)
    armature = found.pop("armature")
    if (armature < 0.0).any():
        raise ConfigurationError(f"{extra.path}: armature: got {armature}, allowed 0 or more")
    try:
        return ArmLimits(**found, slides=chain.slides), armature
    except ConfigurationError as error:
        raise ConfigurationError(*(f"{extra.path}: {fault}" for fault in error.faults)) from None


def _flange(chain: Chain, place: Vector) -> Flange:
    """Return the frame of the tip; one of its own if the tip is a link that moves."""
    if chain.tip in chain.links:
        return Flange(f"{chain.tip}_flange", f"{chain.tip}_flange_joint", Origin.of(place))
    return Flange(chain.tip, f"{chain.tip}_joint", Origin.of(place))
