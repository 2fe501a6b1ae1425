# SPDX-License-Identifier: Apache-2.0
"""Simulation in real time: pause, steps and moved objects."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.cell import Cell
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import LoopError, SimulationRejected, TargetRejected, UnknownName
from multipanda_py.pose import Pose
from multipanda_py.realtime.shared_memory import SharedFlag

pytestmark = pytest.mark.inline

BALL = {"shape": "sphere", "size": [0.03], "position": [0.0, 1.0, 1.0], "mass": 0.1}
SPARE = {**BALL, "position": [0.0, 1.0, 0.5], "present": False}
WALL = {"shape": "box", "size": [0.1, 0.1, 0.1], "position": [0.0, -1.0, 0.1]}


def config(**changes):
    return CellConfig.from_dict(
        {
            "cell": {"name": "pausing", "placement": "thread", "rate": 500.0},
            "arms": {"left": {"backend": "mujoco"}},
            "objects": {"ball": BALL, "wall": WALL, "spare": SPARE, "second": SPARE},
            "controllets": {"soft": {"type": "joint_impedance"}},
            "active": ["left/soft"],
            **changes,
        }
    )


@pytest.fixture
def paused():
    with Cell(config()) as cell:
        last = cell.world.pause()
        cell.wait(lambda: cell.world.is_paused, 10.0, "a pause")
        assert cell.world.cycles == last
        yield cell


def step(cell, cycles):
    goal = cell.world.request_steps(cycles)
    cell.wait(lambda: cell.world.cycles >= goal, 10.0, "steps")


def test_steps_run_requested_number_of_cycles(paused):
    time, count = float(paused.latest_record()["time"]), paused.world.cycles
    for cycles in (1, 7):
        step(paused, cycles)
    assert paused.world.cycles == count + 8
    assert float(paused.latest_record()["time"]) - time == pytest.approx(8 / 500.0, abs=1e-9)


def test_steps_were_counted_from_cycle_before_pause(paused):
    """Additional cycles may run until the loop reads the pause request."""
    step(paused, 5)
    cycles = paused.world.cycles
    paused.debug.mailbox.words[SharedFlag.LAST_ROW] -= 3
    assert paused.world.request_steps(7) == cycles + 7


def test_paused_simulation_is_reported_and_resumes(paused):
    paused.wait(paused.stall_reason, 10.0, "a reason")
    assert paused.stall_reason() == "the simulation is paused"
    with pytest.raises((TargetRejected, LoopError), match="the simulation is paused"):
        paused.set_channel("left", "joint", paused.state("left").q)
    count = paused.world.cycles
    paused.world.resume()
    paused.wait(lambda: paused.world.cycles > count + 20, 10.0, "time that goes on")
    with pytest.raises(SimulationRejected, match=r"^steps: "):
        paused.world.request_steps(1)


def test_pause_did_not_end_active_steps(paused):
    """A simulation with a billion requested steps could be resumed but not paused."""
    for steps in (0, 10**9 + 1, 2**63):  # the last number exceeds the counter of the loop
        with pytest.raises(SimulationRejected, match=rf"^steps: .*\b{steps}\b.*\b1\b"):
            paused.world.request_steps(steps)
    paused.world.request_steps(10**9)
    count = paused.world.cycles
    paused.wait(lambda: paused.world.cycles > count, 10.0, "steps")
    last = paused.world.pause()
    paused.wait(lambda: paused.world.is_paused, 10.0, "a pause")
    assert paused.world.cycles == last


def test_moved_object_falls_from_new_pose(paused):
    new_pose = Pose.from_rpy([0.3, 1.2, 0.8], [0.1, 0.2, 0.3])
    number = paused.world.request_pose("ball", new_pose)
    step(paused, 1)
    assert paused.world.is_placed("ball", number)
    assert paused.objects()["ball"].position.tolist() == [0.3, 1.2, 0.8]
    step(paused, 50)
    fallen = paused.objects()["ball"]
    assert np.allclose(fallen.position[:2], [0.3, 1.2], atol=1e-6)
    assert fallen.position[2] == pytest.approx(0.8 - 0.5 * 9.81 * (50 / 500.0) ** 2, abs=3e-3)
    assert np.allclose(fallen.rotation, new_pose.rotation, atol=1e-6)


def test_object_moved_into_arm_pushed_it_without_report(paused):
    """A checked request is refused, an unchecked one is reported."""
    elbow = Pose(np.array([0.0, 0.0, 0.3]), np.eye(3))
    request = paused.request_object_pose("ball", elbow)
    with pytest.raises(SimulationRejected, match=r"^move: ball\b.*\bleft:.*\d mm"):
        paused.wait(lambda: paused.scene_change_done(request), 10.0, "an answer")
    assert paused.objects()["ball"].position[1] == 1.0
    free_pose = Pose(np.array([0.3, 1.2, 0.8]), np.eye(3))
    request = paused.request_object_pose("ball", free_pose)
    paused.wait(lambda: paused.scene_change_done(request), 10.0, "an answer")
    assert paused.objects()["ball"].position.tolist() == [0.3, 1.2, 0.8]
    assert paused.events() == []
    number = paused.world.request_pose("ball", elbow)
    paused.wait(lambda: paused.world.is_placed("ball", number), 10.0, "the ball there")
    (event,) = paused.events()
    assert event.text.startswith("ball was moved ")
    assert event.text.endswith(" mm into left")
    request = paused.request_object_pose("spare", free_pose)
    with pytest.raises(SimulationRejected, match=r"^move: .*\bspare\b"):
        paused.wait(lambda: paused.scene_change_done(request), 10.0, "an answer")


def test_objects_are_spawned_and_deleted_while_arms_move():
    with Cell(config()) as cell:
        q, epoch = cell.state("left").q, int(cell.latest_record()["epoch"])
        for k in range(10):
            cell.set_target("left", q=q + 0.01 * np.sin(k))
            cell.spawn("spare")
            assert "spare" in cell.objects()
            assert cell.spawnable == ("second",)
            with pytest.raises(SimulationRejected, match=r"^spawn: second .*\bspare: .*\d\d\."):
                cell.spawn("second", cell.objects()["spare"])
            cell.delete("spare")
            assert cell.spawnable == ("spare", "second")
        assert not cell.state("left").fault
        assert int(cell.latest_record()["epoch"]) == epoch, "no controllet was deactivated"


def test_paused_simulation_spawns_objects_without_time_step(paused):
    time, cycles = float(paused.latest_record()["time"]), paused.world.cycles
    paused.spawn("spare")
    assert paused.objects()["spare"].position.tolist() == [0.0, 1.0, 0.5]
    with pytest.raises(SimulationRejected, match=r"^spawn: second .*\bspare: "):
        paused.spawn("second")
    paused.spawn("second", Pose(np.array([0.0, 1.0, 0.8]), np.eye(3)))
    paused.delete("spare")
    assert paused.spawnable == ("spare",)
    assert float(paused.latest_record()["time"]) == time
    assert paused.world.is_paused
    assert paused.world.cycles == cycles
    with pytest.raises(SimulationRejected, match=r"^spare: "):
        paused.world.request_pose("spare", Pose(np.zeros(3), np.eye(3)))
    before = paused.world.cycles
    step(paused, 50)
    assert paused.world.cycles == before + 50
    fallen = paused.objects()["second"].position[2]
    assert fallen == pytest.approx(0.8 - 0.5 * 9.81 * (50 / 500.0) ** 2, abs=3e-3)


def test_one_of_two_objects_moved_in_one_cycle_stayed(paused):
    paused.spawn("spare")
    for name, x in (("ball", 0.3), ("spare", 0.4)):
        paused.world.request_pose(name, Pose(np.array([x, 1.2, 0.8]), np.eye(3)))
    step(paused, 1)
    assert [pose.position[0] for pose in paused.objects().values()] == [0.3, 0.4]


def test_invalid_simulation_requests_are_refused(paused):
    with pytest.raises(UnknownName, match="wall"):
        paused.world.request_pose("wall", Pose(np.zeros(3), np.eye(3)))
    with pytest.raises(SimulationRejected, match=r"^ball: twist: .*\bnan\b.*\b6\b"):
        paused.world.request_pose("ball", Pose(np.zeros(3), np.eye(3)), [np.nan] * 6)
    with pytest.raises(SimulationRejected, match=r"steps:.*\b0\b.*\b1\b"):
        paused.world.request_steps(0)


def test_real_or_inline_cell_cannot_be_paused():
    arms = {"left": {"backend": "franka", "robot_ip": "127.0.0.1"}}
    real = Cell(config(cell={"name": "pausing"}, arms=arms))
    with pytest.raises(SimulationRejected, match=r"arms\.left\.backend: franka\b"):
        real.world.pause()
    inline = config(cell={"name": "pausing", "placement": "inline"})
    with pytest.raises(SimulationRejected, match=r"placement: inline\b"):
        Cell(inline).world.pause()
