# SPDX-License-Identifier: Apache-2.0
"""Start of the control loop of a cell: build it, connect arms, warm up, enable commands."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from multipanda_py.backend import Backend
from multipanda_py.config.arm_section import ArmConfig
from multipanda_py.config.backend_section import find_backend
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arms, describe_identified_arms, describe_objects
from multipanda_py.config.instance_spec import InstanceSpec
from multipanda_py.config.part_rules import interfaces_of
from multipanda_py.context import BumplessTransfer, Context
from multipanda_py.pose import quaternion_from_rotation
from multipanda_py.realtime.arm import Arm, ArmMotion
from multipanda_py.realtime.controllet_instance import ControlletInstance
from multipanda_py.realtime.cycle import ControlLoop
from multipanda_py.realtime.objects import AttachedObjects, SceneObjects
from multipanda_py.realtime.ownership import Ownership
from multipanda_py.realtime.plugin_errors import starting
from multipanda_py.realtime.shared_memory import Mailbox
from multipanda_py.realtime.timing import run
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.dynamics.arm_dynamics import ArmModel
from multipanda_py.robots.dynamics.external_torque import ExternalEstimate, ResidualCorrection
from multipanda_py.robots.inertial import load_of
from multipanda_py.robots.residual.runtime import residual_of
from multipanda_py.state import COMMAND_INTERFACES, ArmState, Vector

WARM_CYCLES = 200
"""Number of consecutive cycles on time after which the loop is warmed up."""
MAX_CYCLE_INTERVAL = 5_000_000
"""Maximum time between cycles that counts as on time [ns]; a robot tolerates 20 ms."""
WARM_UP_TIMEOUT = 3.0
"""Time after which commands start even if cycles are late [s]."""
COMMANDS_TIMEOUT = 12.0
"""Maximum time until all arms execute commands, including repeated attempts to start them [s]."""


def build_loop(config: CellConfig, specs: Sequence[InstanceSpec], mailbox: Mailbox) -> ControlLoop:
    """Build a loop that is ready for :func:`start_loop`.

    Raises:
        ConfigurationError: If a controllet, a feature or a backend rejects its configuration.
        LoopError: If a controllet, a feature or a backend fails.
    """
    period = 1.0 / config.cell.rate
    row = np.zeros(1, mailbox.row_dtype)
    arms, states, descriptions = [], [], describe_arms(config)
    known = describe_identified_arms(config)
    for index, (name, arm) in enumerate(config.arms.items()):
        record = row["arms"][0, index : index + 1].reshape(())
        state = ArmState(
            name, descriptions[index].limits.with_torque_rate(arm.torque_rate), record
        )
        states.append(state)
        model = ArmModel(known[index])
        up_in_base = np.array(descriptions[index].rotation_base_in_world[2])
        motion = ArmMotion(state, period) if _needs_motion_generator(arm, specs, index) else None
        first = interfaces_of(arm)[0]
        known_by = ExternalEstimate(known[index], state, period) if arm.identified else None
        measured: ResidualCorrection | ExternalEstimate | None = known_by
        if file := arm.residual.wrench:
            live = residual_of(descriptions[index], "wrench", file, period, 5 + index)
            measured = ResidualCorrection(state, live, known_by)
        arms.append(Arm(index, state, model, record, period, up_in_base, motion, first, measured))
        arms[-1].set_load(load_of(arm.settings))
    reports, objects, present = row["reports"][0], row["object_poses"][0], row["object_present"][0]
    for position_index, obj in enumerate(t for t in describe_objects(config) if t.mass > 0.0):
        x, y, z, w = quaternion_from_rotation(obj.rotation)
        objects[position_index] = *obj.start, w, x, y, z
        present[position_index] = obj.present
    instances = []
    for spec in specs:
        context = make_context(config, spec, known, states, objects)
        records = [arms[i].record for i in spec.arms]
        with starting(f"{spec.name} ({spec.config.type})"):
            report = reports[spec.index]
            instances.append(
                ControlletInstance(spec, context, states, mailbox, report, records, row["time"])
            )
    blend_cycles = round(config.cell.blend_time * config.cell.rate)
    timeout = 0 if config.cell.placement == "inline" else config.cell.heartbeat_timeout
    backends = build_backends(config, states, objects, descriptions)
    for backend in backends:
        backend.present = present
    backend_of = {index: backend for backend in backends for index in backend.arms}
    attached = AttachedObjects(config, arms, backend_of, mailbox, objects, present)
    scene_objects = SceneObjects(config, arms, backends, mailbox, present)
    ownership = Ownership(arms, instances, mailbox, blend_cycles, backend_of, period)
    timeout_ns = int(timeout * 1e9)
    return ControlLoop(
        arms, instances, backends, mailbox, row, ownership, timeout_ns, attached, scene_objects
    )


def _needs_motion_generator(arm: ArmConfig, specs: Sequence[InstanceSpec], index: int) -> bool:
    laws = (spec.controllet_class for spec in specs if index in spec.arms and not spec.is_hold)
    return interfaces_of(arm)[0] != COMMAND_INTERFACES[0] or any(
        law.command_interface != COMMAND_INTERFACES[0] for law in laws
    )


def make_context(
    config: CellConfig,
    spec: InstanceSpec,
    descriptions: Sequence[ArmDescription],
    states: Sequence[ArmState],
    objects: Vector,
) -> Context:
    """Create the context of one controllet instance.

    Args:
        config: Configuration of the cell.
        spec: Controllet instance.
        descriptions: Descriptions of all arms.
        states: States of all arms, updated by the loop.
        objects: Poses of the movable objects, (n, 7), updated by the loop.
    """
    others = [index for index in range(len(states)) if index not in spec.arms]
    return Context(
        period=1.0 / config.cell.rate,
        arms=tuple(descriptions[index] for index in spec.arms),
        other_arms=tuple(descriptions[index] for index in others),
        other_states=tuple(states[index].for_readers() for index in others),
        objects=tuple(describe_objects(config)),
        object_poses=objects,
        contact_classes=spec.controllet_class.contact_classes,
        allowed_contacts=tuple(config.collisions.pairs()),
        leader_arms=spec.controllet_class.leader_arms,
    )


def build_backends(
    config: CellConfig,
    states: Sequence[ArmState],
    objects: Vector,
    descriptions: Sequence[ArmDescription],
) -> list[Backend]:
    """Create one backend object for each backend class that the arms of the cell use.

    Args:
        config: Configuration of the cell.
        states: States of all arms, which the backends update.
        objects: Poses of the movable objects, (n, 7).
        descriptions: Descriptions of all arms.
    """
    kinds: dict[str, list[int]] = {}
    for index, arm in enumerate(config.arms.values()):
        kinds.setdefault(arm.backend, []).append(index)
    backends = []
    for kind, indices in kinds.items():
        backend: type[Backend] = find_backend(kind)
        own = [states[i] for i in indices]
        arms = [descriptions[i] for i in indices]
        with starting(f"{', '.join(state.name for state in own)} (backend {backend.__name__})"):
            backends.append(backend(config, indices, own, objects, arms))
    return backends


_WEIGHT = np.array([0.0, 0.0, -10.0, 0.0, 0.0, 0.0])  # Assumed contact wrench in warm-up [N, Nm].


def start_loop(loop: ControlLoop, active: Sequence[str], warm_up: int = 300) -> None:
    """Connect the arms, warm up every controllet, and activate the given ones.

    Arms that are not ready start with a latched fault.

    Args:
        loop: Loop of :func:`build_loop`.
        active: Names of the controllets that are active at the start.
        warm_up: Number of warm-up updates of each controllet before the first cycle.

    Raises:
        BackendError: If an arm cannot be reached.
        LoopError: If a backend, a controllet or a feature raises an error.
    """
    for backend in loop.backends:
        with starting(loop.label(backend)):
            backend.connect()
    loop.write_order = sorted(loop.backends, key=lambda backend: not backend.wake_fds)
    not_ready: list[tuple[int, str]] = []
    for backend in loop.backends:
        with starting(loop.label(backend)):
            not_ready += [(index, text) for index, text in backend.faults()]
    everyone = range(len(loop.arms))
    loop.now_ns = time.monotonic_ns()
    loop.read(everyone)
    loop.update_models(everyone)
    for backend in loop.backends:
        with starting(loop.label(backend)):
            for index in backend.arms:
                loop.arms[index].state.check_in_place(loop.row)
    for arm in loop.arms:
        arm.state.joint_command[0] = arm.state.q
        # Rate limits start from the last command plus gravity, so gravity must be computed before
        # the first cycle.
        arm.update_gravity()
    for instance in loop.instances:
        with starting(f"{instance.spec.name} ({instance.spec.config.type})"):
            _warm_up_instance(loop, instance, warm_up)
    for arm in loop.arms:
        if arm.first_interface != arm.interface:
            loop.owners.engage(arm.index, arm.first_interface)
    desired = [instance.spec.name in active for instance in loop.instances]
    loop.owners.apply(desired, cause=None)
    for arm in loop.arms:
        arm.blend_left = 0
    for index, text in not_ready:
        loop.recoveries.stopped(index, text, time.monotonic_ns())


def _warm_up_instance(loop: ControlLoop, instance: ControlletInstance, updates: int) -> None:
    # The handover of a contact force warms up its code, too.
    instance.activate(
        [
            BumplessTransfer(_WEIGHT.dot(state.jacobian), _WEIGHT, _WEIGHT)
            for state in instance.states
        ]
    )
    for _ in range(updates):
        for arm in loop.arms:
            arm.model.update(arm.state)
        instance.update()
    instance.deactivate()
    for state in instance.states:
        state.check_in_place(loop.row)


def come_up(loop: ControlLoop, period: float, keep_going: Callable[[], bool]) -> None:
    """Run cycles until all arms execute commands or have a fault.

    Robots execute commands only when the loop is warmed up, or after :data:`WARM_UP_TIMEOUT`.

    Args:
        loop: Loop to run.
        period: Cycle time [s].
        keep_going: Function that returns False when the loop has to end.

    Thread: control.
    """
    if not any(backend.wake_fds for backend in loop.backends):
        enable_commands(loop)
        finish_start(loop)
        return
    is_warm = Warmth(time.monotonic_ns())
    run(loop, period, lambda: keep_going() and not is_warm(time.monotonic_ns()))
    if not keep_going():
        return
    enable_commands(loop)
    deadline, executing = time.monotonic() + COMMANDS_TIMEOUT, set[int]()
    run(loop, period, lambda: (
        keep_going() and not commands_enabled(loop, executing) and time.monotonic() < deadline
    ))  # fmt: skip
    finish_start(loop)


class Warmth:
    """Monitor of the warm-up, which ends after :data:`WARM_CYCLES` consecutive cycles on time.

    It ends at the latest after :data:`WARM_UP_TIMEOUT`.

    Args:
        now_ns: Time of the first cycle, CLOCK_MONOTONIC [ns].
    """

    def __init__(self, now_ns: int) -> None:
        self._last_ns, self._deadline_ns = now_ns, now_ns + int(WARM_UP_TIMEOUT * 1e9)
        self._on_time = 0

    def __call__(self, now_ns: int) -> bool:
        """Return True if the loop is warmed up; call it once per cycle."""
        gap, self._last_ns = now_ns - self._last_ns, now_ns
        self._on_time = self._on_time + 1 if gap < MAX_CYCLE_INTERVAL else 0
        return self._on_time >= WARM_CYCLES or now_ns > self._deadline_ns


def enable_commands(loop: ControlLoop) -> None:
    """Let the arms execute their commands, after the warm-up of the loop.

    Thread: control.
    """
    loop.now_ns = time.monotonic_ns()
    for backend in loop.backends:
        with loop.barriers[backend]:
            backend.enable_commands()


def commands_enabled(loop: ControlLoop, executing: set[int]) -> bool:
    """Return True if all arms execute their commands or have a fault.

    Call it between cycles until it returns True. When an arm begins to execute commands, the call
    restarts its controllet from the measured state.

    Args:
        loop: Loop whose commands are enabled.
        executing: Indices of the arms that execute commands; updated by this function.

    Thread: control.
    """
    now_ns = time.monotonic_ns()
    for arm in loop.arms:
        is_ready = loop.backend_of[arm.index].is_ready(arm.index)
        if is_ready and arm.index not in executing and arm.motion is None:
            loop.owners.attempt(arm.owner, partial(loop.owners.restart, arm.owner, now_ns), now_ns)
        (executing.add if is_ready else executing.discard)(arm.index)
    return all(backend.commands_enabled for backend in loop.backends)


def finish_start(loop: ControlLoop) -> None:
    """End the start phase of the cell, in which backends themselves restart arms with a fault.

    Afterwards, an arm with a fault needs a recovery.

    Thread: control.
    """
    loop.now_ns = time.monotonic_ns()
    for backend in loop.backends:
        with loop.barriers[backend]:
            backend.finish_start()
