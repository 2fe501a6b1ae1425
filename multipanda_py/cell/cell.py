# SPDX-License-Identifier: Apache-2.0
"""The handle of a cell: what notebooks, tests, the command line and ROS hold on to."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from typing_extensions import Self

from multipanda_py.cell.active_motions import Moves
from multipanda_py.cell.arm_request import ArmRequest
from multipanda_py.cell.attached_objects import Holding, HoldingRequest
from multipanda_py.cell.checks import notes_of, unread_sections
from multipanda_py.cell.connection import Connection, Counts
from multipanda_py.cell.goals import Frames, Place, goals_by_arm
from multipanda_py.cell.grippers import Grippers
from multipanda_py.cell.history import RecordedMoment
from multipanda_py.cell.names import CellNames
from multipanda_py.cell.parameters import SETTINGS_TIMEOUT, ParameterWriter, RobotSettings
from multipanda_py.cell.pending_switch import PendingSwitch
from multipanda_py.cell.recorder import INLINE_STEPS, Recorder
from multipanda_py.cell.recovery import (
    RECOVERY_TIMEOUT,
    TARE_TIMEOUT,
    PendingRecovery,
    Recovery,
    Tare,
)
from multipanda_py.cell.scene_editor import AT_REST, Entries, EntryRequest
from multipanda_py.cell.simulation import RunningWorld, Simulation
from multipanda_py.cell.state_reader import ActuatorReader, ActuatorSnapshot, StateReader
from multipanda_py.cell.switch_planning import Strictness, SwitchResult
from multipanda_py.cell.switcher import ControlletInfo, Switcher
from multipanda_py.cell.target_writer import TargetWriter
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.instance_spec import InstanceSpec
from multipanda_py.config.sections import RealtimeConfig
from multipanda_py.controllets.targets.joint import Trajectory
from multipanda_py.parameters import Settings
from multipanda_py.planning.motions.motion_request import MovePlan
from multipanda_py.pose import Pose
from multipanda_py.realtime.cycle import ControlLoop
from multipanda_py.realtime.events import LoopEvent
from multipanda_py.realtime.running_cell import RowFollower
from multipanda_py.realtime.system.child_process import Closing
from multipanda_py.realtime.timing import LoopStatistics
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.gripper import Gripper
from multipanda_py.state import ArmSnapshot, Vector
from multipanda_py.targets import Reports

__all__ = ["Cell", "ControlletInfo", "PendingSwitch", "Pose", "Strictness", "SwitchResult"]


class Cell(Closing):
    """Own a cell: start its loop, ask things of it, and end it.

    Every method is one of a part, which says more: what it checks, what it raises, whether it
    waits. All may be called from any thread, except :meth:`start` and :meth:`close`.

    Args:
        config: The checked cell file.

    Example::

        with Cell.from_yaml("config/dual_sim.yaml") as cell:
            cell.switch(["left/cartesian_impedance_controller"], strictness="force_auto")
            cell.set_target("left", cell.pose("left"))
    """

    def __init__(self, config: CellConfig) -> None:
        self.config = config
        names, counts = CellNames(config), Counts()
        connection = Connection(names, counts)
        reader = StateReader(names, connection)
        self._names, self._counts, self._connection = names, counts, connection
        self._reader, self._actuators = reader, ActuatorReader(names)
        self._switcher = Switcher(names, connection, reader, counts)
        self._recovery = Recovery(names, connection, reader)
        self._parameters = ParameterWriter(names, connection, reader, counts)
        self._targets = TargetWriter(
            names, connection, reader, counts, self._parameters.values,
            lambda arm: self.actuators(arm).equilibrium,
        )  # fmt: skip
        self._settings = RobotSettings(names, connection, counts)
        self._tare = Tare(names, connection, counts)
        self._holding = Holding(names, connection, reader, counts)
        self._moves = Moves(names, reader, self._targets, self._holding, self._parameters.values)
        self._grippers = Grippers(names, connection, reader)
        self._simulation = Simulation(names, connection, self._grippers)
        self._running_world = RunningWorld(names, connection, reader)
        self._entries = Entries(names, connection, reader)
        self._recorder = Recorder(names, connection)
        self._viewer: subprocess.Popen[bytes] | None = None
        self._unread: list[str] = []
        self._notes: list[str] | None = None

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
        cell = cls(config)
        cell._unread = unread_sections(path)
        return cell

    def __enter__(self) -> Self:
        self.start()
        return self

    def start(self) -> None:
        """Start the loop, with the configured controllets active.

        Raises:
            CellBusy: If this cell is running already.
            LoopError: If the loop cannot start.
        """
        self._connection.open()
        self._grippers.connect()
        self._recorder.open()
        if self.config.cell.viewer:
            from multipanda_py.simulation.viewer import start_viewer

            self._viewer = start_viewer(self.config, self.realtime, self.mailbox_fd)

    def close(self) -> None:
        """End the loop and everything that belongs to it, whatever raises; safe to call twice."""
        reason = self._connection.why_it_ended()
        viewer, self._viewer = self._viewer, None
        with ExitStack() as ending:  # the last one first; arms wait for no disk and no window
            ending.callback(self._recorder.close, reason)
            if viewer is not None:
                from multipanda_py.simulation.viewer import stop_viewer

                ending.callback(stop_viewer, viewer)
            for part in (self._connection, self._grippers, self._simulation):
                ending.callback(part.close)
            ending.callback(self._recorder.ask_to_end, reason)

    # The loop: Connection.

    @property
    def warnings(self) -> list[str]:
        """Notes on the cell file, as of ``multipanda check``, and settings refused by the machine.

        The first call takes some tenths of a second.
        """
        if self._notes is None:
            self._notes = [*self._unread, *notes_of(self.config)]
        return [*self._notes, *self._connection.warnings]

    @property
    def realtime(self) -> RealtimeConfig:
        """Real-time settings, with the core of a loop that was started."""
        return self._connection.realtime

    @property
    def loop_pid(self) -> int:
        """Process id of the loop, or of this process when it has none of its own."""
        return self._connection.pid

    @property
    def mailbox_fd(self) -> int:
        """Descriptor of the memory shared with the loop, for processes that read along.

        Raises:
            LoopError: If the cell is not started.
        """
        return self._connection.mailbox.fd

    @property
    def loop(self) -> ControlLoop:
        """The loop of an inline cell, between two cycles: for tests and benchmarks.

        Raises:
            LoopError: If the cell is not started, or its loop runs by itself.
        """
        return self._connection.loop

    @property
    def debug(self) -> Connection:
        """Connection to the loop: its mailbox, ring and runner, for tests and debuggers."""
        return self._connection

    @property
    def rows_path(self) -> str:
        """Path under which processes of the same user read along, for :class:`.RowFollower`.

        Raises:
            LoopError: If the cell is not started.
        """
        return f"/proc/{os.getpid()}/fd/{self.mailbox_fd}"

    def check(self) -> None:
        """Raise :class:`LoopError` if the loop is not running, and say why."""
        self._connection.check()

    def beat_by_hand(self) -> None:
        """Leave the heartbeat to :meth:`beat`, so that the loop notices when nobody calls it.

        Said before :meth:`start`, the first call is what the loop counts from.
        """
        self._connection.beat_by_hand()

    def beat(self) -> None:
        """Show the loop that this process is alive."""
        self._connection.beat()

    def silence(self) -> float:
        """Return the time since the loop began its newest cycle [s]; 0 for an inline cell."""
        return self._connection.silence()

    def step(self, cycles: int = 1) -> None:
        """Run cycles of an inline cell, as fast as the machine can."""
        if not self._recorder.is_inline:
            self._connection.step(cycles)
            return
        for done in range(0, cycles, INLINE_STEPS):
            self._connection.step(min(INLINE_STEPS, cycles - done))
            self._recorder.look()

    def wait(self, condition: Callable[[], bool], timeout: float, what: str = "condition") -> None:
        """Let the loop run until a condition holds: see :meth:`.Connection.wait`."""
        self._connection.wait(condition, timeout, what)

    @property
    def world(self) -> RunningWorld:
        """The world of simulated arms whose loop runs by itself: pause, steps, poses of things."""
        return self._running_world

    @property
    def simulation(self) -> Simulation:
        """The world of an inline cell: contact forces, poses, pushes, save and reset, pictures.

        Raises:
            SimulationRefused: If the cell is not inline, or its arms are not simulated.
            LoopError: If the cell is not started.
        """
        self._simulation.check()
        return self._simulation

    # What is known: CellNames, StateReader, Counts.

    @property
    def arms(self) -> tuple[str, ...]:
        """Names of the arms."""
        return self._names.arms

    @property
    def descriptions(self) -> Mapping[str, ArmDescription]:
        """What the arms are, by name: model, base, hand, tool, names of joints and frames."""
        return self._names.descriptions

    @property
    def specs(self) -> list[InstanceSpec]:
        """What every controllet instance is made of, by index."""
        return self._names.specs

    def spec(self, name: str) -> InstanceSpec:
        """Return what an instance is made of: see :meth:`.CellNames.spec`."""
        return self._names.spec(name)

    @property
    def rejected(self) -> Counter[str]:
        """Counts refused requests, by what was refused: ``left target``, ``switch``."""
        return self._counts.rejected

    @property
    def clipped(self) -> Counter[str]:
        """Counts targets of streams that were clipped to the gate, by arm and channel."""
        return self._counts.clipped

    @property
    def withdrawn(self) -> Counter[str]:
        """Counts requests that were given up before the loop took them: ``switch``."""
        return self._counts.withdrawn

    def silence_reason(self) -> str:
        """Say that the loop stands still, and what its arms do meanwhile; empty if it runs."""
        return self._reader.silence_reason()

    @property
    def active(self) -> tuple[str, ...]:
        """Names of the active instances, holds included."""
        return self._reader.active

    def beginnings(self, arm: str) -> int:
        """Return how often a law has begun on an arm: see :meth:`.StateReader.beginnings`."""
        return self._reader.beginnings(arm)

    @property
    def time(self) -> float:
        """Time of the controlled world in the newest row [s]."""
        return self._reader.time

    def state(self, arm: str) -> ArmSnapshot:
        """Return a copy of the newest state of an arm."""
        return self._reader.state(arm)

    def pose(self, arm: str) -> Pose:
        """Return the measured pose of a tool in its arm's base: see :meth:`.StateReader.pose`."""
        return self._reader.pose(arm)

    def objects(self) -> dict[str, Pose]:
        """Return the poses of movable things that are in the scene, in the world."""
        return self._reader.objects()

    @property
    def absent(self) -> tuple[str, ...]:
        """Names of movable things that are not in the scene now."""
        return self._entries.absent

    def spawn(self, thing: str, pose: Pose | None = None, twist: ArrayLike = AT_REST) -> None:
        """Bring an absent thing into the simulated scene: see :meth:`.Entries.spawn`."""
        self._entries.spawn(thing, pose, twist)

    def remove(self, thing: str) -> None:
        """Take a thing out of the simulated scene: see :meth:`.Entries.remove`."""
        self._entries.remove(thing)

    def ask_spawn(
        self, thing: str, pose: Pose | None = None, twist: ArrayLike = AT_REST
    ) -> EntryRequest:
        """Ask for :meth:`spawn` and return at once; see :meth:`entry_answer`."""
        return self._entries.ask_spawn(thing, pose, twist)

    def ask_remove(self, thing: str) -> EntryRequest:
        """Ask for :meth:`remove` and return at once; see :meth:`entry_answer`."""
        return self._entries.ask_remove(thing)

    def ask_move(self, thing: str, pose: Pose, twist: ArrayLike = AT_REST) -> EntryRequest:
        """Ask to put a thing elsewhere, but not into an arm; see :meth:`.Entries.ask_move`."""
        return self._entries.ask_move(thing, pose, twist)

    def ended_by(self, name: str, since: float) -> str:
        """Return what has ended a controllet, in words: see :meth:`.Switcher.ended_by`."""
        return self._switcher.ended_by(name, since)

    def entry_answer(self, request: EntryRequest) -> bool:
        """Return whether it is so now; see :meth:`.Entries.answer`."""
        return self._entries.answer(request)

    def withdraw_entry(self, request: EntryRequest) -> str:
        """Give a request up; return in words whether it still may come about."""
        return self._entries.withdraw(request)

    def absent_like(self, thing: str) -> str:
        """Return the first absent thing that is like another but for its place, or ''."""
        return self._entries.absent_like(thing)

    def report(self, name: str) -> Reports:
        """Return what a controllet reports of its last cycle: see :meth:`.StateReader.report`."""
        return self._reader.report(name)

    def row(self) -> NDArray[np.void]:
        """Return a copy of the newest row: the cycle's times and every arm's state."""
        return self._reader.row()

    def at(self, time: float) -> RecordedMoment:
        """Return what was at an instant [s] of the last seconds: see :meth:`.StateReader.at`."""
        return self._reader.at(time)

    def rows(self, since: int = 0) -> tuple[int, NDArray[np.void]]:
        """Return the number of cycles and the rows after ``since``: :meth:`.StateReader.rows`."""
        return self._reader.rows(since)

    def follow_rows(self) -> RowFollower:
        """Return a reader of every row from now on; other processes make theirs by themselves.

        Raises:
            LoopError: If the cell is not started.
        """
        return RowFollower(self.config, self.mailbox_fd)

    @property
    def recorder(self) -> Recorder:
        """What is recorded of the cell: see :class:`.Recorder`."""
        return self._recorder

    def trace_torques(self, is_on: bool = True) -> None:
        """Let rows have what law and features add, as :meth:`.RowFollower.terms` reads it.

        Raises:
            LoopError: If the cell is not started.
        """
        self._connection.trace_torques(is_on)

    def statistics(self, cycles: int = 1000) -> LoopStatistics:
        """Return how well the last cycles kept their time."""
        return self._reader.statistics(cycles)

    def events(self) -> list[LoopEvent]:
        """Return the loop's reports since the last call, whoever made it."""
        return self._reader.events()

    def events_since(self, count: int) -> tuple[int, list[LoopEvent]]:
        """Return the number of reports so far, and those after the first ``count``.

        For those who read them beside somebody else: :meth:`events` goes on where it was.
        """
        return self._reader.events_since(count)

    # Who is active: Switcher, Recovery.

    def controllets(self) -> list[ControlletInfo]:
        """Return every controllet instance with its present state."""
        return self._switcher.controllets()

    def set_lifecycle(self, name: str, state: str) -> None:
        """Load, configure or unload an instance: see :meth:`.Switcher.set_lifecycle`."""
        self._switcher.set_lifecycle(name, state)

    def lifecycle(self, name: str) -> str:
        """Return the lifecycle state of an instance that is not active."""
        return self._switcher.lifecycle(name)

    def switch(
        self,
        activate: Sequence[str] = (),
        deactivate: Sequence[str] = (),
        strictness: Strictness | str = Strictness.STRICT,
        timeout: float = 1.0,
        by: str = "",
    ) -> SwitchResult:
        """Change the active controllets at one cycle boundary: see :meth:`.Switcher.switch`."""
        return self._switcher.switch(activate, deactivate, strictness, timeout, by)

    def ask_switch(
        self,
        activate: Sequence[str] = (),
        deactivate: Sequence[str] = (),
        strictness: Strictness | str = Strictness.STRICT,
        timeout: float = 1.0,
        by: str = "",
    ) -> PendingSwitch:
        """Ask for a switch and return at once; its ``look`` answers, and the first one asks."""
        return self._switcher.ask_switch(activate, deactivate, strictness, timeout, by)

    def ask_rest(self, *arms: str, by: str = "") -> PendingSwitch:
        """Let arms take no law but hold, until :meth:`wake`: see :meth:`.Switcher.ask_rest`."""
        return self._switcher.ask_rest(*arms, by=by)

    def wake(self, arm: str) -> None:
        """Let an arm take laws again; what it does is not changed."""
        self._switcher.wake(arm)

    def is_resting(self, arm: str) -> bool:
        """Return whether an arm takes no law but hold."""
        return self._switcher.is_resting(arm)

    def hold(self, timeout: float = 1.0, by: str = "") -> SwitchResult:
        """Deactivate everything: every arm brakes and holds. See :meth:`.Switcher.hold`."""
        return self._switcher.hold(timeout, by)

    def ask_hold(self, timeout: float = 1.0, by: str = "") -> PendingSwitch:
        """Ask for :meth:`hold` and return at once; its ``look`` answers.

        The loop is told by the first ``look``, not before.
        """
        return self._switcher.ask_hold(timeout, by)

    def recover(
        self, arms: Sequence[str] | None = None, *, timeout: float = RECOVERY_TIMEOUT
    ) -> tuple[str, ...]:
        """Clear latched faults and return when the arms hold: see :meth:`.Recovery.recover`."""
        return self._recovery.recover(arms, timeout=timeout)

    def ask_recovery(
        self, arms: Sequence[str] | None = None, timeout: float = RECOVERY_TIMEOUT
    ) -> PendingRecovery:
        """Request a recovery and return at once; its ``look`` returns the result."""
        return self._recovery.ask(arms, timeout)

    # What controllets follow: TargetWriter, ParameterWriter.

    @property
    def frames(self) -> Frames:
        """The frames that targets may be given in."""
        return self._targets.frames

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
        """Give an arm's controllet new targets in one cycle: :meth:`.TargetWriter.set_target`."""
        self._targets.set_target(
            arm, pose, frame=frame, q=q, dq=dq, twist=twist, wrench=wrench, stiffness=stiffness
        )

    def follow(
        self,
        arm: str,
        points: ArrayLike,
        *,
        path_tolerance: ArrayLike | None = None,
        goal_tolerance: ArrayLike | None = None,
        goal_time: float | None = None,
        start: float | None = None,
    ) -> None:
        """Give an arm's controllet a trajectory: see :meth:`.TargetWriter.follow`."""
        self._targets.follow(
            arm,
            points,
            path_tolerance=path_tolerance,
            goal_tolerance=goal_tolerance,
            goal_time=goal_time,
            start=start,
        )

    def follow_together(self, name: str, trajectories: Mapping[str, Trajectory]) -> None:
        """Give every arm of a controllet one: see :meth:`.TargetWriter.follow_together`."""
        self._targets.follow_together(name, trajectories)

    # Motions that touch nothing: Moves.

    def plan(
        self,
        goals: Mapping[str, Place],
        *,
        via: Sequence[Mapping[str, Place]] = (),
        frame: str = "",
        **options: Any,
    ) -> MovePlan:
        """Find how arms go to places without touching each other, themselves or things.

        Nothing moves. What hands hold goes along; arms that are not named stay, or get out of the
        way. Needs scipy, of the extra ``identify``.

        Args:
            goals: By arm the pose of its tool in ``frame``, or a posture, (n,) [rad, m].
            via: Places on the way, one after another, likewise.
            frame: ``world`` or an arm's base; by default the base of each arm.
            options: ``keep="upright"``: what points up in the tools goes on to; ``"orientation"``:
                they are not turned. ``touching``: names of things that hands may touch,
                and what they hold may rest on.
                ``clearance`` [m], ``speed`` (share of the joints' limits), ``patience`` (of
                processor time) [s], ``seed``: see :class:`.MoveRequest`.

        Raises:
            PlanRejected: If there is no such motion, none was found in time, arms do not rest, or
                goals or options are none; says which.
            UnknownName: If there is no such arm.
            TargetRejected: If there is no such frame.
            MissingExtra: If scipy is not installed.
        """
        return self._moves.plan(goals, via=via, frame=frame, **options)

    def begin_move(self, plan: MovePlan) -> float:
        """Have arms begin a motion that was found, all in one cycle.

        Every arm that moves has to be owned by a law that takes trajectories. Other plans that
        were made before count no more while it lasts: they have these arms at rest.

        Returns:
            Time of the controlled world at which it ends [s].

        Raises:
            PlanRejected: If arms or things are no longer where they were, hands hold something
                else, or an arm has been given another motion; plan anew.
            TargetRejected: If a law does not take it; no arm moves.
        """
        return self._moves.begin(plan)

    def has_ended(self, plan: MovePlan) -> bool:
        """Return whether all arms have come to the goal of a motion that they have begun.

        Once it was True it stays so, whatever the arms do next.

        Raises:
            MotionFailed: If one ended before that, with why: it was stopped, or another target or
                law took its place.
            PlanRejected: If it was not begun on this cell.
        """
        return self._moves.has_ended(plan)

    def move_to(
        self,
        arm: str | Mapping[str, Place],
        goal: Place | None = None,
        *,
        via: Sequence[Place | Mapping[str, Place]] = (),
        frame: str = "",
        **options: Any,
    ) -> MovePlan:
        """Go to a place without touching anything, and return when the arms are there.

        Args:
            arm: One that moves, or goals by arm as :meth:`plan` takes them.
            goal: Of that one: a pose of its tool in ``frame``, or a posture.
            via: Places on the way, of that arm, or by arm.
            frame: As :meth:`plan`.
            options: Likewise.

        Raises:
            MotionFailed: If a motion ended before its goal; the arms hold.
            TimeoutError: If it does not end in time.

        And what :meth:`plan` and :meth:`begin_move` raise.
        """
        goals, stops = goals_by_arm(arm, goal, via)
        plan = self.plan(goals, via=stops, frame=frame, **options)
        ends = self.begin_move(plan)
        self.wait(
            lambda: self.time > ends and self.has_ended(plan),
            plan.duration + 5.0,
            "the motion's end",
        )
        return plan

    def set_object_target(
        self, name: str, pose: Pose | None = None, *, squeeze: float | None = None, frame: str = ""
    ) -> None:
        """Give a coupled controllet a target: see :meth:`.TargetWriter.set_object_target`."""
        self._targets.set_object_target(name, pose, squeeze=squeeze, frame=frame)

    def set_channel(self, who: str, channel: str, value: Any, *, frame: str = "") -> None:
        """Give a law a target by any channel: see :meth:`.TargetWriter.set_channel`."""
        self._targets.set_channel(who, channel, value, frame=frame)

    def command_actuators(self, arm: str, **commands: Any) -> None:
        """Command motors and springs of an arm: see :meth:`.TargetWriter.command_actuators`."""
        self._targets.command_actuators(arm, **commands)

    def actuators(self, arm: str, row: NDArray[np.void] | None = None) -> ActuatorSnapshot:
        """Return what motors and springs of an arm do, or did in a row of this cell.

        See :meth:`.ActuatorReader.of`.
        """
        return self._actuators.of(self._reader.row() if row is None else row, arm)

    def parameters(self, name: str) -> dict[str, Any]:
        """Return all parameters of an instance by name."""
        return self._parameters.values(name)

    def set_parameters(self, name: str, values: Mapping[str, object]) -> None:
        """Change parameters of an instance, all at once: see :meth:`.ParameterWriter.change`."""
        self._parameters.change(name, values)
        self._targets.forget(name)

    # The robots: RobotSettings, Tare, Holding, Grippers.

    def robot_settings(self, arm: str) -> Settings:
        """Return the settings that an arm's robot has now."""
        return self._settings.current(arm)

    def set_robot_settings(
        self, arm: str, *, timeout: float = SETTINGS_TIMEOUT, **settings: object
    ) -> None:
        """Change settings of a robot, and wait for its answer: :meth:`.RobotSettings.change`."""
        self._settings.change(arm, timeout=timeout, **settings)

    def ask_robot_settings(self, arm: str, **settings: object) -> ArmRequest:
        """Ask for other settings and return at once; see :meth:`settings_answer`."""
        return self._settings.ask(arm, **settings)

    def settings_answer(self, request: ArmRequest) -> bool:
        """Return whether settings are applied now: see :meth:`.RobotSettings.answer`."""
        return self._settings.answer(request)

    def withdraw_settings(self, request: ArmRequest) -> str:
        """Give settings up; return in words whether they still may come into force."""
        return self._settings.withdraw(request)

    def tare(self, arm: str, *, timeout: float = TARE_TIMEOUT) -> Vector:
        """Measure what an arm feels, and take it off from then on: see :meth:`.Tare.tare`."""
        return self._tare.tare(arm, timeout=timeout)

    def untare(self, arm: str, *, timeout: float = TARE_TIMEOUT) -> None:
        """Take nothing off any more; the arm has to hold. See :meth:`.Tare.untare`."""
        self._tare.untare(arm, timeout=timeout)

    def tare_offset(self, arm: str) -> Vector:
        """Return what is taken off the external torques of an arm, (7,) [Nm]."""
        return self._tare.offset(arm)

    def ask_tare(self, arm: str, *, undo: bool = False) -> ArmRequest:
        """Ask for a tare, or for its end, and return at once; see :meth:`tare_answer`."""
        return self._tare.ask(arm, undo=undo)

    def tare_answer(self, request: ArmRequest) -> Vector | None:
        """Return what is taken off now, or None while it is measured: see :meth:`.Tare.answer`."""
        return self._tare.answer(request)

    def withdraw_tare(self, request: ArmRequest) -> str:
        """Give a tare up; return in words whether it still may happen."""
        return self._tare.withdraw(request)

    def attach(self, arm: str, thing: str = "", pose_in_tool: Pose | None = None) -> str:
        """Count a movable thing as a part of a hand from now on: see :meth:`.Holding.attach`."""
        return self._holding.attach(arm, thing, pose_in_tool)

    def detach(self, arm: str) -> str:
        """Count what an arm holds as a thing of the scene again: see :meth:`.Holding.detach`."""
        return self._holding.detach(arm)

    def ask_attach(self, arm: str, thing: str = "") -> HoldingRequest:
        """Ask for :meth:`attach` and return at once; see :meth:`holding_answer`."""
        return self._holding.ask_attach(arm, thing)

    def ask_detach(self, arm: str) -> HoldingRequest:
        """Ask for :meth:`detach` and return at once; see :meth:`holding_answer`."""
        return self._holding.ask_detach(arm)

    def holding_answer(self, request: HoldingRequest) -> bool:
        """Return whether it is so now; see :meth:`.Holding.answer`."""
        return self._holding.answer(request)

    def withdraw_holding(self, request: HoldingRequest) -> str:
        """Give a request up; return in words whether it still may come about."""
        return self._holding.withdraw(request)

    def held(self) -> dict[str, str]:
        """Return what is in the hands: names of things by that of the arm."""
        return self._holding.held()

    def gripper(self, arm: str) -> Gripper:
        """Return the handle of an arm's gripper, always the same one: see :meth:`.Grippers.of`."""
        return self._grippers.of(arm)
