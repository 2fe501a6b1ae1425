# SPDX-License-Identifier: Apache-2.0
"""Optimization-augmented control against dense equations, and on arms that hold a box."""

from __future__ import annotations

import re

import numpy as np
import pytest
from configurations import READY
from contact_rig import LATE, ContactRig
from held_box import AT_BOX, BOTH, HeldBox
from long_form import every_nth

from multipanda_py import registry
from multipanda_py.control.reference.trajectory_monitor import MotionState
from multipanda_py.exceptions import TargetRejected
from multipanda_py.parameters import ParameterSet
from multipanda_py.pose import Pose
from multipanda_py.realtime.events import Event
from multipanda_py.testing import PERIOD, StateMaker, check_contract

pytestmark = pytest.mark.inline

LAW = "optimization_augmented"
AUGMENTED = {"augmented": {"type": LAW, "arms": BOTH}}
INWARD = {"left": np.array([0, -1.0, 0, 0, 0, 0]), "right": np.array([0, 1.0, 0, 0, 0, 0])}


class Rig:
    """A controllet on N arms with synthetic states."""

    def __init__(self, n, law=LAW, **values):
        self.maker = StateMaker(n)
        law_class = registry.find("controllets", law)
        self.set = ParameterSet(law_class.Params, robots=self.maker.robots)
        self.values = {spec.name: spec.default for spec in self.set.specs} | values
        self.law = law_class(self.maker.context, self.params())
        self.target = law_class.Target(n, n_joints=self.maker.joints)
        self.states = self.maker.states_at([READY] * n)
        self.law.on_activate(self.states, self.target)

    def params(self):
        return self.set.decode(self.set.encode(self.values))

    def change(self, **values):
        self.values |= values
        self.law.params = self.params()
        self.law.on_parameters()

    def press(self, wrenches):
        for index, wrench in enumerate(wrenches):
            self.target.data["wrench"][index][:] = wrench
            self.law.on_target("wrench", index, self.target)

    def sense(self, wrenches):
        for state, wrench in zip(self.states, wrenches):
            state.wrench_ext_in_base[:] = -np.asarray(wrench)

    def step(self, cycles=1):
        for _ in range(cycles):
            self.law.update(self.states, self.target, PERIOD)
        return [tau.copy() for tau in self.law.tau]

    @property
    def stiffness(self):
        return np.diag(self.maker.context.arms[0].robot.value("stiffness"))


def parts(state, tau):
    """Split joint torques into the end-effector wrench, (6,), and the rest, densely."""
    minv = np.linalg.inv(state.mass_matrix)
    inertia = np.linalg.inv(state.jacobian @ minv @ state.jacobian.T)
    wrench = inertia @ state.jacobian @ minv @ tau
    return wrench, tau - state.jacobian.T @ wrench


def outward(n, size):
    """Return wrenches of n grippers in a row that press alternately along y and against it."""
    found = np.zeros((n, 6))
    found[:, 1] = [size * (1 if i % 2 == 0 else -1) for i in range(n)]
    return found


def expected_modes(n):
    """Return the internal force modes of grippers in a row along the line of their forces."""
    if n == 1:
        return np.eye(1)
    signs = np.array([1.0 if i % 2 == 0 else -1.0 for i in range(n)])
    return np.eye(n) - np.outer(signs, signs) / n


@pytest.mark.slow
def test_contract_with_four_arms(episodes):
    check_contract(LAW, n_arms=4, seed=4, configurations=episodes(1, 2))


def test_plan_alone_is_followed_like_joint_trajectory():
    ours, theirs = Rig(2, integral_rate=0.0), Rig(2, "joint_trajectory")
    rng = np.random.default_rng(3)
    for rig in (ours, theirs):
        rig.target.q[1][:] = READY + 0.2
        rig.law.on_target("joint", 1, rig.target)
    for _ in range(50):
        q = [READY + rng.normal(size=7) * 0.01 for _ in range(2)]
        dq = rng.normal(size=(2, 7)) * 0.1
        for rig in (ours, theirs):
            rig.maker.states_at(q, dq)
        for mine, other in zip(ours.step(), theirs.step()):
            assert np.array_equal(mine, other)


@pytest.mark.parametrize("n", [1, 2, 4])
def test_hybrid_mode_replaces_force_of_plan_by_controlled_force(n):
    rig = Rig(n, mode="hybrid", integral_rate=0.0)
    wrenches = outward(n, 20.0)
    rig.press(wrenches)
    rig.sense(wrenches)
    rig.step()
    planned = [state.q.copy() for state in rig.states]
    off = np.linspace(-0.01, 0.012, 7)
    rig.maker.states_at([q + (1 + i) * off for i, q in enumerate(planned)])
    rig.sense(wrenches)
    found = rig.step(600)
    assert rig.law.report[11] == 1.0
    u = [wrench / 20.0 for wrench in wrenches]
    requested = [rig.stiffness @ (q - s.q) for q, s in zip(planned, rig.states)]
    split = [parts(state, tau) for state, tau in zip(rig.states, requested)]
    along = np.array([w[0] @ axis for w, axis in zip(split, u)])
    left = along - expected_modes(n) @ along
    for index, (state, tau) in enumerate(zip(rig.states, found)):
        of_plan, rest = split[index]
        pushed = rig.law.force_control.arm_controllers[index].exerted
        across = of_plan - along[index] * u[index]
        expected = across + (left[index] + pushed) * u[index]
        assert tau == pytest.approx(rest + state.jacobian.T @ expected, abs=1e-8)


@pytest.mark.parametrize("n", [1, 2, 4])
def test_force_mode_combines_pose_spring_with_nullspace_of_plan(n):
    rig = Rig(n, mode="force", integral_rate=0.0)
    shift = np.array([0.02, -0.03, 0.01])
    for index, state in enumerate(rig.states):
        record = rig.target.data["pose"][index]
        record[:3] = state.position_ee_in_base + shift
        record[3:] = state.rotation_ee_in_base.ravel()
        rig.law.on_target("pose", index, rig.target)
    planned = [state.q.copy() for state in rig.states]
    here = [state.position_ee_in_base.copy() for state in rig.states]
    start_rotations = [state.rotation_ee_in_base.copy() for state in rig.states]
    off = np.linspace(-0.004, 0.005, 7)
    rig.maker.states_at([q + off for q in planned])
    found = rig.step(700)
    for index, (state, tau) in enumerate(zip(rig.states, found)):
        rotation_error = start_rotations[index] @ state.rotation_ee_in_base.T
        angle = 0.5 * np.array(
            [
                rotation_error[2, 1] - rotation_error[1, 2],
                rotation_error[0, 2] - rotation_error[2, 0],
                rotation_error[1, 0] - rotation_error[0, 1],
            ]
        )
        angle *= np.arcsin(np.linalg.norm(angle)) / np.linalg.norm(angle)
        path = np.concatenate([here[index] + shift - state.position_ee_in_base, angle])
        pull = np.array([600.0] * 3 + [30.0] * 3) * path
        _, rest = parts(state, rig.stiffness @ (planned[index] - state.q))
        assert tau == pytest.approx(rest + state.jacobian.T @ pull, abs=1e-6)


def test_no_arm_presses_before_all_are_in_contact():
    rig = Rig(2, mode="hybrid")
    wrenches = outward(2, 30.0)
    rig.press(wrenches)
    rig.sense(wrenches * [[0.1], [0.0]])
    rig.step(500)
    assert not rig.law.force_control.presses
    assert 0.2 < rig.law.report[11] < 0.5
    assert (
        max(abs(controller.exerted) for controller in rig.law.force_control.arm_controllers) < 5.0
    )
    rig.sense(wrenches * 0.1)
    rig.step(500)
    assert rig.law.report[11] == 1.0
    assert min(controller.exerted for controller in rig.law.force_control.arm_controllers) > 20.0


def test_wrench_waits_for_its_mode():
    rig = Rig(1)
    rig.press(outward(1, 30.0))
    rig.sense(outward(1, 30.0))
    assert np.abs(rig.step(300)).max() < 1e-9
    rig.change(mode="force")
    rig.step(600)
    assert rig.law.report[11] == 1.0


@pytest.mark.parametrize("path", [("optimization", "force"), ("force", "hybrid", "optimization")])
def test_mode_changes_cause_no_torque_step(path):
    """Arms displaced from the plan keep pressing without a step."""
    rig = Rig(2, mode=path[0])
    rig.press(outward(2, 20.0))
    rig.sense(outward(2, 20.0))
    rig.maker.states_at([state.q + 0.004 for state in rig.states])
    rig.sense(outward(2, 20.0))
    last = rig.step(800)
    for mode in path[1:]:
        rig.change(mode=mode)
        for _ in range(800):
            taus = rig.step()
            step = max(np.abs(a - b).max() for a, b in zip(taus, last))
            assert step < 0.25
            last = taus


def test_lost_contact_ends_all_forces_and_is_reported():
    rig = Rig(2, mode="hybrid")
    wrenches = outward(2, 30.0)
    rig.press(wrenches)
    rig.sense(wrenches)
    before = rig.step(800)
    rig.sense(wrenches * [[1.0], [0.0]])
    for _ in range(400):
        taus = rig.step()
        step = max(np.abs(a - b).max() for a, b in zip(taus, before))
        assert step < 1.0
        before = taus
    (reported,) = rig.maker.context.notices
    assert re.match(r"contact lost: arm1 .*\b30\.0 N", reported)
    assert rig.law.force_control.is_idle
    assert all(controller.exerted == 0.0 for controller in rig.law.force_control.arm_controllers)
    rig.sense(wrenches)
    rig.step(300)
    assert rig.law.force_control.is_idle
    rig.press(wrenches)
    rig.step(600)
    assert rig.law.report[11] == 1.0


class Carried(HeldBox):
    """Two grippers at a box under the controllet, and plans for them to carry it."""

    def __init__(self, make_cell, mass=0.8, **arm):
        super().__init__(make_cell, mass, "augmented", laws=AUGMENTED, half=0.0995, **arm)
        self.maker = StateMaker()
        self.planned = {arm: np.array(AT_BOX[arm]) for arm in BOTH}
        self.forces = []

    def press(self, size, mode="hybrid"):
        self.cell.set_parameters("augmented", {"mode": mode})
        for arm in BOTH:
            self.cell.set_target(arm, wrench=size * INWARD[arm])
        for _ in range(400):
            self.cell.step(10)
            if self.cell.report("augmented")["pressing"] == 1.0:
                break
        self.cell.step(500)

    def shifted(self, arm, shift):
        """Return the planned configuration after a shift (3,) [m], by Newton's method."""
        (state,) = self.maker.states_at([self.planned[arm]])
        goal, frame = state.position_ee_in_base + shift, state.rotation_ee_in_base.copy()
        for _ in range(20):
            rotation_error = frame @ state.rotation_ee_in_base.T
            angle = [
                rotation_error[2, 1] - rotation_error[1, 2],
                rotation_error[0, 2] - rotation_error[2, 0],
                rotation_error[1, 0] - rotation_error[0, 1],
            ]
            error = np.concatenate([goal - state.position_ee_in_base, 0.5 * np.array(angle)])
            (state,) = self.maker.states_at([state.q + np.linalg.pinv(state.jacobian) @ error])
        assert np.abs(error).max() < 1e-9
        return state.q.copy()

    def carry(self, shift, waypoints, time=0.4):
        """Move through waypoints, at rest at each, and record the forces."""
        for _ in range(waypoints):
            for arm in BOTH:
                self.planned[arm] = self.shifted(arm, np.array(shift) / waypoints)
                point = np.concatenate([[time], self.planned[arm], np.zeros(14)])
                self.cell.follow_trajectory(arm, [point])
            for _ in range(round(time / 5e-3)):
                self.cell.step(5)
                self.forces.append([self.force(arm) for arm in BOTH])


@pytest.mark.slow
@pytest.mark.sim
@pytest.mark.parametrize(
    "wrong", every_nth(2, [{}, {"state_delay": 0.005, "torque_lag": 0.002, "inertia_scale": 1.2}])
)
def test_two_grippers_press_and_carry_box_through_waypoints(make_cell, wrong):
    """The force also persists at waypoints."""
    box = Carried(make_cell, perturbation=wrong) if wrong else Carried(make_cell)
    box.press(20.0)
    start = box.cell.objects()["box"].position
    box.carry([0.03, 0.0, 0.09], 4)
    box.cell.step(300)
    moved = box.cell.objects()["box"].position - start
    forces = np.array(box.forces)
    assert moved == pytest.approx([0.03, 0.0, 0.09], abs=0.015)
    assert forces.max() < 40.0
    assert np.sqrt(np.square(forces - 20.0).mean(axis=0)).max() < 2.8


@pytest.mark.slow
@pytest.mark.sim
def test_box_stays_at_rest_over_mode_changes(make_cell):
    """Torques stay far within their rate limit."""
    box = Carried(make_cell)
    box.press(20.0)
    box.carry([0.0, 0.0, 0.05], 2)
    box.cell.step(400)
    start = box.cell.objects()["box"].position
    last = {arm: box.cell.state(arm).tau.copy() for arm in BOTH}
    for mode in ("force", "hybrid"):
        box.cell.set_parameters("augmented", {"mode": mode})
        for _ in range(500):
            box.cell.step(1)
            for arm in BOTH:
                tau = box.cell.state(arm).tau.copy()
                assert np.abs(tau - last[arm]).max() < 0.5
                last[arm] = tau
        assert [box.force(arm) for arm in BOTH] == pytest.approx([20.0] * 2, rel=0.15)
    moved = box.cell.objects()["box"].position - start
    assert np.abs(moved).max() < 0.01


@pytest.mark.slow
@pytest.mark.sim
def test_grippers_stop_when_box_disappears(make_cell):
    box = Carried(make_cell)
    box.press(25.0)
    here = {arm: box.cell.pose(arm).position for arm in BOTH}
    index = box.model.jnt_qposadr[box.model.body("box").jntadr[0]]
    box.data.qpos[index : index + 3] = [2.0, 2.0, 0.5]
    farthest = 0.0
    for _ in range(100):
        box.cell.step(10)
        off = [np.linalg.norm(box.cell.pose(arm).position - here[arm]) for arm in BOTH]
        farthest = max(farthest, *off)
    assert farthest < 0.03
    assert any("contact lost" in event.text for event in box.cell.events())
    assert max(np.abs(box.cell.state(arm).dq).max() for arm in BOTH) < 0.02
    assert box.cell.report("augmented")["pressing"] == 0.0


@pytest.mark.sim
def test_non_finite_targets_are_refused_without_effect(make_cell):
    box = Carried(make_cell)
    for wrong in (np.nan, np.inf):
        with pytest.raises(TargetRejected, match="finite"):
            box.cell.set_target("left", wrench=[wrong, 0, 0, 0, 0, 0])
        with pytest.raises(TargetRejected, match="finite"):
            box.cell.follow_trajectory("left", [np.full(22, wrong)])
    box.cell.step(20)
    assert max(np.abs(box.cell.state(arm).tau).max() for arm in BOTH) < 0.1


@pytest.mark.sim
@pytest.mark.robustness
@pytest.mark.parametrize("mode", ["hybrid", "force"])
def test_gripper_stops_when_wall_disappears_despite_plan_into_it(mode):
    """A late arm pressing with 60 N moved on by 4 cm, at 0.46 m/s, and then to its plan."""
    late = {"perturbation": {**LATE, "inertia_scale": 1.2}}
    rig = ContactRig(1e4, 0.001, {"mode": mode}, late, law=LAW)
    try:
        rig.step(50)
        rig.press(60.0)
        rig.step(1700)
        lower = rig.cell.state("arm").q + np.array([0.0, 0.08, 0.0, 0.0, 0.0, 0.0, 0.0])
        rig.cell.follow_trajectory("arm", [np.concatenate([[0.6], lower, np.zeros(14)])])
        before, _ = rig.step(400)
        assert before[-100:] == pytest.approx(60.0, abs=3.0)
        rig.floor -= 1.0
        _, heights = rig.step(800)
        path = heights - heights[0]
        assert path.min() > -0.025
        assert np.abs(np.diff(heights)).max() / PERIOD < 0.35
        assert abs(path[-1]) < 0.01
        assert rig.cell.report("arm/law")["state"] == MotionState.CONTACT_LOST
        assert [event.text for event in rig.cell.events() if "contact lost" in event.text]
    finally:
        rig.close()


def test_withdrawn_force_moves_no_gripper():
    """Grippers displaced from their plan continued to press with the spring of the plan."""
    rig = Rig(2, mode="hybrid", integral_rate=0.0)
    wrenches = outward(2, 20.0)
    rig.press(wrenches)
    rig.sense(wrenches)
    rig.step()
    rig.maker.states_at([state.q + np.array([0.02, 0, 0, 0, 0, 0, 0]) for state in rig.states])
    rig.sense(wrenches)
    before = rig.step(600)
    rig.press(np.zeros((2, 6)))
    for _ in range(3000):
        taus = rig.step()
        assert max(np.abs(a - b).max() for a, b in zip(taus, before)) < 0.25
        before = taus
    assert rig.law.force_control.is_idle
    found = [parts(state, tau)[0][1] for state, tau in zip(rig.states, taus)]
    signs = np.array([1.0, -1.0])
    assert signs @ found == pytest.approx(0.0, abs=0.01)  # along the controlled forces


def test_force_is_bounded_by_joint_torques_of_all_arms():
    """200 N are requested; the sensed force equals the exerted one, and nothing winds up."""
    rig = Rig(2, mode="hybrid", integral_rate=0.0)
    rig.press(outward(2, 200.0))
    rig.sense(outward(2, 10.0))
    axes, controllers = outward(2, 1.0), rig.law.force_control.arm_controllers
    for cycle in range(2600):
        if cycle > 300:
            rig.sense(axes * [[max(10.0, controller.exerted)] for controller in controllers])
        rig.step()
    worst = max(
        (np.abs(state.jacobian.T @ axis) / state.limits.torque).max()
        for state, axis in zip(rig.states, axes)
    )
    assert [controller.exerted for controller in controllers] == pytest.approx(
        [0.9 / worst] * 2, rel=1e-3
    )
    assert 0.9 / worst < 190.0
    rig.press(outward(2, 20.0))
    maximum = 0.0
    for cycle in range(2600):
        rig.sense(axes * [[controller.exerted] for controller in controllers])
        rig.step()
        maximum = max(maximum, controllers[0].exerted) if cycle > 2100 else 0.0
    assert maximum == pytest.approx(20.0, abs=0.5)


def test_integral_does_not_excite_soft_joints():
    """10 Nm/rad, a damping ratio of 0.3 and the fastest integral oscillated; dense model."""
    soft, ratios = np.full(7, 10.0), np.full(7, 0.3)
    rig = Rig(
        1, stiffness=soft, damping_ratio=ratios, integral_rate=3.0, integral_torque_scale=0.3
    )
    (state,) = rig.states
    rng, q, dq = np.random.default_rng(2), READY.copy(), np.zeros(7)
    dq += rng.uniform(-0.15, 0.15, 7)
    largest = []
    for _ in range(6):
        peak = 0.0
        for _ in range(1500):
            rig.maker.states_at([q], np.array([dq]))
            (tau,) = rig.step()
            dq = dq + PERIOD * np.linalg.solve(state.mass_matrix, tau)
            q = q + PERIOD * dq
            peak = max(peak, np.abs(dq).max())
        largest.append(peak)
    assert largest[-1] < 0.2 * largest[0]


@pytest.mark.sim
def test_sliding_gripper_keeps_requested_force():
    """As in polishing, by a late arm: a pose 6 cm along the surface."""
    rig = ContactRig(2e4, 0.001, {"mode": "force"}, {"perturbation": LATE}, law=LAW)
    try:
        rig.step(50)
        rig.press(20.0)
        rig.step(1400)
        pose = rig.cell.pose("arm")
        goal = pose.position + [0.0, 0.06, 0.0]
        rig.cell.set_target("arm", pose=Pose(goal, pose.rotation))
        forces, _ = rig.step(1000)
        assert np.sqrt(np.square(forces - 20.0).mean()) < 1.0
        assert forces == pytest.approx(20.0, abs=4.0)
        assert rig.cell.pose("arm").position[:2] == pytest.approx(goal[:2], abs=3e-3)
    finally:
        rig.close()


@pytest.mark.sim
def test_nullspace_torque_was_unbounded_where_task_direction_was_lost(make_cell):
    """A UR5e's shoulder is nearly singular, and its motors have an unknown bias of 4.5 Nm."""
    bias = [4.5, 4.5, 4.5, 0.84, -0.84, 0.84]
    arm = {
        "model": "ur5e",
        "q_start": [-0.37, -2.23, 0.87, -0.98, -0.98, 0.14],
        "perturbation": {"state_delay": 0.005, "torque_bias": bias},
    }
    law = {"type": "optimization_augmented", "params": {"mode": "force"}}
    cell = make_cell({"arm": arm}, {"augmented": {**law, "arms": ["arm"]}})
    cell.step(1500)
    cell.switch(["augmented"], strictness="force_auto")
    torques = []
    for _ in range(300):
        cell.step(10)
        torques.append(np.abs(cell.state("arm").tau[0]))
    assert not [str(event) for event in cell.events() if event.event is Event.VELOCITY_LIMIT]
    assert max(torques) < 30.0  # it was 78 Nm, of a limit of 150
    assert np.abs(cell.state("arm").dq).max() < 0.05


def test_motion_started_at_reference_displaced_by_earlier_force():
    """It reversed in its first segment: 10 Nm more pushed a departing end effector back."""
    rig = Rig(1)
    rig.step(10)
    displaced = READY + [0.0, 0.01, 0.0, -0.005, 0.0, 0.0, 0.0]
    rig.states = rig.maker.states_at([displaced])
    before = rig.step()[0]
    assert np.abs(before).max() > 3.0
    rig.target.q[0][:] = displaced + [0.0, -0.2, 0.0, 0.0, 0.0, 0.0, 0.0]
    rig.law.on_target("joint", 0, rig.target)
    after = rig.step()[0]
    np.testing.assert_allclose(after, before, atol=0.5)
    np.testing.assert_allclose(rig.law.motions[0].q, displaced, atol=1e-4)
