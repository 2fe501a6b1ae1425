# SPDX-License-Identifier: Apache-2.0
"""What is done to an arm in one episode, and what is asked of its law."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pinocchio as pin
from cases import Condition, Law
from rig import Rig
from verdict import WINDOW, Verdict, judge_contact, judge_fault, judge_rest

from multipanda_py import Pose
from multipanda_py.state import Vector

PUSH = 0.3  # largest joint speed of a push [rad/s]
RENEW = 20  # cycles between two targets of a stream
DEEP = 0.02  # how far behind the surface a pose is asked for [m]
GAP = 0.005  # between tool and surface at the start [m]
PRESS = 10.0  # force asked for [N]
LEAD = 4.0  # force of a hand that leads an arm [N]
BRAKING = 1000  # cycles that hold has to stop an arm
AFTER_FAULT = 1500  # cycles in which it is watched after that
TIMEOUT_SCALE = 2000  # cycles more for what does not clearly come to rest
TIMES = 3  # that it is given them


class _Faulted(Exception):
    """The arm has a fault: what was planned is over."""


Scenario = Callable[[Rig, Verdict, np.random.Generator], None]


def run(law: Law, condition: Condition, seed: int, scenario: Scenario | None = None) -> Verdict:
    """Return what becomes of a law in one episode; by default in free space or in contact."""
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
    """Run, and leave the scenario at a fault."""
    rig.step(cycles)
    if rig.faults:
        raise _Faulted


def rest(rig: Rig, verdict: Verdict, cycles: int) -> None:
    """Let the arm come to rest, and judge whether it did; give a slow swing more time."""
    go(rig, cycles)
    watched = 2 * WINDOW
    for _ in range(TIMES):
        if _judge(rig, Verdict(), watched):
            break
        go(rig, TIMEOUT_SCALE)
        watched = min(watched + TIMEOUT_SCALE, 2 * TIMEOUT_SCALE)
    _judge(rig, verdict, watched)


def _judge(rig: Rig, verdict: Verdict, watched: int) -> bool:
    """Judge the last cycles, in which nothing should have changed."""
    still = judge_rest(verdict, rig.phase, np.array(rig.speed[-watched:]), rig.limited(watched))
    if rig.phase == "contact":
        return judge_contact(verdict, np.array(rig.force[-watched:])) and still
    return still


def _free(rig: Rig, verdict: Verdict, rng: np.random.Generator) -> None:
    """A push at rest; slow tracking, and rest; a step of the target."""
    go(rig, 150)
    rig.phase = "push"
    rig.push(rng.uniform(-PUSH, PUSH, rig.limits.n_joints * rig.law.n_arms))
    rest(rig, verdict, 1400)
    if not rig.law.moves_by:
        rig.push(rng.uniform(-2.0 * PUSH, 2.0 * PUSH, rig.limits.n_joints * rig.law.n_arms))
        rest(rig, verdict, 1800)
        return
    move, way = _MOVERS[rig.law.moves_by], rng.uniform(-1.0, 1.0, rig.limits.n_joints)
    rig.mark()
    if rig.law.moves_by != "goal":
        rig.phase = "tracking"
        _stream(rig, lambda t: move(rig, 0.15 * np.sin(np.pi * t / 0.7), way), 700)
        rest(rig, verdict, 1200)
        rig.mark()
    rig.phase = "step"
    if rig.law.moves_by in ("velocity", "leader"):  # are asked for all the time
        _stream(rig, lambda t: move(rig, 1.0, way), 500)
        move(rig, 0.0, way)
    else:
        move(rig, rig.condition.step, way)
    rest(rig, verdict, 1800)


def _stream(rig: Rig, ask: Callable[[float], None], cycles: int) -> None:
    """Ask anew every few cycles."""
    for k in range(0, cycles, RENEW):
        ask(k * 1e-3)
        go(rig, RENEW)


def _move_joint(rig: Rig, share: float, way: Vector) -> None:
    q = rig.home[0].q + share * rig.cell.config.gate.joint * way / np.abs(way).max()
    rig.ask("arm", q=np.clip(q, rig.limits.lower + 0.05, rig.limits.upper - 0.05))


def _move_goal(rig: Rig, share: float, way: Vector) -> None:
    q = rig.home[0].q + 0.4 * way
    rig.ask("arm", q=np.clip(q, rig.limits.lower + 0.2, rig.limits.upper - 0.2))


def _move_velocity(rig: Rig, share: float, way: Vector) -> None:
    rig.ask("arm", dq=0.3 * share * rig.limits.velocity * way)


def _step_of(rig: Rig, share: float, way: Vector) -> tuple[Vector, Vector]:
    """Return a step within the gate: along a direction (3,) [m], and a rotation (3, 3)."""
    gate = rig.cell.config.gate
    position = share * gate.position * way[:3] / np.linalg.norm(way[:3])
    turn = share * gate.rotation * way[3:6] / np.linalg.norm(way[3:6])
    return position, pin.exp3(turn)


def _move_pose(rig: Rig, share: float, way: Vector) -> None:
    home = rig.home[0]
    step, turn = _step_of(rig, share, way)
    rig.ask("arm", Pose(home.position_ee_in_base + step, turn @ home.rotation_ee_in_base))


def _move_object(rig: Rig, share: float, way: Vector) -> None:
    step, turn = _step_of(rig, share, way)
    rig.ask_object(Pose(rig.object_at + step, turn))


def _pull_leader(rig: Rig, share: float, way: Vector) -> None:
    rig.pull[0] = LEAD * share * way[:3] / np.linalg.norm(way[:3])


_MOVERS = {
    "joint": _move_joint,
    "goal": _move_goal,
    "velocity": _move_velocity,
    "pose": _move_pose,
    "object": _move_object,
    "leader": _pull_leader,
}


def _contact(rig: Rig, verdict: Verdict, rng: np.random.Generator) -> None:
    """Push against a surface a little away, and stay."""
    go(rig, 150)
    rig.phase = "contact"
    rig.place_surface(GAP)
    rig.mark()
    home, how = rig.home[-1], rig.law.presses_by
    down = np.array([0.0, 0.0, -1.0])
    if how == "pose":
        goal = home.position_ee_in_base + (GAP + DEEP) * down
        rig.ask("arm", Pose(goal, home.rotation_ee_in_base))
    elif how == "joint":
        twist = np.concatenate([(GAP + DEEP) * down, np.zeros(3)])
        rig.ask("arm", q=home.q + np.linalg.pinv(rig.jacobian()) @ twist)
    elif how == "wrench":
        rig.ask("arm", wrench=np.concatenate([PRESS * down, np.zeros(3)]))
    elif how == "squeeze":
        rig.ask_object(internal_force=PRESS)
    else:
        rig.pull[0] = PRESS * down
    rest(rig, verdict, 3000)
    verdict.peak = max(rig.force)
