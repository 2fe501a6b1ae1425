# SPDX-License-Identifier: Apache-2.0
"""What can be asked of a running cell: switches, targets, parameters, recovery."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from multipanda_py import gate
from multipanda_py.cell_readout import CellReadout
from multipanda_py.config import CellConfig
from multipanda_py.exceptions import (
    LoopTimeout,
    MultipandaError,
    SwitchRejected,
    TargetRejected,
    UnknownName,
)
from multipanda_py.limits import LIMITS
from multipanda_py.loop.blueprint import Blueprint
from multipanda_py.loop.mailbox import SwitchStatus, Word
from multipanda_py.loop.runner import InlineRunner
from multipanda_py.loop.switching import Strictness, plan_switch
from multipanda_py.pose import Pose
from multipanda_py.state import Vector
from multipanda_py.trajectory_gate import check_tolerances, check_trajectory


@dataclass(frozen=True)
class ControlletInfo:
    """What is known of a controllet instance.

    Attributes:
        name: Name in the cell, such as ``left/cartesian_impedance_controller``.
        short_name: Name in its own namespace.
        type: The control law.
        arms: Arms it owns while active.
        state: ``unloaded``, ``unconfigured``, ``inactive`` or ``active``.
        per_arm: Whether it lives in its arm's namespace.
        channels: Kinds of targets it takes.
    """

    name: str
    short_name: str
    type: str
    arms: tuple[str, ...]
    state: str
    per_arm: bool
    channels: tuple[str, ...]


@dataclass(frozen=True)
class SwitchResult:
    """What a switch did.

    Attributes:
        activated: Instances that became active.
        deactivated: Instances that stopped.
        skipped: What a best-effort switch left out, and why.
        delay: From the request to the first cycle of the new laws [s].
    """

    activated: tuple[str, ...]
    deactivated: tuple[str, ...]
    skipped: tuple[str, ...]
    delay: float

    @property
    def message(self) -> str:
        """Say it in a sentence."""
        parts = [
            f"active: {', '.join(self.activated) or 'nothing new'}",
            f"deactivated: {', '.join(self.deactivated) or 'nothing'}",
            f"{self.delay * 1e3:.3f} ms from request to first cycle",
        ]
        if self.skipped:
            parts.append(f"left out: {'; '.join(self.skipped)}")
        return "; ".join(parts)


class CellRequests(CellReadout):
    """Check what is asked for and hand it to the loop; a refusal changes nothing.

    The methods may be called from any thread. Nothing here waits for the loop except
    :meth:`switch`.

    Attributes:
        rejected: Counts refused requests, by what was refused: ``left target``, ``switch``.
    """

    def __init__(self, config: CellConfig) -> None:
        super().__init__(config)
        self.frames = gate.Frames(config)
        self.rejected: Counter[str] = Counter()
        self._values = [plan.initial_values() for plan in self.plans]
        self._lifecycle = {plan.name: "inactive" for plan in self.plans}
        self._lock = threading.RLock()

    def controllets(self) -> list[ControlletInfo]:
        """Return every controllet instance with its present state."""
        flags = self._box().active
        return [
            ControlletInfo(
                plan.name,
                plan.config.short_name,
                plan.config.type,
                plan.config.arms,
                "active" if flags[plan.index] else self._lifecycle[plan.name],
                plan.config.per_arm,
                plan.channels,
            )
            for plan in self.plans
        ]

    def set_lifecycle(self, name: str, state: str) -> None:
        """Load, configure or unload an instance, which makes it ready for a switch or not.

        Args:
            name: The instance.
            state: ``unloaded``, ``unconfigured`` or ``inactive``.

        Raises:
            SwitchRejected: If the instance is active, or is a hold.
        """
        plan = self.plan(name)
        if plan.is_hold and state != "inactive":
            raise SwitchRejected(f"{name}: hold is always ready")
        if self._box().active[plan.index]:
            raise SwitchRejected(f"{name}: is active; deactivate it first")
        self._lifecycle[name] = state

    def lifecycle(self, name: str) -> str:
        """Return the lifecycle state of an instance that is not active."""
        return self._lifecycle[self.plan(name).name]

    def switch(
        self,
        activate: Sequence[str] = (),
        deactivate: Sequence[str] = (),
        strictness: Strictness | str = Strictness.STRICT,
        timeout: float = 1.0,
    ) -> SwitchResult:
        """Change the active controllets at one cycle boundary, over any set of arms.

        Args:
            activate: Instances to activate.
            deactivate: Instances to deactivate; arms left over hold.
            strictness: Or its name in lower case.
            timeout: How long the loop may take [s].

        Raises:
            SwitchRejected: If the request cannot be met; nothing has changed.
            LoopTimeout: If the loop did not answer.
        """
        received = time.monotonic_ns()
        try:
            rule = _strictness(strictness)
            with self._lock:
                return self._switch(activate, deactivate, rule, timeout, received)
        except SwitchRejected:
            self.rejected["switch"] += 1
            raise

    def _switch(
        self,
        activate: Sequence[str],
        deactivate: Sequence[str],
        rule: Strictness,
        timeout: float,
        received: int,
    ) -> SwitchResult:
        box = self._box()
        for _ in range(3):  # the loop may have changed the active set after a fault
            epoch = box.words[Word.EPOCH]
            flags = [bool(flag) for flag in box.active]
            away = [name for name, state in self._lifecycle.items() if state != "inactive"]
            plan = plan_switch(self.plans, flags, activate, deactivate, rule, away)
            if not plan.activated and not plan.deactivated:
                return SwitchResult((), (), tuple(plan.skipped), 0.0)
            events = box.words[Word.EVENTS]
            number = box.switch.write(np.array([epoch, received, *plan.flags], dtype=np.float64))
            box.ring_bell()
            status = self._await_switch(number, timeout)
            if status is SwitchStatus.DONE:
                delay = (box.words[Word.SWITCH_NS] - received) * 1e-9
                return SwitchResult(
                    tuple(plan.activated), tuple(plan.deactivated), tuple(plan.skipped), delay
                )
            if status is SwitchStatus.FAILED:
                reasons = [e.text for e in box.events_since(events)[1]]
                raise SwitchRejected("; ".join(reasons) or "activation failed")
        raise SwitchRejected("the active set keeps changing; see the loop's events")

    def _await_switch(self, number: int, timeout: float) -> SwitchStatus:
        box = self._box()
        if isinstance(self._runner, InlineRunner):
            self._runner.step(1)
        deadline = time.monotonic() + timeout
        while box.words[Word.SWITCH_ACK] != number:
            self.check()
            if time.monotonic() > deadline:
                raise LoopTimeout(f"the loop did not answer a switch within {timeout:g} s")
            time.sleep(1e-4)
        return SwitchStatus(box.words[Word.SWITCH_STATUS])

    def hold(self) -> SwitchResult:
        """Deactivate everything: every arm brakes and holds."""
        active = [name for name in self.active if not self.plan(name).is_hold]
        return self.switch(deactivate=active, strictness=Strictness.BEST_EFFORT)

    def recover(self, arms: Sequence[str] | None = None) -> tuple[str, ...]:
        """Clear latched faults; the arms hold the posture of now, and nothing else starts.

        Returns:
            Names of the arms that had a fault.
        """
        chosen = tuple(self.arms if arms is None else arms)
        for arm in chosen:
            self._arm(arm)
        faulted = tuple(arm for arm in chosen if self.state(arm).fault)
        if faulted:
            with self._lock:
                box = self._box()
                box.recover.write(np.array([float(arm in faulted) for arm in self.arms]))
                box.ring_bell()
        return faulted

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
            state = self.state(self._arm(arm))
            limits, bounds = LIMITS[self.config.arms[arm].model], self.config.gate
            in_base = self.frames.base_from(frame, arm)
            plan = self._owner(arm)
            records: dict[str, Vector] = {}
            if pose is not None:
                placed = pose if in_base is gate.HERE else in_base @ pose
                records["pose"] = gate.check_pose(placed, state, bounds)
            if q is not None:
                far = "joint" in plan.law.Target.far
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
            self._post(plan, plan.config.arms.index(arm), records)
        except (TargetRejected, UnknownName):
            self.rejected[f"{arm} target"] += 1
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
                and accelerations, as :func:`~multipanda_py.trajectory.complete` returns them;
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
            state = self.state(self._arm(arm))
            limits = LIMITS[self.config.arms[arm].model]
            record = check_trajectory(points, state, limits, self.config.gate)
            tolerances = check_tolerances(path_tolerance, goal_tolerance, goal_time, arm)
            record[-len(tolerances) :] = tolerances
            plan = self._owner(arm)
            self._post(plan, plan.config.arms.index(arm), {"trajectory": record})
        except (TargetRejected, UnknownName):
            self.rejected[f"{arm} target"] += 1
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
            plan = self.plan(name)
            if not self._box().active[plan.index]:
                raise TargetRejected(f"{name}: is not active; switch to it first")
            records: dict[str, Vector] = {}
            if pose is not None:
                in_world = self.frames.world_from(frame) @ pose
                records["object"] = np.concatenate(
                    [in_world.position, in_world.rotation.reshape(-1)]
                )
                self._check_object(plan, in_world)
            if squeeze is not None:
                records["squeeze"] = gate.check_squeeze(squeeze, name, self.config.gate)
            self._post(plan, 0, records)
        except (TargetRejected, UnknownName):
            self.rejected[f"{name} target"] += 1
            raise

    def _check_object(self, plan: Blueprint, pose_in_world: Pose) -> None:
        """Refuse an object pose that is far from where its law says that it is."""
        report = self.report(plan.name)
        here = np.array([report.get(f"object_{axis} [m]", np.nan) for axis in "xyz"])
        distance = float(np.linalg.norm(here - pose_in_world.position))
        if distance > self.config.gate.position:
            raise TargetRejected(
                f"{plan.name}: target is {distance:.3f} m from the object, allowed "
                f"{self.config.gate.position:g} m (gate.position)"
            )

    def _owner(self, arm: str) -> Blueprint:
        flags, index = self._box().active, self._arm_index[arm]
        return next(plan for plan in self.plans if flags[plan.index] and index in plan.arms)

    def _post(self, plan: Blueprint, place: int, records: Mapping[str, Vector]) -> None:
        for channel in records:
            if channel not in plan.channels:
                takes = ", ".join(plan.channels) or "no target"
                raise TargetRejected(
                    f"{plan.name} takes {takes}, got {channel}; switch the controllet first"
                )
        with self._lock:
            box = self._box()
            for channel, record in records.items():
                slots = box.targets[plan.index][channel]
                slots[place if len(slots) > place else 0].write(record)
            box.ring_bell()

    def parameters(self, name: str) -> dict[str, Any]:
        """Return all parameters of an instance by name."""
        return dict(self._values[self.plan(name).index])

    def set_parameters(self, name: str, values: Mapping[str, object]) -> None:
        """Change parameters of an instance, all together between two cycles.

        Raises:
            ParameterRejected: With every fault; nothing has changed.
        """
        plan = self.plan(name)
        try:
            accepted = plan.checked(values)
        except MultipandaError:
            self.rejected["parameter"] += 1
            raise
        with self._lock:
            changed = self._values[plan.index] | accepted
            if plan.parameter_width:
                box = self._box()
                box.parameters[plan.index].write(plan.encode(changed))
                box.ring_bell()
            self._values[plan.index] = changed


def _strictness(rule: Strictness | str) -> Strictness:
    try:
        return Strictness[rule.upper()] if isinstance(rule, str) else Strictness(rule)
    except (KeyError, ValueError):
        names = ", ".join(known.name.lower() for known in Strictness)
        raise SwitchRejected(f"strictness: got {rule!r}, allowed {names}") from None
