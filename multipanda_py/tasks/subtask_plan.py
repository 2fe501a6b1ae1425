# SPDX-License-Identifier: Apache-2.0
"""The plan of one subtask: a path of all joints, or poses where nobody plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from multipanda_py.planning.trajectory import complete
from multipanda_py.pose import Pose
from multipanda_py.state import Matrix, Vector
from multipanda_py.tasks.contact_points import ContactPoint
from multipanda_py.tasks.lead import Lead
from multipanda_py.tasks.seen import TOOL, Seen
from multipanda_py.tasks.wanted import GoalPlace


@dataclass(frozen=True, eq=False)
class SubtaskPlan:
    """How a subtask is to go.

    Attributes:
        start: Where everything was when it was made, or expected to be.
        end: Where everything is to be after it.
        goals: What is to be reached.
        words: What came of planning, in a sentence.
        times: Of the path's slices since its start, (slices,) [s].
        postures: Path of every arm, (slices, n) [rad, m]; empty without a plan.
        things: Poses of the things that are carried in all slices, in the world.
        leads: Ways of the tools without a plan, by arm.
    """

    start: Seen
    end: Seen
    goals: Sequence[GoalPlace]
    words: str = ""
    times: Vector = field(default_factory=lambda: np.zeros(0))
    postures: Mapping[str, Matrix] = field(default_factory=dict)
    things: Mapping[str, Sequence[Pose]] = field(default_factory=dict)
    leads: Mapping[str, Lead] = field(default_factory=dict)

    @property
    def lead_time(self) -> float:
        """How long tools are led: all for as long as the one that takes longest [s]."""
        return max((lead.time for lead in self.leads.values()), default=0.0)

    def led(self, time: float) -> dict[str, Pose]:
        """Return where tools are to be, in the world, at a time since the start [s]."""
        whole = self.lead_time
        share = min(1.0, time / whole) if whole > 0.0 else 1.0
        return {arm: lead.at(share) for arm, lead in self.leads.items()}

    def points(self, arm: str, posture: Vector) -> Matrix:
        r"""Return the trajectory of an arm, as :meth:`.Cell.follow` takes it.

        Under a force an arm starts some hundredths of a radian off the plan. This offset fades
        over the whole path, :math:`q_k + (q - q_0) (1 - s(t_k / T))` with the minimum-jerk s.
        Within one slice of 0.1 s, an offset of 0.04 rad would require 23 rad/s^2.

        Args:
            arm: Name of the arm.
            posture: Measured joint positions q, (n,) [rad, m].
        """
        times = np.concatenate([[0.0], self.times])
        path = np.vstack([self.start.postures[arm], self.postures[arm]])
        share = times / times[-1]
        fading = 1.0 - share**3 * (10.0 - 15.0 * share + 6.0 * share**2)
        return complete(times, path + np.outer(fading, posture - path[0]))[1:]

    def expected(self, thing: str, time: float) -> Pose:
        """Return where a thing is to be at a time since the motion began [s]."""
        way = self.things.get(thing)
        if way is None:
            return self.start.pose(thing)
        places = [self.start.pose(thing), *way]
        times = np.concatenate([[0.0], self.times])
        after = min(int(np.searchsorted(times, time)), len(times) - 1)
        before = max(after - 1, 0)
        share = (time - times[before]) / max(times[after] - times[before], 1e-9)
        share = min(max(share, 0.0), 1.0)
        between = places[before].position * (1.0 - share) + places[after].position * share
        return places[before if share < 0.5 else after].at(between)


def plan_by_poses(
    points: Sequence[ContactPoint], goals: Sequence[GoalPlace], start: Seen
) -> SubtaskPlan:
    """Return where tools go without a plan: with the things that they hold, as they hold them."""
    leads: dict[str, Lead] = {}
    things = dict(start.things)
    for goal in goals:
        there, here = goal.in_world(start), start.pose(goal.frame)
        if goal.frame.endswith(TOOL):
            leads[goal.frame.removesuffix(TOOL)] = Lead(here, there, Pose.identity())
            continue
        things[goal.frame] = there
        for point in points:
            if point.thing == goal.frame:
                leads[point.arm] = Lead(here, there, here.inverse() @ start.tools[point.arm])
    tools = {arm: lead.at(1.0) for arm, lead in leads.items()}
    end = replace(start, tools={**start.tools, **tools}, things=things)
    return SubtaskPlan(start, end, goals, "without a plan", leads=leads)
