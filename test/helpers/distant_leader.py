# SPDX-License-Identifier: Apache-2.0
"""Leader and follower over a lossy network, with a wall in front of the follower."""

from __future__ import annotations

import collections

import mujoco
import numpy as np

from multipanda_py.apps.teleoperation import DeviceCommand, Teleoperator
from multipanda_py.apps.teleoperation.ros_sources import WrenchFeedback
from multipanda_py.controllets.features.feedback_wrench import FeedbackWrench
from multipanda_py.testing import simple_cell

WALL = 10_000.0
"""Stiffness of the wall [N/m]."""
LAWS = {
    "lead": {
        "type": "gravity_compensation", "arms": ["leader"],
        "features": ["coriolis", "joint_limits", "feedback_wrench"],
    },
    "follow": {"type": "cartesian_impedance", "arms": ["follower"]},
}  # fmt: skip


class Line:
    """Network link with delay, jitter and loss.

    Args:
        rng: Random generator of losses and delays.
        delay: Delay of every message and maximum additional jitter [s].
        loss: Fraction of lost messages.
    """

    def __init__(self, rng, delay=(0.0, 0.0), loss=0.0):
        self._rng, self._delay, self.loss = rng, delay, loss
        self._sent, self._last = collections.deque(), 0.0

    def send(self, now, message):
        if self._rng.random() >= self.loss:
            arrival = now + self._delay[0] + self._delay[1] * self._rng.random()
            self._last = max(self._last, arrival)  # a stream keeps its order
            self._sent.append((self._last, message))

    def received(self, now):
        """Return the messages since the last call, newest last."""
        found = []
        while self._sent and self._sent[0][0] <= now:
            found.append(self._sent.popleft()[1])
        return found


class Rig:
    """Operator that pushes the leader down, and follower that meets a wall, with force feedback.

    Args:
        feedback: Fraction of the wrench that is fed back.
        delay: One-way delay and maximum additional jitter [s].
        loss: Fraction of lost messages in each direction.
        hand: Stiffness of the operator's hand [N/m]; 0 for a free leader.
        gap: Distance between the follower and the wall at the start [m].
        seed: Seed of losses and delays.
        scale: Motion of the follower per motion of the leader.
        law: Parameters of ``feedback_wrench`` of the leader.
        keeps_account: Passivity observer and damping of the feature; False for plain feedback.
    """

    RATE = 30.0
    TIMEOUT = 0.25

    def __init__(
        self, feedback=0.3, delay=(0.0, 0.0), loss=0.0, hand=300.0, gap=0.02, seed=0, scale=1.0,
        law=None,
        keeps_account=True,
    ):  # fmt: skip
        laws = {**LAWS, "lead": {**LAWS["lead"], "params": {"feedback_wrench": law or {}}}}
        self.cell = simple_cell(
            {"leader": {"position": [0.0, 0.6, 0.0]}, "follower": {"position": [0.0, -0.6, 0.0]}},
            laws, ["lead", "follow"],
        )  # fmt: skip
        self.cell.start()
        self._sim = self.cell.simulation
        model = self._sim.model
        self._jacobian = np.zeros((3, model.nv))
        self._sites = {arm: model.site(f"{arm}_fr3_hand_tcp").id for arm in ("leader", "follower")}
        rng = np.random.default_rng(seed)
        self.there, self.back = Line(rng, delay, loss), Line(rng, delay, loss)
        self.name, self.arms = "leader", ("follower",)
        self.feedback, self.reported = WrenchFeedback(feedback), []
        self.teleoperator = Teleoperator(
            self.cell, [self], self.RATE, scale, report=self.reported.append
        )
        self.is_engaged, self.hand, self.cut = True, hand, False
        self.cell.step(50)
        self._update_kinematics()
        self.start = {arm: self.position_and_jacobian(arm)[0][2] for arm in self._sites}
        self.wall = self.start["follower"] - gap
        self._pose, self._at, self._next = None, -1.0, 0.0
        self.begin = 0.0
        self.given = self.maximum_given = 0.0  # net energy of the feedback wrench [J]
        lead = next(i for i in self.cell.loop.owners.active if i.spec.name == "lead")
        features = lead.features.features
        self.estimated = next(f for f in features if isinstance(f, FeedbackWrench)).arms[0]
        if not keeps_account:
            self.estimated.observer.update = lambda *_: 1.0
            self.estimated.damping[:] = 0.0

    def now(self):
        return self.cell.state("leader").time

    def read(self):
        """Return the command of the leader as a device."""
        for pose in self.there.received(self.now()):
            self._pose, self._at = pose, self.now()
        if self._pose is None or not self.is_engaged:
            return {}
        if self.now() - self._at > self.TIMEOUT:
            return {"follower": DeviceCommand(problem="no message from the leader")}
        return {"follower": DeviceCommand(True, pose=self._pose)}

    def apply_wrench(self, arm, external_wrench):
        estimated = self.feedback.compute(external_wrench)
        if not self.cut:
            self.back.send(self.now(), estimated)

    def close(self):
        self.cell.close()

    def _update_kinematics(self):
        mujoco.mj_kinematics(self._sim.model, self._sim.data)
        mujoco.mj_comPos(self._sim.model, self._sim.data)

    def position_and_jacobian(self, arm):
        """Return position and Jacobian of a tool in the world, from the last kinematics."""
        model, data = self._sim.model, self._sim.data
        mujoco.mj_jacSite(model, data, self._jacobian, None, self._sites[arm])
        return data.site_xpos[self._sites[arm]].copy(), self._jacobian.copy()

    def play(self, seconds, reach, damping=15.0):
        """Push the leader to ``reach`` below its start [m], and return a record per cycle.

        Returns:
            Force of the wall [N], heights of follower and leader above their starts [m], vertical
            feedback force on the leader [N], and its vertical speed [m/s].
        """
        records = np.zeros((round(seconds * 1000), 5))
        data = self._sim.data
        self.begin = self.begin or self.now()
        for record in records:
            now = self.now()
            if now >= self._next:
                self._next = now + 1.0 / self.RATE
                if not self.cut:
                    self.there.send(now, self.cell.pose("leader"))
                self.teleoperator.tick()
            for wrench in self.back.received(now):
                self.cell.set_channel("leader", "feedback_wrench", wrench)
            self._update_kinematics()
            position, jacobian = self.position_and_jacobian("leader")
            desired_height = self.start["leader"] - reach * min(1.0, (now - self.begin) / 0.4)
            speed = jacobian @ data.qvel
            hand_force = [0.0, 0.0, self.hand * (desired_height - position[2])]
            push = hand_force - damping * speed * (self.hand > 0.0)
            data.qfrc_applied[:] = push @ jacobian
            tip, other = self.position_and_jacobian("follower")
            depth = self.wall - tip[2]
            force = max(0.0, WALL * depth - 35.0 * float(other[2] @ data.qvel)) * (depth > 0.0)
            data.qfrc_applied[:] += force * other[2]
            self.cell.step(1)
            given = self.estimated.wrench if self.estimated.fresh else np.zeros(6)
            self.given += float(given[:3] @ speed) * 1e-3
            self.maximum_given = max(self.maximum_given, self.given)
            record[:] = (
                force,
                tip[2] - self.start["follower"],
                position[2] - self.start["leader"],
                given[2],
                speed[2],
            )
        return records
