# SPDX-License-Identifier: Apache-2.0
"""The YAML beside a description, with what that lacks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.files.yaml_text import key_names, read_plain
from multipanda_py.robots.defaults import ROD
from multipanda_py.robots.look import COLORS
from multipanda_py.robots.shapes import Capsule, Turned, point_of

Vector = NDArray[np.float64]
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
