# SPDX-License-Identifier: Apache-2.0
"""Tasks in lockstep: two arms that lift a box, with and without faults."""

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
"""The tools start 5 mm from the narrow box and, to save time, 0.5 mm from the wide one."""
BOX = {"shape": "box", "size": WIDE, "position": [0.5, 0, 0.4], "mass": 0.8}
SIDES = {"object": "box", "arms": BOTH, "side": "+y"}
HELD = {"contacts": ["sides"], "force": 25.0, "settling_time": 0.05, "duration": 0.6}
GRASP = {**HELD, "name": "squeeze"}
LIFT = {**HELD, "name": "lift", "goals": [{"frame": "box", "offset": [0.0, 0.0, 0.04]}]}
PUT_DOWN = {**HELD, "name": "put_down", "goals": [{"frame": "box", "offset": [0.0, 0.0, -0.04]}]}
LEAVE = {"name": "leave", "contacts": ["sides"], "approach_distance": 0.03, "duration": 0.6}


class TaskRig:
    """A task, and its cell of two arms with rods beside a box."""

    def __init__(self, make_cell, *subtasks, without=None, right=None, **box):
        objects = {"table": TABLE, "box": {**BOX, **box}}
        self.cell = make_cell(arms_at_box(right), AUGMENTED, ["augmented"], objects=objects)
        task = {"name": "lift_box", "controllet": "augmented", "contacts": {"sides": SIDES}}
        self.runner = TaskRunner(
            self.cell, TaskFile.from_dict({**task, "subtasks": list(subtasks)}), without=without
        )
        self.task_metrics = TaskMetrics(self.runner)
        self.runner.start()

    @property
    def box(self):
        return self.cell.objects()["box"].position

    def until(self, condition, timeout=30.0):
        """Continue until a condition holds or the task has ended."""
        end = self.cell.time + timeout
        while self.runner.is_going and not condition():
            assert self.cell.time < end, [str(event) for event in self.runner.events]
            self.runner.step()
            self.task_metrics.note()
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
def test_two_arms_grasp_lift_put_down_and_retreat(make_cell):
    rig = TaskRig(make_cell, GRASP, LIFT, PUT_DOWN, LEAVE, size=NARROW)
    start = rig.box
    rig.until(lambda: rig.reported("done", "lift"))
    assert rig.box - start == pytest.approx([0.0, 0.0, 0.04], abs=0.012)
    assert rig.cell.simulation.contact_force("box", "table") == pytest.approx([0, 0, 0], abs=1e-9)
    assert 0.4 < rig.runner.progress < 0.8
    assert rig.finish(), rig.runner.reason
    rig.cell.step(300)
    assert rig.box - start == pytest.approx([0.0, 0.0, 0.0], abs=0.008)
    for arm in BOTH:  # the tools are 3 cm away from the box
        tool = rig.cell.pose(arm).position + BASES[arm]
        assert abs(tool[1] - rig.box[1]) == pytest.approx(0.095 + 0.03, abs=0.01)
    assert rig.runner.progress == 1.0
    order = [e.subtask for e in rig.runner.events if e.kind == "done"]
    assert order == ["squeeze", "lift", "put_down", "leave", ""]


@pytest.mark.sim
@pytest.mark.parametrize("right", long_form(BESIDE, keep=["kinova_gen3"]))
def test_two_arm_models_perform_task_together(make_cell, right):
    rig = TaskRig(make_cell, GRASP, LIFT, right=right)
    start = rig.box
    assert rig.finish(), rig.runner.reason
    assert rig.box - start == pytest.approx([0.0, 0.0, 0.04], abs=0.012)
    for arm in BOTH:
        force = abs(rig.cell.simulation.contact_force(arm, "box")[1])
        assert force == pytest.approx(25.0, rel=0.1)


@pytest.mark.long
@pytest.mark.sim
def test_progress_was_at_end_of_subtask_at_its_start(make_cell):
    rig, progress = TaskRig(make_cell, GRASP, LEAVE), []
    rig.runner.listener = lambda event: progress.append(rig.runner.progress)
    assert rig.finish(), rig.runner.reason
    assert progress == sorted(progress)
    assert progress[-1] == 1.0


@pytest.mark.sim
def test_task_consumed_loop_events_of_other_readers(make_cell):
    """A node uses these events for its log and diagnostics."""
    rig = TaskRig(make_cell, GRASP, LIFT)
    rig.until(lambda: rig.reported("planned", "lift"))
    rig.cell.events()
    rig.cell.simulation.set_pose("box", Pose(np.array([1.5, 1.5, 0.1]), np.eye(3)))
    assert not rig.finish()
    assert "contact" in rig.runner.reason
    assert any("contact" in event.text for event in rig.cell.events())


@pytest.mark.long
@pytest.mark.sim
def test_box_in_mode_force_was_released_above_goal(make_cell):
    up = {**LIFT, "mode": "force", "position_tolerance": 0.02}
    rig = TaskRig(make_cell, GRASP, up)
    start = rig.box
    assert rig.finish(), rig.runner.reason
    assert rig.box - start == pytest.approx([0.0, 0.0, 0.04], abs=0.011)  # the box sags by 6.5 mm


@pytest.mark.slow
@pytest.mark.sim
def test_box_is_not_carried_without_force(make_cell):
    rig = TaskRig(make_cell, GRASP, {**LIFT, "timeout": 5.0}, without="force")
    start = rig.box
    assert not rig.finish()
    assert rig.box[2] - start[2] < 0.005
    assert "box is" in rig.runner.reason
    assert not rig.reported("touching")


@pytest.mark.sim
def test_without_hybrid_mode_grasp_precedes_plan(make_cell):
    rig = TaskRig(make_cell, GRASP, LIFT, without="hybrid")
    rig.until(lambda: rig.reported("planned", "lift"))
    assert rig.reported("touching", "squeeze")
    assert not rig.reported("touching", "lift")
    assert rig.cell.parameters("augmented")["mode"] == "optimization"
    assert not rig.runner.presses
    assert list(rig.runner.plan.object_paths) == ["box"]


@pytest.mark.long
@pytest.mark.sim
def test_box_is_lifted_vertically_without_plan(make_cell):
    rig = TaskRig(make_cell, GRASP, {**LIFT, "position_tolerance": 0.02}, without="plan")
    start = rig.box
    assert rig.finish(), rig.runner.reason
    assert rig.box - start == pytest.approx([0.0, 0.0, 0.04], abs=0.011)
    assert {event.text for event in rig.runner.events if event.kind == "planned"} == {
        "without a plan"
    }


@pytest.mark.sim
def test_measured_metrics_agree_with_simulation(make_cell):
    """Compare the force estimated from joint torques with the contact force."""
    rig = TaskRig(make_cell, GRASP, LIFT)
    forces, positions = [], []
    while rig.runner.is_going:
        rig.runner.step()
        rig.task_metrics.note()
        if rig.runner.presses and rig.runner.subtask == "lift":
            simulation = rig.cell.simulation
            forces.append([abs(simulation.contact_force(arm, "box")[1]) for arm in BOTH])
        positions.append(rig.box)
        rig.cell.step(10)
    grasp, lift = rig.task_metrics.measures()
    assert (grasp.name, grasp.mode, grasp.requested) == ("squeeze", "force", 25.0)
    assert (lift.name, lift.mode, lift.requested) == ("lift", "hybrid", 25.0)
    assert lift.force_rmse == pytest.approx(
        np.sqrt(np.mean((np.array(forces) - 25) ** 2)), abs=0.5
    )
    assert lift.force_peak == pytest.approx(np.max(forces), abs=1.0)
    assert grasp.off_rmse != grasp.off_rmse  # NaN, as there is no goal
    assert 0.0 < lift.off_rmse <= lift.off_max < 0.01
    times, recorded_positions = rig.task_metrics.series("box")
    assert recorded_positions == pytest.approx(np.array(positions)[: len(recorded_positions)])
    assert np.all(np.diff(times) > 0.0)


@pytest.mark.sim
def test_task_in_lockstep_is_bitwise_reproducible(make_cell):
    runs = []
    for _ in range(2):
        rig = TaskRig(make_cell, GRASP, LIFT)
        rig.until(lambda now=rig: now.runner.progress > 0.6)
        runs.append((rig.box.tolist(), [str(event) for event in rig.runner.events]))
    assert runs[0] == runs[1]


@pytest.mark.sim
def test_aborted_task_puts_arms_in_hold(make_cell):
    rig = TaskRig(make_cell, GRASP, LIFT)
    rig.until(lambda: rig.reported("planned", "lift"))
    rig.runner.abort("enough")
    assert rig.runner.state == "aborted"
    assert rig.runner.reason == "lift: enough"
    assert rig.holds
    here = {arm: rig.cell.state(arm).q for arm in BOTH}
    rig.cell.step(250)
    rig.runner.step()
    for arm in BOTH:
        assert np.abs(rig.cell.state(arm).q - here[arm]).max() < 0.05
    with pytest.raises(TaskFailed, match="is aborted"):
        rig.runner.start()


@pytest.mark.long
@pytest.mark.sim
def test_paused_task_keeps_box_lifted_and_resumes(make_cell):
    rig = TaskRig(make_cell, GRASP, LIFT)
    start = rig.box
    rig.until(lambda: rig.box[2] > start[2] + 0.015)
    rig.runner.pause()
    rig.cell.step(200)
    paused_at = rig.box
    for _ in range(20):
        rig.runner.step()
        rig.cell.step(10)
    assert rig.box == pytest.approx(paused_at, abs=0.003)
    assert paused_at[2] > start[2] + 0.005
    rig.runner.resume()
    assert rig.finish(), rig.runner.reason
    assert rig.reported("paused") == rig.reported("resumed") == [""]


@pytest.mark.sim
def test_fault_of_arm_ends_task_in_hold(make_cell):
    rig = TaskRig(make_cell, GRASP)
    rig.until(lambda: rig.cell.time > 0.1)
    law = next(i for i in rig.cell.loop.owners.active if i.spec.name == "augmented").law
    law.update, saved = None, law.update
    rig.cell.step(1)
    law.update = saved
    rig.runner.step()
    assert rig.runner.state == "failed"
    assert "has the fault" in rig.runner.reason
    assert rig.holds


@pytest.mark.sim
def test_deactivated_controllet_ends_task(make_cell):
    rig = TaskRig(make_cell, GRASP)
    rig.cell.hold()
    rig.runner.step()
    assert rig.runner.state == "failed"
    assert "augmented " in rig.runner.reason


@pytest.mark.sim
def test_silent_owner_was_reported_as_switch_of_another_client(make_cell):
    rig = TaskRig(make_cell, GRASP)
    rig.cell.step(1)
    reported = "no heartbeat of the owning process for 2.00 s; all arms hold"
    rig.cell.loop.hold_all(Event.CLIENT_SILENT, reported, 0)
    rig.cell.step(1)
    rig.runner.step()
    assert rig.runner.state == "failed"
    assert rig.runner.reason.endswith(reported)


@pytest.mark.sim
def test_moved_object_is_tracked(make_cell):
    """The motion is replanned from a new measurement."""
    away = {**LEAVE, "duration": 0.8, "approach_distance": 0.05}
    rig = TaskRig(make_cell, away)
    rig.until(lambda: rig.reported("planned"))
    rig.cell.step(200)
    moved = Pose(rig.box + [0.05, 0.0, 0.0], np.eye(3))
    rig.cell.simulation.set_pose("box", moved)
    assert rig.finish(), rig.runner.reason
    assert any("box is 0.05" in text for text in rig.reported("replanned"))
    for arm in BOTH:
        tool = rig.cell.pose(arm).position + BASES[arm]
        assert tool[0] == pytest.approx(rig.box[0], abs=0.011)


@pytest.mark.long
@pytest.mark.sim
def test_force_outside_band_interrupts_motion_until_restored(make_cell):
    """A temporary external force acts on the box along the line between the tools."""
    rig = TaskRig(make_cell, GRASP, {**LIFT, "duration": 1.0, "force_tolerance": 0.1})
    rig.until(lambda: rig.reported("planned", "lift"))
    rig.cell.step(100)
    law = "augmented"
    rig.cell.set_parameters(law, {"force_ki": 0.0, "force_kp": 0.0})
    rig.cell.simulation.apply_wrench("box", force=[0.0, 12.0, 0.0])
    rig.until(lambda: rig.reported("replanned", "lift"))
    assert "band" in rig.reported("replanned", "lift")[0]
    rig.cell.simulation.apply_wrench("box", force=[0.0, 0.0, 0.0])
    rig.cell.set_parameters(law, {"force_ki": 10.0, "force_kp": 0.2})
    assert rig.finish(), rig.runner.reason
    assert len(rig.reported("planned", "lift")) > 1


@pytest.mark.long
@pytest.mark.sim
def test_removed_box_ends_task_after_retries_in_hold(make_cell):
    lift = {**LIFT, "on_failure": {"retry": 1}, "timeout": 1.5}
    rig = TaskRig(make_cell, GRASP, lift)
    rig.until(lambda: rig.reported("planned", "lift"))
    rig.cell.step(100)
    rig.cell.simulation.set_pose("box", Pose(np.array([1.5, 1.5, 0.1]), np.eye(3)))
    assert not rig.finish()
    assert len(rig.reported("retry")) == 1
    assert "contact" in rig.reported("retry")[0]
    assert rig.runner.state == "failed"
    assert rig.holds


@pytest.mark.sim
def test_unreachable_goal_is_reported_and_arms_hold(make_cell):
    far = {"name": "far", "goals": [{"frame": "left/tool", "offset": [0, 0, 1.9]}]}
    rig = TaskRig(make_cell, far)
    assert not rig.finish()
    # The fault was a repeated name, "far: far".
    assert rig.runner.reason.startswith("far: no path: ")
    assert "is off by" in rig.runner.reason
    assert rig.holds


@pytest.mark.long
@pytest.mark.sim
def test_fallback_to_force_lifts_without_path(make_cell):
    """A lift of 17 cm in 0.2 s is infeasible; the target pose of the tools lifts the box."""
    fast = {
        "goals": [{"frame": "box", "offset": [0, 0, 0.17]}],
        "duration": 0.2,
        "position_tolerance": 0.03,
    }
    rig = TaskRig(make_cell, GRASP, {**LIFT, **fast, "on_failure": {"fallback": "force"}})
    start = rig.box
    rig.until(lambda: rig.box[2] > start[2] + 0.03)
    assert "no path" in rig.reported("fallback")[0]
    assert rig.reported("planned", "lift") == ["without a plan"]
    assert rig.runner.is_going, rig.runner.reason


@pytest.mark.long
@pytest.mark.sim
def test_missed_goal_is_reported_with_distance(make_cell):
    lift = {**LIFT, "position_tolerance": 1e-4, "timeout": 1.0}
    rig = TaskRig(make_cell, GRASP, lift)
    assert not rig.finish()
    assert "1 s, in phase move; box " in rig.runner.reason
    assert rig.holds


@pytest.mark.long
@pytest.mark.sim
def test_motion_that_ends_before_goal_is_replanned(make_cell):
    """The task waited there until the timeout."""
    rig = TaskRig(make_cell, GRASP, {**LIFT, "position_tolerance": 1e-4, "settling_time": 0.02})
    rig.until(lambda: rig.reported("replanned", "lift"))
    assert "box is 0.0" in rig.reported("replanned", "lift")[0]
    assert len(rig.reported("planned", "lift")) == 1
    rig.until(lambda: len(rig.reported("planned", "lift")) == 2)


@pytest.mark.long
@pytest.mark.sim
def test_mode_force_lifts_without_plan(make_cell):
    """The target pose of the tools lifts the box."""
    rig = TaskRig(make_cell, GRASP, {**LIFT, "mode": "force", "position_tolerance": 0.02})
    start = rig.box
    assert rig.finish(), rig.runner.reason
    assert rig.reported("planned", "lift") == ["without a plan"]
    assert rig.box[2] - start[2] > 0.018


def test_task_of_another_cell_is_refused(make_cell):
    cell = make_cell()
    task = {
        "name": "t",
        "controllet": "augmented",
        "subtasks": [GRASP],
        "contacts": {"sides": SIDES},
    }
    with pytest.raises(ConfigurationError, match="controllet"):
        TaskRunner(cell, TaskFile.from_dict(task))
