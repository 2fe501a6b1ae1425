# SPDX-License-Identifier: Apache-2.0
"""Interface of the simulation, compared with physics and with a second run."""

from __future__ import annotations

import re
import time
from pathlib import Path

import numpy as np
import pytest

from multipanda_py import Pose
from multipanda_py.exceptions import LoopError, SimulationRejected, UnknownName
from multipanda_py.testing import simple_cell

pytestmark = pytest.mark.inline

G = 9.81
BOX = {
    "shape": "box", "size": [0.05, 0.05, 0.05], "position": [0.6, 0.0, 0.05], "mass": 2.0,
    "friction": 0.8,
}  # fmt: skip
TABLE = {"shape": "box", "size": [0.2, 0.2, 0.1], "position": [0.6, 0.8, 0.1]}
NOISY = {
    "noise": {
        "q": 1e-5,
        "dq": 1e-3,
        "tau": 0.05,
        "tau_drift": [0.01] * 7,
        "torque_resolution": 0.01,
    },
    "perturbation": {"state_delay": 0.003, "torque_lag": 0.002},
    "transmission": {"ripple": [0.1] * 7, "stiffness": [14000.0] * 4 + [9000.0] * 3},
}
ARM = {"arm": {}}


def boxed(make_cell, **settings):
    return make_cell(ARM, objects={"box": BOX, "table": TABLE}, **settings)


def run(cell, cycles=150):
    """Move an arm and return all recorded data except times of the machine."""
    total, _ = cell.records()
    start = cell.pose("left")
    cell.set_target("left", Pose(start.position + [0.0, 0.02, 0.03], start.rotation))
    cell.step(cycles)
    rows = cell.records(total)[1]
    return [rows[name].tobytes() for name in ("time", "arms", "object_poses", "reports")]


@pytest.mark.parametrize("arms", [{}, NOISY], ids=["ideal", "noisy"])
def test_reset_cell_runs_bitwise_as_new_one(make_cell, arms):
    cells = [
        make_cell({"left": arms, "right": {"position": [0.0, -0.8, 0.0], **arms}},
                  active=["left/cartesian_impedance_controller"])
        for _ in range(2)
    ]  # fmt: skip
    cells[1].step(7)
    run(cells[1])
    cells[1].recover()
    for cell in cells:
        cell.simulation.reset()
    assert run(cells[0]) == run(cells[1])


def test_saved_state_is_restored_bitwise_and_repeatedly(make_cell):
    cell = make_cell({"left": NOISY}, active=["left/cartesian_impedance_controller"])
    run(cell)
    state = cell.simulation.save()
    runs = []
    for _ in range(3):
        cell.simulation.reset(state)
        assert cell.simulation.time == state.time
        runs.append(run(cell))
    assert runs[0] == runs[1] == runs[2]


def test_grasp_continues_from_saved_state(make_cell):
    """The state of grippers, objects, contacts and forces is restored."""
    held = {**BOX, "size": [0.03, 0.03, 0.03], "position": [0.45, 0.0, 0.03], "mass": 0.2}
    cell = make_cell(ARM, objects={"box": held})
    tool_pose = cell.pose("arm")
    cell.simulation.set_pose("box", Pose(tool_pose.position, np.eye(3)))
    cell.gripper("arm").grasp(0.06, force=30.0)
    cell.step(1)
    for _ in range(600):
        cell.simulation.set_pose("box", Pose(tool_pose.position, np.eye(3)))
        cell.step(1)
    cell.step(400)
    state, before = cell.simulation.save(), cell.objects()["box"].position
    assert before[2] > tool_pose.position[2] - 0.03
    cell.gripper("arm").move(0.08)
    cell.step(800)
    assert cell.objects()["box"].position[2] < before[2] - 0.1
    cell.simulation.reset(state)
    cell.step(800)
    assert np.linalg.norm(cell.objects()["box"].position - before) < 2e-3
    assert cell.gripper("arm").state().is_grasped


def test_seed_determines_noise(make_cell):
    cell = make_cell({"left": NOISY}, active=["left/cartesian_impedance_controller"])
    runs = []
    for seed in (1, 2, 1, None):
        cell.simulation.reset(seed=seed)
        runs.append(run(cell))
    assert runs[0] == runs[2]
    assert all(runs[i] != runs[j] for i, j in ((0, 1), (0, 3), (1, 3)))


def test_reset_clears_faults_and_history(make_cell):
    """Hold gets no previous force, and an arm with a previous fault may be switched."""
    cell = make_cell(ARM)
    state = cell.simulation.save()
    cell.simulation.data.qvel[0] = 30.0
    cell.step(3)
    assert cell.state("arm").fault
    cell.simulation.reset(state)
    assert not cell.state("arm").fault
    assert np.abs(cell.state("arm").dq).max() < 1e-6
    result = cell.switch(["arm/cartesian_impedance_controller"], strictness="force_auto")
    assert not result.handed_over


def test_reset_takes_less_than_one_millisecond(make_cell):
    arms = {"left": {"position": [0.0, 0.3, 0.0]}, "right": {"position": [0.0, -0.3, 0.0]}}
    laws = {"soft": {"type": "cartesian_impedance"}}
    cell = make_cell(arms, laws, ["left/soft", "right/soft"], objects={"box": BOX})
    cell.step(50)
    times = []
    for _ in range(100):
        start = time.thread_time()
        cell.simulation.reset()
        times.append(time.thread_time() - start)
    best = np.percentile(times, 10)  # other processes cause the longer times
    assert best < 1e-3, best


def test_contact_force_of_resting_object_is_its_weight(make_cell):
    cell = boxed(make_cell)
    cell.step(800)
    sim = cell.simulation
    np.testing.assert_allclose(sim.contact_force("box"), [0.0, 0.0, 2.0 * G], atol=0.02)
    np.testing.assert_allclose(sim.contact_force("floor", "box"), [0, 0, -2.0 * G], atol=0.02)
    np.testing.assert_array_equal(sim.contact_force("box", "arm"), np.zeros(3))
    np.testing.assert_array_equal(sim.contact_force("box", "table"), np.zeros(3))


def test_scaled_inertia_scales_weight_from_original_value(make_cell):
    cell = boxed(make_cell)
    for factor, mass in ((2.0, 4.0), (0.5, 1.0), (1.0, 2.0)):
        cell.simulation.scale_inertia("box", factor)
        cell.step(800)
        assert cell.simulation.contact_force("box")[2] == pytest.approx(mass * G, rel=2e-3)


def test_force_accelerates_object_by_newton_until_removed(make_cell):
    cell = boxed(make_cell)
    sim = cell.simulation
    sim.set_pose("box", Pose(np.array([0.6, 0.0, 1.0]), np.eye(3)))
    sim.apply_wrench("box", [6.0, 0.0, 2.0 * G])
    cell.step(200)
    moved = sim.pose("box").position - [0.6, 0.0, 1.0]
    np.testing.assert_allclose(moved, [0.5 * 3.0 * 0.2**2, 0.0, 0.0], atol=1e-3)
    sim.apply_wrench("box")
    before = sim.pose("box").position
    cell.step(200)
    fallen = sim.pose("box").position - before
    np.testing.assert_allclose(fallen, [0.6 * 0.2, 0.0, -0.5 * G * 0.2**2], atol=2e-3)


def test_eccentric_force_rotates_object(make_cell):
    cell = boxed(make_cell)
    sim = cell.simulation
    sim.set_pose("box", Pose(np.array([0.6, 0.0, 1.0]), np.eye(3)))
    sim.apply_wrench("box", [0.0, 0.0, 2.0 * G], point=[0.6, 0.02, 1.0])
    cell.step(50)
    inertia = 2.0 * (0.1**2 + 0.1**2) / 12.0
    angle = 0.5 * (2.0 * G * 0.02 / inertia) * 0.05**2
    final_rotation = sim.pose("box").rotation
    assert np.arctan2(final_rotation[2, 1], final_rotation[1, 1]) == pytest.approx(angle, rel=0.05)


@pytest.mark.parametrize(("push", "slides"), [(0.8, False), (1.2, True)])
def test_object_slides_above_friction_limit(make_cell, push, slides):
    cell = boxed(make_cell)
    cell.step(500)
    sim = cell.simulation
    sim.set_friction("box", 0.3)
    before = sim.pose("box").position
    sim.apply_wrench("box", [0.0, push * 0.3 * 2.0 * G, 0.0], point=[*before[:2], 0.0])
    cell.step(300)
    displacement = sim.pose("box").position[1] - before[1]
    assert (
        (displacement > 0.5 * 0.5 * (push - 1.0) * 0.3 * G * 0.09)
        if slides
        else (displacement < 2e-3)
    )


def test_estimated_wrench_equals_applied_wrench(make_cell):
    cell = make_cell(ARM)
    cell.step(20)
    sim, state = cell.simulation, cell.state("arm")
    sim.apply_wrench("arm_fr3_link8", [5.0, 0.0, -10.0], point=state.position_ee_in_base)
    cell.step(2)
    estimated = cell.state("arm").wrench_ext_in_base
    np.testing.assert_allclose(estimated, [5.0, 0.0, -10.0, 0.0, 0.0, 0.0], atol=0.1)


def test_massless_objects_are_moved_and_restored(make_cell):
    cell = boxed(make_cell)
    sim = cell.simulation
    there = Pose(np.array([0.6, 0.9, 0.3]), np.eye(3))
    state = sim.save()
    sim.set_pose("table", there)
    assert sim.pose("table").distance(there)[0] < 1e-12
    sim.reset(state)
    cell.step(1)
    np.testing.assert_allclose(sim.pose("table").position, TABLE["position"])


def test_contact_forces_between_arms_are_opposite(make_cell):
    arms = {"a": {}, "b": {"position": [0.6, 0.0, 0.0], "rpy": [0.0, 0.0, np.pi]}}
    cell = make_cell(arms)
    cell.step(30)
    one, other = (cell.simulation.contact_force(*pair) for pair in (("a", "b"), ("b", "a")))
    np.testing.assert_allclose(one, -other, atol=1e-9)
    assert np.linalg.norm(one) > 1.0


@pytest.mark.parametrize(
    ("act", "error", "pattern"),
    [
        (lambda s: s.pose("bax"), UnknownName, "'bax'.*floor, .*box"),
        (
            lambda s: s.set_pose("arm_fr3_link3", Pose.identity()),
            SimulationRejected,
            "arm_fr3_link3",
        ),
        (lambda s: s.set_pose("floor", Pose.identity()), SimulationRejected, "floor"),
        (
            lambda s: s.apply_wrench("box", [1.0, 2.0]),
            SimulationRejected,
            r"force: .*2\.0\].*\b3\b",
        ),
        (
            lambda s: s.apply_wrench("box", [1.0, 2.0, np.nan]),
            SimulationRejected,
            r"force: .*\bnan\b.*\b3\b",
        ),
        (lambda s: s.set_friction("box", -1.0), SimulationRejected, r"friction: .*-1\.0\b.*\b0\b"),
        (lambda s: s.scale_inertia("box", 0.0), SimulationRejected, r"inertia: .*\b0\.0\b"),
        (lambda s: s.reset(seed=-1), SimulationRejected, r"seed:.*-1.*\b0\b"),
    ],
)
def test_invalid_values_are_refused(make_cell, act, error, pattern):
    with pytest.raises(error, match=pattern):
        act(boxed(make_cell).simulation)


def test_wrong_types_raised_numpy_and_mujoco_errors(make_cell):
    sim = boxed(make_cell).simulation
    refused = [
        (lambda: sim.reset("x"), "reset: state: .*'x'"),
        (lambda: sim.set_pose("box", [1, 2, 3]), r"box: pose: .*\[1, 2, 3\]"),
        (lambda: sim.scale_inertia("box", "2"), r"inertia:.*'2'.*\b0\b"),
        (lambda: sim.set_friction("box", True), r"friction:.*True.*\b0\b"),
        (lambda: sim.image(width=64.5), r"image: width: .*\b64\.5\b"),
    ]
    for seed in ("x", 1.5, np.nan, True):
        pattern = rf"reset: seed: .*{seed!r}.*\b0$"
        refused.append((lambda seed=seed: sim.reset(seed=seed), pattern))
    for act, pattern in refused:
        with pytest.raises(SimulationRejected, match=pattern):
            act()
    sim.reset(seed=np.int64(7))


def test_state_of_another_cell_is_refused(make_cell):
    one, other = make_cell(ARM), make_cell(ARM)
    with pytest.raises(SimulationRejected, match="another cell"):
        one.simulation.reset(other.simulation.save())


def test_simulation_interface_requires_started_inline_cell(make_cell):
    with pytest.raises(SimulationRejected, match=r"placement: thread.*inline"):
        make_cell(ARM, placement="thread").simulation  # noqa: B018
    with pytest.raises(SimulationRejected, match=r"arms\.arm\.backend: .*\bmock\b"):
        make_cell({"arm": {"backend": "mock"}}).simulation  # noqa: B018
    with pytest.raises(LoopError, match="not started"):
        simple_cell(ARM).simulation  # noqa: B018


def test_image_shows_moved_object(make_cell):
    cell = boxed(make_cell)
    sim = cell.simulation
    before = sim.image("overview", 64, 48)
    assert before.shape == (48, 64, 3)
    assert np.array_equal(before, sim.image("overview", 64, 48))
    sim.set_pose("box", Pose(np.array([0.3, 0.0, 0.9]), np.eye(3)))
    assert not np.array_equal(before, sim.image("overview", 64, 48))
    with pytest.raises(UnknownName, match="camera 'top'"):
        sim.image("top")


def test_documented_example_runs(monkeypatch, capsys):
    root = Path(__file__).parents[2]
    monkeypatch.chdir(root)
    (code,) = re.findall(r"```python\n(.*?)```", (root / "doc/simulation.md").read_text(), re.S)
    exec(compile(code, "doc/simulation.md", "exec"), {})
    assert capsys.readouterr().out.startswith("[0. 0. 0.]")
