# SPDX-License-Identifier: Apache-2.0
"""Public handle of a cell for notebooks, tests, the command line and ROS."""

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
from multipanda_py.cell.checks import notes_of, unread_sections
from multipanda_py.cell.connection import Connection, Counts
from multipanda_py.cell.goals import Frames, MotionGoal, goals_by_arm
from multipanda_py.cell.grippers import AttachmentRequest, Attachments, Grippers
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
from multipanda_py.cell.scene_editor import ZERO_TWIST, SceneChangeRequest, SceneEditor
from multipanda_py.cell.simulation import InlineSimulation, PacedSimulation
from multipanda_py.cell.state_reader import (
    ActuatorReader,
    ActuatorSnapshot,
    HistorySnapshot,
    StateReader,
)
from multipanda_py.cell.switch_planning import Strictness, SwitchResult
from multipanda_py.cell.switcher import ControlletInfo, Switcher
from multipanda_py.cell.target_writer import TargetWriter
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.instance_spec import InstanceSpec
from multipanda_py.config.sections import RealtimeConfig
from multipanda_py.controllets.targets.joint import Trajectory
from multipanda_py.parameters import Settings
from multipanda_py.planning.motions.motion_request import MotionPlan
from multipanda_py.pose import Pose
from multipanda_py.realtime.cycle import ControlLoop
from multipanda_py.realtime.events import LoopEvent
from multipanda_py.realtime.running_cell import RecordFollower
from multipanda_py.realtime.system.child_process import Closeable
from multipanda_py.realtime.timing import LoopStatistics
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.gripper import Gripper
from multipanda_py.state import ArmSnapshot, Vector
from multipanda_py.targets import Reports

__all__ = ["Cell", "ControlletInfo", "PendingSwitch", "Pose", "Strictness", "SwitchResult"]


class Cell(Closeable):
    """Arms under one control loop, with methods to start, command and observe them.

    Methods that refer to another class have the arguments and errors documented there. All methods
    except :meth:`start` and :meth:`close` may be called from any thread.

    Args:
        config: Checked cell file.

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
        self._holding = Attachments(names, connection, reader, counts)
        self._moves = Moves(names, reader, self._targets, self._holding, self._parameters.values)
        self._grippers = Grippers(names, connection, reader)
        self._simulation = InlineSimulation(names, connection, self._grippers)
        self._running_world = PacedSimulation(names, connection, reader)
        self._entries = SceneEditor(names, connection, reader)
        self._recorder = Recorder(names, connection)
        self._viewer: subprocess.Popen[bytes] | None = None
        self._unread: list[str] = []
        self._notes: list[str] | None = None

    @classmethod
    def from_yaml(cls, path: str | Path, *, placement: str | None = None) -> Cell:
        """Create a cell from a cell file, after a check of the whole file.

        Args:
            path: Path of the cell file.
            placement: ``process``, ``thread`` or ``inline``, instead of ``cell.placement`` of the
                file.

        Raises:
            ConfigurationError: If the file has errors. The message lists all of them.
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
        """Start the loop and activate the configured controllets.

        Raises:
            CellBusy: If a cell of the same name is running already.
            LoopError: If the loop cannot start, or this object is started already.
        """
        self._connection.open()
        self._grippers.connect()
        self._recorder.open()
        if self.config.cell.viewer:
            from multipanda_py.simulation.viewer import start_viewer

            self._viewer = start_viewer(self.config, self.realtime, self.shared_memory_fd)

    def close(self) -> None:
        """Stop the loop, grippers, recordings and viewer. It is safe to call this twice."""
        reason = self._connection.end_reason()
        viewer, self._viewer = self._viewer, None
        # Callbacks run in reverse order: the arms stop before recordings and viewer are closed.
        with ExitStack() as ending:
            ending.callback(self._recorder.close, reason)
            if viewer is not None:
                from multipanda_py.simulation.viewer import stop_viewer

                ending.callback(stop_viewer, viewer)
            for part in (self._connection, self._grippers, self._simulation):
                ending.callback(part.close)
            ending.callback(self._recorder.request_stop, reason)

    # Control loop; the methods delegate to ``Connection``.

    @property
    def warnings(self) -> list[str]:
        """Warnings on the cell file, and on settings that could not be applied at the start."""
        if self._notes is None:
            self._notes = [*self._unread, *notes_of(self.config)]
        return [*self._notes, *self._connection.warnings]

    @property
    def realtime(self) -> RealtimeConfig:
        """Real-time settings, including the CPU core of a started loop."""
        return self._connection.realtime

    @property
    def loop_pid(self) -> int:
        """Process id of the loop; with placement ``thread`` or ``inline``, of this process."""
        return self._connection.pid

    @property
    def shared_memory_fd(self) -> int:
        """File descriptor of the memory shared with the loop, for processes that read it.

        Raises:
            LoopError: If the cell is not started.
        """
        return self._connection.mailbox.fd

    @property
    def loop(self) -> ControlLoop:
        """Control loop of an inline cell, for direct access by tests and benchmarks.

        Raises:
            LoopError: If the cell is not started, or is not inline.
        """
        return self._connection.loop

    @property
    def debug(self) -> Connection:
        """Connection to the loop and its shared memory, for tests and debuggers."""
        return self._connection

    @property
    def records_path(self) -> str:
        """Path of the shared memory, for a :class:`.RecordFollower` in a process of the same user.

        Raises:
            LoopError: If the cell is not started.
        """
        return f"/proc/{os.getpid()}/fd/{self.shared_memory_fd}"

    def check(self) -> None:
        """Raise :class:`LoopError` with the reason if the loop is not running."""
        self._connection.check()

    def manual_heartbeat(self) -> None:
        """Disable the automatic heartbeat; the caller then calls :meth:`send_heartbeat` itself.

        If this method is called before :meth:`start`, the first heartbeat must come within 20 s.
        """
        self._connection.set_manual_heartbeat()

    def send_heartbeat(self) -> None:
        """Tell the loop that this process is alive (heartbeat)."""
        self._connection.send_heartbeat()

    def cycle_age(self) -> float:
        """Return the time since the start of the newest cycle [s]; 0 for an inline cell."""
        return self._connection.cycle_age()

    def step(self, cycles: int = 1) -> None:
        """Run cycles of an inline cell as fast as possible."""
        if not self._recorder.is_inline:
            self._connection.step(cycles)
            return
        for done in range(0, cycles, INLINE_STEPS):
            self._connection.step(min(INLINE_STEPS, cycles - done))
            self._recorder.record_pending()

    def wait(
        self, condition: Callable[[], bool], timeout: float, description: str = "condition"
    ) -> None:
        """Wait until a condition is true. See :meth:`.Connection.wait`."""
        self._connection.wait(condition, timeout, description)

    @property
    def world(self) -> PacedSimulation:
        """Simulated world of a cell that is not inline: pause it, step it, and move objects."""
        return self._running_world

    @property
    def simulation(self) -> InlineSimulation:
        """Simulated world of an inline cell: contact forces, poses, wrenches, reset, images.

        Raises:
            SimulationRejected: If the cell is not inline, or its arms are not simulated.
            LoopError: If the cell is not started.
        """
        self._simulation.check()
        return self._simulation

    # State of arms and loop; the methods delegate to ``CellNames``, ``StateReader``, ``Counts``.

    @property
    def arms(self) -> tuple[str, ...]:
        """Names of the arms."""
        return self._names.arms

    @property
    def descriptions(self) -> Mapping[str, ArmDescription]:
        """Descriptions of the arms, by name: model, base, gripper, tool, joint and frame names."""
        return self._names.descriptions

    @property
    def specs(self) -> list[InstanceSpec]:
        """Specifications of all controllet instances, by index."""
        return self._names.specs

    def spec(self, name: str) -> InstanceSpec:
        """Return the specification of a controllet instance. See :meth:`.CellNames.spec`."""
        return self._names.spec(name)

    @property
    def rejected(self) -> Counter[str]:
        """Number of rejected requests, by subject such as ``left target`` or ``switch``."""
        return self._counts.rejected

    @property
    def clipped(self) -> Counter[str]:
        """Number of targets clipped to the gate limits, by arm and channel (``left pose``)."""
        return self._counts.clipped

    @property
    def cancelled(self) -> Counter[str]:
        """Number of requests cancelled before the loop received them, by kind (``switch``)."""
        return self._counts.cancelled

    def stall_reason(self) -> str:
        """Return the reason why the loop is blocked or paused; empty while it runs."""
        return self._reader.stall_reason()

    @property
    def active(self) -> tuple[str, ...]:
        """Names of the active controllets, including ``hold``."""
        return self._reader.active

    def activation_count(self, arm: str) -> int:
        """Return the number of controllet activations on an arm since the start of the cell."""
        return self._reader.activation_count(arm)

    @property
    def time(self) -> float:
        """Cell time of the newest cycle [s]: simulated time, or robot time with real arms."""
        return self._reader.time

    def state(self, arm: str) -> ArmSnapshot:
        """Return a copy of the newest state of an arm."""
        return self._reader.state(arm)

    def pose(self, arm: str) -> Pose:
        """Return the measured tool pose in the base of its arm. See :meth:`.StateReader.pose`."""
        return self._reader.pose(arm)

    def objects(self) -> dict[str, Pose]:
        """Return the world poses of the movable objects that are in the scene, by name."""
        return self._reader.objects()

    @property
    def spawnable(self) -> tuple[str, ...]:
        """Names of the movable objects that are not in the scene."""
        return self._entries.spawnable

    def spawn(
        self, object_name: str, pose: Pose | None = None, twist: ArrayLike = ZERO_TWIST
    ) -> None:
        """Add an absent object to the simulated scene. See :meth:`.SceneEditor.spawn`."""
        self._entries.spawn(object_name, pose, twist)

    def delete(self, object_name: str) -> None:
        """Remove an object from the simulated scene. See :meth:`.SceneEditor.delete`."""
        self._entries.delete(object_name)

    def request_spawn(
        self, object_name: str, pose: Pose | None = None, twist: ArrayLike = ZERO_TWIST
    ) -> SceneChangeRequest:
        """Request :meth:`spawn` without waiting for the answer. See :meth:`scene_change_done`."""
        return self._entries.request_spawn(object_name, pose, twist)

    def request_delete(self, object_name: str) -> SceneChangeRequest:
        """Request :meth:`delete` without waiting for the answer. See :meth:`scene_change_done`."""
        return self._entries.request_delete(object_name)

    def request_object_pose(
        self, object_name: str, pose: Pose, twist: ArrayLike = ZERO_TWIST
    ) -> SceneChangeRequest:
        """Request to move an object without waiting for the answer.

        See :meth:`.SceneEditor.request_object_pose`.
        """
        return self._entries.request_object_pose(object_name, pose, twist)

    def abort_reason(self, name: str, since: float) -> str:
        """Return the reason why a controllet was deactivated after the time ``since``.

        See :meth:`.Switcher.abort_reason`.
        """
        return self._switcher.abort_reason(name, since)

    def scene_change_done(self, request: SceneChangeRequest) -> bool:
        """Return True once a requested scene change is done. See :meth:`.SceneEditor.answer`."""
        return self._entries.answer(request)

    def cancel_scene_change(self, request: SceneChangeRequest) -> str:
        """Cancel a scene change, unless the loop has received it; return the outcome as text."""
        return self._entries.cancel(request)

    def spawnable_like(self, object_name: str) -> str:
        """Return the name of an absent object that equals a given one except for its pose.

        The result is empty if no such object exists.
        """
        return self._entries.spawnable_like(object_name)

    def report(self, name: str) -> Reports:
        """Return the values that a controllet reported in the newest cycle.

        See :meth:`.StateReader.report`.
        """
        return self._reader.report(name)

    def latest_record(self) -> NDArray[np.void]:
        """Return a copy of the record of the newest cycle: times, and the state of every arm."""
        return self._reader.latest_record()

    def snapshot_at(self, time: float) -> HistorySnapshot:
        """Return the state of the cell at a past time [s].

        See :meth:`.StateReader.snapshot_at`.
        """
        return self._reader.snapshot_at(time)

    def records(self, since: int = 0) -> tuple[int, NDArray[np.void]]:
        """Return the number of cycles so far, and a record of each cycle after number ``since``.

        See :meth:`.StateReader.records`.
        """
        return self._reader.records(since)

    def follow_records(self) -> RecordFollower:
        """Return a reader of the records of all cycles from now on.

        Raises:
            LoopError: If the cell is not started.
        """
        return RecordFollower(self.config, self.shared_memory_fd)

    @property
    def recorder(self) -> Recorder:
        """Recorder of the cell. See :class:`.Recorder`."""
        return self._recorder

    def trace_torques(self, is_on: bool = True) -> None:
        """Enable or disable the recording of the torques of each controllet and feature.

        :meth:`.RecordFollower.terms` reads these torques.

        Raises:
            LoopError: If the cell is not started.
        """
        self._connection.trace_torques(is_on)

    def statistics(self, cycles: int = 1000) -> LoopStatistics:
        """Return timing statistics of the last ``cycles`` cycles."""
        return self._reader.statistics(cycles)

    def events(self) -> list[LoopEvent]:
        """Return the events of the loop since the previous call of this method by any client."""
        return self._reader.events()

    def events_since(self, count: int) -> tuple[int, list[LoopEvent]]:
        """Return the number of events so far, and the events after the first ``count``.

        This call does not affect :meth:`events`.
        """
        return self._reader.events_since(count)

    # Active controllets; the methods delegate to ``Switcher`` and ``Recovery``.

    def controllets(self) -> list[ControlletInfo]:
        """Return every controllet instance with its present state."""
        return self._switcher.controllets()

    def set_lifecycle(self, name: str, state: str) -> None:
        """Load, configure or unload a controllet. See :meth:`.Switcher.set_lifecycle`."""
        self._switcher.set_lifecycle(name, state)

    def lifecycle(self, name: str) -> str:
        """Return the state ``unloaded``, ``unconfigured`` or ``inactive`` of a controllet.

        An active controllet counts as ``inactive``.
        """
        return self._switcher.lifecycle(name)

    def switch(
        self,
        activate: Sequence[str] = (),
        deactivate: Sequence[str] = (),
        strictness: Strictness | str = Strictness.STRICT,
        timeout: float = 1.0,
        by: str = "",
    ) -> SwitchResult:
        """Change the active controllets between two cycles. See :meth:`.Switcher.switch`."""
        return self._switcher.switch(activate, deactivate, strictness, timeout, by)

    def request_switch(
        self,
        activate: Sequence[str] = (),
        deactivate: Sequence[str] = (),
        strictness: Strictness | str = Strictness.STRICT,
        timeout: float = 1.0,
        by: str = "",
    ) -> PendingSwitch:
        """Create a request for a switch. The first call of its ``poll()`` sends it.

        See :meth:`.Switcher.request_switch`.
        """
        return self._switcher.request_switch(activate, deactivate, strictness, timeout, by)

    def request_inactive(self, *arms: str, by: str = "") -> PendingSwitch:
        """Deactivate the controllets of arms, and refuse new ones until :meth:`activate_arm`.

        See :meth:`.Switcher.request_inactive`.
        """
        return self._switcher.request_inactive(*arms, by=by)

    def activate_arm(self, arm: str) -> None:
        """Permit controllets on an arm again after :meth:`request_inactive`.

        Active controllets do not change.
        """
        self._switcher.activate_arm(arm)

    def is_inactive(self, arm: str) -> bool:
        """Return True while an arm refuses all controllets except ``hold``.

        :meth:`request_inactive` begins this state, and :meth:`activate_arm` ends it.
        """
        return self._switcher.is_inactive(arm)

    def hold(self, timeout: float = 1.0, by: str = "") -> SwitchResult:
        """Deactivate all controllets: every arm brakes and holds. See :meth:`.Switcher.hold`."""
        return self._switcher.hold(timeout, by)

    def request_hold(self, timeout: float = 1.0, by: str = "") -> PendingSwitch:
        """Create a request for :meth:`hold`. The first call of its ``poll()`` sends it."""
        return self._switcher.request_hold(timeout, by)

    def recover(
        self, arms: Sequence[str] | None = None, *, timeout: float = RECOVERY_TIMEOUT
    ) -> tuple[str, ...]:
        """Clear latched faults and wait until the arms hold. See :meth:`.Recovery.recover`."""
        return self._recovery.recover(arms, timeout=timeout)

    def request_recovery(
        self, arms: Sequence[str] | None = None, timeout: float = RECOVERY_TIMEOUT
    ) -> PendingRecovery:
        """Request a recovery without waiting; ``poll`` of the result returns the outcome."""
        return self._recovery.request(arms, timeout)

    # Targets and parameters; the methods delegate to ``TargetWriter`` and ``ParameterWriter``.

    @property
    def frames(self) -> Frames:
        """Frames in which targets may be given."""
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
        """Set targets of one arm, all in one cycle. See :meth:`.TargetWriter.set_target`."""
        self._targets.set_target(
            arm, pose, frame=frame, q=q, dq=dq, twist=twist, wrench=wrench, stiffness=stiffness
        )

    def follow_trajectory(
        self,
        arm: str,
        points: ArrayLike,
        *,
        path_tolerance: ArrayLike | None = None,
        goal_tolerance: ArrayLike | None = None,
        goal_time: float | None = None,
        start: float | None = None,
    ) -> None:
        """Send a trajectory to the controllet of an arm.

        See :meth:`.TargetWriter.follow_trajectory`.
        """
        self._targets.follow_trajectory(
            arm,
            points,
            path_tolerance=path_tolerance,
            goal_tolerance=goal_tolerance,
            goal_time=goal_time,
            start=start,
        )

    def follow_trajectories(self, name: str, trajectories: Mapping[str, Trajectory]) -> None:
        """Send a trajectory to every arm of a controllet.

        See :meth:`.TargetWriter.follow_trajectories`.
        """
        self._targets.follow_trajectories(name, trajectories)

    # Collision-free motions; the methods delegate to ``Moves``.

    def plan(
        self,
        goals: Mapping[str, MotionGoal],
        *,
        via: Sequence[Mapping[str, MotionGoal]] = (),
        frame: str = "",
        **options: Any,
    ) -> MotionPlan:
        """Plan a motion that avoids collisions with arms and objects, without executing it.

        Arms without a goal stay in place, or move out of the way. Objects attached to a gripper
        move with it. scipy is required (extra ``identify``).

        Args:
            goals: Goals, by arm: the tool pose in ``frame``, or a joint configuration (n,) [rad,
                m].
            via: Waypoints in order, each in the format of ``goals``.
            frame: Frame of the poses: ``world`` or the base of an arm; the base of each arm by
                default.
            options: Attributes of :class:`.MotionRequest`, such as ``path_constraint``,
                ``allowed_contacts``, ``clearance`` [m] and ``planning_time`` [s].

        Raises:
            PlanRejected: If no motion was found, an arm moves, or goals or options are invalid.
            UnknownName: If an arm is unknown.
            TargetRejected: If the frame is unknown.
            MissingExtra: If scipy is not installed.
        """
        return self._moves.plan(goals, via=via, frame=frame, **options)

    def start_motion(self, plan: MotionPlan) -> float:
        """Start a planned motion on all its arms in one cycle.

        The active controllet of every moving arm must accept trajectories.

        Returns:
            End of the motion in cell time [s].

        Raises:
            PlanRejected: If arms, objects or attachments have changed since planning, or an arm
                has received another motion.
            TargetRejected: If a controllet rejects its trajectory. No arm moves then.
        """
        return self._moves.start(plan)

    def is_finished(self, plan: MotionPlan) -> bool:
        """Return True if all arms have reached the goal of a started motion.

        The result remains True if the arms move later.

        Raises:
            MotionFailed: If a motion was stopped, or another target or controllet replaced it.
            PlanRejected: If the plan was not started on this cell.
        """
        return self._moves.is_finished(plan)

    def move_to(
        self,
        arm: str | Mapping[str, MotionGoal],
        goal: MotionGoal | None = None,
        *,
        via: Sequence[MotionGoal | Mapping[str, MotionGoal]] = (),
        frame: str = "",
        **options: Any,
    ) -> MotionPlan:
        """Plan and execute a collision-free motion, and wait until the arms are at the goal.

        Args:
            arm: Name of the arm, or a mapping of goals by arm as for :meth:`plan`.
            goal: Goal of the named arm: a tool pose in ``frame``, or a joint configuration (n,)
                [rad, m].
            via: Waypoints in order, each in the format of ``goal`` or a mapping by arm.
            frame: Frame of the poses, as for :meth:`plan`.
            options: Options of the planner, as for :meth:`plan`.

        Raises:
            MotionFailed: If a motion ended before its goal. The arms hold.
            TimeoutError: If the motion has not ended 5 s after its planned duration.

        Errors of :meth:`plan` and :meth:`start_motion` are raised too.
        """
        goals, stops = goals_by_arm(arm, goal, via)
        plan = self.plan(goals, via=stops, frame=frame, **options)
        ends = self.start_motion(plan)
        self.wait(
            lambda: self.time > ends and self.is_finished(plan),
            plan.duration + 5.0,
            "the end of the motion",
        )
        return plan

    def set_object_target(
        self,
        name: str,
        pose: Pose | None = None,
        *,
        internal_force: float | None = None,
        frame: str = "",
    ) -> None:
        """Set the target pose of an object that several arms hold, or their squeezing force.

        See :meth:`.TargetWriter.set_object_target`.
        """
        self._targets.set_object_target(name, pose, internal_force=internal_force, frame=frame)

    def set_channel(self, name: str, channel: str, value: Any, *, frame: str = "") -> None:
        """Set a target of any channel. See :meth:`.TargetWriter.set_channel`."""
        self._targets.set_channel(name, channel, value, frame=frame)

    def command_actuators(self, arm: str, **commands: Any) -> None:
        """Command compliant actuators of an arm. See :meth:`.TargetWriter.command_actuators`."""
        self._targets.command_actuators(arm, **commands)

    def actuators(self, arm: str, record: NDArray[np.void] | None = None) -> ActuatorSnapshot:
        """Return the state of the compliant actuators of an arm, by default in the newest cycle.

        See :meth:`.ActuatorReader.snapshot`.
        """
        return self._actuators.snapshot(
            self._reader.latest_record() if record is None else record, arm
        )

    def parameters(self, name: str) -> dict[str, Any]:
        """Return all parameters of a controllet, by name."""
        return self._parameters.values(name)

    def set_parameters(self, name: str, values: Mapping[str, object]) -> None:
        """Change parameters of a controllet, all in one cycle.

        See :meth:`.ParameterWriter.change`.
        """
        self._parameters.change(name, values)
        self._targets.forget(name)

    # Robots; the methods delegate to ``RobotSettings``, ``Tare``, ``Attachments``, ``Grippers``.

    def robot_settings(self, arm: str) -> Settings:
        """Return the present settings of the robot of an arm."""
        return self._settings.current(arm)

    def set_robot_settings(
        self, arm: str, *, timeout: float = SETTINGS_TIMEOUT, **settings: object
    ) -> None:
        """Change settings of a robot and wait for its answer.

        See :meth:`.RobotSettings.change`.
        """
        self._settings.change(arm, timeout=timeout, **settings)

    def request_robot_settings(self, arm: str, **settings: object) -> ArmRequest:
        """Request new robot settings without waiting. See :meth:`settings_done`."""
        return self._settings.request(arm, **settings)

    def settings_done(self, request: ArmRequest) -> bool:
        """Return True once requested settings are applied. See :meth:`.RobotSettings.answer`."""
        return self._settings.answer(request)

    def cancel_settings(self, request: ArmRequest) -> str:
        """Cancel new settings, unless the loop has received them; return the outcome as text."""
        return self._settings.cancel(request)

    def tare(self, arm: str, *, timeout: float = TARE_TIMEOUT) -> Vector:
        """Measure the external torques of an arm and subtract their mean from later measurements.

        See :meth:`.Tare.tare`.
        """
        return self._tare.tare(arm, timeout=timeout)

    def untare(self, arm: str, *, timeout: float = TARE_TIMEOUT) -> None:
        """Set the tare offset of an arm on hold to zero. See :meth:`.Tare.untare`."""
        self._tare.untare(arm, timeout=timeout)

    def tare_offset(self, arm: str) -> Vector:
        """Return the offset subtracted from the external torques of an arm, (n,) [Nm]."""
        return self._tare.offset(arm)

    def request_tare(self, arm: str, *, undo: bool = False) -> ArmRequest:
        """Request :meth:`tare`, or :meth:`untare` if ``undo`` is True, without waiting.

        See :meth:`tare_result`.
        """
        return self._tare.request(arm, undo=undo)

    def tare_result(self, request: ArmRequest) -> Vector | None:
        """Return the new offset after a tare request, (n,) [Nm]; None until the loop has answered.

        See :meth:`.Tare.answer`.
        """
        return self._tare.answer(request)

    def cancel_tare(self, request: ArmRequest) -> str:
        """Cancel a tare request, unless the loop has received it; return the outcome as text."""
        return self._tare.cancel(request)

    def attach(self, arm: str, object_name: str = "", pose_in_tool: Pose | None = None) -> str:
        """Treat an object as a part of the gripper of an arm. See :meth:`.Attachments.attach`."""
        return self._holding.attach(arm, object_name, pose_in_tool)

    def detach(self, arm: str) -> str:
        """Separate the attached object from the gripper. See :meth:`.Attachments.detach`."""
        return self._holding.detach(arm)

    def request_attach(self, arm: str, object_name: str = "") -> AttachmentRequest:
        """Request :meth:`attach` without waiting for the answer. See :meth:`attachment_done`."""
        return self._holding.request_attach(arm, object_name)

    def request_detach(self, arm: str) -> AttachmentRequest:
        """Request :meth:`detach` without waiting for the answer. See :meth:`attachment_done`."""
        return self._holding.request_detach(arm)

    def attachment_done(self, request: AttachmentRequest) -> bool:
        """Return True once an object is attached or detached. See :meth:`.Attachments.answer`."""
        return self._holding.answer(request)

    def cancel_attachment(self, request: AttachmentRequest) -> str:
        """Cancel a request to attach or detach; return the outcome as text."""
        return self._holding.cancel(request)

    def attached_objects(self) -> dict[str, str]:
        """Return the names of the attached objects, by arm."""
        return self._holding.attached_objects()

    def gripper(self, arm: str) -> Gripper:
        """Return the handle of the gripper of an arm, always the same object."""
        return self._grippers.gripper(arm)
