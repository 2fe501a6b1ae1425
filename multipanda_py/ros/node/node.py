# SPDX-License-Identifier: Apache-2.0
"""Node ``multimode_controller``, which runs a cell and offers its ROS 2 interfaces.

Run as ``multimode_controller --ros-args --params-file config/dual_sim.yaml``.
"""

from __future__ import annotations

if __name__ == "__main__":  # The imports below take a second, so signals are set up first.
    from multipanda_py.realtime.system.signals import end_at_once

    end_at_once("multimode_controller")

import contextlib
import gc
import itertools
import os
import sys
import time
from collections.abc import Sequence

import rclpy
from rclpy.exceptions import ParameterException
from rclpy.executors import Executor
from rclpy.logging import get_logger
from rclpy.signals import SignalHandlerOptions

from multipanda_py.cell import Cell
from multipanda_py.config.parameter_file import AUTOSTART, FRANKA_NAMES, NODE, PLAIN_JOINT_NAMES
from multipanda_py.exceptions import ConfigurationError, MultipandaError
from multipanda_py.realtime.system.child_process import never_wait_for_output
from multipanda_py.realtime.system.dds import (
    announce_without_types,
    keep_own_memory_private,
    release_half_made_ports,
    remove_leftovers,
)
from multipanda_py.realtime.system.signals import Interrupted
from multipanda_py.ros.compat.franka_services import GRIPPER_ACTIONS, FrankaNames
from multipanda_py.ros.node.clock import NodeClock
from multipanda_py.ros.node.diagnostics import Diagnostics
from multipanda_py.ros.node.graph_watch import GraphWatch, check_name_conflicts
from multipanda_py.ros.node.guard import GuardedNode
from multipanda_py.ros.node.heartbeat_monitor import HeartbeatMonitor
from multipanda_py.ros.node.life_cycle import UNCONFIGURED, LifeCycle
from multipanda_py.ros.node.parameters import parameter_nodes, robot_nodes
from multipanda_py.ros.node.participants import Serving, has_abandoned
from multipanda_py.ros.node.running import (
    SPIN_TIMEOUT,
    StopSignals,
    end_within,
    ended,
    every,
    leave_loop_core,
)
from multipanda_py.ros.node.self_check import SelfCheck
from multipanda_py.ros.node.settings import (
    cell_config,
    flag,
    folders_of,
    max_target_age,
    sections_of_others,
    unreadable_files,
)
from multipanda_py.ros.services.arms import HoldingServices, RecoveryServices, Stop, TareServices
from multipanda_py.ros.services.controllers import manager_node
from multipanda_py.ros.services.grippers import GripperServers
from multipanda_py.ros.services.simulation import SimulationServices
from multipanda_py.ros.services.tasks import TaskServices, does_tasks
from multipanda_py.ros.services.trajectories import Trajectories
from multipanda_py.ros.topics.publishers import SceneCameras, StatePublishers
from multipanda_py.ros.topics.state_topic import SimClock
from multipanda_py.ros.topics.targets import Targets, TargetStatus

NAME = NODE
WATCH_PERIOD = 0.1
"""Period of checking the cell [s]."""
HEARTBEAT_PERIOD = 0.02
"""Period of heartbeats to the self-check [s]."""
RESPONSE_TIME = 0.5
"""Time for which a node that ends a task still sends answers to its client [s]."""
MAX_RENEWALS, RENEWAL_WINDOW = 3, 3600.0
"""Maximum number of new participants within a time window [s]; the node ends after that."""
CLOSE_TIMEOUT = 90.0
"""Maximum time to close a cell [s]. Each part has its own timeout; the longest is that of a
recording, 40 s."""


class MultimodeController:
    """Running cell with all its ROS interfaces.

    Args:
        nodes: List to which all further nodes are added: one per controller manager, controllet
            and robot.
        check: Self-check of the node, which sends the heartbeat to the loop.

    Attributes:
        cameras: Process that renders the scene, or None.
    """

    def __init__(
        self, node: GuardedNode, cell: Cell, nodes: list[GuardedNode], check: SelfCheck
    ) -> None:
        self._cell, self._guard, self._answers = cell, node.guard, node.answers
        self._check = check
        # Create publishers of states after the services: clients discover endpoints in this order,
        # and one that receives a state must also find the services.
        laws, robots = parameter_nodes(node, cell), robot_nodes(node, cell)
        nodes.extend(itertools.chain(laws.values(), robots.values()))
        nodes.extend(manager_node(node, cell, laws, arm) for arm in ("", *cell.arms))
        clock = NodeClock(node.get_clock())
        targets = Targets(node, cell, clock, max_target_age(node))
        self._world_clock = SimClock(node, cell, clock) if cell.config.cell.clock_rate else None
        self._target_status = TargetStatus(node, cell, targets)
        self._diagnostics = Diagnostics(node, cell, targets, clock)
        self._heartbeat_monitor = HeartbeatMonitor(node, cell)
        as_franka, plain = flag(node, FRANKA_NAMES), flag(node, PLAIN_JOINT_NAMES)
        self._recovery = RecoveryServices(node, cell)
        self._tare = TareServices(node, cell)
        self._holding = HoldingServices(node, cell)
        if not cell.world.refusal():
            self._simulation = SimulationServices(node, cell)
        self._trajectories = Trajectories(node, cell, clock, targets)
        self._tasks = TaskServices(node, cell, targets) if does_tasks(cell) else None
        if self._tasks is not None:
            nodes.append(self._tasks.node)
        whole_width = GRIPPER_ACTIONS if as_franka else ()
        self._grippers = GripperServers(node, cell, targets, whole_width)
        if as_franka:
            self._franka = FrankaNames(node, cell, robots, self._recovery, self._grippers)
        self._publishers = StatePublishers(node, cell, clock, plain, as_franka)
        self._nodes = nodes
        self.cameras: SceneCameras | None = None
        self._graph = GraphWatch(node, cell, targets)
        every(node, WATCH_PERIOD, self._watch)
        check.serve(node)
        every(node, HEARTBEAT_PERIOD, check.beat)

    @property
    def failure(self) -> str:
        """Reason why the node has to end, such as an ended loop; otherwise an empty string."""
        return self._guard.failure

    def run(self, executor: Executor, signals: StopSignals, life: LifeCycle) -> None:
        """Serve callbacks until :meth:`is_over`, or until the node does not answer its self-check.

        Thread: main.
        """
        for node in self._nodes:
            executor.add_node(node)
        with signals.serving():
            while not (self.is_over(signals, life) or self._check.is_lost):
                # This guard handles messages that rclpy cannot decode; callbacks have their own
                # guard.
                self._guard.call("executor", executor.spin_once, SPIN_TIMEOUT)
        self._check.pause()
        if self._tasks is not None:
            self._guard.call("task_runner", self._tasks.close)
            self._spin_for_answers(executor, self._tasks)
        self._answers.close("the node ends")
        self._diagnostics.log_events()

    def _spin_for_answers(self, executor: Executor, tasks: TaskServices) -> None:
        # The client of an ended task still needs its answers.
        if tasks.is_answering:
            until = time.monotonic() + RESPONSE_TIME
            while time.monotonic() < until:
                self._guard.call("executor", executor.spin_once, SPIN_TIMEOUT)

    def is_over(self, signals: StopSignals, life: LifeCycle) -> bool:
        """Return True if the cell has to end: by a signal, a failure or the life cycle."""
        return bool(signals.received or self.failure or life.ends or not life.wants_cell)

    def _watch(self) -> None:
        self._diagnostics.log_events()
        if self.cameras is not None:
            self.cameras.check()
        self._cell.check()  # An error that it raises ends the node.


def main(args: Sequence[str] | None = None) -> int:
    """Run the node until it is stopped.

    Returns:
        Exit code: 0 after a normal end, 1 after an error that the log has at level FATAL. A signal
        before the cell is active gives 130 (SIGINT), 143 (SIGTERM) or 129 (SIGHUP).
    """
    code = _main(args)
    if has_abandoned():  # A normal exit would wait for blocked middleware threads.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


def _main(args: Sequence[str] | None) -> int:
    started = time.monotonic()
    signals = StopSignals()
    never_wait_for_output()
    released = release_half_made_ports()
    announce_without_types()
    if faults := unreadable_files(sys.argv if args is None else args):
        for fault in faults:
            get_logger(NAME).fatal(fault)
        return 1
    try:
        rclpy.init(args=args, signal_handler_options=SignalHandlerOptions.NO)
    except RuntimeError as error:  # Raised if rcl cannot read an option or a parameter file.
        get_logger(NAME).fatal(f"{type(error).__name__}: {' '.join(str(error).split())}")
        return 1
    try:
        if released:
            get_logger(NAME).warning(
                f"removed {released} unfinished ports of the middleware, which a killed process "
                "had left"
            )
        signals.check()
        return _run_cells(signals, started, args)
    except ParameterException as error:  # Raised if use_sim_time is not valid.
        get_logger(NAME).fatal(" ".join(str(error).split()))
        return 1
    except Interrupted as signal:
        get_logger(NAME).info(f"{signal.name} before the cell was active; the cell is closed")
        return signal.code
    finally:
        rclpy.try_shutdown()
        ended()


def _run_cells(signals: StopSignals, started: float, args: Sequence[str] | None) -> int:
    life: LifeCycle | None = None
    cores = os.sched_getaffinity(0)
    try:
        while True:
            serving = Serving(NAME, args)
            logger = serving.node.get_logger()
            keep_own_memory_private()
            try:
                signals.check()
                begins = flag(serving.node, AUTOSTART)
                if life is None:
                    life = LifeCycle(serving.node, begins)
                    if freed := remove_leftovers():
                        logger.info(
                            f"freed {freed / 2**20:.1f} MiB that killed ROS processes had left"
                        )
                serving.executor.add_node(life.node)
                life.node.serve_waiting()
                if not life.wants_cell:
                    _wait_for_cell_request(serving, life, signals)
                elif failure := _run_cell(serving, signals, started, args, life):
                    logger.fatal(failure)
                    return 1
            except MultipandaError as error:
                faults = error.faults if isinstance(error, ConfigurationError) else [str(error)]
                if life is None or life.begins:
                    for fault in faults:
                        logger.fatal(fault)
                    return 1
                for fault in faults:
                    logger.error(f"the cell is not configured: {fault}")
                life.drop_cell("; ".join(faults))
            finally:
                end_within()
                if life is not None:
                    serving.executor.remove_node(life.node)
                serving.release()
                # Undo ``leave_loop_core``, because the process of the next loop inherits the
                # allowed cores.
                os.sched_setaffinity(0, cores)
            if signals.received or life.ends:
                return 0
            ended()
            started = time.monotonic()
    finally:
        if life is not None:
            life.close()


def _wait_for_cell_request(serving: Serving, life: LifeCycle, signals: StopSignals) -> None:
    node, executor = serving.node, serving.executor
    if life.state != UNCONFIGURED:
        life.drop_cell()
    else:
        node.get_logger().info(
            "autostart is false: the node is unconfigured and waits for a call of change_state"
        )
    executor.add_node(node)
    with signals.serving():
        while not (signals.received or life.wants_cell or life.ends):
            node.guard.call("executor", executor.spin_once, SPIN_TIMEOUT)


def _run_cell(
    serving: Serving,
    signals: StopSignals,
    started: float,
    args: Sequence[str] | None,
    life: LifeCycle,
) -> str:
    """Run a cell; return the reason of a failure, or an empty string."""
    node, logger = serving.node, serving.node.get_logger()
    arguments = sys.argv if args is None else args
    cell = Cell(cell_config(node, folders_of(arguments), sections_of_others(arguments)))
    with contextlib.ExitStack() as ends:
        ends.callback(cell.close)
        # Callbacks send the heartbeats, so that a blocked node is noticed.
        cell.manual_heartbeat()
        with signals.interruptible():
            cell.start()
            check_name_conflicts(node, cell.arms)
        check = SelfCheck(node, cell, args)
        ends.callback(check.close)
        controller = MultimodeController(node, cell, serving.nodes, check)
        stop = Stop(node, cell, args)
        # Call this after the participants of stop and self-check have created their shared memory.
        keep_own_memory_private()
        ends.callback(end_within, CLOSE_TIMEOUT)
        ends.callback(stop.close)
        ends.callback(end_within)
        refused = leave_loop_core(cell)
        controller.cameras = cameras = SceneCameras(node, cell)
        ends.callback(cameras.close)
        for warning in (*cell.warnings, *([refused] if refused else [])):
            logger.warning(warning)
        # Exclude all objects made so far from garbage collections, which would otherwise block all
        # threads for up to 0.1 s.
        gc.freeze()
        signals.check()
        for _ in life.take_cell(cell):
            time.sleep(1e-3)
        logger.info(
            f"cell {cell.config.cell.name!r} is {life.state}: arms {', '.join(cell.arms)}; "
            f"controllets {', '.join(cell.active)}; {time.monotonic() - started:.1f} s from start"
        )
        controller.run(serving.executor, signals, life)
        renewals: list[float] = []
        while not controller.is_over(signals, life):
            now = time.monotonic()
            renewals = [then for then in renewals if now - then < RENEWAL_WINDOW]
            if len(renewals) == MAX_RENEWALS:
                return (
                    f"{node.guard.unresponsive}: {MAX_RENEWALS} new participants within "
                    f"{RENEWAL_WINDOW / 60.0:.0f} min did not help; the node ends"
                )
            renewals.append(now)
            controller = _recreate_interfaces(serving, cell, life, check)
            controller.cameras = cameras
            controller.run(serving.executor, signals, life)
    if not controller.failure:
        logger.info(f"{signals.received or 'life cycle'}: the cell is closed")
    return controller.failure


def _recreate_interfaces(
    serving: Serving, cell: Cell, life: LifeCycle, check: SelfCheck
) -> MultimodeController:
    # The arms hold meanwhile.
    with contextlib.suppress(MultipandaError):  # A blocked loop does not answer.
        cell.request_hold(by="the self-check of the node")
    started = time.monotonic()
    life.node.answers.close("the participant is recreated")
    serving.nodes.append(life.node)
    serving.renew()
    check.renew()
    life.open(serving.node)
    serving.executor.add_node(life.node)
    controller = MultimodeController(serving.node, cell, serving.nodes, check)
    keep_own_memory_private()
    gc.freeze()
    serving.node.get_logger().warning(
        "the participant that serves clients is recreated; this took "
        f"{time.monotonic() - started:.1f} s"
    )
    return controller


if __name__ == "__main__":
    sys.exit(main())
