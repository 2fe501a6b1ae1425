# SPDX-License-Identifier: Apache-2.0
"""Overlapping capsules and the ready configuration of an arm, from random configurations."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import coal
import numpy as np
import pinocchio as pin

from multipanda_py.robots import ArmDescription
from multipanda_py.robots.dynamics.arm_dynamics import build_pinocchio
from multipanda_py.robots.geometry import rotation_of_axis
from multipanda_py.robots.robot import Robot
from multipanda_py.state import Vector

CONFIGURATION_COUNT, MAX_PAIR_TESTS = 3000, 300_000
"""Number of random configurations, and maximum number of capsule pairs to test in all of them."""
OVERLAP_FRACTION = 0.1
"""Fraction of random configurations. If the capsules of two links touch in more of them, these
capsules count as wider than the links, and may touch."""
ANGLE_GRID = np.pi / 4.0
"""Grid of the joint angles of ready configurations [rad]."""
CANDIDATE_COUNT, ZERO_PROBABILITY = 3000, 0.4
"""Number of ready configurations to try, and the probability of setting an angle to zero."""
LIMIT_MARGIN = 0.3
"""Minimum distance of ready configurations from the joint limits [rad]."""
MIN_HEIGHT = 0.05
"""Minimum height of moving links above the floor in ready configurations [m]."""
MIN_RELATIVE_DEXTERITY = 0.7
"""Minimum of the Jacobian's smallest singular value in a ready configuration, as a fraction of its
value in the best one."""
NONZERO_JOINT_COST = 0.25
"""Cost of each joint that is not at zero in the score of ready configurations. A tool that points
down adds 1 to the score, and so does a tool in front at a distance of the arm's length."""


class RandomPostures:
    """Contacts of an arm's capsules, and its ready configuration, from random configurations."""

    def __init__(self, robot: Robot) -> None:
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
                placement = pin.SE3(rotation_of_axis(end - start), (start + end) / 2.0)
                shape = coal.Capsule(capsule.radius, float(np.linalg.norm(end - start)))
                name = f"{link.name}_{len(self._links)}"
                parent = int(frame.parentJoint)
                self._geometry.addGeometryObject(
                    pin.GeometryObject(name, parent, frame.placement * placement, shape)
                )
                self._links.append(index)
        for i, j in combinations(range(len(self._links)), 2):
            if self._links[j] - self._links[i] > 1:
                self._geometry.addCollisionPair(pin.CollisionPair(i, j))
        self._pairs = [
            (self._links[pair.first], self._links[pair.second])
            for pair in self._geometry.collisionPairs
        ]
        self._estimate = self._geometry.createData()

    def touching(self, q: Vector) -> set[tuple[int, int]]:
        """Return the pairs of non-adjacent links whose capsules touch at q, (n,) [rad]."""
        self._update_placements(q)
        return {pair for pair, touches in zip(self._pairs, self._hits()) if touches}

    def overlapping(self) -> tuple[tuple[int, int], ...]:
        """Return the pairs of links whose capsules touch in over 10 % of random configurations.

        These capsules are wider than their links. Adjacent links are left out.
        """
        count = min(CONFIGURATION_COUNT, MAX_PAIR_TESTS // max(len(self._pairs), 1))
        times = dict.fromkeys(self._pairs, 0)
        random = np.random.default_rng(0)
        for q in random.uniform(*self._robot.limits.span, (count, self._robot.n_joints)):
            for pair in self.touching(q):
                times[pair] += 1
        return tuple(
            sorted(pair for pair, hits in times.items() if hits > OVERLAP_FRACTION * count)
        )

    def ready(self, overlapping: Sequence[tuple[int, int]]) -> Vector | None:
        """Return a ready configuration, (n,) [rad]; None if every configuration is in collision.

        It is far from singularities, and the tool points down in front of the base. Pairs of links
        in ``overlapping`` may touch.
        """
        low, high = self._robot.limits.span
        grids = [
            [
                angle
                for angle in ANGLE_GRID * np.arange(-4.0, 4.0)
                if a + LIMIT_MARGIN <= angle <= b - LIMIT_MARGIN
            ]
            or [(a + b) / 2.0]
            for a, b in zip(low, high)
        ]
        grids[0] = [min(grids[0], key=abs)]
        random = np.random.default_rng(0)
        postures = np.column_stack([random.choice(grid, CANDIDATE_COUNT) for grid in grids])
        zero = [0.0 in grid for grid in grids] & (random.random(postures.shape) < ZERO_PROBABILITY)
        postures[zero] = 0.0
        postures = np.unique(postures, axis=0)
        scored = [self._dexterity_and_preference(q) for q in postures]
        values = np.array([dexterity for dexterity, _ in scored])
        known = set(overlapping)
        order = np.argsort(values)[::-1]
        best = next((i for i in order if self._is_collision_free(postures[i], known)), None)
        if best is None:
            return None
        good = np.flatnonzero(values >= MIN_RELATIVE_DEXTERITY * values[best])
        plain = [scored[i][1] - NONZERO_JOINT_COST * np.count_nonzero(postures[i]) for i in good]
        clear = (
            i for i in good[np.argsort(plain)[::-1]] if self._is_collision_free(postures[i], known)
        )
        return np.array(postures[next(clear)])

    def _is_collision_free(self, q: Vector, allowed_pairs: set[tuple[int, int]]) -> bool:
        return self.touching(q) <= allowed_pairs and self._lowest_height() > MIN_HEIGHT

    def _update_placements(self, q: Vector) -> None:
        pin.computeCollisions(self._model, self._data, self._geometry, self._estimate, q, False)

    def _hits(self) -> list[bool]:
        return [result.isCollision() for result in self._estimate.collisionResults]

    def _lowest_height(self) -> float:
        heights = [np.inf]
        for index, pose, obj in zip(
            self._links, self._estimate.oMg, self._geometry.geometryObjects
        ):
            # The link after the first joint stands on the base, so its height does not count.
            if index > 1:
                drop = abs(pose.rotation[2, 2]) * obj.geometry.halfLength
                heights.append(float(pose.translation[2]) - drop - obj.geometry.radius)
        return min(heights)

    def _dexterity_and_preference(self, q: Vector) -> tuple[float, float]:
        axes = pin.ReferenceFrame.LOCAL_WORLD_ALIGNED
        jacobian = pin.computeFrameJacobian(self._model, self._data, q, self._tip, axes)
        jacobian = jacobian.reshape(6, -1)  # pinocchio returns a vector for one joint.
        jacobian[:3] /= self._size
        pin.updateFramePlacement(self._model, self._data, self._tip)
        pose = self._data.oMf[self._tip]
        # High if the tool points down and is far in front of the base.
        preference = float(pose.translation[0] / self._size - pose.rotation[2, 2])
        return float(np.linalg.svd(jacobian, compute_uv=False)[-1]), preference
