# SPDX-License-Identifier: Apache-2.0
"""What of tools stays on the way: how they are turned, or what points up in them."""

from __future__ import annotations

import math

import numpy as np
import pinocchio as pin

from multipanda_py.exceptions import PlanRejected
from multipanda_py.moves.known_places import frames_at
from multipanda_py.moves.move_request import MoveRequest
from multipanda_py.optimiser import Axis, Orientation, Problem
from multipanda_py.optimiser.scene import Scene
from multipanda_py.pose import Pose
from multipanda_py.state import Matrix, Vector

LEAN = 0.02
"""What a place may be off by from how the tool is turned when it begins, as an arm that gives way
is not quite where it was sent [rad]; on the way there it is turned as it is to be there."""
UP = np.array([0.0, 0.0, 1.0])


def add_keeping(problem: Problem, scene: Scene, request: MoveRequest) -> None:
    """Ask that tools of arms that are sent somewhere stay as they are turned.

    Args:
        problem: With a phase for every place.
        scene: Arms as they begin.
        request: Of the motion.

    Raises:
        PlanRejected: If a place has a tool turned otherwise.
    """
    if not request.keep:
        return
    led = dict.fromkeys(arm for places in request.stops for arm in places)
    for arm in led:
        begin = turned = _turn(scene, arm, scene.posture(scene.start, arm))
        for number, places in enumerate(request.stops, 1):
            if arm in places:
                turned = _turn(scene, arm, places[arm])
                _refuse_turned(begin, turned, request.keep, f"{request.name_of(number)} of {arm}")
            phases = (number - 1, number)
            if request.keep == "orientation":
                one: Axis | Orientation = Orientation(f"{arm}/tool", Pose(np.zeros(3), turned))
            else:
                one = Axis(f"{arm}/tool", turned.T @ UP, UP)
            problem.add(one, phases=phases)


def _turn(scene: Scene, arm: str, place: Pose | Vector) -> Matrix:
    rotation: Matrix = frames_at(scene, arm, place)["tool"].rotation
    return rotation


def _refuse_turned(begin: Matrix, turned: Matrix, keep: str, where: str) -> None:
    if keep == "orientation":
        off, words = float(np.linalg.norm(pin.log3(begin.T @ turned))), "is turned"
    else:
        x, y, z = turned @ begin.T @ UP  # where what points up at the begin points to
        off, words = math.atan2(math.hypot(x, y), z), "leans"
    if off > LEAN:
        raise PlanRejected(
            f"{where}: its tool {words} by {off:.3f} rad from how it begins, allowed {LEAN:g} rad "
            f"with keep={keep!r}"
        )
