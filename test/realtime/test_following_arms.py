# SPDX-License-Identifier: Apache-2.0
"""Arms of a coupled controllet whose torques are computed before their packet arrives."""

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
    """Run cycles with packets of alternating arms, as from robots with separate clocks."""
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


def test_following_arm_is_answered_before_its_model_update(pair, monkeypatch):
    done = []
    write, update = Mock.write, ArmModel.update

    def write_and_log(backend, fresh):
        if RIGHT in fresh:
            done.append("answer")
        write(backend, fresh)

    def update_and_log(model, state):
        done.append(f"model of {state.name}")
        update(model, state)

    monkeypatch.setattr(Mock, "write", write_and_log)
    monkeypatch.setattr(ArmModel, "update", update_and_log)
    answer(pair, 2)
    assert done == ["model of left", "answer", "model of right"] * 2


@pytest.mark.parametrize("moves", [False, True])
def test_torques_equal_those_with_models_updated_first(make_cell, monkeypatch, moves):
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


def test_too_fast_following_arm_is_stopped_before_answer(pair):
    answer(pair, 5)
    (backend,) = [backend for backend in pair.loop.backends if isinstance(backend, Mock)]
    backend.dq[0][3] = 50.0
    answer(pair, 2)
    assert [(e.event, e.arm) for e in pair.events()] == [
        (Event.VELOCITY_LIMIT, "right"),
        (Event.HOLDS, "left"),
    ]
    assert [arm.owner.spec.name for arm in pair.loop.arms] == ["left/hold", "right/hold"]


def test_parameters_between_packets_apply_at_next_packet(pair):
    answer(pair, 5)
    mailbox, index = pair.loop.mailbox, pair.spec("pair").index
    pair.set_parameters("pair", {"damping_ratio": 0.8})
    pair.loop.cycle(10_000_000, 10_000_000, [RIGHT])
    assert mailbox.parameters[index].taken == mailbox.parameters[index].written


def test_exception_in_ahead_computation_ended_loop(pair, monkeypatch):
    answer(pair, 5)

    def fail(*_):
        raise ArithmeticError("no inverse")

    monkeypatch.setattr(TaskInertia, "update", fail)
    pair.loop.cycle(10_000_000, 10_000_000, [RIGHT])
    found = [(e.event, e.arm, e.controllet) for e in pair.events()]
    assert found == [(Event.CONTROLLET_ERROR, arm, "pair") for arm in ARMS]
    assert [arm.owner.spec.name for arm in pair.loop.arms] == ["left/hold", "right/hold"]
    answer(pair, 2)
