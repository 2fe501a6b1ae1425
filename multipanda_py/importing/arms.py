# SPDX-License-Identifier: Apache-2.0
"""Which arms a description has."""

from __future__ import annotations

from dataclasses import dataclass

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.robots.tree import MOVING, TURNING, Tree


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
