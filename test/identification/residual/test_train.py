# SPDX-License-Identifier: Apache-2.0
"""Training in torch on a plant with a known residual."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from paired_table import write_table

from multipanda_py.identification.residual.evaluate import evaluate
from multipanda_py.identification.residual.motions import read_pairs
from multipanda_py.identification.residual.networks import TrainingSettings
from multipanda_py.identification.residual.train import train
from multipanda_py.robots.residual.network import KINDS, PRECISE, REAL_TIME, network

torch = pytest.importorskip("torch", reason="training needs torch: the extra learn")
SHORT = TrainingSettings(units=12, epochs=200, rate=2e-2, batch=12, patience=120,
                         distances=(), direct=False)  # fmt: skip


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture
def pairs(tmp_path):
    write_table(tmp_path / "pairs.parquet", {"train": 30, "validation": 6, "test": 6})
    return read_pairs(tmp_path / "pairs.parquet")


@pytest.mark.parametrize("kind", KINDS)
def test_numpy_matches_torch(kind):
    from multipanda_py.identification.residual.networks import (
        Scaling,
        arrays_of,
        make_network,
        put_arrays,
    )

    rng = np.random.default_rng(1)
    standard = Scaling(rng.normal(size=8), rng.uniform(0.1, 2.0, 8), rng.uniform(0.1, 2.0, 6))
    module = make_network(kind, 5, standard)
    torch.nn.init.normal_(module.dense.weight)
    module.double()
    states = np.random.default_rng(0).uniform(size=(40, 8))
    expected = module(torch.from_numpy(states[None]))[0].detach().numpy()
    weights = arrays_of(module, kind)
    assert network(kind, weights).run(states) == pytest.approx(expected, abs=1e-5)
    other = make_network(kind, 5, Scaling.identity(8, 6)).double()
    put_arrays(other, kind, weights)
    again = other(torch.from_numpy(states[None]))[0].detach().numpy()
    assert again == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("kind", "dropout"), [(REAL_TIME, 0.0), (PRECISE, 0.0), (REAL_TIME, 0.1)])
def test_friction_is_learned(pairs, kind, dropout):
    found, history = train(pairs, replace(SHORT, kind=kind, dropout=dropout))
    (gain,) = evaluate(found, pairs)
    assert (gain.ratio[2] > (8.0 if dropout == 0.0 else 3.0)).all()
    assert min(history.validation) < 0.3
    assert history.validation[0] > 2.0 * min(history.validation)


def test_dropout_training_reduces_error_of_lost_samples(pairs):
    rng, mean_errors = np.random.default_rng(0), []
    for dropout in (0.0, 0.15):
        found, _ = train(pairs, replace(SHORT, dropout=dropout))
        errors = []
        for one in pairs.select("test"):
            states = one.twin.copy()
            states[rng.random(len(states)) < 0.15] = 0.0
            errors.append(np.square(one.residual - found.run(states))[:, 4:].mean())
        mean_errors.append(np.mean(errors))
    assert mean_errors[1] < 0.7 * mean_errors[0]


def test_outputs_with_zero_weight_are_not_trained(pairs):
    found, _ = train(pairs, replace(SHORT, epochs=20, weights=(0.1, 0.0, 1.0)))
    assert not found.run(pairs.motions[0].twin)[:, 2:4].any()


def test_same_seed_gives_same_weights(pairs):
    runs = [train(pairs, replace(SHORT, epochs=5, seed=seed))[0] for seed in (3, 3, 4)]
    same = [np.array_equal(runs[0].arrays[k], runs[1].arrays[k]) for k in runs[0].arrays]
    assert all(same)
    assert not np.array_equal(runs[0].arrays["dense.weight"], runs[2].arrays["dense.weight"])


def test_training_stops_without_improvement_and_resumes_from_weights(pairs):
    reported = []
    short = replace(SHORT, epochs=400, rate=1e-6, patience=2)
    begin, _ = train(pairs, SHORT)
    found, history = train(pairs, short, reported.append, start=begin)
    assert len(history.train) < 400
    assert "no improvement since epoch" in reported[-1]
    assert found.arrays["dense.bias"] == pytest.approx(begin.arrays["dense.bias"], abs=1e-3)
