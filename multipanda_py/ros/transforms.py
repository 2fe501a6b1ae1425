# SPDX-License-Identifier: Apache-2.0
"""The links and things of a cell as ``/tf`` and ``/tf_static``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import compress

import numpy as np
from geometry_msgs.msg import Transform, TransformStamped
from numpy.typing import NDArray
from rclpy.node import Node
from std_msgs.msg import Header
from tf2_msgs.msg import TFMessage

from multipanda_py.cell import Cell
from multipanda_py.config.describe import describe_objects, movable_things
from multipanda_py.pose import quaternion_from_rotation
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.frames import MovingLinks, fixed_links
from multipanda_py.ros.entities import WORLD
from multipanda_py.ros.fresh_states import Fresh, Pace, Stamp
from multipanda_py.ros.qos import KEPT, TRANSFORMS


class _Moving:
    """Transforms that are sent over and over, with the arrays that they are filled from."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self.transforms = [_stamped(parent, child) for parent, child in pairs]
        self._stamps = [item.header.stamp for item in self.transforms]
        self._parts = [(t.transform.translation, t.transform.rotation) for t in self.transforms]

    def fill(
        self, stamp: Stamp, positions: NDArray[np.float64], xyzw: NDArray[np.float64]
    ) -> list[TransformStamped]:
        for own in self._stamps:
            own.sec, own.nanosec = stamp
        for (place, turn), p, quaternion in zip(self._parts, positions.tolist(), xyzw.tolist()):
            place.x, place.y, place.z = p
            turn.x, turn.y, turn.z, turn.w = quaternion
        return self.transforms


class Transforms:
    """Send where every link is in the one before it, and what is in the scene in the world.

    From the base of an arm to its ``ee_frame`` they multiply to the ``<arm>/current_pose`` of the
    same stamp, which is sent beside them. What never moves is sent once, for whoever comes later
    too.

    Args:
        node: Publishes.
        cell: Whose arms and things.

    Thread: executor.
    """

    def __init__(self, node: Node, cell: Cell) -> None:
        self._pace = Pace(cell.config.cell.tf_rate)
        arms = list(cell.descriptions.values())
        self._links = [MovingLinks(arm) for arm in arms]
        self._arms = [_Moving((a.parent, a.child) for a in links.links) for links in self._links]
        movable = movable_things(cell.config)
        self._things = _Moving((WORLD, name) for name in movable)
        self._fixed = node.create_publisher(TFMessage, "/tf_static", KEPT)
        self._fixed.publish(TFMessage(transforms=list(_fixed(cell, arms, movable))))
        self._moving = node.create_publisher(TFMessage, "/tf", TRANSFORMS)

    def send(self, fresh: Fresh) -> None:
        """Send what is new, if somebody listens and it is time."""
        if self._pace.is_due(fresh.row) and self._moving.get_subscription_count():
            self._moving.publish(TFMessage(transforms=self._found(fresh)))

    def _found(self, fresh: Fresh) -> list[TransformStamped]:
        records = fresh.row["arms"]
        found: list[TransformStamped] = []
        for index, stamp in zip(fresh.arms, fresh.stamps):
            links, record = self._links[index], records[index]
            found += self._arms[index].fill(stamp, *links.at(record["q"], record["fingers"]))
        objects = fresh.row["objects"]
        things = self._things.fill(fresh.stamp, objects[:, :3], objects[:, [4, 5, 6, 3]])
        found += compress(things, fresh.row["present"].tolist())
        return found


def _fixed(
    cell: Cell, arms: Iterable[ArmDescription], movable: Iterable[str]
) -> Iterator[TransformStamped]:
    """Yield what never moves: mounts of arms, hands and tools, and things without mass."""
    for arm in arms:
        for link in fixed_links(arm):
            place = _transform(link.origin.position, link.origin.rotation)
            yield _stamped(link.parent, link.child, place)
    for thing in describe_objects(cell.config):
        if thing.name not in movable:
            yield _stamped(WORLD, thing.name, _transform(thing.position, thing.rotation))


def _transform(position: Iterable[float], rotation: NDArray[np.float64]) -> Transform:
    result = Transform()
    place, turn = result.translation, result.rotation
    place.x, place.y, place.z = map(float, position)
    turn.x, turn.y, turn.z, turn.w = quaternion_from_rotation(rotation)
    return result


def _stamped(parent: str, child: str, place: Transform | None = None) -> TransformStamped:
    header = Header(frame_id=parent)
    return TransformStamped(header=header, child_frame_id=child, transform=place or Transform())
