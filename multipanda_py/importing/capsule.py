# SPDX-License-Identifier: Apache-2.0
"""The least capsule around a cloud."""

from __future__ import annotations

from math import pi

import numpy as np

from multipanda_py.importing.cloud import Cloud
from multipanda_py.robots.rotations import rotation_of_axis
from multipanda_py.robots.shapes import Capsule
from multipanda_py.state import Matrix, Vector

RADII = np.array([1.0, 1.01, 1.02, 1.04, 1.06, 1.08, 1.1, 1.14, 1.2, 1.3, 1.5])
"""Tried of a capsule about a given line, as multiples of the least one."""
FIRST_STEP, LAST_STEP = 0.3, 0.003
"""Of the search for the line: angles [rad], and offsets as shares of the cloud's size."""
SHORTEST = 1e-3
"""Segment of a capsule, which has to have a direction [m]."""


def volume(capsule: Capsule) -> float:
    """Return the volume of a capsule [m^3]."""
    length = float(np.linalg.norm(np.subtract(capsule.end, capsule.start)))
    return pi * capsule.radius**2 * (length + 4.0 / 3.0 * capsule.radius)


def least_capsule(cloud: Cloud) -> Capsule:
    r"""Return a capsule of little volume that contains all of a cloud.

    About a line, with ball :math:`i` of radius :math:`s_i` at height :math:`t_i` and distance
    :math:`\rho_i`, a radius :math:`r \ge \max_i (\rho_i + s_i)` needs the segment

    .. math::
        \left[ \min_i \left( t_i + c_i \right),\ \max_i \left( t_i - c_i \right) \right],
        \qquad c_i = \sqrt{(r - s_i)^2 - \rho_i^2}

    The line is sought from the three principal axes of the points, by steps of its direction
    and place that are halved when none makes the volume less: a local least. The same cloud
    gives the same capsule.
    """
    low = (cloud.points - cloud.radii[:, None]).min(axis=0)
    high = (cloud.points + cloud.radii[:, None]).max(axis=0)
    middle, size = (low + high) / 2.0, float(np.linalg.norm(high - low))
    local = Cloud((cloud.points - middle) / size, cloud.radii / size)
    outer = local.outermost()
    centred = outer.points - outer.points.mean(axis=0)
    axes = np.linalg.eigh(centred.T @ centred)[1].T
    lines = [_search(outer, axis) for axis in axes]
    places, axes = (np.array(values) for values in zip(*lines))
    volumes, starts, ends, radii = _about(local, places, axes)
    i = int(np.argmin(volumes))
    lack = max(0.0, SHORTEST / size - float(ends[i] - starts[i])) / 2.0
    heights = (starts[i] - lack, ends[i] + lack)
    first, second = ((places[i] + height * axes[i]) * size + middle for height in heights)
    (x, y, z), (u, v, w) = first.tolist(), second.tolist()
    return Capsule((x, y, z), (u, v, w), float(radii[i] * size))


def _search(cloud: Cloud, axis: Vector) -> tuple[Vector, Vector]:
    """Improve the line along an axis until small steps do not help; return place and direction."""
    frame = rotation_of_axis(axis)
    across = cloud.points @ frame
    place = frame @ ((across.min(axis=0) + across.max(axis=0)) / 2.0)
    least, step = np.inf, FIRST_STEP
    while step > LAST_STEP:
        sides = np.concatenate((frame[:, :2].T, -frame[:, :2].T)) * step
        tilted = frame[:, 2] + sides
        tilted /= np.linalg.norm(tilted, axis=1)[:, None]
        axes = np.concatenate((frame[None, :, 2], np.tile(frame[:, 2], (4, 1)), tilted))
        places = np.concatenate((place[None], place + sides, np.tile(place, (4, 1))))
        volumes = _about(cloud, places, axes)[0]
        i = int(np.argmin(volumes))
        if i and volumes[i] < least:
            place, frame = places[i], rotation_of_axis(axes[i])
        else:
            step /= 2.0
        least = volumes[i]
    return place, frame[:, 2]


def _about(cloud: Cloud, places: Matrix, axes: Matrix) -> tuple[Vector, Vector, Vector, Vector]:
    """Return the least capsules about some lines: volumes, heights of both ends, radii."""
    from_places = cloud.points - places[:, None]
    heights = np.einsum("knj,kj->kn", from_places, axes)
    away = np.sqrt(np.maximum((from_places**2).sum(axis=2) - heights**2, 0.0))
    radii = (away + cloud.radii).max(axis=1)[:, None] * RADII
    room = (radii[:, :, None] - cloud.radii) ** 2 - away[:, None] ** 2
    reach = np.sqrt(np.maximum(room, 0.0))
    starts = (heights[:, None] + reach).min(axis=2)
    ends = (heights[:, None] - reach).max(axis=2)
    middles = (starts + ends) / 2.0  # where a ball is enough both pass each other
    starts, ends = np.minimum(starts, middles), np.maximum(ends, middles)
    volumes = pi * radii**2 * (ends - starts + 4.0 / 3.0 * radii)
    best = (np.arange(len(places)), volumes.argmin(axis=1))
    return volumes[best], starts[best], ends[best], radii[best]
