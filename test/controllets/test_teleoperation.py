# SPDX-License-Identifier: Apache-2.0
"""Hand guiding: the equation, the follower's pose, and the reflected force."""

from __future__ import annotations

import dataclasses

import numpy as np
import pinocchio as pin
import pytest
from configurations import OVER_TABLE
from contact_rig import LATE
from dense_impedance import impedance
from long_form import every_nth

from multipanda_py import testing
from multipanda_py.config.describe import bases_in_world
from multipanda_py.controllets.teleoperation import Teleoperation, TeleoperationParams
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.targets import Target
from multipanda_py.testing import PERIOD, StateMaker, simple_cell

pytestmark = pytest.mark.inline

ARMS = {
    "left": {"position": [0.0, 0.3, 0.0], "rpy": [0.0, 0.0, 0.4]},
    "right": {"position": [0.0, -0.3, 0.0], "rpy": [0.2, 0.0, -1.0]},
}
LAWS = {"tele": {"type": "teleoperation", "arms": ["left", "right"]}}


def context_with_rotated_bases(maker, rng):
    arms = [
        dataclasses.replace(arm, rotation_base_in_world=pin.exp3(rng.normal(size=3)))
        for arm in maker.context.arms
    ]
    return dataclasses.replace(maker.context, arms=tuple(arms))


def test_torque_matches_dense_equation():
    rng = np.random.default_rng(1)
    maker, checked = StateMaker(2), 0
    while checked < 15:
        context = context_with_rotated_bases(maker, rng)
        params = TeleoperationParams(
            scale=rng.uniform(0.3, 2.0),
            stiffness=np.append(rng.uniform(50, 5000, 3), rng.uniform(5, 300, 3)),
            damping_ratio=rng.uniform(0.3, 2, 6), feedback=0.7, filter_time=0.0,
            max_linear_speed=2.0, max_angular_speed=10.0, max_distance=0.5, max_angle=3.0,
            max_force=100.0,
            leader_damping=rng.uniform(0, 5, 7),
            tare_time=0.0,
        )  # fmt: skip
        law, target = Teleoperation(context, params), Target(2)
        leader, follower = maker.random(rng, margin=0.3)
        q = [leader.q.copy(), follower.q.copy()]
        poses = [(s.position_ee_in_base.copy(), s.rotation_ee_in_base.copy())
                 for s in (leader, follower)]  # fmt: skip
        law.on_activate([leader, follower], target)
        law.update([leader, follower], target, PERIOD)
        leader, follower = maker.states_at(
            [x + rng.uniform(-4e-4, 4e-4, 7) for x in q], list(rng.uniform(-0.3, 0.3, (2, 7)))
        )
        follower.wrench_ext_in_base[:] = rng.normal(size=6) * 10.0 + 5.0
        if any(s.operational_space().damping > 0 for s in (leader, follower)):
            continue
        checked += 1
        law.update([leader, follower], target, PERIOD)
        across = context.arms[1].rotation_base_in_world.T @ context.arms[0].rotation_base_in_world
        double = np.kron(np.eye(2), across)

        estimated = double.T @ follower.wrench_ext_in_base
        requested = (0.7 * min(1.0, params.scale), 0.7)
        stiffness_bound = (requested[0] * params.scale * params.stiffness[:3].max(),
                          requested[1] * params.stiffness[3:].max())  # fmt: skip
        gains = [g * min(1.0, maximum / (k * 0.010))
                 for g, k, maximum in zip(requested, stiffness_bound, (40.0, 1.0))]  # fmt: skip
        stiffness_bound = np.minimum(stiffness_bound, (4000.0, 100.0))
        touches = []
        for part, deadband, bound, gain in (
            (estimated[:3], params.force_deadband, params.max_force, gains[0]),
            (estimated[3:], params.torque_deadband, params.max_torque, gains[1]),
        ):
            size = np.linalg.norm(part)
            kept = max(size - deadband, 0.0)
            assert size > 1.5 * deadband or size < 0.5 * deadband
            touches.append(kept / size)
            part *= gain * min(kept, bound) / size
        brake = np.array([stiffness_bound[0]] * 3 + [stiffness_bound[1]] * 3) * 0.010
        estimated -= max(touches) * brake * leader.twist_ee_in_base
        expected = leader.jacobian.T @ estimated - params.leader_damping * leader.dq
        assert np.allclose(law.tau[0], expected, rtol=1e-9, atol=1e-9)

        (p_l, r_l), (p_f, r_f) = poses
        p_d = p_f + params.scale * across @ (leader.position_ee_in_base - p_l)
        r_d = across @ leader.rotation_ee_in_base @ r_l.T @ across.T @ r_f
        e_p = p_d - follower.position_ee_in_base
        e_r = pin.log3(r_d @ follower.rotation_ee_in_base.T)
        twist = double @ leader.twist_ee_in_base
        twist[:3] *= params.scale * (1 - (np.linalg.norm(e_p) / 0.5) ** 2)
        twist[3:] *= 1 - (np.linalg.norm(e_r) / 3.0) ** 2
        j, minv = follower.jacobian, np.linalg.inv(follower.mass_matrix)
        lam = np.linalg.inv(j @ minv @ j.T)
        k, d = impedance(lam, np.diag(params.stiffness), np.diag(params.damping_ratio))
        wrench = k @ np.concatenate([e_p, e_r]) + d @ (twist - j @ follower.dq)
        nullspace_torque = 10.0 * (q[1] - follower.q) - 2 * np.sqrt(10.0) * follower.dq
        expected = j.T @ wrench + (np.eye(7) - j.T @ lam @ j @ minv) @ nullspace_torque
        assert np.allclose(law.tau[1], expected, rtol=1e-9, atol=1e-7)


def test_leader_jump_does_not_make_follower_jump():
    maker = StateMaker(2)
    law, target = Teleoperation(maker.context, TeleoperationParams()), Target(2)
    ready = np.array([0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785])
    law.on_activate(maker.states_at([ready, ready]), target)
    states = maker.states_at([ready + 0.1, ready])
    for cycle in range(1, 60):
        law.update(states, target, PERIOD)
        assert law.report[2] == pytest.approx(0.5 * PERIOD * cycle)
        assert law.report[3] == pytest.approx(1.5 * PERIOD * cycle)


@pytest.mark.parametrize("model", ["fr3", "fer"])
def test_default_damping_outweighs_filter_in_every_configuration(model):
    """The documented condition, with the loop's delay of half a cycle."""
    p = TeleoperationParams()
    delay = p.filter_time + 0.5 * PERIOD
    gain = p.feedback * min(1.0, p.scale) * p.scale
    needed = gain * p.stiffness[:3].max() * delay
    maker, rng = StateMaker(model=model), np.random.default_rng(2)
    for _ in range(500):
        (s,) = maker.random(rng)
        j = s.jacobian[:3]
        assert 1.0 / np.linalg.eigvalsh(j @ np.diag(1 / p.leader_damping) @ j.T)[-1] > needed


@pytest.mark.parametrize("arms", [["left"], None])
def test_teleoperation_needs_two_arms(arms):
    with pytest.raises(ConfigurationError, match="tele"):
        simple_cell(controllets={"tele": {"type": "teleoperation", "arms": arms}})


class Grippers:
    """Forces on the grippers of a cell, and their poses in the world."""

    def __init__(self, cell):
        self.cell, self.bases = cell, bases_in_world(cell.config)
        self.sim = cell.simulation
        self.start = {arm: self.pose(arm) for arm in ("left", "right")}

    def push(self, arm, force):
        body = self.sim.model.body(f"{arm}_fr3_hand").id
        self.sim.data.xfrc_applied[body][:3] = force

    def pose(self, arm):
        return self.bases[arm] @ self.cell.pose(arm)

    def moved(self, arm):
        now, start = self.pose(arm), self.start[arm]
        return now.position - start.position, pin.log3(now.rotation @ start.rotation.T)


def running(make_cell, arms=ARMS, objects=None, **params):
    laws = {"tele": {**LAWS["tele"], "params": params}}
    cell = make_cell(arms, laws, active=["tele"], **({"objects": objects} if objects else {}))
    cell.step(150)  # tare of the follower's wrench
    return cell, Grippers(cell)


def lead(cell, grippers, force, cycles):
    """Guide by a force, then release and wait until the leader is at rest."""
    grippers.push("left", force)
    cell.step(cycles)
    grippers.push("left", [0.0, 0.0, 0.0])
    cell.set_parameters("tele", {"leader_damping": [20.0] * 4 + [4.0, 4.0, 1.5]})
    cell.step(2500)


@pytest.mark.sim
@pytest.mark.parametrize("scale", [1.0, 0.5, 2.0])
def test_follower_repeats_leader_motion(make_cell, scale):
    cell, grippers = running(make_cell, scale=scale)
    lead(cell, grippers, [2.0, 1.5, 1.0], 600)
    (step_l, turn_l), (step_f, turn_f) = grippers.moved("left"), grippers.moved("right")
    assert np.linalg.norm(step_l) > 0.03
    assert np.abs(step_f - scale * step_l).max() < 1e-3
    assert np.abs(turn_f - turn_l).max() < 5e-3
    assert cell.events() == []


@pytest.mark.sim
def test_leader_reflects_wrench_on_follower(make_cell):
    cell, grippers = running(make_cell, feedback=0.8, force_deadband=0.5, torque_deadband=0.01)
    grippers.push("right", [3.0, -4.0, 12.0])
    cell.step(15)
    state, base = cell.state("left"), grippers.bases["left"].rotation
    maker = StateMaker()
    (model,) = maker.states_at([state.q])
    brake = -TeleoperationParams().leader_damping * state.dq
    estimated = np.linalg.lstsq(model.jacobian.T, state.tau - brake - model.coriolis, rcond=None)[
        0
    ]
    size = 13.0
    braked = (size - 0.5) / size * 0.8 * 0.010 * np.array([800.0] * 3 + [40.0] * 3)
    estimated += braked * (model.jacobian @ state.dq)
    expected = 0.8 * np.array([3.0, -4.0, 12.0]) * (size - 0.5) / size
    kept = cell.report("tele")["wrench fade factor"]
    assert kept > 0.96  # the leader starts to yield
    assert np.allclose(base @ estimated[:3], kept * expected, atol=0.1)
    assert cell.report("tele")["reflected force [N]"] == pytest.approx(
        0.8 * kept * (size - 0.5), rel=1e-2
    )
    cell.step(200)
    assert grippers.moved("left")[0][2] > 0.005


@pytest.mark.sim
def test_pressing_through_follower_is_balanced_without_oscillation(make_cell):
    """The operator presses down, and the follower meets a table. Both come to rest."""
    level = {"left": {"position": [0.0, 0.3, 0.0]}, "right": {"position": [0.0, -0.3, 0.0]}}
    table = {"shape": "box", "size": [0.2, 0.2, 0.02], "position": [0.307, -0.3, 0.44]}
    cell, grippers = running(make_cell, level, {"table": table}, feedback=0.5)
    grippers.push("left", [0.0, 0.0, -6.0])
    start, _ = cell.records()
    cell.step(3000)
    _, rows = cell.records(start)
    assert cell.report("tele")["reflected force [N]"] == pytest.approx(6.0, rel=0.05)
    speeds = np.abs(rows["arms"]["twist_ee_in_base"][:, :, :3]).max(axis=(1, 2))
    assert speeds[-300:].max() < 5e-3
    assert speeds[-300:].max() < 0.05 * speeds.max()
    assert cell.events() == []


@pytest.mark.sim
def test_blocked_follower_does_not_jump_on_release(make_cell):
    cell, grippers = running(make_cell, max_distance=0.02, feedback=0.0)
    grippers.push("right", [0.0, 0.0, -17.0])
    cell.step(500)
    lead(cell, grippers, [0.0, 0.0, 3.0], 500)
    assert grippers.moved("left")[0][2] > grippers.moved("right")[0][2] + 0.02
    assert cell.report("tele")["lag [m]"] == pytest.approx(0.02, abs=2e-3)
    start, _ = cell.records()
    grippers.push("right", [0.0, 0.0, 0.0])
    cell.step(1500)
    _, rows = cell.records(start)
    speed = np.linalg.norm(rows["arms"]["twist_ee_in_base"][:, 1, :3], axis=1)
    assert speed.max() < 0.55
    assert grippers.moved("right")[0][2] == pytest.approx(grippers.moved("left")[0][2], abs=2e-3)


@pytest.mark.slow
@pytest.mark.sim
def test_disengaging_engaging_and_scaling_move_nothing(make_cell):
    cell, grippers = running(make_cell)
    lead(cell, grippers, [0.0, 2.0, 2.0], 500)
    for change in ({"engaged": False}, {"scale": 3.0}, {"engaged": True}, {"scale": 0.2}):
        before = grippers.pose("right")
        cell.set_parameters("tele", change)
        cell.step(200)
        assert before.distance(grippers.pose("right"))[0] < 2e-4
    cell.set_parameters("tele", {"engaged": False, "leader_damping": [2.0] * 6 + [1.5]})
    cell.step(1)
    before = grippers.pose("right")
    lead(cell, grippers, [0.0, 2.0, 2.0], 500)
    assert grippers.moved("left")[0][1] > 0.05
    assert before.distance(grippers.pose("right"))[0] < 2e-4
    cell.set_parameters("tele", {"engaged": True, "scale": 2.0})
    cell.step(200)
    assert before.distance(grippers.pose("right"))[0] < 2e-4
    left = grippers.pose("left")
    lead(cell, grippers, [0.0, -2.0, 0.0], 500)
    moved = grippers.pose("left").position - left.position
    assert np.linalg.norm(moved) > 0.01
    assert np.allclose(grippers.pose("right").position - before.position, 2.0 * moved, atol=1e-3)


class GuidedPair:
    """A pair with a pulled leader, and a spring as the surface under the follower."""

    def __init__(self, make_cell, left, right, surface=None, **params):
        arms = {
            name: {"position": [0, y, 0], "q_start": OVER_TABLE, "perturbation": wrong}
            for name, y, wrong in (("left", 0.3, left), ("right", -0.3, right))
        }
        self.cell, self.grippers = running(make_cell, arms, **params)
        self.data = self.grippers.sim.data
        self.bodies = [self.grippers.sim.model.body(f"{a}_fr3_hand").id for a in arms]
        self.surface, self.floor = surface, self.tip(1)[2] - 0.005
        self.pull, self.depth, self.speeds, self.forces = 0.0, 0.0, [], []

    def tip(self, arm):
        body = self.bodies[arm]
        return self.data.xpos[body] + self.data.xmat[body].reshape(3, 3)[:, 2] * 0.1034

    def lift(self, arm, force):
        """Push an end effector upwards at its tip."""
        body = self.bodies[arm]
        lever = self.tip(arm) - self.data.xipos[body]
        self.data.xfrc_applied[body] = [0, 0, force, *np.cross(lever, [0, 0, force])]

    def step(self, cycles):
        for _ in range(cycles):
            if self.surface:
                depth = max(0.0, self.floor - self.tip(1)[2])
                brake = 0.1 * np.sqrt(self.surface * 2.0) * (depth - self.depth) / PERIOD
                self.forces.append(max(0.0, self.surface * depth + brake) if depth else 0.0)
                self.depth = depth
                self.lift(1, self.forces[-1])
                self.lift(0, self.pull)
            self.cell.step(1)
            self.speeds.append(self.data.qvel.copy())

    def fastest(self, cycles):
        return np.abs(self.speeds[-cycles:]).max()


@pytest.mark.slow
@pytest.mark.sim
@pytest.mark.robustness
@pytest.mark.parametrize(
    ("late", "surface"),
    every_nth(2, [
        ({}, 1e3), (LATE | {"inertia_scale": 0.8}, 1e3), (LATE | {"inertia_scale": 1.2}, 1e4),
        (LATE, 1e5),
    ]),
)  # fmt: skip
def test_leader_and_follower_bounced_forever_on_soft_surface(make_cell, late, surface):
    """The operator presses with 10 N: at 1e3 N/m the arms oscillated at 0.7 to 1 rad/s."""
    pair = GuidedPair(make_cell, late, late, surface)
    pair.pull = -10.0
    pair.step(2000)
    assert pair.fastest(100) < 0.2
    assert np.mean(pair.forces[-100:]) == pytest.approx(22.0, rel=0.15)  # 10 / 0.5, deadband of 2
    assert np.std(pair.forces[-300:]) < 1.0
    assert pair.cell.events() == []


WRONG = {
    "bias": {"torque_bias": [0.5] * 7},
    "all": {**LATE, "inertia_scale": 0.8, "torque_bias": [0.5] * 7, "payload": 1.0},
}


@pytest.mark.sim
@pytest.mark.robustness
@pytest.mark.parametrize("wrong", WRONG)
def test_leader_drifted_with_apparent_wrench_on_follower(make_cell, wrong):
    """A bias of 0.5 Nm caused 0.5 to 2.6 rad/s, up to the joint limits."""
    pair = GuidedPair(make_cell, LATE if wrong == "all" else {}, WRONG[wrong])
    rng = np.random.default_rng(4)
    for start in (0, 9):  # seven joints and two fingers each
        pair.data.qvel[start : start + 7] += rng.uniform(-0.6, 0.6, 7)
    pair.step(2000)
    assert pair.fastest(200) < 0.2  # the push decays slowly
    before = [pair.cell.state(arm).q for arm in ("left", "right")]
    pair.step(300)
    after = [pair.cell.state(arm).q for arm in ("left", "right")]
    assert np.abs(np.subtract(after, before)).max() < 0.05


@pytest.mark.sim
def test_leader_that_yields_to_wrong_estimate_stops_soon(make_cell):
    """Without a tare and with an unknown 3 kg, 29 N are not displayed forever."""
    pair = GuidedPair(make_cell, {}, {"payload": 3.0}, tare_time=0.0)
    pair.step(1500)
    assert 0.005 < np.linalg.norm(pair.grippers.moved("left")[0]) < 0.1
    assert pair.fastest(100) < 0.1


def test_leader_and_follower_accelerated_together_in_proximity():
    """At 13 mm, repulsion of the leader moved the follower's reference, and so on to 1 rad/s."""
    law, maker = Teleoperation, StateMaker(2)
    rng = np.random.default_rng(17)
    for _ in range(34):
        q = np.concatenate([state.q.copy() for state in maker.random(rng, margin=0.3)])
    probe = testing.probe_of(law, maker, testing.corners(law)[-1][1])
    probe.set_state(q, np.zeros(14))
    probe.activate()
    dq = 0.05 * np.random.default_rng(1).standard_normal(14)
    first = np.abs(dq).max()
    for _ in range(500):
        tau = probe.torque(q, dq)
        for part, state in zip(probe.parts, maker.states):
            dq[part] += 1e-3 * np.linalg.solve(state.mass_matrix, tau[part] - state.coriolis)
        q = q + 1e-3 * dq
    assert np.abs(dq).max() < 0.5 * first


@pytest.mark.slow
@pytest.mark.sim
def test_overloaded_wrist_threw_follower_aside_after_leader_release():
    """An undamped leader rotates; the follower's rod pressed with 110 N at an angle.

    Joint 6 yielded at 12 Nm, joints 2 and 4 pressed on: 4.7 rad/s, and a velocity limit.
    """
    rod = {
        "mass": 0.2,
        "com": [0.0, 0.0, 0.05],
        "inertia": [1e-3, 1e-3, 1e-3, 0.0, 0.0, 0.0],
        "position": [0.0, 0.0, 0.1],
    }
    late = {"state_delay": 0.005, "torque_lag": 0.002, "inertia_scale": 1.2}
    arm = {"gripper": False, "tool": rod, "q_start": [0.0, -0.3, 0.0, -2.2, 0.0, 1.9, 0.785]}
    arms = {
        "left": {"position": [0.0, 0.5, 0.0], "perturbation": late, **arm},
        "right": {"position": [0.0, -0.5, 0.0], "perturbation": late, **arm},
    }
    params = {
        "stiffness": [800.0] * 3 + [300.0] * 3, "leader_damping": [0.0] * 7, "max_force": 100.0,
        "force_deadband": 0.0, "torque_deadband": 0.0,
    }  # fmt: skip
    table = {"shape": "box", "size": [0.2, 0.2, 0.02], "position": [0.5, -0.5, 0.374]}
    with simple_cell(
        arms, {"tele": {**LAWS["tele"], "params": params}}, ["tele"],
        objects={"table": table}, collisions={"allowed_contacts": ["right table"]},
    ) as cell:  # fmt: skip
        cell.step(500)
        for force, cycles in (([0, 0, -30], 2000), ([-10, 0, -30], 1000), ([0, 0, 0], 0)):
            cell.simulation.apply_wrench("left_fr3_tool", force=force)
            cell.step(cycles)
        fastest, kept = 0.0, 1.0
        for _ in range(100):
            cell.step(10)
            fastest = max(fastest, float(np.abs(cell.state("right").dq).max()))
            kept = min(kept, cell.report("tele").get("wrench scale [-]", 1.0))
        assert cell.active == ("tele",)
        assert fastest < 2.5
        assert kept < 1.0


@pytest.mark.sim
def test_follower_guided_beyond_reach_oscillated_for_seconds(make_cell):
    """Its elbow is nearly straight, 5 cm short of its reference: 0.15 rad/s after two seconds."""
    arms = {
        "left": {"model": "iiwa14", "position": [0.0, 0.4, 0.0], "gripper": False},
        "right": {"model": "iiwa14", "position": [0.0, -0.4, 0.0], "gripper": False,
                  "q_start": [0.0, 0.8, 0.0, -0.4, 0.0, 1.2, 0.0]},
    }  # fmt: skip
    cell = make_cell(arms, LAWS, ["tele"])
    cell.step(150)
    cell.simulation.apply_wrench("left_iiwa14_link_ee", [12.0, 0.0, 0.0])
    cell.step(500)
    cell.simulation.apply_wrench("left_iiwa14_link_ee")
    damping = cell.parameters("tele")["leader_damping"]
    cell.set_parameters("tele", {"leader_damping": 2.0 * damping})
    cell.step(1500)
    start, _ = cell.records()
    cell.step(500)
    speeds = np.abs(cell.records(start)[1]["arms"]["dq"]).max(axis=(0, 2))
    assert cell.report("tele")["lag [m]"] > 0.04
    assert (speeds < [0.01, 0.05]).all()
