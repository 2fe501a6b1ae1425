# SPDX-License-Identifier: Apache-2.0
"""A simulated arm with an identified body, whose robot goes on believing its data sheet."""

from __future__ import annotations

import mujoco
import numpy as np
import pinocchio as pin
import pytest
import yaml
from robot_file import write_robot

from multipanda_py.apps.cli import main
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.perturbation import PerturbationSpec
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.dynamics.arm_model import build_pinocchio, model_with_gravity

pytestmark = [pytest.mark.sim, pytest.mark.inline]

STIFF = {"stiff": {"type": "joint_impedance"}}


def one(path, **more):
    return {"arm": {"perturbation": {"parameters": str(path), **more}}}


@pytest.mark.parametrize("model", ["fr3", "ur5e"])
def test_mujoco_has_the_bodies_and_rotors_of_the_file(make_cell, tmp_path, model):
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
    np.testing.assert_allclose(cell.descriptions["arm"].joint_frictionloss, 0.0)  # nobody knows


def test_its_robot_feels_and_carries_what_the_data_sheet_says(make_cell, tmp_path):
    """What is felt is inverse dynamics of the data sheet less the measured torque, as ever."""
    robot = write_robot(tmp_path / "robot.yaml", 3)
    cell = make_cell(one(tmp_path / "robot.yaml"), STIFF, ["arm/stiff"])
    model = model_with_gravity(cell.descriptions["arm"])
    data, q0, felt, expected = model.createData(), cell.state("arm").q.copy(), [], []
    for k in range(700):
        q = q0 + 0.1 * (1.0 - np.cos(2.0 * np.pi * k * 1e-3 / 0.5))
        cell.set_target("arm", q=q)
        cell.step(1)
        state = cell.state("arm")
        if k > 300:
            felt.append(state.tau_ext.copy())
            acceleration = cell.loop.backends[0].data.qacc[:7]
            rows = pin.rnea(model, data, state.q, state.dq, acceleration)
            expected.append(rows - state.tau_J)
    felt, expected = np.array(felt), np.array(expected)
    error = np.sqrt(np.mean((felt - expected) ** 2, axis=0))
    # Dry friction changes its sign at once where a joint turns back; the estimate is filtered.
    assert (error < 0.15 * np.sqrt(np.mean(expected**2, axis=0)) + 0.03).all(), error
    truth = model_with_gravity(ArmDescription("arm", robot))
    rows = pin.computeGeneralizedGravity(truth, truth.createData(), q0)
    assert np.abs(rows - pin.computeGeneralizedGravity(model, data, q0)).max() > 1.0


def test_numbers_come_on_top_of_the_file(make_cell, tmp_path):
    robot = write_robot(tmp_path / "robot.yaml", 2)
    cell = make_cell(one(tmp_path / "robot.yaml", coulomb=[0.3] * 7, link_mass=[1.1] * 7))
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


def test_files_are_beside_the_cell_file_and_come_back_from_json(tmp_path, monkeypatch):
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
def test_a_file_that_is_none_is_refused_where_it_is_named(tmp_path, files, words):
    write_robot(tmp_path / "robot.yaml", 2)
    with pytest.raises(ConfigurationError, match=words):
        CellConfig.from_yaml(cell_file(tmp_path, **files))


def test_a_file_is_nothing_that_ranges_are_for():
    with pytest.raises(ConfigurationError, match=r"perturbation\.parameters: unknown key"):
        PerturbationSpec.from_dict({"arms": {"all": {"perturbation": {"parameters": 1.0}}}})
