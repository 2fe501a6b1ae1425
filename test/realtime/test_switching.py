# SPDX-License-Identifier: Apache-2.0
"""Plans of switch requests for each strictness, without a loop."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multipanda_py.cell.switch_planning import (
    KEEP_FLAG,
    RESTART_FLAG,
    Strictness,
    SwitchPlan,
    plan_switch,
)
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.instance_spec import instance_specs
from multipanda_py.exceptions import SwitchRejected

pytestmark = pytest.mark.inline

PLANS = instance_specs(
    CellConfig.from_dict(
        {
            "arms": {"a": {}, "b": {}, "c": {}},
            "controllets": {
                "one": {"type": "cartesian_impedance"},
                "two": {"type": "joint_impedance"},
                "ab": {"type": "cartesian_impedance", "arms": ["a", "b"]},
                "bc": {"type": "cartesian_impedance", "arms": ["b", "c"]},
            },
        }
    )
)
NAMES = [plan.name for plan in PLANS]
LAWS = [plan for plan in PLANS if not plan.is_hold]
BEST, STRICT, AUTO, FORCE = (
    Strictness.BEST_EFFORT, Strictness.STRICT, Strictness.AUTO, Strictness.FORCE_AUTO,
)  # fmt: skip


def flags_of(*active: str) -> list[bool]:
    """Return an active set with hold on every remaining arm."""
    owned = {arm for plan in PLANS if plan.name in active for arm in plan.arms}
    return [plan.name in active or (plan.is_hold and not set(plan.arms) & owned) for plan in PLANS]


def switch(
    active: tuple[str, ...],
    on: list[str],
    off: list[str],
    rule: Strictness,
    away: tuple[str, ...] = (),
) -> SwitchPlan:
    return plan_switch(
        PLANS,
        flags_of(*active),
        on,
        off,
        rule,
        dict.fromkeys(away, "is not loaded and configured"),
    )


def active_in(plan: SwitchPlan) -> set[str]:
    return {name for name, flag in zip(NAMES, plan.flags) if flag}


def idle_holds(owned: list[int]) -> set[str]:
    return {plan.name for plan in PLANS if plan.is_hold and not set(plan.arms) & set(owned)}


@pytest.mark.parametrize("rule", list(Strictness))
def test_idle_arm_accepts_controllet_under_any_strictness(rule: Strictness) -> None:
    plan = switch((), ["a/one"], [], rule)
    assert plan.activated == ["a/one"]
    assert plan.deactivated == []
    assert plan.skipped == []
    assert active_in(plan) == {"a/one"}


@pytest.mark.parametrize("rule", list(Strictness))
def test_controllet_replaces_another_in_one_request(rule: Strictness) -> None:
    plan = switch(("a/one", "b/one"), ["ab"], ["a/one", "b/one"], rule)
    assert plan.activated == ["ab"]
    assert plan.deactivated == ["a/one", "b/one"]


@pytest.mark.parametrize("rule", [STRICT, AUTO])
def test_owned_arm_is_refused(rule: Strictness) -> None:
    with pytest.raises(SwitchRejected, match=r"^ab: .*\ba/one\b.*\barm a\b"):
        switch(("a/one",), ["ab"], [], rule)


def test_best_effort_skips_conflicts() -> None:
    plan = switch(("a/one",), ["ab", "c/two"], [], BEST)
    assert active_in(plan) == {"a/one", "c/two"}
    assert plan.missing == ["ab"]
    (skipped,) = plan.skipped
    assert re.match(r"ab: .*\ba/one\b.*\barm a\b.*\bFORCE_AUTO\b", skipped)


def test_best_effort_reports_only_inactive_requests_as_missing() -> None:
    requested = ["a/one", "c/hold", "b/hold", "nonsense", "ab", "bc"]
    plan = switch(("a/one", "c/two"), requested, ["b/one"], BEST)
    assert plan.missing == ["c/hold", "nonsense", "ab", "bc"]
    assert switch(("a/one",), ["a/one", "b/hold"], ["c/two"], BEST).missing == []


def test_best_effort_without_activation_stopped_controllets() -> None:
    for requested in (["ab"], ["nonsense"], ["c/hold", "ab"]):
        with pytest.raises(SwitchRejected, match=requested[-1]):
            switch(("a/one", "b/one", "c/two"), requested, ["b/one"], BEST)
    assert switch(("a/one",), [], ["a/one"], BEST).deactivated == ["a/one"]


def test_force_auto_deactivates_current_owners() -> None:
    plan = switch(("a/one", "bc"), ["ab"], [], FORCE)
    assert active_in(plan) == {"ab"}
    assert plan.deactivated == ["a/one", "bc"]


def test_force_auto_refuses_conflicting_requests() -> None:
    with pytest.raises(SwitchRejected, match=r"^bc: .*\bab\b.*\barm b$"):
        switch((), ["ab", "bc"], [], FORCE)


def test_redundant_request_is_refused_only_if_strict() -> None:
    with pytest.raises(SwitchRejected, match=r"\ba/one: ") as refusal:
        switch(("a/one",), ["a/one"], ["b/one"], STRICT)
    assert re.search(r"\bb/one: ", str(refusal.value))
    for rule in (AUTO, FORCE):
        plan = switch(("a/one",), ["a/one"], ["b/one"], rule)
        assert (plan.activated, plan.deactivated, plan.skipped) == ([], [], [])
        assert active_in(plan) == {"a/one"}


@pytest.mark.parametrize("rule", list(Strictness))
def test_controllet_in_both_lists_is_restarted(rule: Strictness) -> None:
    plan = switch(("a/one",), ["a/one"], ["a/one"], rule)
    assert plan.flags[NAMES.index("a/one")] == RESTART_FLAG
    assert plan.activated == ["a/one"]
    assert plan.deactivated == []


def test_remaining_controllet_is_not_restarted() -> None:
    assert switch(("a/one",), ["b/one"], [], STRICT).flags[NAMES.index("a/one")] == KEEP_FLAG


@pytest.mark.parametrize("rule", [STRICT, AUTO, FORCE])
def test_unknown_and_unready_names_are_refused_with_all_reasons(rule: Strictness) -> None:
    with pytest.raises(SwitchRejected) as refusal:
        switch((), ["nonsense", "a/one", "b/one"], [], rule, away=("b/one",))
    lines = str(refusal.value).splitlines()
    assert re.match("nonsense: .*a/hold", lines[0])
    assert lines[1].startswith("b/one: ")


_names = st.lists(st.sampled_from([*NAMES, "nonsense"]), max_size=5)


@given(
    st.lists(st.sampled_from([plan.name for plan in LAWS]), max_size=3),
    _names,
    _names,
    st.sampled_from(list(Strictness)),
    st.lists(st.sampled_from(NAMES), max_size=2),
)
def test_no_request_gives_arm_two_owners(
    start: list[str], on: list[str], off: list[str], rule: Strictness, away: list[str]
) -> None:
    active: list[str] = []
    for name in start:  # controllets without common arms
        taken = {arm for plan in PLANS if plan.name in active for arm in plan.arms}
        if not taken & set(PLANS[NAMES.index(name)].arms):
            active.append(name)
    before = flags_of(*active)
    given_flags = list(before)
    try:
        plan = plan_switch(PLANS, before, on, off, rule, dict.fromkeys(away, "is away"))
    except SwitchRejected:
        assert on or rule is not BEST
        return
    finally:
        assert before == given_flags  # the present set is unchanged in any case
    owned = [arm for p in PLANS if plan.flags[p.index] for arm in p.arms]
    assert len(owned) == len(set(owned))
    now = active_in(plan)
    assert set(plan.missing) == {name for name in on if name not in now | idle_holds(owned)}
    assert not on or set(plan.missing) < set(on)
    assert set(plan.activated) <= now
    assert set(plan.deactivated) == set(active) - now
    assert now - set(active) <= set(plan.activated) <= set(on)
    assert not (now - set(active)) & set(away)
    if not plan.skipped:
        assert {name for name in on if not name.endswith("/hold")} <= now
        assert set(off) - set(on) <= set(NAMES) - now
