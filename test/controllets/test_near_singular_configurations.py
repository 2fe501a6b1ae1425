# SPDX-License-Identifier: Apache-2.0
"""Arms near singularities whose models lack 3 % of each torque limit, without commands."""

from __future__ import annotations

from itertools import islice
from zlib import crc32

import numpy as np
import pytest
from long_form import every_nth, long_form

from multipanda_py.testing import StateMaker

pytestmark = pytest.mark.inline

MODEL_ERROR = 0.03
"""Fraction of the torque limits that the model lacks."""
REST = 0.1
"""Maximum joint speed at rest [rad/s]."""
STILL, STILL_FOR = 0.005, 3
"""Maximum speed of an arm at rest [rad/s], and tenths of a second until a run ends."""
WHOLE = {"hold": "position", "keep_orientation": True}
LAWS = {
    "cartesian_impedance": {},
    "operational_space": {},
    "force_impedance": {},
    "admittance": {},
    "gravity_compensation": WHOLE,
    "optimization_augmented": {"mode": "force"},
    "coupled_impedance": {},
    "coupled_force_impedance": {},
    "teleoperation": {},
}
PAIRS = ("coupled_impedance", "coupled_force_impedance", "teleoperation")
WRIST = [0.0, -1.5, 1.6, -1.7, 0.05, 0.0]
FAULTY = [
    ("ur5e", "force_impedance", WRIST, [1, 1, -1, 1, 1, -1]),
    ("ur5e", "force_impedance", [0.52, 1.417, 0.122, -0.226, -1.297, -1.648],
     [-1, -1, 1, 1, 1, 1]),
    ("ur5e", "cartesian_impedance", [-0.012, -1.029, -0.928, 2.795, -2.047, -2.504],
     [1, -1, 1, 1, 1, -1]),
    ("ur5e", "coupled_impedance", [0.649, 1.396, 0.265, 2.647, 1.921, -3.025],
     [1, 1, -1, 1, 1, -1]),
    ("iiwa14", "cartesian_impedance", [1.721, -0.414, 2.054, -0.171, -2.144, 1.404, 1.869],
     [1, 1, 1, 1, 1, -1, -1]),
    ("iiwa14", "optimization_augmented",
     [2.49506, -1.76698, -2.34565, 0.00219, 0.17021, -0.09253, -2.72612],
     [-1, 1, 1, -1, -1, 1, -1]),
    ("iiwa14", "coupled_force_impedance",
     [-0.37652, -1.44718, 1.99867, -1.15685, 2.00893, 1.97498, 1.77678],
     [1, 1, 1, -1, -1, 1, -1]),
]  # fmt: skip


def run(make_cell, model, law, q, signs, seconds=4.0):
    """Run one or two arms without commands; return the peak speed fraction and the last states."""
    limits = StateMaker(1, model).states[0].limits
    bias = MODEL_ERROR * limits.torque * np.array(signs)
    arms = {
        name: {"model": model, "position": [0.0, y, 1.5], "q_start": list(q),
               "perturbation": {"torque_bias": (sign * bias).tolist()}}
        for name, y, sign in (("arm", 0.0, 1), ("other", 1.6, -1))[: 1 + (law in PAIRS)]
    }  # fmt: skip
    spec = {"type": law, "params": LAWS[law]}
    active = ["arm/law"]
    if law in PAIRS:
        spec["arms"], active = list(arms), ["law"]
    cell = make_cell(arms, {"law": spec}, active)
    if cell.simulation.data.ncon:
        cell.close()
        return None
    used, rest_count = 0.0, 0
    for _ in range(round(seconds / 0.1)):
        count = cell.records()[0]
        cell.step(100)
        dq = cell.records(count)[1]["arms"]["dq"][..., : limits.n_joints]
        used = max(used, float((np.abs(dq) / limits.velocity).max()))
        rest_count = rest_count + 1 if np.abs(dq).max() < STILL else 0
        if rest_count == STILL_FOR or any(cell.state(name).fault for name in arms):
            break
    states = [cell.state(name) for name in arms]
    cell.close()
    return used, states


@pytest.mark.slow
@pytest.mark.parametrize(("model", "law", "q", "signs"), every_nth(3, FAULTY))
def test_arm_near_singularity_reached_its_speed_limit(make_cell, model, law, q, signs):
    """Within half a second of its activation, only because of model errors."""
    used, states = run(make_cell, model, law, q, signs)
    assert [str(state.fault) for state in states] == [""] * len(states)
    assert used < 0.95


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "q", "signs"),
    every_nth(2, [
        ("ur5e", [0.11562, 1.26237, -0.30757, 2.84498, 2.59768, 0.30653], [-1, 1, 1, -1, 1, 1]),
        ("fr3", [-1.22457, -0.17101, 1.03256, -0.55942, 1.34653, 1.45178, 0.04669],
         [1, -1, -1, 1, -1, 1, 1]),
    ]),
)  # fmt: skip
def test_admittance_treated_torque_errors_near_singularity_as_push(make_cell, model, q, signs):
    """The wrench estimate divides them by a vanishing singular value."""
    used, (state,) = run(make_cell, model, "admittance", q, signs)
    assert used < 0.4
    assert np.abs(state.dq).max() < 0.02


def test_virtual_body_led_arm_through_singularity_at_speed_limit(make_cell):
    """An assumed torque of 4 Nm rotated the tool, while joints 2, 4 and 6 were nearly aligned."""
    q = [-1.77274, 0.0383, -1.70169, 0.05418, -1.44404, 0.18982, 2.45314]
    used, (state,) = run(make_cell, "kinova_gen3", "admittance", q, [-1, 1, -1, -1, 1, 1, 1])
    assert str(state.fault) == ""
    assert used < 0.6


@pytest.mark.parametrize("signs", every_nth(2, [[1, -1, -1, 1, -1, 1], [-1, 1, 1, -1, 1, 1]]))
def test_arm_with_aligned_wrist_comes_to_rest(make_cell, signs):
    used, (state,) = run(make_cell, "ur5e", "cartesian_impedance", WRIST, signs)
    assert used < 0.5
    assert np.abs(state.dq).max() < 0.02


@pytest.mark.parametrize(
    ("q", "signs"),
    every_nth(2, [
        ([0.69092, -1.94487, -1.31659, -0.14604, 0.32815, -0.0161, 0.74614],
         [1, 1, -1, -1, 1, 1, 1]),
        ([1.66972, -0.2809, -2.08682, -1.72531, -1.33906, -1.08865, 2.09455],
         [-1, 1, -1, 1, -1, -1, -1]),
    ]),
)  # fmt: skip
def test_nullspace_spring_of_another_robot_let_elbow_run_away(make_cell, q, signs):
    """An FR3's 5 Nm cannot balance the 9.6 Nm that the model of an iiwa14 may lack."""
    _, (state,) = run(make_cell, "iiwa14", "cartesian_impedance", q, signs)
    assert str(state.fault) == ""
    assert np.abs(state.dq).max() < 0.02


@pytest.mark.parametrize(
    ("model", "case"), every_nth(2, [("ur5e", 42), ("iiwa14", 13), ("iiwa14", 64), ("fr3", 61)])
)
def test_nullspace_spring_fed_oscillation_without_end(make_cell, model, case):
    """Tool motion deflected the spring without work. Arms moved at 2 rad/s for all of 20 s."""
    rng = np.random.default_rng(crc32(f"cartesian_impedance {model}".encode()))
    q, signs = next(islice(configurations(model, rng, 200), case, None))
    used, (state,) = run(make_cell, model, "cartesian_impedance", q, signs, seconds=9.0)
    assert used < 0.95
    assert np.abs(state.dq).max() < 0.03


@pytest.mark.parametrize("model", ["ur5e", "kinova_gen3", "iiwa14", "fr3", "fer"])
def test_default_nullspace_springs_balance_model_errors(model):
    """A moderate deflection of half a radian exerts the maximum."""
    robot = StateMaker(1, model).context.arms[0].robot
    largest, stiffness = np.array(
        [robot.value("lacking_torque"), robot.value("posture_stiffness")]
    )
    torque = robot.limits.torque
    assert (largest > 1.5 * MODEL_ERROR * torque).all()
    assert (largest <= 0.42 * torque).all()
    assert (stiffness * 0.5 >= largest - 1e-9).all()
    if model in ("fr3", "fer"):
        assert (largest.tolist(), stiffness.tolist()) == ([5.0] * 7, [10.0] * 7)


SWITCHED = [("cartesian_impedance", 0.02), ("force_impedance", 0.02), ("coupled_impedance", 0.4),
            ("gravity_compensation", 0.2), ("optimization_augmented", 0.02)]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("law", "farthest"), every_nth(3, SWITCHED))
def test_balanced_arm_moved_by_radians_after_switch_near_singularity(make_cell, law, farthest):
    """``hold`` balances the model error; gravity compensation does not."""
    bias = MODEL_ERROR * StateMaker(1, "ur5e").states[0].limits.torque * [1, 1, -1, 1, 1, -1]
    arms = {
        name: {"model": "ur5e", "position": [0.0, y, 1.5], "q_start": WRIST,
               "perturbation": {"torque_bias": bias.tolist()}}
        for name, y in (("arm", 0.0), ("other", 1.6))[: 1 + (law in PAIRS)]
    }  # fmt: skip
    spec = {"type": law, "params": LAWS[law], "arms": list(arms)}
    cell = make_cell(arms, {"law": spec}, [])
    cell.step(2000)
    before = [cell.state(name).q.copy() for name in arms]
    cell.switch(["law"])
    count = cell.records()[0]
    cell.step(2000)
    q = cell.records(count)[1]["arms"]["q"][..., :6]
    assert len(q) == 2000
    assert np.abs(q - before).max() < farthest
    if law not in PAIRS:
        assert np.abs(cell.state("arm").dq).max() < 0.02


def configurations(model, rng, count):
    """Yield configurations and signs of the model error; half of them are near singular."""
    maker = StateMaker(1, model)
    limits = maker.states[0].limits
    lower, upper = np.maximum(limits.lower, -np.pi) + 0.1, np.minimum(limits.upper, np.pi) - 0.1
    for case in range(count):
        candidates = rng.uniform(
            lower, upper, (rng.integers(5, 60) if case % 2 else 1, len(lower))
        )
        smallest = [
            np.linalg.svd(maker.states_at([q])[0].jacobian, compute_uv=False)[-1]
            for q in candidates
        ]
        yield candidates[np.argmin(smallest)], rng.choice([-1, 1], len(lower))


LAWS_ON_ARMS = [(law, model) for law in LAWS for model in ("ur5e", "kinova_gen3", "iiwa14", "fr3")]


@pytest.mark.long
@pytest.mark.robustness
@pytest.mark.parametrize(
    ("law", "model"),
    long_form(
        LAWS_ON_ARMS,
        keep=((law, model) for law, model in LAWS_ON_ARMS if not len(law + model) % 9),
    ),
)
def test_no_controllet_lets_arm_with_model_errors_run_away(
    make_cell, episodes, record_property, model, law
):
    """Controllets with at least 400 N/m come to rest within 4 s."""
    rng, moving, n, fastest = np.random.default_rng(crc32(f"{law} {model}".encode())), 0, 0, 0.0
    for q, signs in configurations(model, rng, episodes(1, 200)):
        found = run(make_cell, model, law, q, signs)
        if found is None:
            continue
        used, states = found
        case = f"{q.round(3).tolist()} {signs.tolist()}"
        assert [str(state.fault) for state in states] == [""] * len(states), case
        n, fastest = n + 1, max(fastest, used)
        moving += max(float(np.abs(state.dq).max()) for state in states) > REST
    record_property("moving after 4 s", f"{moving} of {n}")
    record_property("maximum fraction of a speed limit", f"{fastest:.3f}")
    if law in ("cartesian_impedance", "operational_space"):
        assert moving <= 0.1 * n
