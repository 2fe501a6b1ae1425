# SPDX-License-Identifier: Apache-2.0
"""Arms that have to rest before they can be commanded something else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from multipanda_py.cell.switch_planning import SwitchPlan
from multipanda_py.config.instance_spec import InstanceSpec
from multipanda_py.loop.mailbox import KEEP
from multipanda_py.loop.ownership import moving_joint
from multipanda_py.state import INTERFACES, ArmSnapshot


@dataclass(frozen=True)
class Moving:
    """An arm that has to rest first.

    Attributes:
        law: The instance that waits for it.
        arm: Its name.
        joint: Number of its fastest joint, from 1.
        speed: Speed of that joint [rad/s, or m/s of a sliding joint].
        unit: Of the speed.
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
) -> list[Moving]:
    """Return the arms that the loop would refuse to command something else while they move.

    None at all if one of them has a fault: the loop refuses that whether they move or not.

    Args:
        specs: All instances.
        plan: What is asked for.
        state: Returns the newest state of an arm.
        bound: Speed of a joint that counts as motion [rad/s].
        has_settled: Whether an arm, by name, has had time to come to rest. The flag says whether
            it is without commanded motion now.
    """
    found = []
    for spec in (spec for spec in specs if spec.name in plan.activated):
        states = [state(name) for name in spec.config.arms]
        if any(one.fault for one in states):
            return []
        if all(one.interface == spec.law.command_interface for one in states):
            continue
        for one in states:
            is_still = one.interface != INTERFACES[0] and not one.is_commanded_to_move
            if moving := moving_joint(one.dq, bound, has_settled(one.name, is_still)):
                joint, speed = moving
                unit = spec.robots[one.name].limits.unit(joint, "rad/s")
                found.append(Moving(spec.name, one.name, joint + 1, speed, unit))
    return found


def only_stops(plan: SwitchPlan, active: Sequence[bool]) -> SwitchPlan:
    """Return the part of a plan that stops laws; their arms hold, and come to rest."""
    kept = [int(was and flag == KEEP) for was, flag in zip(active, plan.flags)]
    return replace(plan, flags=kept, activated=[])


def not_at_rest(moving: Sequence[Moving], timeout: float, bound: float) -> str:
    """Say which arms were not at rest in time, by the bound that was to be met."""
    return "; ".join(
        f"{one.law}: arm {one.arm} moves at {one.speed:.3g} {one.unit} (joint {one.joint}), "
        f"allowed {bound:g} {one.unit} to change what is commanded, {timeout:g} s after this was "
        "asked for"
        for one in moving
    )
