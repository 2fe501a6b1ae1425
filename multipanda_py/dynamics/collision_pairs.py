# SPDX-License-Identifier: Apache-2.0
"""Which solids are measured against which: groups of pairs that joints can part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations, product
from typing import Any

from multipanda_py.dynamics.collision_groups import NONE_HELD, Grasps, Group, Solid
from multipanda_py.robots import ArmDescription

SELF_JOINTS = 3
"""Links of one arm count as neighbours if fewer joints than this are between them. Two joints
apart, capsules of an arm are always close and, but for rounded corners, never touch."""


class CollisionPairs:
    """Put solids in pairs, and pairs in groups of two bodies.

    What a hand holds is a part of that hand: groups of its own (``held``) have it as a solid that
    moves with the arm's last joint, while the object's groups as a thing of the scene are out. Its
    groups with other movable things are made when it is held first: of all pairs of things there
    are too many.

    Args:
        described: Arms, own ones first.
        n_own: Number of own arms.
        arms: Capsules of every arm.
        movable: Objects, by number.
        fixed: Things that stay.
        floor: Solid below everything.
        touching: Pairs of names that are meant to touch.
        hands_meet: Flag that the hands of own arms may touch each other.
    """

    def __init__(
        self,
        described: Sequence[ArmDescription],
        n_own: int,
        arms: Sequence[Sequence[Solid]],
        movable: Sequence[Solid],
        fixed: Sequence[Solid],
        floor: Solid,
        *,
        touching: Iterable[tuple[str, str]],
        hands_meet: bool,
    ) -> None:
        self._everyone = tuple(described)
        self._arms, self._movable, self._fixed, self._floor = arms, movable, fixed, floor
        self._n_own, self._world = n_own, len(arms) + len(movable)
        self._joints = [arm.n_joints for arm in described]
        self._sections = [arm.robot.sections for arm in described]
        self._touching = {frozenset(pair) for pair in touching}
        self._hands_meet = hands_meet
        self._among: dict[tuple[tuple[int, int], ...], list[Group]] = {}

    def groups(self) -> Iterator[Group]:
        """Make the groups, but for :meth:`among_things`, of pairs that own joints can part."""
        n_own = self._n_own
        n, world = len(self._arms), self._world
        yield from self._held_groups()
        for a, b in combinations(range(n), 2):
            if a < n_own:
                mine, theirs = self._arms[a], self._arms[b]
                if self._everyone[a].shares_base(self._everyone[b]):  # each is kept from its own
                    mine, theirs = ([s for s in arm if s.own_joint] for arm in (mine, theirs))
                for here, there in product(self._sections[a], self._sections[b]):
                    yield from self._group("arms", a, b, _within(mine, here),
                                           _within(theirs, there), b < n_own)  # fmt: skip
        for a in range(n_own):
            mine = self._arms[a]
            pairs = [
                (x, y)
                for x, y in combinations(mine, 2)
                if abs(x.own_joint - y.own_joint) >= SELF_JOINTS
            ]
            if pairs:
                yield Group("self", a, a, pairs)
            hand = [solid for solid in mine if solid.is_hand]
            links = [solid for solid in mine if not solid.is_hand]
            things = [("floor", world, self._floor, NONE_HELD)]
            things += [("fixed", world, solid, NONE_HELD) for solid in self._fixed]
            things += [
                ("movable", n + index, solid, self._grasps_of(index))
                for index, solid in enumerate(self._movable)
            ]
            for kind, body, solid, free in things:
                touched = any(self._may_touch(part, solid) for part in hand)
                for name, parts in ((kind, links), (f"{kind}_hand", hand)):
                    yield from self._group(
                        name, a, body, parts, [solid], free=free, is_touched=touched
                    )

    def _may_touch(self, first: Solid, second: Solid) -> bool:
        """Return whether the cell file says that two solids are meant to touch."""
        return any(
            frozenset(names) in self._touching for names in product(first.names, second.names)
        )

    def _grasps_of(self, thing: int) -> Grasps:
        """Return every way in which an object can be held."""
        return frozenset((arm, thing) for arm in range(len(self._arms)))

    def _held_groups(self) -> Iterator[Group]:
        """Make the groups of what hands may hold, against everything that is not that hand."""
        n_own = self._n_own
        n = len(self._arms)
        for a, index in product(range(n), range(len(self._movable))):
            body, grasp = n + index, frozenset({(a, index)})
            thing = self._as_held(a, index)
            for b in range(n):
                last = self._joints[b]
                links = [s for s in self._arms[b] if a != b or last - s.own_joint >= SELF_JOINTS]
                kind, free = ("self", NONE_HELD) if a == b else ("arms", frozenset({(b, index)}))
                for section in self._sections[b] if min(a, b) < n_own else ():
                    yield from self._group(
                        kind, b, body, _within(links, section), [thing], max(a, b) < n_own,
                        movers=(b, a), held=grasp, free=free,
                    )  # fmt: skip
            for kind, solid in [("floor", self._floor), *(("fixed", s) for s in self._fixed)]:
                if a < n_own:
                    yield from self._group(
                        f"{kind}_hand", body, self._world, [thing], [solid],
                        movers=(a, self._world), held=grasp,
                    )  # fmt: skip

    def among_things(self, held: Grasps) -> list[Group]:
        """Return the groups of what hands hold against other movable things, held or not.

        The same ones whenever the same is held; made while the loop runs, and so not built.
        """
        found = []
        for arm, index in sorted(held):
            for other in range(len(self._movable)):
                holders = [b for b, thing in held if thing == other]
                if other != index and not holders and arm < self._n_own:
                    found += self._between((arm, index), (len(self._arms) + other, other))
                for b in holders if other != index else ():
                    if b < arm and b < self._n_own:
                        found += self._between((arm, index), (b, other))
        return found

    def _between(self, grasp: tuple[int, int], other: tuple[int, int]) -> list[Group]:
        """Return the group of what is held and another thing: its mover, and its number."""
        if (grasp, other) not in self._among:
            (arm, index), (mover, number), n = grasp, other, len(self._arms)
            kind, second, both_own = "movable_hand", self._movable[number], False
            if mover < n:
                kind, second, both_own = "arms", self._as_held(mover, number), arm < self._n_own
            groups = self._group(
                kind, n + index, n + number, [self._as_held(arm, index)], [second], both_own,
                movers=(arm, mover),
            )  # fmt: skip
            self._among[grasp, other] = list(groups)
        return self._among[grasp, other]

    def _as_held(self, arm: int, index: int) -> Solid:
        """Return an object as a part of an arm's hand."""
        thing, name = self._movable[index], self._arms[arm][0].names[0]
        names = (name, f"{name}/hand", *thing.names)
        return replace(thing, own_joint=self._joints[arm], stays=False, is_hand=True, names=names)

    def _group(
        self,
        kind: str,
        a: int,
        b: int,
        first: Sequence[Solid],
        second: Sequence[Solid],
        both_own: bool = False,
        **grasp: Any,
    ) -> Iterator[Group]:
        """Yield the group of all pairs that a joint can part, and that are not to touch.

        What only turns about its own axis counts as fixed.
        """
        hands_meet = self._hands_meet and both_own
        pairs = [
            (part, y)
            for x, y in product(first, second)
            if not (hands_meet and x.is_hand and y.is_hand) and not self._may_touch(x, y)
            for part in x.against(y)
            if not (x.stays and y.stays) or (kind.startswith("movable") and x.own_joint)
        ]
        if pairs:
            yield Group(kind, a, b, pairs, **grasp)


def _within(solids: Sequence[Solid], joints: Sequence[int]) -> list[Solid]:
    return [solid for solid in solids if solid.own_joint in joints]
