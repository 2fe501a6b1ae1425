# SPDX-License-Identifier: Apache-2.0
"""The YAML beside a description, with what that lacks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.files import key_names, read_plain
from multipanda_py.robots.geometry import Capsule, Turned, point_of
from multipanda_py.robots.tree import Chain, jacobian, link_poses
from multipanda_py.robots.visuals import COLORS
from multipanda_py.state import ArmLimits

Vector = NDArray[np.float64]

FULL_SPEED_IN = 0.25
"""Time in which a joint comes to its full speed [s]."""
JERK_PER_ACCELERATION = 500.0
"""As the limits of Franka arms have it [1/s]."""
TORQUE_RATE, FULL_TORQUE_RATE = 1000.0, 12.0
"""Least rate, of Franka arms, and rate over torque limit, of their large joints [Nm/s, 1/s]."""
ROTOR = 2.5e-3
"""Rotor inertia over torque limit: a Franka arm under torque control has 2.8e-3 in its large
joints and 5e-3 in its wrist [kg m^2/Nm]."""
LACKING = 5.0 / 87.0
"""Fraction of the torque limits that a posture spring exerts: 5 of 87 Nm of an FR3."""
LACKING_IN_WRIST = 5.0 / 12.0
"""Largest such fraction of any joint: 5 of 12 Nm of its wrist."""
STRONG = 1.0 / 3.0
"""A joint carries the arm if it has this share of the largest torque; the others are its wrist."""
ROD = 0.04
"""Radius of the rods that stand for links that nobody has described [m]."""
POSTURES, INNER = 60, 0.5
"""Postures that are tried for the one to start from, within this share of the joints' ranges."""


def default_limits(velocity: Vector, torque: Vector) -> dict[str, Vector]:
    r"""Return acceleration, jerk, torque rate and armature B, (n,) each.

    .. math::
        \ddot q = \dot q_{max} / 0.25 s, \quad \dddot q = 500 s^{-1} \ddot q, \\
        \dot\tau = \max(1000 Nm/s, 12 s^{-1} \tau_{max}), \\
        B = 2.5 \cdot 10^{-3} s^2 \tau_{max}
    """
    acceleration = velocity / FULL_SPEED_IN
    return {
        "acceleration": acceleration,
        "jerk": JERK_PER_ACCELERATION * acceleration,
        "torque_rate": np.maximum(TORQUE_RATE, FULL_TORQUE_RATE * torque),
        "armature": ROTOR * torque,
    }


def default_figures(limits: ArmLimits, mobility: Vector) -> dict[str, tuple[float, ...]]:
    r"""Return the numbers per joint that laws begin with; see :data:`.FIGURES` for what they are.

    With the torque limit :math:`\tau` and the inertia m of a joint while the others are free to
    give way, :math:`m = 1 / (M^{-1})_{ii}` in the ready posture:

    - stiffness :math:`\min(7 \tau, 900 m, 0.6 s\, \dot\tau)`, at most half as much again: its
      critical damper brakes at 60 1/s, the whole torque belongs to a seventh of a radian, and a
      joint at 1.7 rad/s does not ask for more than the torque rate.
    - contact_torque :math:`\tau / 6`, at least 10 Nm and at most :math:`\tau`; barrier_torque
      :math:`0.4 \tau`.
    - leader_damping 2 Nm s/rad, a wrist 0.5, at most 10 m; most_leader_damping 40 m, or that.
    - tare_torque 4 Nm, a wrist 1.5; unmeasured_torque 8 and 4; at most 0.15 and 0.3 of the torque.
    - lacking_torque :math:`\max(0.0575 \tau, 5 Nm)`, at most :math:`0.42 \tau` and 50 Nm, which is
      5 Nm for all joints of an FR3; posture_stiffness :math:`0.115 \tau / rad`, from 10 to
      100 Nm/rad.
    - lag, slow, growth and settling as those of a Franka's arm and wrist; no friction.

    A joint that slides has what such an arm has at its end, some 0.2 to 0.4 m away: its whole
    force belongs to 50 mm, contact is 40 N or more, and 20 N s/m, 20 N, 40 N and 3 mm stand for
    the rest.

    Args:
        limits: Of the joints, n.
        mobility: :math:`(M^{-1})_{ii}`, (n,) [1/(kg m^2), 1/kg].
    """
    mass, torque, slides, n = 1.0 / mobility, limits.torque, limits.slides, limits.n_joints
    strong = slides | (torque >= STRONG * np.where(slides, 0.0, torque).max())

    def each(arm: float, wrist: float, slide: float) -> Vector:
        return np.where(slides, slide, np.where(strong, arm, wrist))

    within = np.minimum(each(7.0, 7.0, 20.0) * torque, 0.6 * limits.torque_rate)
    stiffness = np.minimum(within, 900.0 * mass)
    damping = np.minimum(each(2.0, 0.5, 20.0), 10.0 * mass)
    most_lacking = np.minimum(LACKING_IN_WRIST * torque, 50.0)
    figures = {
        "stiffness": stiffness,
        "most_stiffness": 1.5 * stiffness,
        "lacking_torque": np.minimum(np.maximum(LACKING * torque, 5.0), most_lacking),
        "posture_stiffness": np.clip(2.0 * LACKING * torque, 10.0, 100.0),
        "lag": each(0.0065, 0.01, 0.003),
        "contact_torque": np.minimum(torque, np.maximum(torque / 6.0, each(10.0, 10.0, 40.0))),
        "barrier_torque": 0.4 * torque,
        "leader_damping": damping,
        "most_leader_damping": np.maximum(40.0 * mass, damping),
        "tare_torque": np.minimum(each(4.0, 1.5, 20.0), 0.15 * torque),
        "unmeasured_torque": np.minimum(each(8.0, 4.0, 40.0), 0.3 * torque),
        "slow": each(0.6, 0.35, 0.6),
        "growth": each(0.5, 0.0, 0.5),
        "settling": each(1.0, 1.6, 1.0),
        "friction_phi_1": np.zeros(n),
        "friction_phi_2": np.ones(n),
        "friction_phi_3": np.zeros(n),
    }
    return {name: tuple(values.tolist()) for name, values in figures.items()}


def default_ready(chain: Chain, tip_in_last: Vector, lower: Vector, upper: Vector) -> Vector:
    """Return a posture to start from, (n,) [rad, m]: far from singular ones, with the tool up.

    Of 60 postures in the inner half of the joints' ranges (within a quarter turn of zero for
    those that turn without end) it is the one whose Jacobian has the largest smallest singular
    value, with lengths in units of half the reach, and no joint below the base.
    """
    low, high = np.maximum(lower, -np.pi), np.minimum(upper, np.pi)
    low, high = np.where(low < high, low, lower), np.where(low < high, high, upper)
    middle, half = 0.5 * (low + high), 0.5 * INNER * (high - low)
    rng = np.random.default_rng(0)
    best, found = -np.inf, middle
    for q in np.vstack([middle, rng.uniform(middle - half, middle + half, (POSTURES, len(low)))]):
        poses = link_poses(chain, q)
        points = np.array([pose[:3, 3] for pose in poses])
        tip = poses[-1][:3, :3] @ tip_in_last + poses[-1][:3, 3]
        reach = np.linalg.norm(np.diff(np.vstack([points, tip]), axis=0), axis=1).sum()
        columns = jacobian(chain, poses, tip, len(q))
        columns[:3] /= 0.5 * reach or 1.0  # no length for one joint with its tool on the axis
        size = np.linalg.svd(columns, compute_uv=False)[-1]
        height = min(float(points[:, 2].min()), float(tip[2]))
        score = float(size) + min(0.0, height)
        if score > best:
            best, found = score, q
    return found


def default_sections(n_joints: int) -> tuple[tuple[int, ...], ...]:
    """Return the numbers of the links in three sections of about the same length."""
    parts = np.array_split(np.arange(n_joints + 1), min(3, n_joints + 1))
    return tuple(tuple(part.tolist()) for part in parts)


def default_capsules(chain: Chain, tip_in_last: Vector) -> dict[str, tuple[Capsule, ...]]:
    """Return a rod along every link, from its joint to the next one or the tip, by link."""
    ends = [*(origin[:3, 3] for origin in chain.origins), tip_in_last]
    found: dict[str, tuple[Capsule, ...]] = {}
    for link, end in zip(chain.links, ends):
        x, y, z = end.tolist()
        if np.linalg.norm(end) > ROD:
            found[link] = (Capsule((0.0, 0.0, 0.0), (x, y, z), ROD),)
    return found


Shape = TypeVar("Shape", Capsule, Turned)

SOURCES = ("urdf", "mjcf")
PER_JOINT = (
    "lower", "upper", "velocity", "torque", "acceleration", "jerk", "torque_rate", "armature",
    "ready",
)  # fmt: skip
KEYS = (
    *SOURCES, "base", "tip", *PER_JOINT, "sections", "overlapping", "capsules", "look", "figures",
    "compensates_gravity",
)  # fmt: skip

MANY = 20
"""Maximum number of unknown keys in a refusal."""


def read_extra(path: Path, keys: Sequence[str] = KEYS) -> dict[str, Any]:
    """Return what a YAML file says of some keys.

    Raises:
        ConfigurationError: If it is no map, or has a key that nothing reads.
    """
    data = read_plain(path)
    if not isinstance(data, dict):
        raise ConfigurationError(f"{path}: got no map, allowed a map of keys")
    if unknown := key_names(key for key in data if key not in keys):
        raise ConfigurationError(
            *(f"{path}: {key}: unknown key; known: {', '.join(keys)}" for key in unknown[:MANY])
        )
    return data


class Extra:
    """What a YAML file says, or does not say, of an arm.

    Args:
        path: The file, for messages.
        data: Its keys.
        joints: Names of the joints.
    """

    def __init__(self, path: Path, data: Mapping[str, Any], joints: Sequence[str]) -> None:
        self.path, self._data, self._joints = path, data, tuple(joints)

    def per_joint(self, key: str, otherwise: Sequence[float | None]) -> Vector:
        """Return a number per joint, (n,): one for all, a list, or a map of joints to numbers.

        Args:
            key: Name of the key.
            otherwise: What counts where nothing is said; None where it has to be said.

        Raises:
            ConfigurationError: If it is none of these, or missing for a joint.
        """
        n, given = len(self._joints), self._data.get(key)
        values: list[Any] = list(otherwise)
        if isinstance(given, Mapping):
            for name, value in given.items():
                if name not in self._joints:
                    raise self._refusal(key, f"joint {name!r}", f"{', '.join(self._joints)}")
                values[self._joints.index(name)] = value
        elif isinstance(given, list):
            if len(given) != n:
                raise self._refusal(key, f"{len(given)} numbers", f"{n}, one per joint")
            values = given
        elif given is not None:
            values = [given] * n
        for name, value, own in zip(self._joints, values, otherwise):
            if value is None:
                raise ConfigurationError(
                    f"{self.path}: {key}: missing for joint {name}; its description has none"
                )
            if value is not own and not _is_number(value):
                raise self._refusal(f"{key}: joint {name}", repr(value), "a number")
        return np.array(values, dtype=np.float64)

    def says_all(self, key: str) -> bool:
        """Return whether nothing is left to be said of a key."""
        given = self._data.get(key)
        return given is not None and not isinstance(given, Mapping)

    def flag(self, key: str, otherwise: bool) -> bool:
        """Return whether something is so."""
        given = self._data.get(key, otherwise)
        if not isinstance(given, bool):
            raise self._refusal(key, f"{given!r:.60}", "true or false")
        return given

    def numbers(self, key: str, otherwise: Sequence[float]) -> Vector:
        """Return a list of as many numbers as there are otherwise.

        Raises:
            ConfigurationError: If it is none.
        """
        given, n = self._data.get(key, list(otherwise)), len(otherwise)
        if not (isinstance(given, list) and len(given) == n and all(map(_is_number, given))):
            raise self._refusal(key, f"{given!r:.60}", f"a list of {n} numbers")
        return np.array(given, dtype=np.float64)

    def length(self, key: str) -> float:
        """Return a length [m], 0 if not said."""
        given = self._data.get(key, 0.0)
        if not (_is_number(given) and given >= 0.0):
            raise self._refusal(key, f"{given!r:.60}", "0 m or more")
        return float(given)

    def figures(self, otherwise: Mapping[str, Sequence[float]]) -> dict[str, tuple[float, ...]]:
        """Return the figures of laws; those not given are as they are otherwise."""
        given = self._map("figures")
        if unknown := [key for key in given if key not in otherwise]:
            raise self._refusal("figures", repr(unknown[0]), ", ".join(otherwise))
        inner = Extra(self.path, given, self._joints)
        found = {name: inner.per_joint(name, list(values)) for name, values in otherwise.items()}
        for name, values in found.items():
            least = int(values.argmin())
            if values[least] < 0.0 and not name.startswith("friction"):
                got = f"{values[least]:g} for joint {self._joints[least]}"
                raise self._refusal(f"figures: {name}", got, "0 or more")
        return {name: tuple(values.tolist()) for name, values in found.items()}

    def doubts(self) -> Iterator[str]:
        """Yield a sentence if nobody has said how thick the arm is."""
        if "capsules" not in self._data:
            yield (
                f"{self.path}: capsules: got none, so that collisions are watched as if links "
                f"were rods of {ROD:g} m radius; `multipanda robot import` fits them to the "
                "geometry"
            )

    def capsules(self, links: Sequence[str]) -> dict[str, tuple[Capsule, ...]] | None:
        """Return the capsules by link, or None if there are none.

        Raises:
            ConfigurationError: If a link does not exist, or a capsule is not start, end, radius.
        """
        if "capsules" not in self._data:
            return None
        allowed = "a list of [start, end, radius]: two points, and more than 0 m"
        return self._by_link("capsules", links, _capsule, allowed)

    def look(self, links: Sequence[str]) -> dict[str, tuple[Turned, ...]]:
        """Return the pictures by link.

        Raises:
            ConfigurationError: If a link does not exist, or a solid is not colour, start, end,
                radius, and if need be radius at the end and heights of both domes.
        """
        allowed = f"a list of [colour, start, end, radius]; colours: {', '.join(COLORS)}"
        return self._by_link("look", links, _turned, allowed)

    def _by_link(
        self, key: str, links: Sequence[str], shape: Callable[..., Shape], allowed: str
    ) -> dict[str, tuple[Shape, ...]]:
        """Return the shapes of every link that a key names."""
        found = {}
        for link, shapes in self._map(key).items():
            if link not in links:
                raise self._refusal(key, f"link {link!r}", ", ".join(links))
            try:
                found[link] = tuple(shape(*numbers) for numbers in shapes)
            except (TypeError, ValueError):
                raise self._refusal(f"{key}: {link}", f"{shapes!r:.60}", allowed) from None
        return found

    def sections(self) -> tuple[tuple[int, ...], ...] | None:
        """Return the sections that the links belong to, each to one, or None if not said."""
        found = self._groups("sections")
        numbers = list(range(len(self._joints) + 1))
        if found is not None and sorted(number for part in found for number in part) != numbers:
            got = repr(self._data["sections"])
            raise self._refusal("sections", got, f"each link once, 0 to {numbers[-1]}")
        return found

    def overlapping(self) -> tuple[tuple[int, int], ...] | None:
        """Return the pairs of links that may touch, or None if not said."""
        found = self._groups("overlapping")
        if found is None:
            return None
        if wrong := next((part for part in found if len(part) != 2), None):
            raise self._refusal("overlapping", f"{list(wrong)}", "pairs of links")
        return tuple((first, second) for first, second in found)

    def _groups(self, key: str) -> tuple[tuple[int, ...], ...] | None:
        """Return lists of numbers of links, 0 to n, or None if there are none."""
        if key not in self._data:
            return None
        given, n = self._data[key], len(self._joints)
        if not isinstance(given, list) or not all(isinstance(part, list) for part in given):
            raise self._refusal(key, f"{given!r:.60}", "a list of lists of numbers of links")
        for number in (number for part in given for number in part):
            if type(number) is not int or not 0 <= number <= n:
                raise self._refusal(key, repr(number), f"numbers of links, 0 to {n}")
        return tuple(tuple(part) for part in given)

    def _map(self, key: str) -> Mapping[str, Any]:
        given = self._data.get(key, {})
        if not isinstance(given, Mapping):
            raise self._refusal(key, f"{given!r:.60}", "a map")
        return given

    def _refusal(self, where: str, got: str, allowed: str) -> ConfigurationError:
        return ConfigurationError(f"{self.path}: {where}: got {got}, allowed {allowed}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and np.isfinite(value)


def _capsule(start: Sequence[float], end: Sequence[float], radius: float) -> Capsule:
    capsule = Capsule(point_of(start), point_of(end), float(radius))
    if not (capsule.radius > 0.0 and np.linalg.norm(np.subtract(capsule.start, capsule.end)) > 0):
        raise ValueError
    return capsule


def _turned(
    color: str,
    start: Sequence[float],
    end: Sequence[float],
    radius: float,
    radius_end: float | None = None,
    dome: float = 0.0,
    dome_end: float = 0.0,
) -> Turned:
    if color not in COLORS:
        raise ValueError(color)
    last = radius if radius_end is None else radius_end
    first, second, low, high = map(float, (radius, last, dome, dome_end))
    return Turned(point_of(start), point_of(end), first, second, low, high, color)
