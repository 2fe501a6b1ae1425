# SPDX-License-Identifier: Apache-2.0
"""Evaluation of residuals against known errors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from paired_table import LIMITS, write_table
from residual_weights import arrays

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.identification.residual.evaluate import evaluate, table
from multipanda_py.identification.residual.motions import read_pairs
from multipanda_py.robots.residual.network import REAL_TIME
from multipanda_py.robots.residual.weights import TrainedResidual

pytestmark = pytest.mark.inline


@pytest.fixture
def pairs(tmp_path):
    """Motions of a plant with 3 Nm more than the twin on the second joint."""
    found = write_table(tmp_path / "pairs.parquet")

    def add_3_nm(rows):
        for row in rows:
            row[10:16] = row[4:10]
            row[15] += 3.0
        return rows

    write_table(tmp_path / "pairs.parquet", change=add_3_nm)
    assert found
    return read_pairs(tmp_path / "pairs.parquet")


def constant(pairs, torque):
    """Return a residual with a constant torque on the second joint."""
    weights = {name: np.zeros_like(part) for name, part in arrays(REAL_TIME, 2).items()}
    weights["dense.bias"][5] = torque / (2.0 * LIMITS[5])
    return TrainedResidual(
        REAL_TIME, weights, pairs.normalisation, "robot", pairs.joints, 100.0,
        np.zeros(6), np.ones(6), np.ones(6), "",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("torque", "remaining_error"), [(0.0, 9.0), (2.0, 1.0), (3.0, 0.0), (-1.0, 16.0)]
)
def test_errors_are_mean_squares_after_residual(pairs, torque, remaining_error):
    (gain,) = evaluate(constant(pairs, torque), pairs)
    assert (gain.kind, gain.motions) == ("linear", 3)
    assert gain.before[2] == pytest.approx([0.0, 9.0], abs=1e-9)
    assert gain.after[2] == pytest.approx([0.0, remaining_error], abs=1e-6)
    assert gain.after[:2] == pytest.approx(np.zeros((2, 2)), abs=1e-12)
    assert "| twin | 0 | 9 |" in table([gain]).replace("1e-", "e-").replace("0.0", "0")


def test_evaluation_clips_residual_at_bound(pairs):
    bounded = replace(constant(pairs, 3.0), bound=np.full(6, 1.0 / 40.0))
    (gain,) = evaluate(bounded, pairs)
    assert gain.after[2, 1] == pytest.approx(4.0)  # 1 Nm of 3


def test_data_of_other_robot_rate_or_split_are_rejected(pairs):
    with pytest.raises(ConfigurationError, match=r"\brobot\b.* 2 .*\b100 Hz.*\br2"):
        evaluate(replace(constant(pairs, 0.0), robot="r2"), pairs)
    with pytest.raises(ConfigurationError, match="at 50"):
        evaluate(replace(constant(pairs, 0.0), rate=50.0), pairs)
    without = replace(pairs, motions=tuple(pairs.select("train")))
    with pytest.raises(ConfigurationError, match=r"\btest\b"):
        evaluate(constant(pairs, 0.0), without)
