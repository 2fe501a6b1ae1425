# SPDX-License-Identifier: Apache-2.0
"""Arms with six and seven joints in one cell."""

from __future__ import annotations

from contextlib import ExitStack

import numpy as np
import pytest

from multipanda_py import registry
from multipanda_py.cell.switch_planning import Strictness
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.instance_spec import instance_specs
from multipanda_py.exceptions import ConfigurationError, ParameterRejected, TargetRejected
from multipanda_py.pose import Pose
from multipanda_py.testing import StateMaker, simple_cell

pytestmark = pytest.mark.inline

ARMS = {"left": {"position": [0, 0.5, 0]}, "right": {"model": "ur5e", "position": [0, -0.5, 0]}}
LAWS = [
    law for law in registry.built_in("controllets") if law not in ("hold", "actuator_commands")
]
"""Controllets for any arms; ``actuator_commands`` needs elastic actuators."""


def test_six_joint_arm_holds_tracks_joints_and_poses_and_stops(make_cell):
    cell = make_cell(ARMS)
    left = cell.state("left").q
    cell.step(100)
    assert np.abs(cell.state("right").dq).max() < 1e-9  # hold keeps the arm at rest
    cell.switch(["right/joint_impedance_controller"])
    goal = cell.state("right").q + 0.2 * np.array([1, 1, -1, 1, 1, 1])
    cell.set_target("right", q=goal)
    cell.step(2000)
    np.testing.assert_allclose(cell.state("right").q, goal, atol=1e-5)
    cell.switch(["right/cartesian_impedance_controller"], strictness=Strictness.FORCE_AUTO)
    start = cell.pose("right")
    to = start.position + np.array([0.05, -0.03, 0.04])
    cell.set_target("right", Pose(to, start.rotation))
    cell.step(150)
    assert np.abs(cell.state("right").dq).max() > 0.1  # the stop follows during the motion
    cell.switch([], ["right/cartesian_impedance_controller"])
    cell.step(1000)
    assert np.abs(cell.state("right").dq).max() < 1e-3
    cell.switch(["right/cartesian_impedance_controller"])
    cell.set_target("right", Pose(to, start.rotation))
    cell.step(2000)
    np.testing.assert_allclose(cell.pose("right").position, to, atol=1e-4)
    assert not cell.state("right").fault
    np.testing.assert_allclose(cell.state("left").q, left, atol=1e-6)


@pytest.fixture(scope="module")
def six_joint_cells():
    """Return cells of UR5e arms with all suitable controllets, by number of arms."""
    by_number = {}
    for law in LAWS:
        by_number.setdefault(registry.find("controllets", law).min_arms, []).append(law)
    with ExitStack() as stack:
        cells = {}
        for number, laws in by_number.items():
            ys = np.linspace(-0.5, 0.5, number) if number > 1 else [0.0]
            arms = {
                f"a{i}": {"model": "ur5e", "position": [0.0, float(y), 0.0]}
                for i, y in enumerate(ys)
            }
            controllets = {law: {"type": law, "arms": list(arms)} for law in laws}
            cells[number] = stack.enter_context(simple_cell(arms, controllets, []))
        yield cells


@pytest.mark.parametrize("law", LAWS)
def test_admittance_of_six_joints_did_not_start_(six_joint_cells, law):
    """Its inner target had seven joints for every arm; other controllets are checked, too."""
    cell = six_joint_cells[registry.find("controllets", law).min_arms]
    cell.hold()
    cell.step(5)
    cell.switch([law])
    cell.step(20)
    assert cell.active == (law,)


def test_wrong_number_of_joints_is_refused_with_both_numbers(make_cell):
    cell = make_cell(ARMS, active=["right/joint_impedance_controller"])
    with pytest.raises(TargetRejected, match=r"^right: q: .*\b7\b.*\b6\b"):
        cell.set_target("right", q=[0.0] * 7)
    with pytest.raises(ParameterRejected, match=r"damping_ratio: .*\b7\b.*\b6\b"):
        cell.set_parameters("right/joint_impedance_controller", {"damping_ratio": [1.0] * 7})
    assert cell.parameters("right/joint_impedance_controller")["stiffness"].shape == (6,)
    assert cell.parameters("left/joint_impedance_controller")["stiffness"].shape == (7,)


INTERFACES = {
    "joint configuration for the nullspace": (
        "cartesian_impedance_controller",
        lambda cell: cell.set_target("right", q=[0.0] * 7),
        r"^right: q: .*\b7\b.*\b6\b",
    ),
    "velocities": (
        "velocity",
        lambda cell: cell.set_target("right", dq=[0.0] * 7),
        r"^right: dq: .*\b7\b.*\b6\b",
    ),
    "trajectory": (
        "path",
        lambda cell: cell.follow_trajectory("right", [[1.0, *[0.0] * 21]]),
        r"\(1, 22\).*\(points, 19\).* 6 joints",
    ),
    "tolerances": (
        "path",
        lambda cell: cell.follow_trajectory(
            "right", [[1.0, *[0.0] * 18]], path_tolerance=[0.1] * 7
        ),
        r"path_tolerance: .*\b6\b",
    ),
}


@pytest.mark.parametrize("interface", INTERFACES)
def test_seven_values_for_six_joints_are_refused_everywhere(make_cell, interface):
    law, send, sentence = INTERFACES[interface]
    laws = {
        "cartesian_impedance_controller": {"type": "cartesian_impedance"},
        "velocity": {"type": "joint_velocity"},
        "path": {"type": "joint_trajectory"},
    }
    cell = make_cell(ARMS, laws, [f"right/{law}"])
    cell.step(5)
    before = cell.state("right").q
    with pytest.raises(TargetRejected, match=sentence):
        send(cell)
    cell.step(50)
    np.testing.assert_allclose(cell.state("right").q, before, atol=1e-6)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"q_start": [0.0] * 7}, r"right\.q_start: .*\b7\b.*\b6\b"),
        ({"noise": {"tau_bias": [0.0] * 7}}, r"noise.tau_bias:.*\b7\b.*\b6\b"),
        ({"gripper": True}, r"right\.gripper: .*true.*ur5e"),
    ],
)
def test_arm_description_requires_its_own_number_of_joints(changed, sentence):
    arms = {**ARMS, "right": ARMS["right"] | changed}
    with pytest.raises(ConfigurationError, match=sentence):
        CellConfig.from_dict({"arms": arms})


BOTH = ["left", "right"]


FOR_BOTH = [name for name in LAWS if registry.find("controllets", name).max_arms != 1]


@pytest.fixture(scope="module", params=[BOTH, BOTH[::-1]], ids=" ".join)
def cell_of_both(request):
    """Return a cell with every controllet for two arms, for each order of the arms."""
    laws = {law: {"type": law, "arms": request.param} for law in FOR_BOTH}
    with simple_cell(ARMS, laws, []) as cell:
        yield cell


@pytest.mark.parametrize("law", FOR_BOTH)
def test_coupled_controllet_refused_six_and_seven_joint_arms(cell_of_both, law):
    """The arms rest in any order, and an external force on one causes no fault."""
    cell = cell_of_both
    cell.simulation.reset()
    cell.hold()
    cell.switch([law])
    cell.step(50)
    assert all(np.abs(cell.state(arm).dq).max() < 1e-4 for arm in BOTH)
    cell.simulation.apply_wrench("right_ur5e_tool0", [8.0, 0.0, 5.0])
    cell.step(100)
    assert np.abs(cell.state("right").dq).max() > 1e-3
    cell.simulation.apply_wrench("right_ur5e_tool0")
    cell.step(100)
    assert cell.active == (law,)


def test_one_controllet_moves_joints_of_both_arms(make_cell):
    cell = make_cell(ARMS, {"both": {"type": "joint_impedance", "arms": BOTH}}, ["both"])
    goals = {arm: cell.state(arm).q + 0.1 * (-1.0) ** np.arange(n) for arm, n in zip(BOTH, (7, 6))}
    for arm, goal in goals.items():
        cell.set_target(arm, q=goal)
    cell.step(2000)
    for arm, goal in goals.items():
        np.testing.assert_allclose(cell.state(arm).q, goal, atol=1e-5)


def test_different_arms_have_separate_joint_parameters(make_cell):
    params = {"stiffness": {"right": [90.0] * 6}, "nullspace": {"max_torque": {"left": [4.0] * 7}}}
    laws = {
        "both": {"type": "joint_impedance", "arms": BOTH, "params": params.copy()},
        "cartesian": {"type": "cartesian_impedance", "arms": BOTH, "params": params.copy()},
    }
    del laws["both"]["params"]["nullspace"], laws["cartesian"]["params"]["stiffness"]
    cell = make_cell(ARMS, laws, ["both"])
    values = cell.parameters("both")
    assert "stiffness" not in values
    assert values["stiffness.left"].shape == (7,)
    assert values["stiffness.right"].tolist() == [90.0] * 6
    assert cell.parameters("cartesian")["nullspace.max_torque.left"].tolist() == [4.0] * 7
    assert cell.parameters("cartesian")["nullspace.max_torque.right"].shape == (6,)
    cell.set_parameters("both", {"stiffness.left": [500.0] * 4 + [60.0] * 3})
    start = cell.state("left").q
    cell.simulation.apply_wrench("left_fr3_hand", [0.0, 0.0, -20.0])
    cell.step(3000)
    state = cell.state("left")
    pressed = cell.parameters("both")["stiffness.left"] * (start - state.q)
    np.testing.assert_allclose(pressed, -state.tau_ext, atol=0.02)


@pytest.mark.parametrize(
    ("requested", "sentence"),
    [
        (
            {"stiffness": [100.0] * 7},
            r"stiffness: .*\b7\b.*\.left\b.*\b7\b.*\.right\b.*\b6\b",
        ),
        ({"stiffness.right": [100.0] * 7}, r"stiffness.right:.*\b7\b.*\b6\b"),
        ({"stiffness.left": [100.0] * 6}, r"stiffness.left:.*\b6\b.*\b7\b"),
        ({"stiffness.middle": [100.0] * 6}, "'stiffness.middle'"),
    ],
)
def test_wrong_number_of_values_is_refused_with_both_numbers(make_cell, requested, sentence):
    laws = {"both": {"type": "joint_impedance", "arms": BOTH}}
    cell = make_cell(ARMS, laws, ["both"])
    before = cell.parameters("both")
    with pytest.raises(ParameterRejected, match=sentence):
        cell.set_parameters("both", requested)
    assert all(np.array_equal(value, before[k]) for k, value in cell.parameters("both").items())
    laws["both"]["params"] = requested
    with pytest.raises(ConfigurationError, match=sentence):
        CellConfig.from_dict({"arms": ARMS, "controllets": laws})


def test_arms_of_one_kind_share_joint_parameters():
    arms = {name: {**ARMS["left"], "position": [0, y, 0]} for name, y in (("a", 0.5), ("b", -0.5))}
    arms["b"]["model"] = "fer"
    laws = {"both": {"type": "joint_impedance", "arms": ["a", "b"]}}
    laws["both"]["params"] = {"stiffness": [60.0] * 7}
    specs = instance_specs(CellConfig.from_dict({"arms": arms, "controllets": laws}))
    spec = next(own for own in specs if own.name == "both")
    assert [own.name for own in spec.parameter_specs[:2]] == ["stiffness", "damping_ratio"]


def test_controllet_for_one_number_of_joints_reports_it():
    context = StateMaker(2, ("fr3", "ur5e")).context
    with pytest.raises(ConfigurationError, match=r"\barm0 7, arm1 6\b"):
        _ = context.n_joints
