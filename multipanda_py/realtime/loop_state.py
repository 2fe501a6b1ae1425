# SPDX-License-Identifier: Apache-2.0
"""State of a loop between two cycles: save and restore it."""

from __future__ import annotations

from dataclasses import dataclass

from multipanda_py.realtime.cycle import ControlLoop
from multipanda_py.realtime.events import Event
from multipanda_py.state import Vector


@dataclass(frozen=True)
class LoopState:
    """State of a loop between two cycles, which a reset restores.

    It contains motion, measured states, last torques, active controllets, faults and the state of
    simulated noise. It does not contain targets, parameters, robot settings and tares. After a
    reset, controllets, features and estimators of external torques restart from the measured
    state.

    Attributes:
        row: Record of the last cycle before the save, as numbers (n,).
        active: True for each controllet instance that was active.
        faults: Latched fault of each arm.
        released: True for each arm whose torque decays to zero, because its hold has failed.
        interfaces: Command interface of each arm.
        load_fractions: Fraction of the weight of its attached object that each arm compensates.
        backends: Saved state of each backend; None for a backend that cannot save its state.
    """

    row: Vector
    active: tuple[bool, ...]
    faults: tuple[Event, ...]
    released: tuple[bool, ...]
    interfaces: tuple[str, ...]
    load_fractions: tuple[float, ...]
    backends: tuple[object | None, ...]


def save_state(loop: ControlLoop) -> LoopState:
    """Return the state that :func:`restore_state` restores. Call it between two cycles.

    Thread: control.
    """
    return LoopState(
        loop.row.copy(),
        tuple(instance.active for instance in loop.instances),
        tuple(arm.fault for arm in loop.arms),
        tuple(arm.released for arm in loop.arms),
        tuple(arm.interface for arm in loop.arms),
        tuple(arm.gravity.load_fraction if arm.gravity is not None else 0.0 for arm in loop.arms),
        tuple(backend.save() for backend in loop.backends),
    )


def restore_state(loop: ControlLoop, state: LoopState, seed: int | None, now_ns: int) -> None:
    """Restore a saved state of a loop between two cycles, and publish it as a cycle record.

    Args:
        loop: Loop whose state was saved.
        state: Saved state.
        seed: New seed of the random generators; None restores their saved state.
        now_ns: Time of the published record and of events, CLOCK_MONOTONIC [ns].

    Raises:
        BackendError: If a backend cannot restore its state.
        Exception: Any error of a controllet or feature during its activation.

    Thread: control.
    """
    for arm, interface in zip(loop.arms, state.interfaces):
        if arm.interface != interface:
            loop.owners.engage(arm.index, interface)
    for backend, saved in zip(loop.backends, state.backends):
        backend.load(saved, seed)
    loop.row[:] = state.row
    for joints in loop.joint_unwraps:
        joints.reset()
    for _, estimator in loop.torque_estimators:
        estimator.restart()
    loop.recoveries.pending.clear()
    for slot in (*loop.mailbox.grippers, *loop.mailbox.holds):
        slot.skip()
    loop.objects.skip()
    for arm in loop.arms:
        if arm.motion is not None:
            arm.motion.resume()
    for arm, fault, released in zip(loop.arms, state.faults, state.released):
        arm.load(fault, released)
        arm.model.update(arm.state)
        if arm.springs is not None:
            arm.springs.gravity.update()
    loop.attached.load()
    for arm, load_fraction in zip(loop.arms, state.load_fractions):
        if arm.gravity is not None:
            arm.gravity.load_fraction = load_fraction
    loop.owners.reset(state.active, now_ns)
    for arm in loop.arms:
        arm.blend_left = 0
    loop.now_ns = now_ns
    loop.record(now_ns)
