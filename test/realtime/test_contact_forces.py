# SPDX-License-Identifier: Apache-2.0
"""Requested forces persist over switches of controllets; missing force is reported."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from held_box import BOTH, HeldBox

from multipanda_py.pose import Pose
from multipanda_py.realtime.contact_forces import CYCLES_BETWEEN_CHECKS, RequestedForces
from multipanda_py.realtime.events import Event

pytestmark = pytest.mark.inline

LAWS = {
    "pair": {"type": "coupled_impedance", "arms": BOTH},
    "force_pair": {"type": "coupled_force_impedance", "arms": BOTH},
    "two_cartesian": {"type": "cartesian_impedance", "arms": BOTH},
    "two_space": {"type": "operational_space", "arms": BOTH},
    "two_joint": {"type": "joint_impedance", "arms": BOTH},
    "two_force": {"type": "force_impedance", "arms": BOTH},
}
REAL = {
    "joint_friction": [0.3] * 4 + [0.15, 0.15, 0.1],
    "joint_damping": [0.5] * 7,
    "noise": {"q": 1e-5, "dq": 1e-3, "tau": 0.05, "torque_resolution": 0.01},
}
LATE = {"state_delay": 0.002, "command_delay": 0.001, "torque_lag": 0.002}
FORCE = 50.0
NEAR = 0.0995
"""Half the width of the box [m]; the rods start 0.5 mm away from it."""


def lifted(make_cell, force=FORCE, first="force_pair", **arm):
    """Return a lifted box of 0.8 kg."""
    box = HeldBox(make_cell, 0.8, first, laws=LAWS, half=NEAR, **arm)
    box.lift(force)
    return box


def switch(box, name):
    """Switch both arms to one controllet and return the result."""
    box.last = name
    return box.cell.switch([name], strictness="force_auto")


def pressed(box):
    """Return the mean force of the tools on the box, from the simulation [N]."""
    return 0.5 * sum(box.force(arm) for arm in BOTH)


def off_middle(box):
    """Return the vector from the midpoint of the tools to the box, in the world, (3,) [m]."""
    tool_positions = [box.cell.pose(arm).position + box.bases[arm] for arm in BOTH]
    return box.cell.objects()["box"].position - np.mean(tool_positions, axis=0)


def reports(cell, event=Event.FORCE_MISSING):
    """Return the events of one kind since the last call."""
    return [e for e in cell.events() if e.event is event]


@pytest.mark.slow
@pytest.mark.sim
@pytest.mark.robustness
def test_each_switch_in_motion_reduced_internal_force(make_cell, episodes):
    """25 switches reduced 50 N to 35 N; 75 switches dropped the box."""
    seeds, count = episodes(1, 4), episodes(14, 200)
    for seed in range(seeds):
        rng = np.random.default_rng(5 + seed)
        perturbation = {"perturbation": LATE} if seed % 2 else {}
        box = lifted(make_cell, **REAL, **perturbation)
        box.cell.events()
        grasp, phase = off_middle(box), 0.0
        start = box.cell.objects()["box"].position
        for number in range(count):
            others = [name for name in LAWS if name != box.last]
            switch(box, str(rng.choice(others)))
            for _ in range(int(rng.integers(20, 60))):
                phase += 0.01 * np.pi
                if "pair" in box.last:
                    goal = start + [0.0, 0.05 * np.sin(phase), 0.04 * np.cos(phase)]
                    box.cell.set_object_target(box.last, Pose(goal, np.eye(3)))
                box.cell.step(10)
            assert pressed(box) == pytest.approx(FORCE, rel=0.1), (seed, number, box.last)
            slip = np.linalg.norm(off_middle(box) - grasp)
            assert slip < 3e-3, (seed, number, box.last)
        assert not reports(box.cell)


@pytest.mark.slow
@pytest.mark.sim
def test_reduced_contact_force_was_not_reported(make_cell):
    """Hold reduces 80 N to 50 N; the next coupled controllet restores 80 N."""
    box = lifted(make_cell, 80.0)
    assert pressed(box) == pytest.approx(80.0, rel=0.05)
    box.cell.events()
    assert " of 80." in box.cell.hold().message
    box.cell.step(400)
    assert pressed(box) < 55.0
    assert {e.controllet for e in reports(box.cell)} == {"left/hold", "right/hold"}
    switch(box, "pair")
    box.cell.step(700)
    assert reports(box.cell, Event.FORCE_NO_LONGER_MISSING)
    assert pressed(box) == pytest.approx(80.0, rel=0.1)


@pytest.mark.slow
@pytest.mark.sim
def test_switch_during_force_ramp_stopped_ramp(make_cell):
    box = lifted(make_cell, 20.0)
    box.cell.set_object_target("force_pair", internal_force=60.0)
    box.cell.step(100)
    assert pressed(box) < 40.0
    assert "of 60.0 N" in switch(box, "pair").message
    box.cell.step(1000)
    assert pressed(box) == pytest.approx(60.0, rel=0.1)


@pytest.mark.slow
@pytest.mark.sim
def test_new_target_replaces_previous_force(make_cell):
    box = lifted(make_cell, 60.0)
    switch(box, "two_cartesian")
    box.cell.step(300)
    for name in ("force_pair", "two_joint", "pair"):
        switch(box, name)
        if name == "force_pair":
            box.cell.set_object_target(name, internal_force=30.0)
        box.cell.step(700)
        assert pressed(box) == pytest.approx(30.0, rel=0.1), name


@pytest.mark.slow
@pytest.mark.sim
@pytest.mark.parametrize(
    ("law", "then"),
    [("two_cartesian", "pair"), ("two_joint", "force_pair"), ("hold", "pair")],
)
def test_force_on_removed_object_is_not_requested_again(make_cell, law, then):
    """The tools keep their poses after the next switch."""
    box = lifted(make_cell, 40.0)
    if law == "hold":
        box.cell.hold()
    else:
        switch(box, law)
    box.cell.step(300)
    sim = box.cell.simulation
    sim.set_pose("box", Pose([1.5, 1.5, 0.5], np.eye(3)))
    box.cell.step(800)
    newest = {e.controllet: e.event for e in box.cell.events() if "FORCE" in e.event.name}
    # Otherwise /diagnostics would warn permanently.
    assert set(newest.values()) == {Event.FORCE_NO_LONGER_MISSING}
    before = {arm: box.cell.pose(arm) for arm in BOTH}
    answer = switch(box, then)
    assert "internal force" not in answer.message
    box.cell.step(500)
    for arm in BOTH:
        assert box.cell.pose(arm).distance(before[arm])[0] < 3e-3


def fault(cell, event, arms):
    """Latch a fault on arms and return the reported texts of 0.3 s."""
    for arm in (arm for arm in cell.loop.arms if arm.state.name in arms):
        cell.loop.owners.fail(arm.owner, event, "for this test", 0, (arm,))
    cell.step(300)
    return " ".join(e.text for e in reports(cell))


@pytest.mark.slow
@pytest.mark.sim
@pytest.mark.parametrize("failed", [["left"], BOTH])
def test_each_fault_halved_internal_force(make_cell, failed):
    """Three velocity faults with recoveries reduced 50 N to 25, 11 and 5 N."""
    box = lifted(make_cell)
    box.cell.events()
    for law in ("pair", "force_pair", "two_joint", "pair"):
        assert fault(box.cell, Event.VELOCITY_LIMIT, failed)
        box.cell.recover()
        box.cell.step(300)
        assert pressed(box) < 1.02 * FORCE
        between = pressed(box)
        assert " of " in switch(box, law).message
        rise = []
        for _ in range(80):
            box.cell.step(10)
            rise.append(pressed(box))
        assert max(rise) < 1.1 * FORCE
        assert rise[4] < between + 0.5 * (FORCE - between)  # the force rises along a ramp
        if "pair" in law:
            assert rise[-1] == pytest.approx(FORCE, rel=0.1), law


@pytest.mark.slow
@pytest.mark.sim
def test_fault_without_torque_cancelled_force_request_without_report(make_cell):
    """The arm may have hit a person: the force is dropped and users are informed."""
    box = lifted(make_cell)
    box.cell.events()
    assert " of 50.0 N" in fault(box.cell, Event.ARM_STOPPED, ["left"])
    box.cell.recover()
    box.cell.step(300)
    (recovered,) = reports(box.cell, Event.RECOVERED)
    assert " of 50.0 N" in recovered.text
    before = pressed(box)
    answer = switch(box, "pair")
    assert " of 50.0 N" in answer.message
    box.cell.step(1000)
    assert pressed(box) < before + 2.0
    assert " of 50.0 N" not in switch(box, "force_pair").message


@pytest.mark.slow
@pytest.mark.sim
def test_force_request_survived_fault_that_interrupted_torque(make_cell, monkeypatch):
    """A velocity fault keeps the request; the backend failed while that fault was latched."""
    box = lifted(make_cell)
    assert fault(box.cell, Event.VELOCITY_LIMIT, BOTH)

    def read(fresh):
        monkeypatch.undo()
        raise RuntimeError("the network is gone")

    monkeypatch.setattr(box.cell.loop.backends[0], "read", read)
    box.cell.step(2)
    box.cell.recover()
    box.cell.step(300)
    before = pressed(box)
    assert " of 50.0 N" in switch(box, "pair").message
    box.cell.step(1000)
    assert pressed(box) < before + 2.0


@pytest.mark.parametrize(("measured", "expected"), [(4.2, []), (3.8, [Event.FORCE_MISSING])])
def test_force_deficit_below_one_newton_was_reported(measured, expected):
    """4.2 of 5 N is below the relative threshold that applies to larger forces."""
    request, found = np.array([5.0, 0.0, 0.0, 0.0, 0.0, 0.0]), []
    state = SimpleNamespace(name="arm", wrench_ext_in_base=-request * measured / 5.0)
    spec = SimpleNamespace(arms=[0], controllet_class=SimpleNamespace(min_arms=1))
    instance = SimpleNamespace(
        spec=spec, active=True, defines_force=True, requested_force=lambda slot: request
    )
    arm = SimpleNamespace(index=0, slot=0, owner=instance, state=state)
    forces = RequestedForces([arm], lambda event, *_: found.append(event), 1e-3)
    for cycle in range(0, 2000, CYCLES_BETWEEN_CHECKS):
        forces.compare([instance], cycle * 1_000_000)
    assert found == expected
