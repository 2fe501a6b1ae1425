# SPDX-License-Identifier: Apache-2.0
"""Arms of a controllet whose torques are known before their packet comes."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.hardware.mock import Mock
from multipanda_py.pose import Pose
from multipanda_py.realtime.cycle import ControlLoop
from multipanda_py.realtime.events import Event
from multipanda_py.robots.dynamics.arm_dynamics import ArmModel
from multipanda_py.robots.dynamics.task_inertia import TaskInertia

pytestmark = [pytest.mark.sim, pytest.mark.inline]

ARMS = {"left": {"backend": "mujoco"}, "right": {"backend": "mock", "position": [0, 0.6, 0]}}
FEATURES = ["nullspace", "coriolis", "manipulability", "collision_avoidance"]
LAWS = {"pair": {"type": "coupled_impedance", "arms": ["left", "right"], "features": FEATURES}}
LEFT, RIGHT = 0, 1


def answer(cell, cycles, before=lambda _: None):
    """Let the arms speak one after the other, as robots do by their own clocks."""
    for k in range(cycles):
        for index in (LEFT, RIGHT):
            before(k)
            now = 500_000 * (2 * k + index)
            cell.loop.cycle(now, now, [index])


@pytest.fixture
def pair(make_cell):
    cell = make_cell(ARMS, LAWS, ["pair"])
    cell.step(20)
    return cell


def test_an_arm_that_follows_is_answered_before_its_model_is_taken(pair, monkeypatch):
    done = []
    write, update = Mock.write, ArmModel.update

    def written(backend, fresh):
        if RIGHT in fresh:
            done.append("answer")
        write(backend, fresh)

    def modelled(model, state):
        done.append(f"model of {state.name}")
        update(model, state)

    monkeypatch.setattr(Mock, "write", written)
    monkeypatch.setattr(ArmModel, "update", modelled)
    answer(pair, 2)
    assert done == ["model of left", "answer", "model of right"] * 2


@pytest.mark.parametrize("moves", [False, True])
def test_torques_are_those_of_models_that_come_first(make_cell, monkeypatch, moves):
    found = []
    for answers_first in (True, False):
        if not answers_first:
            monkeypatch.setattr(ControlLoop, "is_follower_packet", lambda loop, fresh: False)
        cell = make_cell(ARMS, LAWS, ["pair"])
        cell.step(20)
        start = cell.records()[1]["arms"]["target_object"][-1, LEFT, :3]

        def stream(k, cell=cell, start=start):
            if moves:
                cell.set_object_target("pair", Pose(start + [0.0, 0.0, 1e-3 * k], np.eye(3)))

        answer(cell, 60, stream)
        _, rows = cell.records()
        found.append({name: rows["arms"][name].copy() for name in rows["arms"].dtype.names})
        assert cell.events() == []
        cell.close()
    for name, values in found[0].items():
        assert np.array_equal(values, found[1][name]), name


def test_a_following_arm_that_is_too_fast_is_found_out_before_it_is_answered(pair):
    answer(pair, 5)
    (backend,) = [backend for backend in pair.loop.backends if isinstance(backend, Mock)]
    backend.dq[0][3] = 50.0
    answer(pair, 2)
    assert [(e.event, e.arm) for e in pair.events()] == [
        (Event.VELOCITY_LIMIT, "right"),
        (Event.HOLDS, "left"),
    ]
    assert [arm.owner.spec.name for arm in pair.loop.arms] == ["left/hold", "right/hold"]


def test_what_was_asked_for_between_two_packets_counts_at_the_next_of_either_arm(pair):
    answer(pair, 5)
    mailbox, index = pair.loop.mailbox, pair.spec("pair").index
    pair.set_parameters("pair", {"damping_ratio": 0.8})
    pair.loop.cycle(10_000_000, 10_000_000, [RIGHT])
    assert mailbox.parameters[index].taken == mailbox.parameters[index].written


def test_what_could_not_be_computed_ahead_ended_the_loop(pair, monkeypatch):
    answer(pair, 5)

    def fail(*_):
        raise ArithmeticError("no inverse")

    monkeypatch.setattr(TaskInertia, "update", fail)
    pair.loop.cycle(10_000_000, 10_000_000, [RIGHT])
    found = [(e.event, e.arm, e.controllet) for e in pair.events()]
    assert found == [(Event.CONTROLLET_ERROR, arm, "pair") for arm in ARMS]
    assert [arm.owner.spec.name for arm in pair.loop.arms] == ["left/hold", "right/hold"]
    answer(pair, 2)
