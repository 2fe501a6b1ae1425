# SPDX-License-Identifier: Apache-2.0
"""Pushed arms with free stiffness directions gain no energy after the push."""

from __future__ import annotations

import numpy as np
import pytest
from energy_book import EnergyBook

from multipanda_py.control.impedance.free_motion import RETURN_SPEED

pytestmark = [
    pytest.mark.sim,
    pytest.mark.robustness,
    pytest.mark.timeout(3600),
    pytest.mark.inline,
]

BENT = np.array([0.1, -0.985, 0.2, -2.256, -0.3, 1.771, 1.085])
BENT_UR = np.array([0.3, -1.4, 1.8, -1.9, -1.4, 0.4])
CLIP = np.repeat((0.15, 0.8), 3)
FREE_JOINTS = {"fr3": [0.0] * 7, "gen3": [0.0] * 7, "iiwa14": [0.0] * 7, "ur5e": [0.0] * 6}


def stiffness_with_free_axes(rng):
    """Return a diagonal stiffness with one to five zeros, (6,)."""
    stiffness = np.r_[10 ** rng.uniform(1.5, 3.5, 3), 10 ** rng.uniform(0.3, 2.0, 3)]
    stiffness[rng.permutation(6)[: rng.integers(1, 6)]] = 0.0
    return stiffness


def rotated(rng, stiffness):
    """Return a stiffness (6, 6) along rotated axes."""
    axes = np.zeros((6, 6))
    for part in (slice(0, 3), slice(3, 6)):
        axes[part, part] = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    return axes @ np.diag(stiffness) @ axes.T


def corner_of_nullspace(rng, joints):
    """Return parameters of the nullspace feature at a corner of their bounds."""
    return {
        "nullspace.stiffness": [float(rng.choice([0.0, 10.0, 100.0]))] * joints,
        "nullspace.damping_ratio": [float(rng.choice([0.3, 1.0, 5.0]))] * joints,
        "nullspace.max_torque": [float(rng.choice([0.5, 5.0, 100.0]))] * joints,
    }


def kinetic_and_spring(make_cell, rng, law, params, q=BENT, site="arm_fr3_hand_tcp", full=False,
                       model="fr3", seconds=4.0):  # fmt: skip
    """Push a frictionless arm; return its energy after the push and the later maximum [J]."""
    arm = {"model": model, "position": [0.0, 0.0, 2.0], "q_start": q.tolist(),
           "joint_friction": FREE_JOINTS[model]}  # fmt: skip
    cell = make_cell({"arm": arm}, {"law": {"type": law, "params": params}}, ["arm/law"])
    stiffness = np.diag(params["stiffness"])
    cell.step(50)
    if full:
        stiffness = rotated(rng, params["stiffness"])
        cell.set_target("arm", stiffness=stiffness)
    cell.step(150)
    in_tool = params.get("gain_frame") == "tool"
    book = EnergyBook(cell, "arm", site, stiffness, None if full else CLIP, in_tool)
    direction = rng.normal(size=3)
    cell.simulation.apply_wrench(book.body, force=10.0 * direction / np.linalg.norm(direction))
    cell.step(100)
    cell.simulation.apply_wrench(book.body)
    start, maximum = book.total(), 0.0
    for _ in range(round(seconds / 0.02)):
        cell.step(20)
        maximum = max(maximum, book.total())
    assert cell.state("arm").fault == ""
    cell.close()
    return start, maximum


@pytest.mark.slow
def test_nullspace_feeds_no_energy_into_free_end_effector(make_cell, episodes):
    """With Coriolis compensation, 0.07 J grew to 1.5 J in six seconds."""
    for seed in [4, *range(100, 100 + episodes(1, 100))]:
        rng = np.random.default_rng(seed)
        stiffness = stiffness_with_free_axes(rng)
        q = BENT + rng.uniform(-0.3, 0.3, 7)
        params = {"stiffness": stiffness.tolist()}
        if seed >= 100:
            params |= corner_of_nullspace(rng, 7)
            params |= {"gain_frame": str(rng.choice(["base", "tool"]))}
        law = "force_impedance" if seed % 3 == 1 else "cartesian_impedance"
        seconds = 6.5 if seed < 100 else episodes(3, 7)
        start, maximum = kinetic_and_spring(make_cell, rng, law, params, q, seconds=seconds)
        assert maximum < start + 0.02 * start + 1e-3, (seed, law, params, start, maximum)


def test_nullspace_feeds_no_energy_with_full_stiffness_matrix(make_cell, episodes):
    for seed in range(200, 200 + episodes(1, 100)):
        rng = np.random.default_rng(seed)
        params = {"stiffness": stiffness_with_free_axes(rng).tolist(), "error_clip": [10.0] * 6}
        params |= corner_of_nullspace(rng, 7)
        law = "force_impedance" if seed % 3 == 1 else "cartesian_impedance"
        start, maximum = kinetic_and_spring(make_cell, rng, law, params, full=True,
                                         seconds=episodes(3, 7))  # fmt: skip
        assert maximum < start + 0.02 * start + 1e-3, (seed, law, params, start, maximum)


@pytest.mark.slow
def test_operational_space_drove_arm_along_free_axes(make_cell, episodes):
    """Its inertia caused forces there: 0.14 J grew to 1.2 J, and 0.22 J to 3.3 J."""
    for seed in [9, 11, *range(600, 600 + episodes(1, 60))]:
        rng = np.random.default_rng(seed)
        stiffness = np.where(stiffness_with_free_axes(rng) > 0.0, 400.0, 0.0)
        q = BENT + rng.uniform(-0.3, 0.3, 7)
        arm = {"position": [0.0, 0.0, 2.0], "q_start": q.tolist(),
               "joint_friction": FREE_JOINTS["fr3"]}  # fmt: skip
        frame = "tool" if seed % 2 == 0 else "base"
        params = {"stiffness": stiffness.tolist(), "gain_frame": frame}
        law = {"type": "operational_space", "params": params}
        cell = make_cell({"arm": arm}, {"law": law}, ["arm/law"])
        cell.step(200)
        book = EnergyBook(cell, "arm", "arm_fr3_hand_tcp", np.zeros((6, 6)))
        direction = rng.normal(size=3)
        cell.simulation.apply_wrench(book.body, force=10.0 * direction / np.linalg.norm(direction))
        cell.step(100)
        cell.simulation.apply_wrench(book.body)
        start, maximum = book.kinetic(), 0.0
        for _ in range(round(episodes(4, 7) / 0.02)):
            cell.step(20)
            maximum = max(maximum, book.kinetic())
        assert cell.state("arm").fault == ""
        assert maximum < 1.5 * start + 1e-3, (seed, params, start, maximum)
        cell.close()


def test_six_joint_arm_gains_no_energy_along_free_axes(make_cell, episodes):
    for seed in range(300, 300 + episodes(1, 20)):
        rng = np.random.default_rng(seed)
        params = {"stiffness": stiffness_with_free_axes(rng).tolist()}
        start, maximum = kinetic_and_spring(
            make_cell, rng, "cartesian_impedance", params,
            BENT_UR, "arm_ur5e_tool0", model="ur5e",
        )  # fmt: skip
        assert maximum < start + 0.02 * start + 1e-3, (seed, params, start, maximum)


def test_stiffness_set_to_zero_in_motion_feeds_no_energy(make_cell, episodes):
    for seed in range(400, 400 + episodes(1, 40)):
        rng = np.random.default_rng(seed)
        stiffness = stiffness_with_free_axes(rng)
        arm = {"position": [0.0, 0.0, 2.0], "q_start": BENT.tolist(),
               "joint_friction": FREE_JOINTS["fr3"]}  # fmt: skip
        law = {"type": "cartesian_impedance", "params": {}}
        cell = make_cell({"arm": arm}, {"law": law}, ["arm/law"])
        cell.step(50)
        book = EnergyBook(cell, "arm", "arm_fr3_hand_tcp", np.diag(stiffness), CLIP)
        direction = rng.normal(size=3)
        cell.simulation.apply_wrench(book.body, force=30.0 * direction / np.linalg.norm(direction))
        cell.step(100)
        cell.simulation.apply_wrench(book.body)
        cell.set_parameters("arm/law", {"stiffness": stiffness.tolist()})
        cell.step(102)
        start, maximum = book.total(), 0.0
        for _ in range(round(episodes(3, 7) / 0.02)):
            cell.step(20)
            maximum = max(maximum, book.total())
        assert maximum < start + 0.02 * start + 1e-3, (seed, stiffness, start, maximum)
        cell.set_parameters("arm/law", {"stiffness": [400.0] * 3 + [20.0] * 3})
        cell.step(4000)
        returning = np.abs(cell.state("arm").dq).max() < RETURN_SPEED + 0.05
        assert (cell.state("arm").fault, returning) == ("", True), (seed, stiffness)
        cell.close()


@pytest.mark.slow
@pytest.mark.parametrize("law", ["coupled_impedance", "coupled_force_impedance"])
def test_free_object_of_two_arms_gains_no_energy(make_cell, episodes, law):
    for seed in range(500, 500 + episodes(1, 10)):
        rng = np.random.default_rng(seed)
        stiffness = stiffness_with_free_axes(rng)
        arms = {
            name: {"position": [0.0, y, 2.0], "q_start": BENT.tolist(),
                   "joint_friction": FREE_JOINTS["fr3"]}
            for name, y in (("left", 0.4), ("right", -0.4))
        }  # fmt: skip
        params = {"stiffness": stiffness.tolist()}
        instance = {"type": law, "arms": ["left", "right"], "params": params}
        cell = make_cell(arms, {"law": instance}, ["law"])
        cell.step(100)
        book = EnergyBook(cell, "left", "left_fr3_hand_tcp", np.zeros((6, 6)))
        for arm in arms:
            cell.simulation.apply_wrench(f"{arm}_fr3_hand", force=[6.0, 6.0, -5.0])
        cell.step(100)
        for arm in arms:
            cell.simulation.apply_wrench(f"{arm}_fr3_hand")
        start, maximum = book.kinetic(), 0.0
        for _ in range(round(episodes(3, 7) / 0.02)):
            cell.step(20)
            maximum = max(maximum, book.kinetic())
        assert maximum < 1.1 * start + 2e-3, (seed, params, start, maximum)
        cell.close()
