# SPDX-License-Identifier: Apache-2.0
"""Training requests that are rejected before torch is imported."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from paired_table import write_table
from residual_weights import arrays

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.identification.residual.motions import read_pairs
from multipanda_py.identification.residual.networks import TrainingSettings
from multipanda_py.identification.residual.train import check_initial_weights, train
from multipanda_py.robots.residual.network import PRECISE, REAL_TIME
from multipanda_py.robots.residual.weights import TrainedResidual

pytestmark = pytest.mark.inline

PLAIN = TrainingSettings(speeds=(), distances=())


def weights(pairs, kind=REAL_TIME, units=None):
    return TrainedResidual(
        kind, arrays(kind, 2, units=units), pairs.normalisation, "robot", ("one", "two"), 100.0,
        np.zeros(6), np.ones(6), np.ones(6), "",
    )  # fmt: skip


def test_mismatched_initial_weights_are_rejected(tmp_path):
    write_table(tmp_path / "pairs.parquet")
    pairs = read_pairs(tmp_path / "pairs.parquet")
    check_initial_weights(weights(pairs), pairs, PLAIN)
    check_initial_weights(weights(pairs, units=5), pairs, replace(PLAIN, units=5))
    for begin, settings, reported in (
        (weights(pairs), TrainingSettings(), r".* 0 springs.* 3 speeds, 6 springs"),
        (weights(pairs, units=5), PLAIN, ".* 5 units.* 6 units"),
        (weights(pairs, PRECISE), PLAIN, ".*precise.*real_time"),
        (replace(weights(pairs), robot="other"), PLAIN, ".*other.*one, two"),
        (replace(weights(pairs), joints=("two", "one")), PLAIN, ".*robot.*two, one"),
    ):
        with pytest.raises(ConfigurationError, match=f"--initial-weights: .*{reported}"):
            check_initial_weights(begin, pairs, settings)


@pytest.mark.parametrize(
    ("changes", "reported"),
    [
        ({"dropout": 1.0}, r"dropout: .*\b1\b.*\b0\b.*\b0\.9"),
        ({"epochs": 0}, r"epochs: .*\b0\b.*\b1\b"),
        ({"rate": float("nan")}, "rate: got nan"),
        ({"weights": (0.0, 0.0, 0.0)}, "weights: got"),
        ({"weights": (0.1, 0.0, float("nan"))}, "weights: got"),
    ],
)
def test_settings_out_of_range_are_rejected(changes, reported):
    with pytest.raises(ConfigurationError, match=reported):
        replace(PLAIN, **changes)


def test_too_few_motions_are_rejected(tmp_path):
    write_table(tmp_path / "pairs.parquet")
    pairs = read_pairs(tmp_path / "pairs.parquet")
    with pytest.raises(ConfigurationError, match=r"\b4\b.*\b5\b"):
        train(replace(pairs, motions=pairs.motions[:4]), PLAIN)
    with pytest.raises(ConfigurationError, match=r"\b0\b.*\b5\b"):
        train(replace(pairs, motions=()), PLAIN)
