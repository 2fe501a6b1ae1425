# SPDX-License-Identifier: Apache-2.0
"""An arm with a prismatic joint: controllets in metres and newtons."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from dense_impedance import step_difference
from rail import railed_ur5e, write_rail
from stopping import StopRig, Throw

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import ConfigurationError, SwitchRejected, TareRejected
from multipanda_py.testing import StateMaker, check_contract

pytestmark = [pytest.mark.sim, pytest.mark.inline]

K = np.diag([400.0] * 3 + [20.0] * 3)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Return the model section of a cell file."""
    path = write_rail(tmp_path_factory.mktemp("rail"))
    return {"urdf": str(path.with_suffix(".urdf")), "extra": str(path), "base": "rail",
            "tip": "tool0"}  # fmt: skip


def bare_cell(make_cell, model, law="cartesian_impedance"):
    """Return an arm with the bare controllet: no governor, no nullspace torque."""
    params = {"governor": {"enabled": False}}
    features = []
    if law == "cartesian_impedance":
        features, params["nullspace"] = ["nullspace"], {"stiffness": [0.0] * 7}
    law = {"type": law, "features": features, "params": params}
    cell = make_cell({"arm": {"model": model}}, {"law": law}, ["arm/law"])
    cell.step(200)
    return cell


@pytest.mark.robustness
def test_hold_comes_to_rest_from_any_motion(model, episodes):
    """With delay, lag and wrong inertia, from the maximum speeds and forces together."""
    rng, late, rigs = np.random.default_rng(5), [], {}
    for episode in range(episodes(4, 100)):
        throw = Throw.random(rng, payload=False, limits=railed_ur5e().limits)
        key = repr(throw.perturbation)
        rig = rigs.get(key) or rigs.setdefault(key, StopRig(throw.perturbation, model))
        rig.throw(throw)
        rest = rig.run(1.3).rest_time(0.05)
        if rest > 1.2:
            late.append((episode, rest, throw))
    for rig in rigs.values():
        rig.cell.close()
    assert not late, late


def test_pushed_end_effector_deflects_by_force_over_stiffness(make_cell, model):
    cell = bare_cell(make_cell, model)
    before, force = cell.pose("arm"), np.array([2.0, -3.0, 2.5])
    cell.simulation.apply_wrench("arm_railed_ur5e_tool0", force)
    cell.step(4000)
    moved = cell.pose("arm").position - before.position
    np.testing.assert_allclose(moved, force / 400.0, rtol=0.01, atol=2e-5)


def test_pushed_joint_deflects_by_force_over_stiffness(make_cell, model):
    """Newton per metre on the rail, newton metre per radian behind it."""
    cell = bare_cell(make_cell, model, "joint_impedance")
    before = cell.state("arm").q
    force = np.array([0.0, 8.0, 0.0])
    cell.simulation.apply_wrench("arm_railed_ur5e_tool0", force)
    cell.step(3000)
    state = cell.state("arm")
    (final_state,) = StateMaker(model=railed_ur5e()).states_at([state.q])
    torque = final_state.jacobian[:3].T @ force
    stiffness = railed_ur5e().value("stiffness")
    np.testing.assert_allclose(state.q - before, torque / stiffness, rtol=0.01, atol=1e-6)
    assert (state.q - before)[0] == pytest.approx(8.0 / 10800.0, rel=0.01)


def test_step_matches_designed_linear_system(make_cell, model):
    assert step_difference(bare_cell(make_cell, model), "arm/law", railed_ur5e(), K) < 0.03


@pytest.mark.parametrize("law", ["hold", "joint_impedance", "cartesian_impedance"])
def test_contract_holds_with_prismatic_joint(law):
    check_contract(law, model=railed_ur5e())


def test_mujoco_matches_mass_matrix_and_pose_of_pinocchio(make_cell, model):
    cell = make_cell({"arm": {"model": model}}, {}, [])
    backend, n = cell.loop.backends[0], 7
    maker, mass = StateMaker(model=railed_ur5e()), np.zeros((n, n))
    for q in np.random.default_rng(2).uniform(-0.8, 0.8, (5, n)):
        (state,) = maker.states_at([q])
        backend.data.qpos[:n] = q
        mujoco.mj_forward(backend.model, backend.data)
        if hasattr(backend.data, "qM"):
            mujoco.mj_fullM(backend.model, mass, backend.data.qM)
        else:  # MuJoCo 4
            mujoco.mj_fullM(backend.model, backend.data, mass)
        np.testing.assert_allclose(state.mass_matrix, mass, atol=1e-9)
        site = backend.data.site("arm_railed_ur5e_tool0").xpos
        np.testing.assert_allclose(state.position_ee_in_base, site, atol=1e-9)


@pytest.mark.slow
def test_carriage_stops_before_obstacle_beside_rail(make_cell, model):
    """The reach of a body in a time is the rail travel, not an angle times a radius."""
    wall = {"shape": "box", "size": [0.3, 0.05, 0.3], "position": [0.0, 0.55, 0.3]}
    law = {"type": "joint_impedance", "features": ["collision_avoidance"]}
    cell = make_cell({"arm": {"model": model}}, {"law": law}, ["arm/law"],
                     objects={"wall": wall})  # fmt: skip
    goal = cell.state("arm").q + [0.39, 0, 0, 0, 0, 0, 0]
    cell.set_target("arm", q=goal)
    cell.step(3000)
    state = cell.state("arm")
    assert not state.fault
    assert 0.2 < state.q[0] < 0.45  # the base link has a radius of 75 mm
    assert not cell.simulation.contact_force("arm_railed_ur5e_carriage").any()


def test_position_controllet_moves_rail_within_limits(make_cell, model):
    limits = railed_ur5e().limits
    arm = {"model": model, "interfaces": ["position"]}
    cell = make_cell({"arm": arm}, {"law": {"type": "joint_position"}}, ["arm/law"])
    cell.step(5)
    goal = cell.state("arm").q + [-0.7, 0.3, 0, 0, 0, 0, 0]
    cell.set_target("arm", q=goal)
    start, _ = cell.records()
    cell.step(4500)
    commanded = cell.records(start)[1]["arms"]["joint_command"][:, 0]
    assert (np.abs(commanded[:, 1]).max(axis=0) <= limits.velocity * (1 + 1e-9)).all()
    np.testing.assert_allclose(cell.state("arm").q, goal, atol=1e-3)


def test_carriage_speed_was_refused_in_radians(make_cell, model):
    laws = {"rate": {"type": "joint_rate", "features": [""], "params": {"timeout": 10.0}},
            "torques": {"type": "joint_impedance"}}  # fmt: skip
    cell = make_cell({"arm": {"model": model}}, laws, ["arm/rate"])
    cell.set_target("arm", dq=[0.4, *[0.0] * 6])
    cell.step(400)
    for rule in ("auto", "force_auto"):
        with pytest.raises(SwitchRejected, match=r"\b0\.\d+ m/s.*joint 1\b.*\b0\.0\d m/s"):
            cell.switch(["arm/torques"], ["arm/rate"], rule, timeout=0.0)
    cell.hold()
    request = cell.request_tare("arm")
    cell.step(2)
    with pytest.raises(TareRejected, match=r"joint 1\b.*\b0\.\d+ m/s.*\bmm\b"):
        cell.tare_result(request)


def test_units_match_joint_type(model):
    robot = railed_ur5e()
    assert robot.unit("Nm s/rad") == "Nm s/rad; N s/m for prismatic joint 1"
    with pytest.raises(ConfigurationError, match=r"q_start: joint 1:.*0\.9 m.*\[-0\.8"):
        CellConfig.from_dict({"arms": {"arm": {"model": model, "q_start": [0.9] + [0.0] * 6}}})
