# SPDX-License-Identifier: Apache-2.0
"""What random postures of an arm tell: which capsules overlap, and where it may begin."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import coal
import numpy as np
import pinocchio as pin

from multipanda_py.robots import ArmDescription
from multipanda_py.robots.dynamics.arm_model import build_pinocchio
from multipanda_py.robots.geometry import rotation_of_axis
from multipanda_py.robots.robot import Robot
from multipanda_py.state import Vector

POSTURES, TESTS = 3000, 300_000
"""Random postures, and pairs of capsules in all of them: fewer postures for arms with more."""
OFTEN = 0.1
"""Share of postures in which capsules touch that are too wide for their links."""
GRID = np.pi / 4.0
"""Ready postures have angles that are multiples of this [rad]."""
TRIED, ZEROS = 3000, 0.4
"""Ready postures, and the share of zeros in them beside those by chance."""
MARGIN = 0.3
"""Of ready postures from the limits [rad]."""
CLEAR = 0.05
"""Height of links that move above the floor in them [m]."""
DEXTEROUS = 0.7
"""Share of the best dexterity that a ready posture has."""
ODD = 0.25
"""What a joint that is not at zero costs; a tool that points down is worth 1, and so is one in
front at the length of the arm."""


class RandomPostures:
    """Capsules of an arm in random postures."""

    def __init__(self, robot: Robot) -> None:
        """Build the kinematics of all links with their capsules."""
        self._robot = robot
        arm = ArmDescription("arm", robot)
        self._model = build_pinocchio(arm)
        self._data = self._model.createData()
        self._tip = self._model.getFrameId(arm.ee_frame)
        steps = [joint.origin.position for joint in robot.joints]
        self._size = float(np.linalg.norm(steps, axis=1).sum()) or 1.0
        self._geometry = pin.GeometryModel()
        self._links: list[int] = []
        for index, link in enumerate(robot.links):
            frame = self._model.frames[self._model.getFrameId(arm.prefix + link.name)]
            for capsule in link.capsules:
                start, end = np.array(capsule.start), np.array(capsule.end)
                place = pin.SE3(rotation_of_axis(end - start), (start + end) / 2.0)
                shape = coal.Capsule(capsule.radius, float(np.linalg.norm(end - start)))
                name = f"{link.name}_{len(self._links)}"
                parent = int(frame.parentJoint)
                self._geometry.addGeometryObject(
                    pin.GeometryObject(name, parent, frame.placement * place, shape)
                )
                self._links.append(index)
        for i, j in combinations(range(len(self._links)), 2):
            if self._links[j] - self._links[i] > 1:
                self._geometry.addCollisionPair(pin.CollisionPair(i, j))
        self._pairs = [
            (self._links[pair.first], self._links[pair.second])
            for pair in self._geometry.collisionPairs
        ]
        self._found = self._geometry.createData()

    def touching(self, q: Vector) -> set[tuple[int, int]]:
        """Return the pairs of links, but those that follow each other, that touch at q, (n,)."""
        self._place(q)
        return {pair for pair, touches in zip(self._pairs, self._hits()) if touches}

    def overlapping(self) -> tuple[tuple[int, int], ...]:
        """Return pairs of links whose capsules touch in more than a tenth of the postures.

        Real links cannot be that often where others are; links that follow each other are left
        out. The same robot gives the same pairs.
        """
        count = min(POSTURES, TESTS // max(len(self._pairs), 1))
        times = dict.fromkeys(self._pairs, 0)
        random = np.random.default_rng(0)
        for q in random.uniform(*self._robot.limits.span, (count, self._robot.n_joints)):
            for pair in self.touching(q):
                times[pair] += 1
        return tuple(sorted(pair for pair, hits in times.items() if hits > OFTEN * count))

    def ready(self, overlapping: Sequence[tuple[int, int]]) -> Vector | None:
        """Return a plain posture from which the tool can move in all directions, (n,) [rad].

        Of random postures on a grid of 45 degrees, clear of themselves and of the floor, whose
        Jacobian (lengths in units of the arm's own) has a smallest singular value of at least
        0.7 of the greatest among them, it is that with the tool down, far in front, and most
        joints at zero; None if no posture is clear. Joint 1, which only turns the rest about the
        base, is at zero.
        """
        low, high = self._robot.limits.span
        grids = [
            [angle for angle in GRID * np.arange(-4.0, 4.0) if a + MARGIN <= angle <= b - MARGIN]
            or [(a + b) / 2.0]
            for a, b in zip(low, high)
        ]
        grids[0] = [min(grids[0], key=abs)]
        random = np.random.default_rng(0)
        postures = np.column_stack([random.choice(grid, TRIED) for grid in grids])
        zero = [0.0 in grid for grid in grids] & (random.random(postures.shape) < ZEROS)
        postures[zero] = 0.0
        postures = np.unique(postures, axis=0)
        seen = [self._dexterity(q) for q in postures]
        values = np.array([dexterity for dexterity, _ in seen])
        known = set(overlapping)
        order = np.argsort(values)[::-1]
        best = next((i for i in order if self._is_clear(postures[i], known)), None)
        if best is None:
            return None
        good = np.flatnonzero(values >= DEXTEROUS * values[best])
        plain = [seen[i][1] - ODD * np.count_nonzero(postures[i]) for i in good]
        clear = (i for i in good[np.argsort(plain)[::-1]] if self._is_clear(postures[i], known))
        return np.array(postures[next(clear)])

    def _is_clear(self, q: Vector, known: set[tuple[int, int]]) -> bool:
        """Return whether links touch neither each other nor the floor."""
        return self.touching(q) <= known and self._lowest() > CLEAR

    def _place(self, q: Vector) -> None:
        pin.computeCollisions(self._model, self._data, self._geometry, self._found, q, False)

    def _hits(self) -> list[bool]:
        return [result.isCollision() for result in self._found.collisionResults]

    def _lowest(self) -> float:
        """Return the height of the lowest point of the links that move [m]."""
        heights = [np.inf]
        for index, place, thing in zip(
            self._links, self._found.oMg, self._geometry.geometryObjects
        ):
            if index > 1:  # what the first joint turns stands on the base
                drop = abs(place.rotation[2, 2]) * thing.geometry.halfLength
                heights.append(float(place.translation[2]) - drop - thing.geometry.radius)
        return min(heights)

    def _dexterity(self, q: Vector) -> tuple[float, float]:
        """Return the Jacobian's smallest singular value, and how far the tool is down and out."""
        axes = pin.ReferenceFrame.LOCAL_WORLD_ALIGNED
        jacobian = pin.computeFrameJacobian(self._model, self._data, q, self._tip, axes)
        jacobian = jacobian.reshape(6, -1)  # that of one joint comes as a vector
        jacobian[:3] /= self._size
        pin.updateFramePlacement(self._model, self._data, self._tip)
        pose = self._data.oMf[self._tip]
        place = float(pose.translation[0] / self._size - pose.rotation[2, 2])
        return float(np.linalg.svd(jacobian, compute_uv=False)[-1]), place
