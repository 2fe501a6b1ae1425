# SPDX-License-Identifier: Apache-2.0
"""Perturbed arms against closed forms, MuJoCo and pinocchio, and arms with identified bodies."""

from __future__ import annotations

import mujoco
import numpy as np
import pinocchio as pin
import pytest
import yaml
from robot_file import write_robot
from world import world

from multipanda_py.apps.cli import main
from multipanda_py.config.arm_section import PerturbationConfig
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.perturbation import PerturbationSpec
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.dynamics.arm_dynamics import build_pinocchio, model_with_gravity
from multipanda_py.robots.geometry import rotation_from_rpy
from multipanda_py.robots.inertial import Inertial
from multipanda_py.simulation.perturbed_arm import perturbed, with_scaled_moments

pytestmark = [pytest.mark.sim, pytest.mark.inline]

FLOAT = {"float": {"type": "gravity_compensation"}}
STIFF = {"stiff": {"type": "joint_impedance"}}
LINKS = {
    "link_mass": [0.8, 1.2, 0.9, 1.1, 0.85, 1.15, 1.2],
    "link_com": np.linspace(-0.01, 0.01, 21).tolist(),
    "link_inertia": np.linspace(0.8, 1.2, 21).tolist(),
}
RUBBING = {
    "coulomb": [0.4] * 7, "viscous": [0.5] * 7, "stribeck": [0.3] * 7,
    "stribeck_speed": [0.1] * 7, "friction_offset": [0.05] * 7,
}  # fmt: skip


def one(**perturbation):
    return {"arm": {"perturbation": perturbation}}


def test_perturbed_links_are_physical_for_any_factors():
    rng = np.random.default_rng(1)
    for _ in range(200):
        points = rng.normal(size=(6, 3)) * rng.uniform(0.01, 0.2, 3)
        second = points.T @ points
        inertia = np.trace(second) * np.eye(3) - second
        xx, yy, zz, xy, xz, yz = inertia[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]
        body = Inertial(2.0, (0.1, 0.0, -0.1), (xx, yy, zz, xy, xz, yz))
        found = with_scaled_moments(body, 1.5, np.array([0.01, 0, 0]), rng.uniform(0.2, 5.0, 3))
        assert found.mass == 3.0
        assert found.com == pytest.approx((0.11, 0.0, -0.1))
        moments = np.linalg.eigvalsh(found.inertia)
        assert moments[0] > 0.0
        assert moments[0] + moments[1] > moments[2]
        same = with_scaled_moments(body, 1.0, np.zeros(3), np.ones(3))
        np.testing.assert_allclose(same.moments, body.moments, atol=1e-12)


def test_inertia_factor_equals_stretch_of_point_cloud():
    """Points stretched by sqrt(k) along one axis have the computed inertia."""
    points = np.array([[x, y, z] for x in (-0.3, 0.3) for y in (-0.2, 0.2) for z in (-0.1, 0.1)])

    def inertia_of(cloud):
        second = cloud.T @ cloud / len(cloud)
        return np.trace(second) * np.eye(3) - second

    before, after = inertia_of(points), inertia_of(points * np.sqrt([1.7, 1.0, 1.0]))
    body = Inertial(1.0, (0.0, 0.0, 0.0), (*np.diag(before), 0.0, 0.0, 0.0))
    # The minimum second moment is along z, the maximum along x.
    found = with_scaled_moments(body, 1.0, np.zeros(3), np.array([1.0, 1.0, 1.7]))
    np.testing.assert_allclose(found.inertia, after, atol=1e-12)


@pytest.mark.parametrize("model", ["fr3", "ur5e"])
def test_mujoco_and_pinocchio_agree_on_real_arm(make_cell, model):
    n = 7 if model == "fr3" else 6
    off = {"link_mass": [1.2, *[0.9] * (n - 1)], "link_com": [0.01] * (3 * n),
           "link_inertia": [1.3] * (3 * n)}  # fmt: skip
    cell = make_cell({"arm": {"model": model, "gripper": False, "perturbation": off}})
    cell.step(1)
    mj, data = world(cell)
    full = np.zeros((mj.nv, mj.nv))
    try:
        mujoco.mj_fullM(mj, data, full)  # MuJoCo 4
    except TypeError:
        mujoco.mj_fullM(mj, full, data.qM)
    described = ArmDescription("arm", model, hand=False)
    real = build_pinocchio(perturbed(described, PerturbationConfig(**{**sized(n), **off})))
    q = data.qpos[:n].copy()
    expected = pin.crba(real, real.createData(), q)
    expected = np.triu(expected) + np.triu(expected, 1).T
    np.testing.assert_allclose(full[:n, :n], expected, atol=2e-5)
    nominal = build_pinocchio(described)
    assert np.abs(expected - np.triu(pin.crba(nominal, nominal.createData(), q))).max() > 0.01


def sized(n):
    return {
        "torque_bias": [0.0] * n, "coulomb": [0.0] * n, "viscous": [0.0] * n,
        "stribeck": [0.0] * n, "stribeck_speed": [0.05] * n, "friction_offset": [0.0] * n,
    }  # fmt: skip


def test_gravity_error_is_estimated_and_carried(make_cell):
    """The error is the gradient of the difference of potential energies of MuJoCo."""
    cell = make_cell(one(**LINKS), STIFF, ["arm/stiff"])
    cell.step(1200)
    state = cell.state("arm")

    def energy(model, data, q):
        data.qpos[:7] = q
        model.opt.enableflags |= int(mujoco.mjtEnableBit.mjENBL_ENERGY)
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_energyPos(model, data)
        return float(data.energy[0])

    gradients = []
    for cell_of in (make_cell(one(**LINKS)), make_cell(one())):
        model, _ = world(cell_of)
        data = mujoco.MjData(model)
        data.qpos[:] = world(cell)[1].qpos
        steps = 1e-4 * np.eye(7)
        gradients.append([
            (energy(model, data, state.q + h) - energy(model, data, state.q - h)) / 2e-4
            for h in steps
        ])  # fmt: skip
    error = np.array(gradients[1]) - gradients[0]
    assert np.abs(error).max() > 0.5
    np.testing.assert_allclose(state.tau_ext, error, atol=0.02)
    np.testing.assert_allclose(state.tau, -error, atol=0.02)


def test_estimate_in_motion_uses_described_model(make_cell):
    """The estimate is inverse dynamics of the description minus the measured torque."""
    cell = make_cell(one(**LINKS, **RUBBING), STIFF, ["arm/stiff"])
    q0 = cell.state("arm").q.copy()
    model = model_with_gravity(cell.descriptions["arm"])
    data, estimated, expected = model.createData(), [], []
    for k in range(500):
        q = q0.copy()
        q[[1, 3, 5]] += 0.04 * (1.0 - np.cos(2.0 * np.pi * k * 1e-3 / 0.5))
        cell.set_target("arm", q=q)
        cell.step(1)
        state = cell.state("arm")
        if k > 200:
            estimated.append(state.tau_ext.copy())
            acceleration = cell.loop.backends[0].data.qacc[:7]
            rows = pin.rnea(model, data, state.q, state.dq, acceleration)
            expected.append(rows - state.tau_J)
    estimated, expected = np.array(estimated), np.array(expected)
    assert expected.std(axis=0)[[1, 3]].min() > 0.2
    error = np.sqrt(np.mean((estimated - expected)[20:] ** 2, axis=0))
    # Dry friction changes its sign at once where a joint reverses; the estimate is filtered.
    assert (error < 0.15 * np.sqrt(np.mean(expected**2, axis=0)) + 0.03).all(), error


def test_friction_at_constant_speed_follows_formula(make_cell):
    cell = make_cell(one(**RUBBING), {"rate": {"type": "joint_velocity"}}, ["arm/rate"])
    for speed in (0.05, -0.3):
        dq = np.zeros(7)
        dq[6] = speed
        torques = []
        for k in range(700):
            cell.set_target("arm", dq=dq)
            cell.step(1)
            if k > 550:
                state = cell.state("arm")
                torques.append(state.tau[6])
        actual = cell.state("arm").dq[6]
        expected = (0.4 + 0.3 * np.exp(-((actual / 0.1) ** 2))) * np.sign(actual)
        expected += 0.5 * actual + 0.05
        assert np.mean(torques) == pytest.approx(expected, abs=0.02)
        assert cell.state("arm").tau_ext[6] == pytest.approx(-expected, abs=0.02)


def test_arm_at_rest_sticks_below_stribeck_peak(make_cell):
    moved = []
    for torque in (0.5, 0.9):  # Coulomb 0.4 Nm and Stribeck 0.3 Nm.
        cell = make_cell(one(**{**RUBBING, "friction_offset": [0.0] * 7}), FLOAT, ["arm/float"])
        _, data = world(cell)
        start = data.qpos[6]
        data.qfrc_applied[6] = torque
        cell.step(200)
        moved.append(abs(data.qpos[6] - start))
    assert moved[0] < 5e-3  # Dry friction of MuJoCo creeps.
    assert moved[1] > 10 * moved[0]


def test_commands_are_executed_after_their_delay(make_cell):
    cell = make_cell(one(command_delay=0.003), STIFF, ["arm/stiff"])
    q = cell.state("arm").q + 0.05
    cell.set_target("arm", q=q)
    commanded, executed = [], []
    model = model_with_gravity(cell.descriptions["arm"])
    data = model.createData()
    for _ in range(60):
        cell.step(1)
        state = cell.state("arm")
        commanded.append(state.tau.copy())
        executed.append(state.tau_J - pin.computeGeneralizedGravity(model, data, state.q))
    # A cycle reads the torque of the previous cycle.
    np.testing.assert_allclose(executed[4:], commanded[:-4], atol=5e-3)
    assert np.abs(np.subtract(executed[3:], commanded[:-3])).max() > 0.05


def test_recovered_arm_executed_delayed_commands_of_before_stop(make_cell):
    arm = {
        "perturbation": {"command_delay": 0.02},
        "franka": {"upper_torque_thresholds": [3.0] * 7},
    }
    cell = make_cell({"arm": arm}, STIFF, ["arm/stiff"])
    _, data = world(cell)
    cell.set_target("arm", q=cell.state("arm").q + [0.15, 0, 0, 0, 0, 0, 0])
    cell.step(60)
    assert cell.state("arm").tau[0] > 4.0
    data.qfrc_applied[0] = 10.0
    cell.step(3)
    data.qfrc_applied[0] = 0.0
    cell.step(2)
    cell.request_recovery(["arm"])  # Recovery is faster than the command delay.
    executed = []
    for _ in range(25):
        cell.step()
        executed.append(float(cell.state("arm").tau_J[0]))
    assert cell.state("arm").fault == ""
    assert max(executed[2:]) < 1.0


def test_measurements_are_multiples_of_resolution(make_cell):
    noise = {"q": 1e-4, "q_resolution": 1e-3, "dq_resolution": 0.01, "tau_resolution": 0.05}
    cell = make_cell({"arm": {"noise": noise}}, STIFF, ["arm/stiff"])
    cell.step(20)
    state = cell.state("arm")
    for values, step in ((state.q, 1e-3), (state.dq, 0.01), (state.tau_J, 0.05)):
        np.testing.assert_allclose(values / step, np.rint(values / step), atol=1e-9)


def test_base_and_tool_have_perturbed_poses(make_cell):
    tool = {"mass": 0.5, "com": [0, 0, 0.05], "position": [0, 0, 0.1]}
    off = {"base_position": [0.01, -0.02, 0.005], "base_rpy": [0.0, 0.02, 0.1],
           "tool_position": [0.004, 0.0, 0.0], "tool_mass": 1.4}  # fmt: skip
    settings = {
        "position": [0.0, 0.3, 0.1],
        "rpy": [0.0, 0.0, 0.5],
        "gripper": False,
        "tool": tool,
    }
    cell = make_cell({"arm": {**settings, "perturbation": off}})
    model, data = world(cell)
    base = data.body("arm_fr3_link0")
    rotation = rotation_from_rpy(0.0, 0.0, 0.5)
    np.testing.assert_allclose(
        base.xpos, [0, 0.3, 0.1] + rotation @ off["base_position"], atol=1e-12
    )
    expected = rotation @ rotation_from_rpy(*off["base_rpy"])
    np.testing.assert_allclose(base.xmat.reshape(3, 3), expected, atol=1e-12)
    np.testing.assert_allclose(model.site("arm_fr3_tool_tcp").pos, [0.004, 0.0, 0.1], atol=1e-12)
    assert model.body("arm_fr3_tool").mass[0] == pytest.approx(0.7)
    assert cell.descriptions["arm"].tool.mass == 0.5  # The described model ignores it.


def test_contact_depth_follows_equation_of_mujoco(make_cell):
    """d^2 K r = (1 - d) g with K = 1 / (d_max T)^2 and the impedance d(r), for one contact."""
    for time in (0.02, 0.04):
        ball = {"shape": "sphere", "size": [0.05], "position": [0.5, 0.0, 0.15], "mass": 1.0,
                "contact_time": time}  # fmt: skip
        table = {"shape": "box", "size": [0.2, 0.2, 0.05], "position": [0.5, 0.0, 0.05],
                 "contact_time": time}  # fmt: skip
        cell = make_cell({"arm": {}}, objects={"ball": ball, "table": table})
        cell.step(500)
        depth = 0.15 - cell.simulation.pose("ball").position[2]
        low, high = 0.0, 0.02
        for _ in range(60):
            r = 0.5 * (low + high)
            x = min(r / 0.001, 1.0)
            d = 0.5 + 0.45 * (2 * x**2 if x <= 0.5 else 1 - 2 * (1 - x) ** 2)
            low, high = (r, high) if d**2 * r / (0.95 * time) ** 2 < (1 - d) * 9.81 else (low, r)
        assert depth == pytest.approx(r, rel=0.15)


def test_perturbed_arm_repeats_run_after_reset(make_cell):
    noise = {"tau": 0.05, "q": 1e-5}
    arm = {"perturbation": {**LINKS, **RUBBING, "command_delay": 0.002}, "noise": noise}
    cell = make_cell({"arm": arm}, STIFF, ["arm/stiff"])
    cell.step(50)
    saved, ends = cell.simulation.save(), []
    for _ in range(2):
        cell.simulation.reset(saved)
        cell.set_target("arm", q=cell.state("arm").q + 0.02)
        cell.step(200)
        ends.append(cell.state("arm").q.copy())
    np.testing.assert_array_equal(*ends)


def test_first_torque_after_reset_used_friction_of_old_speed(make_cell):
    rubbing = {"coulomb": [0.4] * 7, "stribeck": [0.3] * 7, "stribeck_speed": [0.1] * 7}
    arm = {"joint_friction": [0.5] * 7, "perturbation": rubbing}
    cell = make_cell({"arm": arm}, STIFF, ["arm/stiff"])
    cell.set_target("arm", q=cell.state("arm").q + 0.05)
    cell.step(60)
    saved, estimated = cell.simulation.save(), []
    for _ in range(2):
        cell.simulation.reset(saved)
        cell.step()
        estimated.append(cell.state("arm").tau_ext.copy())
        cell.step(1000)  # The arm comes to rest.
    np.testing.assert_array_equal(*estimated)


def test_unperturbed_arm_is_described_arm():
    arm = ArmDescription("arm")
    assert perturbed(arm, PerturbationConfig()) is arm


def identified(path, **more):
    return {"arm": {"perturbation": {"parameters": str(path), **more}}}


@pytest.mark.parametrize("model", ["fr3", "ur5e"])
def test_mujoco_has_bodies_and_rotors_of_file(make_cell, tmp_path, model):
    robot = write_robot(tmp_path / "robot.yaml", 2, model=model)
    arm = {
        "model": model,
        "gripper": False,
        "perturbation": {"parameters": f"{tmp_path}/robot.yaml"},
    }
    cell = make_cell({"arm": arm})
    backend, n = cell.loop.backends[0], robot.n_joints
    full = np.zeros((backend.model.nv, backend.model.nv))
    try:
        mujoco.mj_fullM(backend.model, backend.data, full)  # MuJoCo 4
    except TypeError:
        mujoco.mj_fullM(backend.model, full, backend.data.qM)
    real = build_pinocchio(ArmDescription("arm", robot, hand=False))
    expected = pin.crba(real, real.createData(), backend.data.qpos[:n].copy())
    np.testing.assert_allclose(np.triu(full[:n, :n]), np.triu(expected), atol=2e-5)
    np.testing.assert_allclose(backend.model.dof_frictionloss[:n], robot.friction)
    np.testing.assert_allclose(
        cell.descriptions["arm"].joint_frictionloss, 0.0
    )  # The described model ignores it.


def test_robot_estimates_and_compensates_with_data_sheet(make_cell, tmp_path):
    """The estimate is inverse dynamics of the data sheet minus the measured torque."""
    robot = write_robot(tmp_path / "robot.yaml", 3)
    cell = make_cell(identified(tmp_path / "robot.yaml"), STIFF, ["arm/stiff"])
    model = model_with_gravity(cell.descriptions["arm"])
    data, q0, estimated, expected = model.createData(), cell.state("arm").q.copy(), [], []
    for k in range(700):
        q = q0 + 0.1 * (1.0 - np.cos(2.0 * np.pi * k * 1e-3 / 0.5))
        cell.set_target("arm", q=q)
        cell.step(1)
        state = cell.state("arm")
        if k > 300:
            estimated.append(state.tau_ext.copy())
            acceleration = cell.loop.backends[0].data.qacc[:7]
            rows = pin.rnea(model, data, state.q, state.dq, acceleration)
            expected.append(rows - state.tau_J)
    estimated, expected = np.array(estimated), np.array(expected)
    error = np.sqrt(np.mean((estimated - expected) ** 2, axis=0))
    # Dry friction changes its sign at once where a joint reverses; the estimate is filtered.
    assert (error < 0.15 * np.sqrt(np.mean(expected**2, axis=0)) + 0.03).all(), error
    truth = model_with_gravity(ArmDescription("arm", robot))
    rows = pin.computeGeneralizedGravity(truth, truth.createData(), q0)
    assert np.abs(rows - pin.computeGeneralizedGravity(model, data, q0)).max() > 1.0


def test_perturbation_adds_to_parameter_file(make_cell, tmp_path):
    robot = write_robot(tmp_path / "robot.yaml", 2)
    cell = make_cell(identified(tmp_path / "robot.yaml", coulomb=[0.3] * 7, link_mass=[1.1] * 7))
    model = cell.loop.backends[0].model
    np.testing.assert_allclose(model.dof_frictionloss[:7], robot.friction + 0.3)
    for i in range(1, 7):
        mass = model.body(f"arm_fr3_link{i}").mass[0]
        assert mass == pytest.approx(1.1 * robot.links[i].inertial.mass)


def cell_file(folder, **arm):
    path = folder / "cell.yaml"
    data = {"arms": {"left": {"position": [0.0, 0.0, 0.0], **arm}}}
    path.write_text(yaml.safe_dump({"/**": {"ros__parameters": data}}))
    return path


def test_files_resolve_beside_cell_file_and_survive_json(tmp_path, monkeypatch):
    write_robot(tmp_path / "robot.yaml", 2)
    files = {"perturbation": {"parameters": "robot.yaml"}, "identified": "robot.yaml"}
    path = cell_file(tmp_path, **files)
    monkeypatch.chdir("/")
    config = CellConfig.from_yaml(path)
    arm = config.arms["left"]
    assert arm.identified == arm.perturbation.parameters == f"{tmp_path}/robot.yaml"
    assert CellConfig.model_validate_json(config.model_dump_json()) == config
    assert CellConfig.from_dict(config.model_dump()) == config
    for robot in (arm.robot_of_laws, arm.robot_of_body):
        assert robot.links[3].inertial.mass != arm.robot.links[3].inertial.mass
    plant = tmp_path / "elsewhere" / "plant.yaml"
    plant.parent.mkdir()
    assert main(["perturb", str(path), "-o", str(plant), "--seed", "1"]) == 0
    assert CellConfig.from_yaml(plant).arms["left"].identified == f"{tmp_path}/robot.yaml"


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"identified": "missing.yaml"}, r"left\.identified: .*missing\.yaml: "),
        ({"perturbation": {"parameters": "missing.yaml"}},
         r"perturbation\.parameters: .*missing\.yaml: "),
        ({"identified": 3}, r"left\.identified: .*\b3\b.*string"),
        ({"identified": "robot.yaml", "model": "ur5e"},
         r"left\.identified: .*'fr3'.*'ur5e'"),
    ],
)  # fmt: skip
def test_invalid_file_is_rejected_with_its_key(tmp_path, files, words):
    write_robot(tmp_path / "robot.yaml", 2)
    with pytest.raises(ConfigurationError, match=words):
        CellConfig.from_yaml(cell_file(tmp_path, **files))


def test_parameter_file_cannot_be_a_range():
    with pytest.raises(ConfigurationError, match=r"perturbation\.parameters: unknown key"):
        PerturbationSpec.from_dict({"arms": {"all": {"perturbation": {"parameters": 1.0}}}})
