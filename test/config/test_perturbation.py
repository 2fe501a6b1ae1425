# SPDX-License-Identifier: Apache-2.0
"""Perturbations are drawn by seed and key, within the cell file's bounds, or refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml

from multipanda_py.apps.cli import main
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.perturbation import FR3_GEARS, TYPICAL_ERRORS_FILE, PerturbationSpec
from multipanda_py.exceptions import ConfigurationError

pytestmark = pytest.mark.inline

CELL = {
    "arms": {
        "left": {"position": [0.0, 0.3, 0.0], "noise": {"tau": 0.1}},
        "right": {"model": "ur5e", "position": [0.0, -0.3, 0.0]},
    },
    "objects": {"table": {"shape": "box", "size": [0.1, 0.1, 0.1], "position": [0.9, 0.0, 0.0]}},
}


@pytest.fixture
def config():
    return CellConfig.from_dict(CELL)


def test_every_arm_and_joint_is_drawn_independently_within_range(config):
    spec = PerturbationSpec.from_dict(
        {"arms": {"all": {"perturbation": {"coulomb": {"range": [0.1, 0.5]}}}}}
    )
    twin = spec.draw(config, 1)
    left, right = (arm.perturbation.coulomb for arm in twin.arms.values())
    assert (len(left), len(right)) == (7, 6)
    assert len({*left, *right}) == 13
    assert min(left + right) >= 0.1
    assert max(left + right) <= 0.5
    assert spec.draw(config, 1) == twin
    assert spec.draw(config, 2) != twin


def test_order_and_other_keys_do_not_change_draws(config):
    one = {"viscous": {"range": [0, 1]}, "coulomb": {"range": [0, 1]}}
    other = {"coulomb": {"range": [0, 1]}, "torque_bias": {"normal": [0, 0.1]}}
    drawn = [
        PerturbationSpec.from_dict({"arms": {"left": {"perturbation": keys}}}).draw(config, 5)
        for keys in (one, other)
    ]
    first, second = (twin.arms["left"].perturbation for twin in drawn)
    assert first.coulomb == second.coulomb
    assert second.viscous == [0.0] * 7


def test_large_sample_has_requested_distribution():
    config = CellConfig.from_dict({"arms": {"arm": {}}})
    forms = {
        "normal": ([0.0, 0.1], lambda x: (x.mean(), x.std()), (0.0, 0.1)),
        "range": ([0.2, 0.4], lambda x: (x.mean(), x.std()), (0.3, 0.2 / np.sqrt(12))),
        "log_range": (
            [0.01, 1.0],
            lambda x: (np.log10(x).mean(), np.log10(x).max() <= 0),
            (-1, 1),
        ),
    }
    for form, (bounds, found, expected) in forms.items():
        spec = PerturbationSpec.from_dict(
            {"arms": {"arm": {"perturbation": {"friction_offset": {form: bounds}}}}}
        )
        values = [
            spec.values_for(config, seed)["arms.arm.perturbation"]["friction_offset"]
            for seed in range(60)
        ]
        assert found(np.ravel(values)) == pytest.approx(expected, abs=0.07)


def test_numbers_lists_factors_and_specific_arms_over_all(config):
    spec = PerturbationSpec.from_dict({
        "arms": {
            "all": {"noise": {"tau": {"factor": [2.0, 2.0]}},
                    "perturbation": {"state_delay": 0.001}},
            "right": {"perturbation": {"state_delay": 0.002}, "joint_damping": [1, 2, 3, 4, 5, 6]},
        },
        "objects": {"all": {"friction": {"offset": [-0.1, -0.1]}}},
    })  # fmt: skip
    twin = spec.draw(config, 0)
    assert twin.arms["left"].noise.tau == pytest.approx(0.2)
    assert [arm.perturbation.state_delay for arm in twin.arms.values()] == [0.001, 0.002]
    assert twin.arms["right"].joint_damping == [1, 2, 3, 4, 5, 6]
    assert twin.objects["table"].friction == pytest.approx(0.7)


BAD = [
    ([], "got []"),
    ({"arm": {}}, "arm: unknown key; known: arms, objects, seed"),
    ({"seed": -1}, "seed: got -1"),
    ({"arms": {"left": 3}}, "arms.left: got 3"),
    ({"arms": {"left": {"noise": {"volume": 1}}}}, "arms.left.noise.volume: unknown key"),
    ({"arms": {"left": {"q_start": 1}}}, "arms.left.q_start: unknown key"),
    ({"arms": {"left": {"noise": {"tau": {"range": [2, 1]}}}}}, "lower bound first"),
    ({"arms": {"left": {"noise": {"tau": {"range": [1]}}}}}, "range: [low, high]"),
    ({"arms": {"left": {"noise": {"tau": float("nan")}}}}, "noise.tau: got nan"),
    ({"arms": {"left": {"noise": {"tau": True}}}}, "noise.tau: got True"),
    ({"arms": {"left": {"noise": {"tau": {"log_range": [0, 1]}}}}}, "positive bounds"),
    ({"arms": {"left": {"noise": {"tau": {"normal": [0, -1]}}}}}, "deviation of -1"),
]


@pytest.mark.parametrize(("data", "words"), BAD)
def test_invalid_number_or_range_is_refused(data, words):
    with pytest.raises(ConfigurationError) as caught:
        PerturbationSpec.from_dict(data)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("arms", "words"),
    [
        ({"middle": {"noise": {"tau": 1}}}, "allowed all or one of left, right"),
        ({"all": {"perturbation": {"coulomb": [1, 2, 3, 4, 5, 6, 7]}}}, "got 7 items, allowed 6"),
        ({"left": {"noise": {"tau": [1, 2]}}}, "got a list, allowed one number"),
        ({"left": {"noise": {"tau": 99}}}, "arms.left.noise.tau"),
        ({"left": {"perturbation": {"link_mass": 0.0}}}, "arms.left.perturbation.link_mass"),
    ],
)
def test_perturbation_that_does_not_match_cell_is_refused(config, arms, words):
    with pytest.raises(ConfigurationError) as caught:
        PerturbationSpec.from_dict({"arms": arms}).draw(config)
    assert words in str(caught.value)


def test_twin_is_written_as_readable_cell(tmp_path, capsys):
    cell, twin = tmp_path / "cell.yaml", tmp_path / "twin.yaml"
    cell.write_text(yaml.safe_dump({"/**": {"ros__parameters": CELL}}))
    assert main(["perturb", str(cell), "-o", str(twin), "--seed", "3"]) == 0
    config = CellConfig.from_yaml(cell)
    assert CellConfig.from_yaml(twin) == PerturbationSpec.from_yaml(TYPICAL_ERRORS_FILE).draw(
        config, 3
    )
    before = twin.read_text()
    spec = tmp_path / "spec.yaml"
    spec.write_text("arms: {left: {noise: {tau: 99}}}")
    capsys.readouterr()
    assert main(["perturb", str(cell), "-o", str(twin), "--spec", str(spec)]) == 1
    assert "arms.left.noise.tau" in capsys.readouterr().err
    assert twin.read_text() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "cell.yaml", "spec.yaml", "twin.yaml",
    ]  # fmt: skip


def test_twin_of_arm_with_springs_had_second_springs():
    """The twin was refused for a key absent from its specification."""
    springs = {"all": {"type": "sea", "params": {"stiffness": 300.0}}}
    config = CellConfig.from_dict({"arms": {"left": {"actuators": springs}, "right": {}}})
    values = PerturbationSpec.from_yaml(TYPICAL_ERRORS_FILE).values_for(config, 3)
    assert "arms.right.transmission" in values
    assert "arms.left.transmission" not in values
    twin = PerturbationSpec.from_yaml(TYPICAL_ERRORS_FILE).draw(config, 3)
    assert twin.arms["left"].actuators == config.arms["left"].actuators


def test_gears_with_hysteresis_keep_all_other_draws():
    """Twins of both files are comparable; those of the typical file stay unchanged."""
    config = CellConfig.from_dict({"arms": {"arm": {}}})
    usual, geared = (
        PerturbationSpec.from_yaml(path).draw(config, 17).arms["arm"]
        for path in (TYPICAL_ERRORS_FILE, FR3_GEARS)
    )
    own = {"hysteresis": [0.0] * 7, "hysteresis_distance": [0.02] * 7}
    assert usual.perturbation == geared.perturbation.model_copy(update=own)
    assert usual.noise == geared.noise
    shipped = CellConfig.from_yaml(
        Path(__file__).parents[2] / "config" / "residual" / "geared_plant.yaml"
    )
    assert shipped.arms["arm"].perturbation == geared.perturbation
    assert shipped.arms["arm"].transmission == geared.transmission
