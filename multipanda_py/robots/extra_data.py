# SPDX-License-Identifier: Apache-2.0
"""YAML file with data that the URDF or MJCF of an arm lacks, and defaults for these data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.files import key_names, read_plain
from multipanda_py.robots.geometry import COLORS, Capsule, SolidOfRevolution, point_of
from multipanda_py.robots.tree import Chain, jacobian, link_poses
from multipanda_py.state import ArmLimits

Vector = NDArray[np.float64]

FULL_SPEED_TIME = 0.25
"""Default time to reach the maximum speed of a joint at its acceleration limit [s]."""
JERK_PER_ACCELERATION = 500.0
"""Jerk limit over acceleration limit, as for Franka arms [1/s]."""
MIN_TORQUE_RATE_LIMIT, TORQUE_RATE_RATIO = 1000.0, 12.0
"""Minimum torque-rate limit, as for Franka arms [Nm/s], and ratio of torque-rate limit to torque
limit, as for their large joints [1/s]."""
ROTOR_INERTIA_RATIO = 2.5e-3
"""Default ratio of apparent rotor inertia to torque limit [kg m^2/Nm]. A Franka arm under torque
control has 2.8e-3 in its large joints and 5e-3 in its wrist."""
NULLSPACE_TORQUE_RATIO = 5.0 / 87.0
"""Ratio of the maximum torque of a nullspace spring to the torque limit: 5 to 87 Nm, as for an
FR3."""
MAX_NULLSPACE_TORQUE_RATIO = 5.0 / 12.0
"""Upper bound of the torque of a nullspace spring, relative to the torque limit of its joint: 5 to
12 Nm, as for the wrist of an FR3."""
ARM_JOINT_TORQUE_RATIO = 1.0 / 3.0
"""Minimum torque limit of an arm joint, relative to the largest one of the arm. Joints with less
count as wrist joints."""
ROD_RADIUS = 0.04
"""Radius of the rods that represent links without geometry [m]."""
CONFIGURATION_COUNT, INNER_RANGE_FRACTION = 60, 0.5
"""Number of configurations to try as the ready configuration, and the fraction of the joint ranges
that they cover."""


def default_limits(velocity: Vector, torque: Vector) -> dict[str, Vector]:
    r"""Return default limits of acceleration, jerk and torque rate, and the armature B, (n,) each.

    .. math::
        \ddot q = \dot q_{max} / 0.25 s, \quad \dddot q = 500 s^{-1} \ddot q, \\
        \dot\tau = \max(1000 Nm/s, 12 s^{-1} \tau_{max}), \\
        B = 2.5 \cdot 10^{-3} s^2 \tau_{max}.

    Args:
        velocity: Velocity limits :math:`\dot q_{max}`, (n,) [rad/s, m/s].
        torque: Torque limits :math:`\tau_{max}`, (n,) [Nm, N].
    """
    acceleration = velocity / FULL_SPEED_TIME
    return {
        "acceleration": acceleration,
        "jerk": JERK_PER_ACCELERATION * acceleration,
        "torque_rate": np.maximum(MIN_TORQUE_RATE_LIMIT, TORQUE_RATE_RATIO * torque),
        "armature": ROTOR_INERTIA_RATIO * torque,
    }


def default_figures(limits: ArmLimits, mobility: Vector) -> dict[str, tuple[float, ...]]:
    r"""Return default values per joint for the parameters of ``franka.FIGURES``, by name.

    A joint has the torque limit :math:`\tau` and the torque-rate limit :math:`\dot\tau`. Its
    inertia with the other joints free is :math:`m = 1 / (M^{-1})_{ii}`. A wrist joint has less
    than a third of the largest torque limit of the arm. Values for revolute joints:

    - stiffness: :math:`\min(7 \tau, 900 m, 0.6 s\, \dot\tau)`. most_stiffness: 1.5 times that.
    - contact_torque: :math:`\tau / 6`, at least 10 Nm, at most :math:`\tau`.
    - barrier_torque: :math:`0.4 \tau`.
    - leader_damping: 2 Nm s/rad, 0.5 for a wrist joint, at most :math:`10 m`.
    - most_leader_damping: :math:`40 m`, or leader_damping if it is higher.
    - tare_torque: 4 Nm, 1.5 for a wrist joint, at most :math:`0.15 \tau`.
    - unmeasured_torque: 8 Nm, 4 for a wrist joint, at most :math:`0.3 \tau`.
    - lacking_torque: :math:`\max(0.0575 \tau, 5 Nm)`, at most :math:`0.42 \tau` and 50 Nm.
    - posture_stiffness: :math:`0.115 \tau / rad`, from 10 to 100 Nm/rad.
    - lag, slow, growth and settling: values of Franka arms. friction_phi_1, 2, 3: no friction.

    Values for prismatic joints are those of a revolute joint at a distance of 0.2 to 0.4 m.

    Args:
        limits: Joint limits.
        mobility: Diagonal :math:`(M^{-1})_{ii}` of the inverse mass matrix in the ready
            configuration, (n,) [1/(kg m^2), 1/kg].
    """
    mass, torque, slides, n = 1.0 / mobility, limits.torque, limits.slides, limits.n_joints
    strong = slides | (torque >= ARM_JOINT_TORQUE_RATIO * np.where(slides, 0.0, torque).max())

    def each(arm: float, wrist: float, slide: float) -> Vector:
        return np.where(slides, slide, np.where(strong, arm, wrist))

    within = np.minimum(each(7.0, 7.0, 20.0) * torque, 0.6 * limits.torque_rate)
    stiffness = np.minimum(within, 900.0 * mass)
    damping = np.minimum(each(2.0, 0.5, 20.0), 10.0 * mass)
    max_nullspace_torque = np.minimum(MAX_NULLSPACE_TORQUE_RATIO * torque, 50.0)
    figures = {
        "stiffness": stiffness,
        "most_stiffness": 1.5 * stiffness,
        "lacking_torque": np.minimum(
            np.maximum(NULLSPACE_TORQUE_RATIO * torque, 5.0), max_nullspace_torque
        ),
        "posture_stiffness": np.clip(2.0 * NULLSPACE_TORQUE_RATIO * torque, 10.0, 100.0),
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
    """Return a ready configuration, (n,) [rad, m], far from singularities and above the floor.

    Args:
        chain: Chain of the arm.
        tip_in_last: Position of the tip in the last link, (3,) [m].
        lower: Lower joint limits, (n,) [rad, m].
        upper: Upper joint limits, (n,) [rad, m].
    """
    low, high = np.maximum(lower, -np.pi), np.minimum(upper, np.pi)
    low, high = np.where(low < high, low, lower), np.where(low < high, high, upper)
    middle, half = 0.5 * (low + high), 0.5 * INNER_RANGE_FRACTION * (high - low)
    rng = np.random.default_rng(0)
    best, result = -np.inf, middle
    for q in np.vstack(
        [middle, rng.uniform(middle - half, middle + half, (CONFIGURATION_COUNT, len(low)))]
    ):
        poses = link_poses(chain, q)
        points = np.array([pose[:3, 3] for pose in poses])
        tip = poses[-1][:3, :3] @ tip_in_last + poses[-1][:3, 3]
        reach = np.linalg.norm(np.diff(np.vstack([points, tip]), axis=0), axis=1).sum()
        columns = jacobian(chain, poses, tip, len(q))
        # The reach is 0 if an arm of one joint has its tip on the axis.
        columns[:3] /= 0.5 * reach or 1.0
        size = np.linalg.svd(columns, compute_uv=False)[-1]
        height = min(float(points[:, 2].min()), float(tip[2]))
        score = float(size) + min(0.0, height)
        if score > best:
            best, result = score, q
    return result


def default_sections(n_joints: int) -> tuple[tuple[int, ...], ...]:
    """Divide the links of an arm, 0 to ``n_joints``, into three sections of about equal size.

    Returns:
        Link indices of each section.
    """
    parts = np.array_split(np.arange(n_joints + 1), min(3, n_joints + 1))
    return tuple(tuple(part.tolist()) for part in parts)


def default_capsules(chain: Chain, tip_in_last: Vector) -> dict[str, tuple[Capsule, ...]]:
    """Return a rod along every link, from its joint to the next joint or the tip, by link name.

    Args:
        chain: Chain of the arm.
        tip_in_last: Position of the tip in the last link, (3,) [m].
    """
    ends = [*(origin[:3, 3] for origin in chain.origins), tip_in_last]
    default_capsules: dict[str, tuple[Capsule, ...]] = {}
    for link, end in zip(chain.links, ends):
        x, y, z = end.tolist()
        if np.linalg.norm(end) > ROD_RADIUS:
            default_capsules[link] = (Capsule((0.0, 0.0, 0.0), (x, y, z), ROD_RADIUS),)
    return default_capsules


Shape = TypeVar("Shape", Capsule, SolidOfRevolution)

SOURCES = ("urdf", "mjcf")
PER_JOINT = (
    "lower", "upper", "velocity", "torque", "acceleration", "jerk", "torque_rate", "armature",
    "ready",
)  # fmt: skip
EXTRA_KEYS = (
    *SOURCES, "base", "tip", *PER_JOINT, "sections", "overlapping", "capsules", "visuals",
    "figures", "compensates_gravity",
)  # fmt: skip
FORMER_KEYS = {"look": "visuals"}
"""New names of renamed keys, by former name."""

MAX_LISTED_KEYS = 20
"""Maximum number of unknown keys in an error."""


def read_extra(path: Path, keys: Sequence[str] = EXTRA_KEYS) -> dict[str, Any]:
    """Read a YAML file that may have the given keys only.

    Raises:
        ConfigurationError: The file is not a map, or has an unknown key.
    """
    data = read_plain(path)
    if not isinstance(data, dict):
        raise ConfigurationError(f"{path}: not a map of keys to values")
    if unknown := key_names(key for key in data if key not in keys):
        raise ConfigurationError(
            *(
                f"{path}: {key}: renamed to {FORMER_KEYS[key]}"
                if key in FORMER_KEYS
                else f"{path}: {key}: unknown key; known: {', '.join(keys)}"
                for key in unknown[:MAX_LISTED_KEYS]
            )
        )
    return data


class Overrides:
    """Data about an arm from a YAML file, with defaults for missing keys."""

    def __init__(self, path: Path, data: Mapping[str, Any], joints: Sequence[str]) -> None:
        self.path, self._data, self._joints = path, data, tuple(joints)

    def per_joint(self, key: str, otherwise: Sequence[float | None]) -> Vector:
        """Return one number per joint, (n,), from one number, a list or a map of joint names.

        ``otherwise`` are the defaults; None for a joint whose value is required.

        Raises:
            ConfigurationError: The value has another form, or a joint has no value.
        """
        n, text = len(self._joints), self._data.get(key)
        values: list[Any] = list(otherwise)
        if isinstance(text, Mapping):
            for name, value in text.items():
                if name not in self._joints:
                    raise self._refusal(key, f"joint {name!r}", f"{', '.join(self._joints)}")
                values[self._joints.index(name)] = value
        elif isinstance(text, list):
            if len(text) != n:
                raise self._refusal(key, f"{len(text)} numbers", f"{n}, one per joint")
            values = text
        elif text is not None:
            values = [text] * n
        for name, value, own in zip(self._joints, values, otherwise):
            if value is None:
                raise ConfigurationError(
                    f"{self.path}: {key}: missing for joint {name}, as in its model. Add it"
                )
            if value is not own and not _is_number(value):
                raise self._refusal(f"{key}: joint {name}", repr(value), "a number")
        return np.array(values, dtype=np.float64)

    def has_all_joints(self, key: str) -> bool:
        value = self._data.get(key)
        return value is not None and not isinstance(value, Mapping)

    def flag(self, key: str, otherwise: bool) -> bool:
        """Return the Boolean value of a key, or a default."""
        value = self._data.get(key, otherwise)
        if not isinstance(value, bool):
            raise self._refusal(key, f"{value!r:.60}", "true or false")
        return value

    def numbers(self, key: str, otherwise: Sequence[float]) -> Vector:
        """Return the numbers in the list of a key, or the default ``otherwise``.

        Raises:
            ConfigurationError: The value is not a list of numbers with the length of the default.
        """
        value, n = self._data.get(key, list(otherwise)), len(otherwise)
        if not (isinstance(value, list) and len(value) == n and all(map(_is_number, value))):
            raise self._refusal(key, f"{value!r:.60}", f"a list of {n} numbers")
        return np.array(value, dtype=np.float64)

    def length(self, key: str) -> float:
        """Return the value of a key that is a length [m]; 0 if the file lacks the key."""
        value = self._data.get(key, 0.0)
        if not (_is_number(value) and value >= 0.0):
            raise self._refusal(key, f"{value!r:.60}", "0 m or more")
        return float(value)

    def figures(self, otherwise: Mapping[str, Sequence[float]]) -> dict[str, tuple[float, ...]]:
        """Return defaults and bounds of controllet parameters from the key ``figures``, (n,) each.

        ``otherwise`` has all allowed names, with the values for names that the file lacks.

        Raises:
            ConfigurationError: A name is unknown, or a value is invalid.
        """
        value = self._map("figures")
        if unknown := [key for key in value if key not in otherwise]:
            raise self._refusal("figures", repr(unknown[0]), ", ".join(otherwise))
        inner = Overrides(self.path, value, self._joints)
        figures = {name: inner.per_joint(name, list(values)) for name, values in otherwise.items()}
        for name, values in figures.items():
            min_value = int(values.argmin())
            if values[min_value] < 0.0 and not name.startswith("friction"):
                got = f"{values[min_value]:g} for joint {self._joints[min_value]}"
                raise self._refusal(f"figures: {name}", got, "0 or more")
        return {name: tuple(values.tolist()) for name, values in figures.items()}

    def warnings(self) -> Iterator[str]:
        """Yield a warning if the YAML file has no capsules, because links then become rods."""
        if "capsules" not in self._data:
            yield (
                f"{self.path}: capsules: missing, so that collision avoidance treats links "
                f"as rods of {ROD_RADIUS:g} m radius. `multipanda robot import` fits capsules to "
                f"the "
                "geometry."
            )

    def capsules(self, links: Sequence[str]) -> dict[str, tuple[Capsule, ...]] | None:
        """Return the capsules by link name; None if the YAML file has no capsules.

        Raises:
            ConfigurationError: A link does not exist, or a capsule has a wrong format.
        """
        if "capsules" not in self._data:
            return None
        allowed = "a list of [start, end, radius]: two points, and a radius above 0 m"
        return self._by_link("capsules", links, _capsule, allowed)

    def visuals(self, links: Sequence[str]) -> dict[str, tuple[SolidOfRevolution, ...]]:
        """Return the visual shapes by link.

        Raises:
            ConfigurationError: A link does not exist, or a shape has a wrong format.
        """
        allowed = f"a list of [colour, start, end, radius]; colours: {', '.join(COLORS)}"
        return self._by_link("visuals", links, _turned, allowed)

    def _by_link(
        self, key: str, links: Sequence[str], shape: Callable[..., Shape], allowed: str
    ) -> dict[str, tuple[Shape, ...]]:
        result = {}
        for link, shapes in self._map(key).items():
            if link not in links:
                raise self._refusal(key, f"link {link!r}", ", ".join(links))
            try:
                result[link] = tuple(shape(*numbers) for numbers in shapes)
            except (TypeError, ValueError):
                raise self._refusal(f"{key}: {link}", f"{shapes!r:.60}", allowed) from None
        return result

    def sections(self) -> tuple[tuple[int, ...], ...] | None:
        """Return the link indices of each arm section, such as the forearm; None if not given."""
        sections = self._groups("sections")
        numbers = list(range(len(self._joints) + 1))
        if (
            sections is not None
            and sorted(number for part in sections for number in part) != numbers
        ):
            got = repr(self._data["sections"])
            raise self._refusal("sections", got, f"lists with each link 0 to {numbers[-1]} once")
        return sections

    def overlapping(self) -> tuple[tuple[int, int], ...] | None:
        """Return index pairs of links whose capsules may touch; None if not given."""
        result = self._groups("overlapping")
        if result is None:
            return None
        if wrong := next((part for part in result if len(part) != 2), None):
            raise self._refusal("overlapping", f"{list(wrong)}", "pairs of links")
        return tuple((first, second) for first, second in result)

    def _groups(self, key: str) -> tuple[tuple[int, ...], ...] | None:
        if key not in self._data:
            return None
        value, n = self._data[key], len(self._joints)
        if not isinstance(value, list) or not all(isinstance(part, list) for part in value):
            raise self._refusal(key, f"{value!r:.60}", "a list of lists of link numbers")
        for number in (number for part in value for number in part):
            if type(number) is not int or not 0 <= number <= n:
                raise self._refusal(key, repr(number), f"link numbers, 0 to {n}")
        return tuple(tuple(part) for part in value)

    def _map(self, key: str) -> Mapping[str, Any]:
        value = self._data.get(key, {})
        if not isinstance(value, Mapping):
            raise self._refusal(key, f"{value!r:.60}", "a map of names to values")
        return value

    def _refusal(self, path: str, got: str, allowed: str) -> ConfigurationError:
        return ConfigurationError(f"{self.path}: {path}: got {got}, allowed {allowed}")


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
) -> SolidOfRevolution:
    if color not in COLORS:
        raise ValueError(color)
    last = radius if radius_end is None else radius_end
    first, second, low, high = map(float, (radius, last, dome, dome_end))
    return SolidOfRevolution(point_of(start), point_of(end), first, second, low, high, color)
