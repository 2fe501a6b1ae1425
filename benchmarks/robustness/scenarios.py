# SPDX-License-Identifier: Apache-2.0
"""Scenarios of the episodes, in free space and in contact."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pinocchio as pin
from cases import Condition, Law
from rig import Rig
from verdict import WINDOW, Verdict, judge_contact, judge_fault, judge_rest

from multipanda_py import Pose
from multipanda_py.state import Vector

PUSH = 0.3  # Maximum joint speed after a push [rad/s].
RENEW = 20  # Cycles between two targets of a stream.
DEEP = 0.02  # Depth of a target pose below the surface [m].
GAP = 0.005  # Distance of tool and surface at the start [m].
PRESS = 10.0  # Target of the contact force [N].
LEAD = 4.0  # Force of the hand that guides a leader arm [N].
BRAKING = 1000  # Cycles in which hold has to stop an arm after a fault.
AFTER_FAULT = 1500  # Number of cycles after braking for the verdict.
EXTRA_CYCLES = 2000  # Additional cycles for an arm that does not clearly come to rest.
MAX_EXTENSIONS = 3  # Maximum number of such extensions.


class _Faulted(Exception):
    """Fault of an arm, which ends the scenario."""


Scenario = Callable[[Rig, Verdict, np.random.Generator], None]


def run(law: Law, condition: Condition, seed: int, scenario: Scenario | None = None) -> Verdict:
    """Return the verdict on one episode.

    Args:
        law: Row of the map.
        condition: Column of the map.
        seed: Seed of the configuration and of the motion.
        scenario: Scenario; by default that of contact or free space, as the condition requires.
    """
    rig, verdict = Rig(law, condition, seed), Verdict()
    try:
        play = scenario or (_contact if condition.surface else _free)
        play(rig, verdict, np.random.default_rng(1000 + seed))
    except _Faulted:
        rig.pull[:] = 0.0
        rig.step(BRAKING)
        rig.step(AFTER_FAULT)
        judge_fault(verdict, rig.phase, rig.faults[0], np.array(rig.speed[-AFTER_FAULT:]))
    finally:
        rig.close()
    return verdict


def go(rig: Rig, cycles: int) -> None:
    """Run cycles, and end the scenario at a fault."""
    rig.step(cycles)
    if rig.faults:
        raise _Faulted


def rest(rig: Rig, verdict: Verdict, cycles: int) -> None:
    """Wait until the arm rests, and judge it; extend the time for slow oscillations."""
    go(rig, cycles)
    last = 2 * WINDOW
    for _ in range(MAX_EXTENSIONS):
        if _judge(rig, Verdict(), last):
            break
        go(rig, EXTRA_CYCLES)
        last = min(last + EXTRA_CYCLES, 2 * EXTRA_CYCLES)
    _judge(rig, verdict, last)


def _judge(rig: Rig, verdict: Verdict, last: int) -> bool:
    """Judge the last cycles, in which the arm should rest; return True if it does."""
    still = judge_rest(verdict, rig.phase, np.array(rig.speed[-last:]), rig.limited(last))
    if rig.phase == "contact":
        return judge_contact(verdict, np.array(rig.force[-last:])) and still
    return still


def _free(rig: Rig, verdict: Verdict, rng: np.random.Generator) -> None:
    """Push the arm at rest, track a slow motion, and send a step of the target."""
    go(rig, 150)
    rig.phase = "push"
    rig.push(rng.uniform(-PUSH, PUSH, rig.limits.n_joints * rig.law.n_arms))
    rest(rig, verdict, 1400)
    if not rig.law.moves_by:
        rig.push(rng.uniform(-2.0 * PUSH, 2.0 * PUSH, rig.limits.n_joints * rig.law.n_arms))
        rest(rig, verdict, 1800)
        return
    move, direction = _MOVERS[rig.law.moves_by], rng.uniform(-1.0, 1.0, rig.limits.n_joints)
    rig.mark()
    if rig.law.moves_by != "goal":
        rig.phase = "tracking"
        _stream(rig, lambda t: move(rig, 0.15 * np.sin(np.pi * t / 0.7), direction), 700)
        rest(rig, verdict, 1200)
        rig.mark()
    rig.phase = "step"
    if rig.law.moves_by in ("velocity", "leader"):  # These need a stream of targets.
        _stream(rig, lambda t: move(rig, 1.0, direction), 500)
        move(rig, 0.0, direction)
    else:
        move(rig, rig.condition.step, direction)
    rest(rig, verdict, 1800)


def _stream(rig: Rig, send: Callable[[float], None], cycles: int) -> None:
    """Send a target of time [s] every ``RENEW`` cycles."""
    for k in range(0, cycles, RENEW):
        send(k * 1e-3)
        go(rig, RENEW)


def _move_joint(rig: Rig, scale: float, direction: Vector) -> None:
    q = rig.home[0].q + scale * rig.cell.config.gate.joint * direction / np.abs(direction).max()
    rig.send_target("arm", q=np.clip(q, rig.limits.lower + 0.05, rig.limits.upper - 0.05))


def _move_goal(rig: Rig, scale: float, direction: Vector) -> None:
    q = rig.home[0].q + 0.4 * direction
    rig.send_target("arm", q=np.clip(q, rig.limits.lower + 0.2, rig.limits.upper - 0.2))


def _move_velocity(rig: Rig, scale: float, direction: Vector) -> None:
    rig.send_target("arm", dq=0.3 * scale * rig.limits.velocity * direction)


def _scaled_step(rig: Rig, scale: float, direction: Vector) -> tuple[Vector, Vector]:
    """Return a translation (3,) [m] and a rotation (3, 3) scaled by the gate."""
    gate = rig.cell.config.gate
    position = scale * gate.position * direction[:3] / np.linalg.norm(direction[:3])
    angle = scale * gate.rotation * direction[3:6] / np.linalg.norm(direction[3:6])
    return position, pin.exp3(angle)


def _move_pose(rig: Rig, scale: float, direction: Vector) -> None:
    home = rig.home[0]
    step, rotation = _scaled_step(rig, scale, direction)
    rig.send_target(
        "arm", Pose(home.position_ee_in_base + step, rotation @ home.rotation_ee_in_base)
    )


def _move_object(rig: Rig, scale: float, direction: Vector) -> None:
    step, rotation = _scaled_step(rig, scale, direction)
    rig.send_object_target(Pose(rig.object_at + step, rotation))


def _pull_leader(rig: Rig, scale: float, direction: Vector) -> None:
    rig.pull[0] = LEAD * scale * direction[:3] / np.linalg.norm(direction[:3])


_MOVERS = {
    "joint": _move_joint,
    "goal": _move_goal,
    "velocity": _move_velocity,
    "pose": _move_pose,
    "object": _move_object,
    "leader": _pull_leader,
}


def _contact(rig: Rig, verdict: Verdict, rng: np.random.Generator) -> None:
    """Press on a surface at distance ``GAP``."""
    go(rig, 150)
    rig.phase = "contact"
    rig.place_surface(GAP)
    rig.mark()
    home, kind = rig.home[-1], rig.law.presses_by
    down = np.array([0.0, 0.0, -1.0])
    if kind == "pose":
        goal = home.position_ee_in_base + (GAP + DEEP) * down
        rig.send_target("arm", Pose(goal, home.rotation_ee_in_base))
    elif kind == "joint":
        twist = np.concatenate([(GAP + DEEP) * down, np.zeros(3)])
        rig.send_target("arm", q=home.q + np.linalg.pinv(rig.jacobian()) @ twist)
    elif kind == "wrench":
        rig.send_target("arm", wrench=np.concatenate([PRESS * down, np.zeros(3)]))
    elif kind == "squeeze":
        rig.send_object_target(internal_force=PRESS)
    else:
        rig.pull[0] = PRESS * down
    rest(rig, verdict, 3000)
    verdict.peak = max(rig.force)
