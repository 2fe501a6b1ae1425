# SPDX-License-Identifier: Apache-2.0
"""Targets on their way to the controllets of a running cell."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from multipanda_py.cell import gate
from multipanda_py.cell.connection import Connection
from multipanda_py.cell.counts import Counts
from multipanda_py.cell.names import CellNames
from multipanda_py.cell.state_reader import StateReader
from multipanda_py.cell.trajectory_gate import check_tolerances, check_trajectory
from multipanda_py.config.instance_spec import InstanceSpec
from multipanda_py.exceptions import TargetRejected, UnknownName
from multipanda_py.pose import Pose
from multipanda_py.robots.limits import LIMITS
from multipanda_py.state import Vector


class TargetWriter:
    """Check targets and hand them to the loop; a refusal changes nothing.

    Args:
        names: Of the cell's arms and instances.
        connection: To its loop.
        reader: Of its states.
        counts: Where refusals go.

    Attributes:
        frames: The frames that targets may be given in.
    """

    def __init__(
        self, names: CellNames, connection: Connection, reader: StateReader, counts: Counts
    ) -> None:
        self._names, self._connection = names, connection
        self._reader, self._counts = reader, counts
        self.frames = gate.Frames(names.config)

    def set_target(
        self,
        arm: str,
        pose: Pose | None = None,
        *,
        frame: str = "",
        q: ArrayLike | None = None,
        dq: ArrayLike | None = None,
        twist: ArrayLike | None = None,
        wrench: ArrayLike | None = None,
        stiffness: ArrayLike | None = None,
    ) -> None:
        """Give the controllet that owns an arm new targets for it, all in one cycle.

        Args:
            arm: The arm.
            pose: Pose of the tool in ``frame``.
            frame: ``world`` or an arm's base; by default the base of this arm. Pose, twist and
                wrench are along its axes.
            q: Joint positions, (7,) [rad]: the target of a joint law, the preferred posture
                of a Cartesian one.
            dq: Joint velocities, (7,) [rad/s].
            twist: Linear and angular velocity of the tool, (6,) [m/s, rad/s].
            wrench: Force and torque that the tool is to exert, (6,) [N, Nm].
            stiffness: Six diagonal elements or a positive semidefinite (6, 6) matrix.

        Raises:
            TargetRejected: If one is not acceptable; the arm keeps what it has.
        """
        try:
            limits = LIMITS[self._names.arm_config(arm).model]
            self._refuse_if_silent(arm)
            state, bounds = self._reader.state(arm), self._names.config.gate
            in_base = self.frames.base_from(frame, arm)
            spec = self._owner(arm)
            records: dict[str, Vector] = {}
            if pose is not None:
                placed = pose if in_base is gate.HERE else in_base @ pose
                records["pose"] = gate.check_pose(placed, state, bounds)
            if q is not None:
                far = "joint" in spec.law.Target.far
                records["joint"] = gate.check_joint(q, dq, state, limits, bounds, far)
            elif dq is not None:
                here = np.clip(state.q, limits.lower, limits.upper)
                records["joint"] = gate.check_joint(here, dq, state, limits, bounds)
            if twist is not None:
                records["twist"] = gate.check_twist(twist, in_base.rotation, state, bounds)
            if wrench is not None:
                records["wrench"] = gate.check_wrench(wrench, in_base.rotation, state, bounds)
            if stiffness is not None:
                records["stiffness"] = gate.check_stiffness(stiffness, state)
            self._post(spec, spec.config.arms.index(arm), records)
        except (TargetRejected, UnknownName):
            self._counts.rejected[f"{arm} target"] += 1
            raise

    def follow(
        self,
        arm: str,
        points: ArrayLike,
        *,
        path_tolerance: ArrayLike | None = None,
        goal_tolerance: ArrayLike | None = None,
        goal_time: float | None = None,
    ) -> None:
        """Give the controllet that owns an arm a trajectory, which starts now.

        Args:
            arm: The arm.
            points: One row per point, (n, 22): time from the start [s], positions, velocities
                and accelerations, as :func:`.complete` returns them;
                a row that comes at once should be near the measured posture, and the last one
                at rest. None at all (``[]``) ask for a smooth stop.
            path_tolerance: Largest error on the way, (7,) or one number [rad]; by default, and
                where it is 0, the controllet's parameter; negative for none.
            goal_tolerance: Largest error at the end, likewise.
            goal_time: Time after the end to come within that [s], likewise.

        Raises:
            TargetRejected: If it is not acceptable; the arm keeps what it has.
        """
        try:
            limits = LIMITS[self._names.arm_config(arm).model]
            self._refuse_if_silent(arm)
            state = self._reader.state(arm)
            record = check_trajectory(points, state, limits, self._names.config.gate)
            tolerances = check_tolerances(path_tolerance, goal_tolerance, goal_time, arm)
            record[-len(tolerances) :] = tolerances
            spec = self._owner(arm)
            self._post(spec, spec.config.arms.index(arm), {"trajectory": record})
        except (TargetRejected, UnknownName):
            self._counts.rejected[f"{arm} target"] += 1
            raise

    def set_object_target(
        self, name: str, pose: Pose | None = None, *, squeeze: float | None = None, frame: str = ""
    ) -> None:
        """Give a coupled controllet a target for the object that its arms hold.

        Args:
            name: The controllet.
            pose: Pose of the object in ``frame``.
            frame: ``world``, which is the default, or an arm's base.
            squeeze: Force with which the arms press it between them [N].

        Raises:
            TargetRejected: If it is not acceptable; the controllet keeps what it has.
        """
        try:
            spec = self._names.spec(name)
            self._refuse_if_silent(name)
            if not self._connection.mailbox.active[spec.index]:
                raise TargetRejected(f"{name}: is not active; switch to it first")
            records: dict[str, Vector] = {}
            if pose is not None:
                in_world = self.frames.world_from(frame) @ pose
                records["object"] = np.concatenate(
                    [in_world.position, in_world.rotation.reshape(-1)]
                )
                self._check_object(spec, in_world)
            if squeeze is not None:
                records["squeeze"] = gate.check_squeeze(squeeze, name, self._names.config.gate)
            self._post(spec, 0, records)
        except (TargetRejected, UnknownName):
            self._counts.rejected[f"{name} target"] += 1
            raise

    def _check_object(self, spec: InstanceSpec, pose_in_world: Pose) -> None:
        """Refuse an object pose that is far from where its law says that it is."""
        report = self._reader.report(spec.name)
        here = np.array([report.get(f"object_{axis} [m]", np.nan) for axis in "xyz"])
        distance = float(np.linalg.norm(here - pose_in_world.position))
        if distance > self._names.config.gate.position:
            raise TargetRejected(
                f"{spec.name}: target is {distance:.3f} m from the object, allowed "
                f"{self._names.config.gate.position:g} m (gate.position)"
            )

    def _refuse_if_silent(self, who: str) -> None:
        """Refuse what a loop that stands still would do when it goes on, seconds late."""
        if reason := self._reader.silence_reason():
            raise TargetRejected(f"{who}: {reason}")

    def _owner(self, arm: str) -> InstanceSpec:
        flags, index = self._connection.mailbox.active, self._names.arm_index(arm)
        return next(spec for spec in self._names.specs if flags[spec.index] and index in spec.arms)

    def _post(self, spec: InstanceSpec, place: int, records: Mapping[str, Vector]) -> None:
        for channel in records:
            if channel not in spec.channels:
                takes = ", ".join(spec.channels) or "no target"
                raise TargetRejected(
                    f"{spec.name} takes {takes}, got {channel}; switch the controllet first"
                )
        with self._connection.lock:
            box = self._connection.mailbox
            for channel, record in records.items():
                slots = box.targets[spec.index][channel]
                slots[place if len(slots) > place else 0].write(record)
            box.ring_bell()
