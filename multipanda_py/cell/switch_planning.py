# SPDX-License-Identifier: Apache-2.0
"""Plan of a switch: controllets that become active, and arms that must first come to rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum

from multipanda_py.config.instance_spec import InstanceSpec
from multipanda_py.exceptions import SwitchRejected
from multipanda_py.realtime.ownership import moving_joint
from multipanda_py.realtime.shared_memory import KEEP_FLAG, RESTART_FLAG
from multipanda_py.state import COMMAND_INTERFACES, ArmSnapshot


class Strictness(IntEnum):
    """Treatment of switch requests that cannot be fulfilled, as in controller_manager_msgs.

    Attributes:
        BEST_EFFORT: Execute and report the possible part. Refuse a request of which no controllet
            can become active.
        STRICT: Refuse the whole request if any part of it is impossible.
        AUTO: Like STRICT, but accept controllets that already are in the requested state.
        FORCE_AUTO: Like AUTO, but also deactivate controllets that own a requested arm, and first
            stop arms that must be at rest.
    """

    BEST_EFFORT = 1
    STRICT = 2
    AUTO = 3
    FORCE_AUTO = 4


@dataclass
class SwitchPlan:
    """Controllets that are active after a switch.

    Attributes:
        flags: State of each controllet: 0 inactive, 1 active, 2 active after a restart.
        activated: Names of controllets that become active or restart.
        deactivated: Names of controllets that are deactivated.
        skipped: Texts on parts of the request that are not executed.
        missing: Names of requested controllets that are not active after the switch.
    """

    flags: list[int]
    activated: list[str] = field(default_factory=list)
    deactivated: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def plan_switch(
    specs: Sequence[InstanceSpec],
    active: Sequence[bool],
    activate: Sequence[str],
    deactivate: Sequence[str],
    strictness: Strictness,
    unavailable: Mapping[str, str] | None = None,
) -> SwitchPlan:
    """Compute which controllets are active after a switch request.

    ``hold`` becomes active on every arm without another controllet. A name in both lists restarts
    the controllet. Controllets in ``unavailable`` cannot be activated, for the given reasons.

    Raises:
        SwitchRejected: If the request cannot be fulfilled.
    """
    index = {spec.name: spec.index for spec in specs}
    result = SwitchPlan([int(flag and not spec.is_hold) for flag, spec in zip(active, specs)])
    faults: list[str] = []
    usable = [n for n in dict.fromkeys(activate) if _is_known(n, index, unavailable or {}, faults)]
    stopped = [n for n in dict.fromkeys(deactivate) if _is_known(n, index, {}, faults)]
    for name in stopped:
        if active[index[name]]:
            result.flags[index[name]] = 0
        elif strictness in (Strictness.STRICT, Strictness.BEST_EFFORT):
            faults.append(f"{name}: cannot be deactivated, because it is not active")
    for name in usable:
        spec = specs[index[name]]
        if active[spec.index] and name not in stopped:
            if strictness in (Strictness.STRICT, Strictness.BEST_EFFORT):
                faults.append(f"{name}: cannot be activated, because it is active already")
            continue
        rivals = [p for p in specs if result.flags[p.index] and set(p.arms) & set(spec.arms)]
        requested_rivals = [p for p in rivals if p.name in usable]
        if strictness is Strictness.FORCE_AUTO and not requested_rivals:
            for rival in rivals:
                result.flags[rival.index] = 0
            rivals = []
        if rivals:
            claims = " and ".join(p.name for p in rivals)
            hint = (
                ""
                if requested_rivals
                else f"; strictness 4 (FORCE_AUTO) would deactivate {claims}"
            )
            faults.append(f"{name}: conflicts with {claims} over {_shared(spec, rivals)}{hint}")
            continue
        result.flags[spec.index] = RESTART_FLAG if active[spec.index] else KEEP_FLAG
    if faults and strictness is not Strictness.BEST_EFFORT:
        raise SwitchRejected("\n".join(faults))
    result.skipped = faults
    for spec, flag, was in zip(specs, result.flags, active):
        if flag and (not was or flag == RESTART_FLAG):
            result.activated.append(spec.name)
        elif was and not flag and not spec.is_hold:
            result.deactivated.append(spec.name)
    owned = {arm for spec, flag in zip(specs, result.flags) if flag for arm in spec.arms}
    for name in dict.fromkeys(activate):
        if name not in index or not _will_run(specs[index[name]], result.flags, owned):
            result.missing.append(name)
    if activate and result.missing == list(dict.fromkeys(activate)):
        raise SwitchRejected("\n".join(faults or [f"not active: {', '.join(result.missing)}"]))
    return result


def _will_run(spec: InstanceSpec, flags: Sequence[int], owned: set[int]) -> bool:
    return bool(flags[spec.index]) or (spec.is_hold and not owned & set(spec.arms))


def _is_known(
    name: str, index: dict[str, int], unavailable: Mapping[str, str], faults: list[str]
) -> bool:
    if name not in index:
        faults.append(f"{name}: does not exist; known: {', '.join(index)}")
        return False
    if name in unavailable:
        faults.append(f"{name}: {unavailable[name]}")
        return False
    return True


def _shared(spec: InstanceSpec, rivals: Sequence[InstanceSpec]) -> str:
    names = [
        name for name in spec.config.arms if any(name in rival.config.arms for rival in rivals)
    ]
    return " and ".join(f"arm {name}" for name in names)


@dataclass(frozen=True)
class SwitchResult:
    """Result of a switch.

    Attributes:
        activated: Names of controllets that became active.
        deactivated: Names of controllets that were deactivated.
        skipped: Texts on parts of a best-effort switch that were not executed.
        missing: Names of requested controllets that are not active.
        delay: Time from the request to the first cycle of the new controllets [s].
        handed_over: Sentences on contact forces that the new controllets continue or release.
        notices: Messages of the new controllets from their first cycle.
        rested: Names of arms that were brought to rest before the switch.
    """

    activated: tuple[str, ...]
    deactivated: tuple[str, ...]
    skipped: tuple[str, ...]
    missing: tuple[str, ...]
    delay: float
    handed_over: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    rested: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        """Description of the result in one sentence."""
        parts = [f"not active: {', '.join(self.missing)}"] if self.missing else []
        parts += [
            f"active: {', '.join(self.activated) or 'nothing new'}",
            f"deactivated: {', '.join(self.deactivated) or 'nothing'}",
            f"{self.delay * 1e3:.3f} ms from request to first cycle",
        ]
        if self.rested:
            parts.append(f"{' and '.join(self.rested)} brought to rest first")
        parts += [*self.handed_over, *self.notices]
        if self.skipped:
            parts.append(f"skipped: {'; '.join(self.skipped)}")
        return "; ".join(parts)


@dataclass(frozen=True)
class MovingArm:
    """Arm that must come to rest before a switch changes its command interface.

    Attributes:
        law: Name of the controllet to activate.
        arm: Name of the arm.
        joint: Number of the fastest joint, from 1.
        speed: Speed of that joint, in ``unit``.
        unit: ``rad/s``, or ``m/s`` for a prismatic joint.
    """

    law: str
    arm: str
    joint: int
    speed: float
    unit: str


def moving_arms(
    specs: Sequence[InstanceSpec],
    plan: SwitchPlan,
    state: Callable[[str], ArmSnapshot],
    bound: float,
    has_settled: Callable[[str, bool], bool] = lambda *_: False,
) -> list[MovingArm]:
    """Return the moving arms whose command interface a switch would change.

    The result is empty if an arm of an activated controllet has a fault, for which the loop
    rejects the switch.

    Args:
        specs: Specifications of all controllet instances.
        plan: Requested switch.
        state: Function that returns the newest state of an arm.
        bound: Joint speed above which an arm counts as moving [rad/s].
        has_settled: Function that returns True if an arm has had time to come to rest, from its
            name and True if no motion is commanded.
    """
    moving_arms = []
    for spec in (spec for spec in specs if spec.name in plan.activated):
        states = [state(name) for name in spec.config.arms]
        if any(one.fault for one in states):
            return []
        if all(one.interface == spec.controllet_class.command_interface for one in states):
            continue
        for one in states:
            is_still = one.interface != COMMAND_INTERFACES[0] and not one.is_commanded_to_move
            if moving := moving_joint(one.dq, bound, has_settled(one.name, is_still)):
                joint, speed = moving
                unit = spec.robots[one.name].limits.unit(joint, "rad/s")
                moving_arms.append(MovingArm(spec.name, one.name, joint + 1, speed, unit))
    return moving_arms


def only_stops(plan: SwitchPlan, active: Sequence[bool]) -> SwitchPlan:
    """Return a copy of a plan that only deactivates controllets."""
    flags = [int(was and flag == KEEP_FLAG) for was, flag in zip(active, plan.flags)]
    return replace(plan, flags=flags, activated=[])


def not_at_rest(moving: Sequence[MovingArm], timeout: float, bound: float) -> str:
    """Return a text on the arms that still exceed a joint speed [rad/s] after a timeout [s]."""
    return "; ".join(
        f"{one.law}: arm {one.arm} moves at {one.speed:.3g} {one.unit} (joint {one.joint}), "
        f"allowed {bound:g} {one.unit} to change its command interface, {timeout:g} s after the "
        "request"
        for one in moving
    )
