# SPDX-License-Identifier: Apache-2.0
"""The handle of a cell: what notebooks, tests, the command line and ROS hold on to."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from multipanda_py.config import CellConfig
from multipanda_py.exceptions import (
    LoopError,
    LoopTimeout,
    MultipandaError,
    SwitchRejected,
    TargetRejected,
    UnknownName,
)
from multipanda_py.gate import Frames, check_joint, check_pose
from multipanda_py.limits import LIMITS
from multipanda_py.lock import CellLock
from multipanda_py.loop.blueprint import Blueprint, blueprints
from multipanda_py.loop.events import Event, LoopEvent
from multipanda_py.loop.mailbox import ROWS, Mailbox, SwitchStatus, Word
from multipanda_py.loop.runner import (
    HEARTBEAT_PERIOD,
    InlineRunner,
    ProcessRunner,
    Runner,
    ThreadRunner,
)
from multipanda_py.loop.statistics import LoopStatistics, summarise
from multipanda_py.loop.switching import Strictness, SwitchPlan, plan_switch
from multipanda_py.pose import Pose
from multipanda_py.state import ARM_RECORD, ArmSnapshot

__all__ = ["Cell", "ControlletInfo", "Pose", "Strictness", "SwitchResult"]


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


class Cell:
    """Own a cell: start its loop, ask things of it, and end it.

    The methods check what they are given, and a refusal changes nothing. They may be
    called from any thread. Nothing here waits for the loop except :meth:`switch`.

    Args:
        config: The checked cell file.

    Example::

        with Cell.from_yaml("config/dual_sim.yaml") as cell:
            cell.switch(["left/cartesian_impedance_controller"], strictness="force_auto")
            cell.set_target("left", cell.pose("left"))
    """

    def __init__(self, config: CellConfig) -> None:
        self.config = config
        self.plans: list[Blueprint] = blueprints(config)
        self.frames = Frames(config)
        self.rejected: Counter[str] = Counter()
        """Refused requests, by what was refused: ``left target``, ``switch``, ``parameter``."""
        self.warnings: list[str] = []
        """What the machine refused the loop at its start."""
        self._arm_index = {name: index for index, name in enumerate(config.arms)}
        self._index = {plan.name: plan.index for plan in self.plans}
        self._values = [plan.initial_values() for plan in self.plans]
        self._lifecycle = {plan.name: "inactive" for plan in self.plans}
        self._events_seen = 0
        self._lock = threading.RLock()
        self._file_lock: CellLock | None = None
        self._mailbox: Mailbox | None = None
        self._runner: Runner | None = None

    @classmethod
    def from_yaml(cls, path: str | Path, *, placement: str | None = None) -> Cell:
        """Make a cell from its file, which is checked as a whole.

        Args:
            path: The cell file.
            placement: ``process``, ``thread`` or ``inline`` instead of the file's choice.

        Raises:
            ConfigurationError: With every fault of the file.
        """
        config = CellConfig.from_yaml(path)
        if placement is not None:
            data = config.model_dump()
            data["cell"]["placement"] = placement
            config = CellConfig.from_dict(data, str(path))
        return cls(config)

    def __enter__(self) -> Cell:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def start(self) -> None:
        """Start the loop, with the configured controllets active.

        Raises:
            CellBusy: If this cell is running already.
            LoopError: If the loop cannot start.
        """
        if self._runner is not None:
            raise LoopError("the cell is started already")
        placement = self.config.cell.placement
        if placement != "inline":
            self._file_lock = CellLock(self.config.cell.name)
        self._mailbox = Mailbox(self.config, self.plans)
        arguments = (self.config, self.plans, self._mailbox)
        if placement == "process" and self._file_lock is not None:
            self._runner = ProcessRunner(*arguments, inherited=[self._file_lock.fd])
        else:
            self._runner = (InlineRunner if placement == "inline" else ThreadRunner)(*arguments)
        self._closing = threading.Event()
        try:
            self.warnings = self._runner.start()
        except BaseException:
            self.close()
            raise
        if placement != "inline":
            threading.Thread(target=self._beat, name="heartbeat", daemon=True).start()

    def close(self) -> None:
        """End the loop and everything that belongs to it; safe to call twice."""
        if self._runner is not None:
            self._closing.set()
            self._runner.stop()
            self._runner = None
        if self._file_lock is not None:
            self._file_lock.release()
            self._file_lock = None
        if self._mailbox is not None:
            os.close(self._mailbox.fd)
            self._mailbox = None

    def _beat(self) -> None:
        runner = self._runner
        while runner is not None and not self._closing.wait(HEARTBEAT_PERIOD):
            runner.beat()

    # What there is

    @property
    def arms(self) -> tuple[str, ...]:
        """Names of the arms."""
        return tuple(self.config.arms)

    @property
    def loop_pid(self) -> int:
        """Process id of the loop, or of this process when it has none of its own."""
        return self._runner.pid if isinstance(self._runner, ProcessRunner) else os.getpid()

    @property
    def active(self) -> tuple[str, ...]:
        """Names of the active instances, holds included."""
        flags = self._box().active
        return tuple(plan.name for plan in self.plans if flags[plan.index])

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

    def plan(self, name: str) -> Blueprint:
        """Return what an instance is made of.

        Raises:
            UnknownName: If it does not exist.
        """
        if name not in self._index:
            raise UnknownName("controllet", name, list(self._index))
        return self.plans[self._index[name]]

    # Life of a controllet

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
            self._refuse_faulted(plan)
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

    def _refuse_faulted(self, plan: SwitchPlan) -> None:
        for name in plan.activated:
            blueprint = self.plans[self._index[name]]
            for arm in blueprint.config.arms:
                fault = self.state(arm).fault
                if fault and not blueprint.is_hold:
                    raise SwitchRejected(
                        f"{name}: arm {arm} has a latched fault ({fault}); "
                        f"call {arm}/error_recovery first"
                    )

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

    # Targets and parameters

    def set_target(
        self,
        arm: str,
        pose: Pose | None = None,
        *,
        frame: str = "",
        q: ArrayLike | None = None,
        dq: ArrayLike | None = None,
    ) -> None:
        """Give the controllet that owns an arm a new target for it.

        Args:
            arm: The arm.
            pose: Pose of the tool in ``frame``.
            frame: ``world`` or an arm's base; by default the base of this arm.
            q: Joint positions, (7,) [rad]: the target of a joint law, the preferred posture
                of a Cartesian one.
            dq: Joint velocities, (7,) [rad/s].

        Raises:
            TargetRejected: If the target is not acceptable; the arm keeps the one it has.
        """
        try:
            state = self.state(self._arm(arm))
            records = {}
            if pose is not None:
                in_base = self.frames.base_from(frame, arm) @ pose
                records["pose"] = check_pose(in_base, state, self.config.gate)
            if q is not None:
                limits = LIMITS[self.config.arms[arm].model]
                records["joint"] = check_joint(q, dq, state, limits, self.config.gate)
            self._post(arm, state, records)
        except (TargetRejected, UnknownName):
            self.rejected[f"{arm} target"] += 1
            raise

    def _post(
        self, arm: str, state: ArmSnapshot, records: Mapping[str, NDArray[np.float64]]
    ) -> None:
        plan = self.plan(state.owner)
        place = plan.config.arms.index(arm)
        for channel in records:
            if channel not in plan.channels:
                takes = ", ".join(plan.channels) or "no target"
                raise TargetRejected(
                    f"{arm}: {plan.name} takes {takes}, got {channel}; switch the controllet first"
                )
        with self._lock:
            box = self._box()
            for channel, record in records.items():
                box.targets[plan.index][channel][place].write(record)
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

    # What is measured

    def state(self, arm: str) -> ArmSnapshot:
        """Return a copy of the newest state of an arm.

        Raises:
            LoopError: If the loop has not run yet.
        """
        index = self._arm_index[self._arm(arm)]
        row = self._newest()
        record = row["arms"][index]
        fields = {
            name: np.array(record[name])
            for name in ARM_RECORD.fields or ()
            if name not in ("owner", "fault")
        }
        fault = int(record["fault"])
        return ArmSnapshot(
            name=arm,
            time=float(row["time"]),
            owner=self.plans[int(record["owner"])].name,
            fault=Event(fault).name.lower() if fault else "",
            **fields,
        )

    def pose(self, arm: str) -> Pose:
        """Return the measured pose of the tool in the base of its arm."""
        state = self.state(arm)
        return Pose(state.position_ee_in_base, state.rotation_ee_in_base)

    def objects(self) -> dict[str, Pose]:
        """Return the poses of movable things in the world."""
        movable = [name for name, thing in self.config.objects.items() if thing.mass > 0]
        poses = self._newest()["objects"]
        return {
            name: Pose.from_quaternion(p[:3], [*p[4:], p[3]]) for name, p in zip(movable, poses)
        }

    def row(self) -> NDArray[np.void]:
        """Return a copy of the newest row: the cycle's times and every arm's state."""
        return self._newest()

    def rows(self, since: int = 0) -> tuple[int, NDArray[np.void]]:
        """Return the number of cycles so far, and copies of the rows after the first ``since``.

        The loop keeps the last few thousand rows; what is older is left out.
        """
        box = self._box()
        total = box.words[Word.ROWS]
        first = max(since, total - ROWS + 64)
        return total, box.rows[np.arange(first, total) % ROWS]

    def statistics(self, cycles: int = 1000) -> LoopStatistics:
        """Return how well the last cycles kept their time."""
        total = self._box().words[Word.ROWS]
        return summarise(self.rows(max(0, total - cycles))[1])

    def events(self) -> list[LoopEvent]:
        """Return the loop's reports since the last call."""
        self._events_seen, found = self._box().events_since(self._events_seen)
        return found

    def step(self, cycles: int = 1) -> None:
        """Run cycles of an inline cell, as fast as the machine can."""
        self.check()
        if self._runner is not None:
            self._runner.step(cycles)

    def wait(self, condition: Callable[[], bool], timeout: float, what: str = "condition") -> None:
        """Let the loop run until a condition holds.

        Args:
            condition: Asked again every few milliseconds (or every cycle of an inline cell).
            timeout: World time for an inline cell, else wall time [s].
            what: Named in the error.

        Raises:
            LoopTimeout: If it does not hold in time.
        """
        if isinstance(self._runner, InlineRunner):
            for _ in range(round(timeout * self.config.cell.rate)):
                if condition():
                    return
                self.step()
        else:
            deadline = time.monotonic() + timeout
            while time.monotonic() < deadline:
                if condition():
                    return
                self.check()
                time.sleep(2e-3)
        if not condition():
            raise LoopTimeout(f"{what} did not come about within {timeout:g} s")

    def check(self) -> None:
        """Raise :class:`LoopError` if the loop is not running, and say why."""
        if self._runner is None:
            raise LoopError("the cell is not started")
        self._runner.check()

    def _newest(self) -> NDArray[np.void]:
        box = self._box()
        total = box.words[Word.ROWS]
        if not total:
            if isinstance(self._runner, InlineRunner):
                self._runner.step(1)
                return self._newest()
            self.wait(lambda: box.words[Word.ROWS] > 0, 5.0, "the first cycle")
        row: NDArray[np.void] = box.rows[(box.words[Word.ROWS] - 1) % ROWS].copy()
        return row

    def _box(self) -> Mailbox:
        if self._mailbox is None:
            raise LoopError("the cell is not started")
        return self._mailbox

    def _arm(self, name: str) -> str:
        if name not in self._arm_index:
            raise UnknownName("arm", name, self.arms)
        return name


def _strictness(rule: Strictness | str) -> Strictness:
    try:
        return Strictness[rule.upper()] if isinstance(rule, str) else Strictness(rule)
    except (KeyError, ValueError):
        names = ", ".join(known.name.lower() for known in Strictness)
        raise SwitchRejected(f"strictness: got {rule!r}, allowed {names}") from None
