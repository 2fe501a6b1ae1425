# SPDX-License-Identifier: Apache-2.0
"""Governor parameters relaxed one by one.

Less smoothing once made a pose step slower, and so did larger bounds of its rotation.
"""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest

from multipanda_py.pose import Pose

pytestmark = [pytest.mark.sim, pytest.mark.inline]
CLOSED = {
    "linear_acceleration": (0.3, 8.0), "linear_speed": (0.05, 1.0), "smoothing": (0.3, 0.04),
    "limit_scale": (0.1, 0.7), "angular_acceleration": (1.0, 20.0), "angular_speed": (0.1, 2.5),
}  # fmt: skip
"""Tightest and default values."""
OPEN = {
    "linear_acceleration": 50.0, "linear_speed": 3.0, "smoothing": 0.001, "limit_scale": 1.0,
    "angular_acceleration": 100.0, "angular_speed": 10.0,
}  # fmt: skip
TOLERANCE = 5
"""Cycles by which another shape of the same duration may reach 95 % later."""


def arrival(make_cell, governor, stiffness, move, delta_rotation, cycles=2500):
    """Return the first cycle at 95 % of a pose step."""
    params = {"stiffness": [stiffness] * 3 + [stiffness / 20] * 3, "governor": governor}
    cell = make_cell(
        arms={"arm": {}}, gate={"position": 1.0, "rotation": 3.0}, active=["arm/law"],
        controllets={"law": {"type": "cartesian_impedance", "params": params}},
    )  # fmt: skip
    cell.step(5)
    here, (first, _) = cell.pose("arm"), cell.records()
    cell.set_target("arm", Pose(here.position + move, pin.exp3(delta_rotation) @ here.rotation))
    for _ in range(0, cycles, 250):
        cell.step(250)
        _, rows = cell.records(first)
        progress = (rows["arms"]["position_ee_in_base"][:, 0] - here.position) @ move
        reached = np.flatnonzero(progress >= 0.95 * move @ move)
        if len(reached):
            return int(reached[0])
    return cycles


def random_step(rng):
    move, delta_rotation = rng.normal(size=(2, 3))
    move *= rng.uniform(0.01, 0.1) / np.linalg.norm(move)
    delta_rotation *= rng.choice([0.0, 0.1, 0.2, 0.5]) / np.linalg.norm(delta_rotation)
    return move, delta_rotation


@pytest.mark.slow
@pytest.mark.robustness
@pytest.mark.parametrize("name", OPEN)
def test_relaxed_parameter_makes_no_step_slower(make_cell, episodes, name):
    rng = np.random.default_rng(sum(map(ord, name)))
    for _ in range(episodes(1, 12)):
        move, delta_rotation = random_step(rng)
        stiffness = float(np.exp(rng.uniform(np.log(200), np.log(3000))))
        governor = {
            other: float(closed + rng.uniform() * (default - closed))
            for other, (closed, default) in CLOSED.items()
        }
        minimum = governor[name]
        values = [minimum, CLOSED[name][1], OPEN[name]]
        if episodes(0, 1):
            values.insert(1, minimum + 0.5 * (CLOSED[name][1] - minimum))
        found = [
            arrival(make_cell, {**governor, name: value}, stiffness, move, delta_rotation)
            for value in values
        ]
        assert max(np.diff(found)) <= TOLERANCE, (found, governor, stiffness, move, delta_rotation)


@pytest.mark.parametrize("stiffness", [400.0, 2000.0])
def test_all_relaxed_parameters_make_step_faster(make_cell, stiffness):
    move = np.array([0.0, 0.05, 0.0])
    default, opened = (
        arrival(make_cell, governor, stiffness, move, np.zeros(3)) for governor in ({}, OPEN)
    )
    assert opened < default


def test_position_and_orientation_arrive_together(make_cell):
    cell = make_cell(
        arms={"arm": {}}, controllets={"law": {"type": "cartesian_impedance"}}, active=["arm/law"]
    )
    cell.step(5)
    here, target = cell.pose("arm"), cell.loop.owners.active[0].target
    move, delta_rotation = np.array([0.0, 0.01, 0.0]), np.array([0.0, 0.0, 0.4])
    cell.set_target("arm", Pose(here.position + move, pin.exp3(delta_rotation) @ here.rotation))
    for _ in range(400):
        cell.step()
        move_progress = (target.position_ee_in_base[0] - here.position) @ move / (move @ move)
        angle = (
            pin.log3(target.rotation_ee_in_base[0] @ here.rotation.T)
            @ delta_rotation
            / (delta_rotation @ delta_rotation)
        )
        assert abs(move_progress - angle) < 0.02
    assert move_progress > 0.99
