# SPDX-License-Identifier: Apache-2.0
"""Tasks in lockstep: two arms that lift a box, and what becomes of them if something is wrong."""

from __future__ import annotations

import numpy as np
import pytest
from held_box import AUGMENTED, BASES, BESIDE, BOTH, TABLE, arms_at_box
from long_form import long_form

from multipanda_py.cell.tasks import TaskFile, TaskRunner
from multipanda_py.cell.tasks.metrics import TaskMetrics
from multipanda_py.exceptions import ConfigurationError, TaskFailed
from multipanda_py.pose import Pose
from multipanda_py.realtime.events import Event

pytestmark = pytest.mark.inline

NARROW, WIDE = [0.06, 0.095, 0.1], [0.06, 0.0995, 0.1]
"""Hands stand 5 mm in front of one, and half a millimetre in front of the other: sooner there."""
BOX = {"shape": "box", "size": WIDE, "position": [0.5, 0, 0.4], "mass": 0.8}
SIDES = {"object": "box", "arms": BOTH, "side": "+y"}
HELD = {"contacts": ["sides"], "force": 25.0, "settling_time": 0.05, "duration": 0.6}
SQUEEZE = {**HELD, "name": "squeeze"}
LIFT = {**HELD, "name": "lift", "goals": [{"frame": "box", "offset": [0.0, 0.0, 0.04]}]}
PUT_DOWN = {**HELD, "name": "put_down", "goals": [{"frame": "box", "offset": [0.0, 0.0, -0.04]}]}
LEAVE = {"name": "leave", "contacts": ["sides"], "approach_distance": 0.03, "duration": 0.6}


class Doing:
    """A task on a cell of two arms with rods beside a box."""

    def __init__(self, make_cell, *subtasks, without=None, right=None, **box):
        objects = {"table": TABLE, "box": {**BOX, **box}}
        self.cell = make_cell(arms_at_box(right), AUGMENTED, ["augmented"], objects=objects)
        task = {"name": "lift_box", "controllet": "augmented", "contacts": {"sides": SIDES}}
        self.runner = TaskRunner(
            self.cell, TaskFile.from_dict({**task, "subtasks": list(subtasks)}), without=without
        )
        self.book = TaskMetrics(self.runner)
        self.runner.start()

    @property
    def box(self):
        return self.cell.objects()["box"].position

    def until(self, condition, timeout=30.0):
        """Go on until something is the case, or the task is over."""
        end = self.cell.time + timeout
        while self.runner.is_going and not condition():
            assert self.cell.time < end, [str(event) for event in self.runner.events]
            self.runner.step()
            self.book.note()
            self.cell.step(10)

    def finish(self):
        self.until(lambda: False)
        return self.runner.state == "done"

    def reported(self, what, subtask=None):
        return [
            event.text
            for event in self.runner.events
            if event.kind == what and subtask in (None, event.subtask)
        ]

    @property
    def holds(self):
        return set(self.cell.active) == {f"{arm}/hold" for arm in BOTH}


@pytest.mark.slow
@pytest.mark.sim
def test_two_arms_squeeze_lift_put_down_and_leave(make_cell):
    doing = Doing(make_cell, SQUEEZE, LIFT, PUT_DOWN, LEAVE, size=NARROW)
    start = doing.box
    doing.until(lambda: doing.reported("done", "lift"))
    assert doing.box - start == pytest.approx([0.0, 0.0, 0.04], abs=0.012)
    assert doing.cell.simulation.contact_force("box", "table") == pytest.approx(
        [0, 0, 0], abs=1e-9
    )
    assert 0.4 < doing.runner.progress < 0.8
    assert doing.finish(), doing.runner.reason
    doing.cell.step(300)
    assert doing.box - start == pytest.approx([0.0, 0.0, 0.0], abs=0.008)
    for arm in BOTH:  # 3 cm in front of their sides
        tool = doing.cell.pose(arm).position + BASES[arm]
        assert abs(tool[1] - doing.box[1]) == pytest.approx(0.095 + 0.03, abs=0.01)
    assert doing.runner.progress == 1.0
    order = [e.subtask for e in doing.runner.events if e.kind == "done"]
    assert order == ["squeeze", "lift", "put_down", "leave", ""]


@pytest.mark.sim
@pytest.mark.parametrize("right", long_form(BESIDE, keep=["kinova_gen3"]))
def test_two_kinds_of_arms_do_a_task_together(make_cell, right):
    doing = Doing(make_cell, SQUEEZE, LIFT, right=right)
    start = doing.box
    assert doing.finish(), doing.runner.reason
    assert doing.box - start == pytest.approx([0.0, 0.0, 0.04], abs=0.012)
    for arm in BOTH:
        force = abs(doing.cell.simulation.contact_force(arm, "box")[1])
        assert force == pytest.approx(25.0, rel=0.1)


@pytest.mark.long
@pytest.mark.sim
def test_progress_was_at_the_end_of_a_subtask_when_it_began(make_cell):
    doing, progress = Doing(make_cell, SQUEEZE, LEAVE), []
    doing.runner.listener = lambda event: progress.append(doing.runner.progress)
    assert doing.finish(), doing.runner.reason
    assert progress == sorted(progress)
    assert progress[-1] == 1.0


@pytest.mark.sim
def test_a_task_took_the_reports_of_the_loop_from_whoever_else_reads_them(make_cell):
    """In a node they are its log and its diagnostics."""
    doing = Doing(make_cell, SQUEEZE, LIFT)
    doing.until(lambda: doing.reported("planned", "lift"))
    doing.cell.events()
    doing.cell.simulation.set_pose("box", Pose(np.array([1.5, 1.5, 0.1]), np.eye(3)))
    assert not doing.finish()
    assert "contact" in doing.runner.reason
    assert any("contact" in event.text for event in doing.cell.events())


@pytest.mark.long
@pytest.mark.sim
def test_a_box_that_was_led_was_let_go_a_tolerance_above_its_place(make_cell):
    up = {**LIFT, "mode": "force", "position_tolerance": 0.02}
    doing = Doing(make_cell, SQUEEZE, up)
    start = doing.box
    assert doing.finish(), doing.runner.reason
    assert doing.box - start == pytest.approx([0.0, 0.0, 0.04], abs=0.011)  # sags by 6.5 mm


@pytest.mark.slow
@pytest.mark.sim
def test_a_box_is_not_carried_without_forces(make_cell):
    doing = Doing(make_cell, SQUEEZE, {**LIFT, "timeout": 5.0}, without="force")
    start = doing.box
    assert not doing.finish()
    assert doing.box[2] - start[2] < 0.005
    assert "box is" in doing.runner.reason
    assert not doing.reported("touching")


@pytest.mark.sim
def test_without_both_at_once_hands_press_and_then_follow_the_plan(make_cell):
    doing = Doing(make_cell, SQUEEZE, LIFT, without="hybrid")
    doing.until(lambda: doing.reported("planned", "lift"))
    assert doing.reported("touching", "squeeze")
    assert not doing.reported("touching", "lift")
    assert doing.cell.parameters("augmented")["mode"] == "optimization"
    assert not doing.runner.presses
    assert list(doing.runner.plan.object_paths) == ["box"]


@pytest.mark.long
@pytest.mark.sim
def test_without_a_plan_a_box_goes_up_straight(make_cell):
    doing = Doing(make_cell, SQUEEZE, {**LIFT, "position_tolerance": 0.02}, without="plan")
    start = doing.box
    assert doing.finish(), doing.runner.reason
    assert doing.box - start == pytest.approx([0.0, 0.0, 0.04], abs=0.011)
    assert {event.text for event in doing.runner.events if event.kind == "planned"} == {
        "without a plan"
    }


@pytest.mark.sim
def test_measures_are_those_of_the_simulation(make_cell):
    """The force is estimated from joints: it is compared with the contact's."""
    doing = Doing(make_cell, SQUEEZE, LIFT)
    forces, ways = [], []
    while doing.runner.is_going:
        doing.runner.step()
        doing.book.note()
        if doing.runner.presses and doing.runner.subtask == "lift":
            simulation = doing.cell.simulation
            forces.append([abs(simulation.contact_force(arm, "box")[1]) for arm in BOTH])
        ways.append(doing.box)
        doing.cell.step(10)
    squeeze, lift = doing.book.measures()
    assert (squeeze.name, squeeze.mode, squeeze.requested) == ("squeeze", "force", 25.0)
    assert (lift.name, lift.mode, lift.requested) == ("lift", "hybrid", 25.0)
    assert lift.force_rmse == pytest.approx(
        np.sqrt(np.mean((np.array(forces) - 25) ** 2)), abs=0.5
    )
    assert lift.force_peak == pytest.approx(np.max(forces), abs=1.0)
    assert squeeze.off_rmse != squeeze.off_rmse  # carried nowhere
    assert 0.0 < lift.off_rmse <= lift.off_max < 0.01
    times, places = doing.book.series("box")
    assert places == pytest.approx(np.array(ways)[: len(places)])
    assert np.all(np.diff(times) > 0.0)


@pytest.mark.sim
def test_a_task_in_lockstep_is_the_same_to_the_last_bit(make_cell):
    runs = []
    for _ in range(2):
        doing = Doing(make_cell, SQUEEZE, LIFT)
        doing.until(lambda now=doing: now.runner.progress > 0.6)
        runs.append((doing.box.tolist(), [str(event) for event in doing.runner.events]))
    assert runs[0] == runs[1]


@pytest.mark.sim
def test_aborted_arms_hold_and_nothing_goes_on(make_cell):
    doing = Doing(make_cell, SQUEEZE, LIFT)
    doing.until(lambda: doing.reported("planned", "lift"))
    doing.runner.abort("enough")
    assert doing.runner.state == "aborted"
    assert doing.runner.reason == "lift: enough"
    assert doing.holds
    here = {arm: doing.cell.state(arm).q for arm in BOTH}
    doing.cell.step(250)
    doing.runner.step()
    for arm in BOTH:
        assert np.abs(doing.cell.state(arm).q - here[arm]).max() < 0.05
    with pytest.raises(TaskFailed, match="is aborted"):
        doing.runner.start()


@pytest.mark.long
@pytest.mark.sim
def test_a_paused_box_stays_up_and_goes_on_when_resumed(make_cell):
    doing = Doing(make_cell, SQUEEZE, LIFT)
    start = doing.box
    doing.until(lambda: doing.box[2] > start[2] + 0.015)
    doing.runner.pause()
    doing.cell.step(200)
    waits = doing.box
    for _ in range(20):
        doing.runner.step()
        doing.cell.step(10)
    assert doing.box == pytest.approx(waits, abs=0.003)
    assert waits[2] > start[2] + 0.005
    doing.runner.resume()
    assert doing.finish(), doing.runner.reason
    assert doing.reported("paused") == doing.reported("resumed") == [""]


@pytest.mark.sim
def test_the_fault_of_an_arm_ends_the_task_in_hold(make_cell):
    doing = Doing(make_cell, SQUEEZE)
    doing.until(lambda: doing.cell.time > 0.1)
    law = next(i for i in doing.cell.loop.owners.active if i.spec.name == "augmented").law
    law.update, kept = None, law.update
    doing.cell.step(1)
    law.update = kept
    doing.runner.step()
    assert doing.runner.state == "failed"
    assert "has the fault" in doing.runner.reason
    assert doing.holds


@pytest.mark.sim
def test_a_law_that_is_switched_off_ends_the_task(make_cell):
    doing = Doing(make_cell, SQUEEZE)
    doing.cell.hold()
    doing.runner.step()
    assert doing.runner.state == "failed"
    assert "augmented " in doing.runner.reason


@pytest.mark.sim
def test_an_owner_that_stood_still_was_told_as_somebody_s_switch(make_cell):
    doing = Doing(make_cell, SQUEEZE)
    doing.cell.step(1)
    reported = "no heartbeat of the owning process for 2.00 s; all arms hold"
    doing.cell.loop.hold_all(Event.CLIENT_SILENT, reported, 0)
    doing.cell.step(1)
    doing.runner.step()
    assert doing.runner.state == "failed"
    assert doing.runner.reason.endswith(reported)


@pytest.mark.sim
def test_a_thing_that_moves_away_is_followed(make_cell):
    """Measured on the way, and planned anew."""
    away = {**LEAVE, "duration": 0.8, "approach_distance": 0.05}
    doing = Doing(make_cell, away)
    doing.until(lambda: doing.reported("planned"))
    doing.cell.step(200)
    moved = Pose(doing.box + [0.05, 0.0, 0.0], np.eye(3))
    doing.cell.simulation.set_pose("box", moved)
    assert doing.finish(), doing.runner.reason
    assert any("box is 0.05" in text for text in doing.reported("replanned"))
    for arm in BOTH:
        tool = doing.cell.pose(arm).position + BASES[arm]
        assert tool[0] == pytest.approx(doing.box[0], abs=0.011)


@pytest.mark.long
@pytest.mark.sim
def test_a_force_out_of_its_band_stops_the_motion_until_it_is_back(make_cell):
    """Somebody presses on the box, along the line of the hands, and lets go."""
    doing = Doing(make_cell, SQUEEZE, {**LIFT, "duration": 1.0, "force_tolerance": 0.1})
    doing.until(lambda: doing.reported("planned", "lift"))
    doing.cell.step(100)
    law = "augmented"
    doing.cell.set_parameters(law, {"force_ki": 0.0, "force_kp": 0.0})
    doing.cell.simulation.apply_wrench("box", force=[0.0, 12.0, 0.0])
    doing.until(lambda: doing.reported("replanned", "lift"))
    assert "band" in doing.reported("replanned", "lift")[0]
    doing.cell.simulation.apply_wrench("box", force=[0.0, 0.0, 0.0])
    doing.cell.set_parameters(law, {"force_ki": 10.0, "force_kp": 0.2})
    assert doing.finish(), doing.runner.reason
    assert len(doing.reported("planned", "lift")) > 1


@pytest.mark.long
@pytest.mark.sim
def test_a_box_that_is_taken_away_fails_after_its_retries_and_arms_hold(make_cell):
    lift = {**LIFT, "on_failure": {"retry": 1}, "timeout": 1.5}
    doing = Doing(make_cell, SQUEEZE, lift)
    doing.until(lambda: doing.reported("planned", "lift"))
    doing.cell.step(100)
    doing.cell.simulation.set_pose("box", Pose(np.array([1.5, 1.5, 0.1]), np.eye(3)))
    assert not doing.finish()
    assert len(doing.reported("retry")) == 1
    assert "contact" in doing.reported("retry")[0]
    assert doing.runner.state == "failed"
    assert doing.holds


@pytest.mark.sim
def test_a_goal_out_of_reach_is_said_and_arms_hold(make_cell):
    far = {"name": "far", "goals": [{"frame": "left/tool", "offset": [0, 0, 1.9]}]}
    doing = Doing(make_cell, far)
    assert not doing.finish()
    assert doing.runner.reason.startswith("far: no path: ")  # it was: far: far
    assert "is off by" in doing.runner.reason
    assert doing.holds


@pytest.mark.long
@pytest.mark.sim
def test_force_alone_lifts_where_there_is_no_plan(make_cell):
    """In a fifth of a second nobody lifts a box by 17 cm; the pose of the hands leads it up."""
    fast = {
        "goals": [{"frame": "box", "offset": [0, 0, 0.17]}],
        "duration": 0.2,
        "position_tolerance": 0.03,
    }
    doing = Doing(make_cell, SQUEEZE, {**LIFT, **fast, "on_failure": {"fallback": "force"}})
    start = doing.box
    doing.until(lambda: doing.box[2] > start[2] + 0.03)
    assert "no path" in doing.reported("fallback")[0]
    assert doing.reported("planned", "lift") == ["without a plan"]
    assert doing.runner.is_going, doing.runner.reason


@pytest.mark.long
@pytest.mark.sim
def test_a_goal_that_is_missed_is_said_with_how_far_it_is(make_cell):
    lift = {**LIFT, "position_tolerance": 1e-4, "timeout": 1.0}
    doing = Doing(make_cell, SQUEEZE, lift)
    assert not doing.finish()
    assert "1 s, in phase move; box " in doing.runner.reason
    assert doing.holds


@pytest.mark.long
@pytest.mark.sim
def test_a_motion_that_ends_short_of_its_goal_is_planned_anew(make_cell):
    """It waited there until its time was over."""
    doing = Doing(make_cell, SQUEEZE, {**LIFT, "position_tolerance": 1e-4, "settling_time": 0.02})
    doing.until(lambda: doing.reported("replanned", "lift"))
    assert "box is 0.0" in doing.reported("replanned", "lift")[0]
    assert len(doing.reported("planned", "lift")) == 1
    doing.until(lambda: len(doing.reported("planned", "lift")) == 2)


@pytest.mark.long
@pytest.mark.sim
def test_force_alone_lifts_where_no_plan_is_wanted(make_cell):
    """The pose of the hands leads the box up between them."""
    doing = Doing(make_cell, SQUEEZE, {**LIFT, "mode": "force", "position_tolerance": 0.02})
    start = doing.box
    assert doing.finish(), doing.runner.reason
    assert doing.reported("planned", "lift") == ["without a plan"]
    assert doing.box[2] - start[2] > 0.018


def test_a_task_of_another_cell_does_not_begin(make_cell):
    cell = make_cell()
    task = {
        "name": "t",
        "controllet": "augmented",
        "subtasks": [SQUEEZE],
        "contacts": {"sides": SIDES},
    }
    with pytest.raises(ConfigurationError, match="controllet"):
        TaskRunner(cell, TaskFile.from_dict(task))
