# SPDX-License-Identifier: Apache-2.0
"""Arms without gravity compensation of their own, under every controllet."""

from __future__ import annotations

import numpy as np
import pytest
from long_form import every_nth

from multipanda_py.exceptions import AttachmentRejected
from multipanda_py.pose import Pose
from multipanda_py.realtime.events import Event
from multipanda_py.robots import MODELS

pytestmark = [pytest.mark.sim, pytest.mark.inline]

TOOL = {"mass": 0.8, "com": [0.0, 0.0, 0.05], "position": [0.0, 0.0, 0.12]}
# Declared load, equal to the simulated payload.
LOAD = {"load_mass": 1.0, "load_com": [0.0, 0.02, 0.1]}
PAYLOAD = {"payload": 1.0, "payload_com": [0.0, 0.02, 0.1]}
LAWS = ("cartesian_impedance", "joint_impedance", "operational_space", "admittance",
        "force_impedance", "gravity_compensation", "joint_velocity",
        "joint_trajectory")  # fmt: skip
START = {
    "fr3": [0.3, -0.4, -0.2, -2.0, 0.2, 1.8, 0.5],
    "ur5e": [0.4, -1.2, 1.4, -1.3, -1.4, 0.3],
}


def loaded_arm(model, **more):
    return {
        "model": model, "compensates_gravity": False, "tool": TOOL, "franka": LOAD,
        "perturbation": PAYLOAD,
        "q_start": START[model], **more,
    }  # fmt: skip


def faults(cell):
    return [event for event in cell.events() if event.event.is_fault]


def test_arm_falls_without_gravity_compensation(make_cell):
    """Without this motion the tests below could not fail."""
    cell = make_cell({"arm": loaded_arm("ur5e")}, {})
    cell.loop.arms[0].gravity.update = lambda: None
    cell.loop.arms[0].state.tau_gravity[:] = 0.0
    cell.loop.arms[0].owner.tau[0][:] = 0.0
    cell.step(100)
    assert np.abs(cell.state("arm").dq).max() > 0.2


@pytest.mark.parametrize("model", ["fr3", "ur5e"])
@pytest.mark.parametrize("law", every_nth(3, LAWS))
def test_every_controllet_rests_at_start(make_cell, law, model):
    cell = make_cell({"arm": loaded_arm(model)}, {"law": {"type": law}}, ["arm/law"])
    before, pose = cell.state("arm").q.copy(), cell.pose("arm").position.copy()
    cell.step(800)
    assert not faults(cell)
    assert np.abs(cell.state("arm").q - before).max() < 1e-3
    assert np.abs(cell.pose("arm").position - pose).max() < 1e-3
    # The loop compensates gravity, not the controllet.
    assert np.abs(cell.state("arm").tau).max() < 0.05


@pytest.mark.parametrize("model", ["fr3", "ur5e"])
def test_switches_do_not_drop_arm(make_cell, model):
    laws = {name: {"type": name} for name in LAWS[:3]}
    cell = make_cell({"arm": loaded_arm(model)}, laws, [f"arm/{LAWS[0]}"])
    before = cell.state("arm").q.copy()
    for first, second in zip(LAWS[:3], (*LAWS[1:3], LAWS[0])):
        cell.switch(activate=[f"arm/{second}"], deactivate=[f"arm/{first}"])
        cell.step(100)
    assert np.abs(cell.state("arm").q - before).max() < 1e-3


@pytest.mark.parametrize("model", ["fr3", "ur5e"])
def test_hold_stops_from_random_states_within_a_second(make_cell, episodes, model):
    cell = make_cell({"arm": loaded_arm(model)}, {})
    limits, rng = MODELS[model].limits, np.random.default_rng(11)
    data, n = cell.simulation.data, limits.n_joints
    start = cell.simulation.save()
    for _ in range(episodes(3, 1000)):
        cell.simulation.reset(start)
        spread = 0.5 * (limits.upper - limits.lower)
        q = np.clip(START[model] + rng.uniform(-0.4, 0.4, n) * np.minimum(spread, 2.0),
                    limits.lower + 0.3, limits.upper - 0.3)  # fmt: skip
        data.qpos[:n] = q
        data.qvel[:n] = rng.uniform(-0.5, 0.5, n) * limits.velocity
        cell.step(1000)
        state = cell.state("arm")
        assert np.abs(state.dq).max() < 0.05
        at_rest = state.q.copy()
        cell.step(200)
        assert np.abs(cell.state("arm").q - at_rest).max() < 5e-3
        if state.fault:
            cell.recover(["arm"])


@pytest.mark.parametrize("model", ["fr3", "ur5e"])
def test_fault_and_recovery_do_not_drop_arm(make_cell, model):
    cell = make_cell(
        {"arm": loaded_arm(model)},
        {"bad": {"type": "misbehaving"}, "good": {"type": "joint_impedance"}},
        ["arm/good"],
    )
    cell.step(50)
    before = cell.state("arm").q.copy()
    cell.switch(activate=["arm/bad"], deactivate=["arm/good"])
    cell.set_parameters("arm/bad", {"fault": "nan"})
    cell.step(300)
    assert faults(cell)
    assert np.abs(cell.state("arm").q - before).max() < 1e-3
    cell.recover(["arm"])
    cell.step(300)
    assert not cell.state("arm").fault
    assert np.abs(cell.state("arm").q - before).max() < 1e-3


def test_decaying_torque_keeps_gravity_compensation(make_cell):
    """A non-finite joint position removes only the torque of the controllet."""
    cell = make_cell(
        {"arm": loaded_arm("ur5e")}, {"good": {"type": "joint_impedance"}}, ["arm/good"]
    )
    cell.step(50)
    backend, state = cell.loop.backends[0], cell.loop.arms[0].state
    before, read = cell.state("arm").q.copy(), backend.read

    def read_nan(fresh):
        read(fresh)
        state.q[2] = np.nan

    backend.read = read_nan
    cell.step(100)
    assert Event.NON_FINITE_STATE in [fault.event for fault in faults(cell)]
    assert np.isfinite(cell.simulation.data.ctrl).all()
    backend.read = read
    cell.step(1)
    assert np.abs(cell.state("arm").q - before).max() < 5e-3


def test_total_torque_is_bounded_including_gravity(make_cell):
    """Gravity added to a bounded torque could exceed the limits of the robot."""
    cell = make_cell(
        {"arm": loaded_arm("ur5e", q_start=[0.0, -0.2, 0.2, 0.0, 0.0, 0.0], perturbation={})},
        {"stiff": {"type": "joint_impedance", "params": {"governor.enabled": False}}},
        ["arm/stiff"], gate={"joint": 3.0},
    )  # fmt: skip
    limits = MODELS["ur5e"].limits
    q = cell.state("arm").q + [0.0, -0.5, 0.4, 0.5, 0.4, 0.3]
    cell.set_target("arm", q=q)
    state, last = cell.loop.arms[0].state, None
    for _ in range(200):
        cell.step(1)
        total = state.tau + state.tau_gravity
        assert (np.abs(total) <= limits.torque + 1e-9).all()
        if last is not None:
            assert (np.abs(total - last) <= 1e-3 * limits.torque_rate + 1e-9).all()
        np.testing.assert_allclose(cell.simulation.data.ctrl[:6], total, atol=1e-9)
        last = total
    assert np.abs(state.tau_gravity).max() > 20.0


@pytest.mark.parametrize(("is_carried", "sag"), [(True, 0.0), (False, 9.81 / 400.0)])
def test_grasped_object_is_compensated(make_cell, is_carried, sag):
    """Robots with their own compensation do not know the object; the virtual spring carries it."""
    start = MODELS["fr3"].ready
    cell = make_cell(
        {"arm": {"compensates_gravity": not is_carried, "q_start": start.tolist()}},
        {"law": {"type": "cartesian_impedance", "features": ["nullspace"]}},
        ["arm/law"],
        objects={
            "rod": {"shape": "capsule", "size": [0.01, 0.09], "position": [0.307, 0.0, 0.417],
                    "mass": 1.0},
            "stand": {"shape": "box", "size": [0.05, 0.05, 0.1585],
                      "position": [0.307, 0.0, 0.1585]},
        },
    )  # fmt: skip
    assert cell.gripper("arm").grasp(0.02, 0.2, 60.0).wait(2.0).succeeded
    assert cell.attached_objects() == {"arm": "rod"}
    goal = cell.pose("arm").position + [0.0, 0.0, 0.1]
    cell.set_target("arm", Pose(goal, cell.pose("arm").rotation))
    cell.step(3000)
    assert cell.objects()["rod"].position[2] > 0.48  # above the stand
    assert cell.pose("arm").position[2] - goal[2] == pytest.approx(-sag, abs=2e-3)
    rod, before = cell.objects()["rod"].position[2], cell.pose("arm").position[2]
    cell.gripper("arm").move(0.08)
    cell.step(300)
    assert cell.objects()["rod"].position[2] < rod - 0.05
    if is_carried:  # the compensation ends with the release, so that the arm does not jump
        assert abs(cell.pose("arm").position[2] - before) < 5e-3


def test_distant_attached_object_lifted_arm(make_cell):
    """With a wrong name, 1 kg at the other arm moved an arm in hold at up to 0.5 rad/s."""
    block = {
        "shape": "box",
        "size": [0.05, 0.05, 0.05],
        "position": [0.9, -0.9, 0.05],
        "mass": 5.0,
    }
    cell = make_cell({"arm": loaded_arm("ur5e")}, {}, objects={"block": block})
    cell.step()
    before = cell.state("arm").q.copy()
    allowed = r"0\.45 m\b.*\(compensates_gravity: false\)"
    with pytest.raises(AttachmentRejected, match=rf"^arm: block\b.*\b1\.\d+ m\b.*{allowed}"):
        cell.attach("arm", "block")
    cell.step(300)
    assert np.abs(cell.state("arm").q - before).max() < 1e-3
    unmeasured = {"arm": {"backend": "mock", "compensates_gravity": False}}
    cell = make_cell(unmeasured, {}, objects={"block": block})
    cell.step()
    with pytest.raises(AttachmentRejected, match=r"^arm: block\b.*\b2\.00 m"):
        cell.attach("arm", "block", Pose(np.array([0.0, 0.0, 2.0]), np.eye(3)))
    assert cell.attach("arm", "block", Pose(np.array([0.0, 0.0, 0.1]), np.eye(3))) == "block"


def test_reset_with_attached_object_let_arm_sag(make_cell):
    """The ramped weight is part of a saved state; it started again from zero."""
    scene_object = {
        "shape": "box",
        "size": [0.02, 0.02, 0.02],
        "position": [3.0, 3.0, 0.02],
        "mass": 1.0,
    }
    cell = make_cell({"arm": loaded_arm("ur5e")}, {}, objects={"box": scene_object})
    beside = Pose(cell.pose("arm").position + [0.2, 0.0, 0.0], np.eye(3))
    cell.simulation.set_pose("box", beside)
    cell.step()
    cell.attach("arm", "box")
    cell.step(300)
    saved, before = (
        cell.simulation.save(),
        cell.latest_record()["arms"]["tau_gravity"][0, :6].copy(),
    )
    cell.detach("arm")
    cell.step(10)
    assert np.abs(cell.latest_record()["arms"]["tau_gravity"][0, :6] - before).max() > 3.0
    cell.simulation.reset(saved)
    for _ in range(3):
        cell.step(1)
        np.testing.assert_allclose(
            cell.latest_record()["arms"]["tau_gravity"][0, :6], before, atol=0.1
        )


@pytest.mark.parametrize("law", ["coupled_impedance", "teleoperation"])
def test_two_arms_without_own_compensation_rest_and_move(make_cell, law):
    arms = {
        name: {
            "model": "ur5e", "compensates_gravity": False, "tool": TOOL, "q_start": START["ur5e"],
            "position": [0.0, y, 0.0],
        }
        for name, y in (("left", 0.5), ("right", -0.5))
    }  # fmt: skip
    laws = {"law": {"type": law, "arms": list(arms)}}
    cell = make_cell(arms=arms, controllets=laws, active=["law"])
    home = [cell.state(name).position_ee_in_base for name in arms]
    cell.step(200)
    rest = [cell.state(name).position_ee_in_base for name in arms]
    np.testing.assert_allclose(rest, home, atol=1e-6)
    if law == "teleoperation":
        cell.simulation.apply_wrench("left_ur5e_tool0", [0.0, 0.0, 15.0])
        cell.step(150)
        cell.simulation.apply_wrench("left_ur5e_tool0")
    else:
        centre = [cell.report("law")[f"object_{axis} [m]"] for axis in "xyz"]
        cell.set_object_target("law", Pose(np.add(centre, [0.0, 0.0, 0.03]), np.eye(3)))
    cell.step(900)
    risen = [cell.state(name).position_ee_in_base[2] for name in arms] - np.array(home)[:, 2]
    assert risen[0] > 0.02
    assert risen[0] == pytest.approx(risen[1], abs=2e-3)
    assert not faults(cell)
