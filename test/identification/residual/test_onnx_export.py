# SPDX-License-Identifier: Apache-2.0
"""ONNX models in ONNX Runtime against the implementation in numpy."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from residual_weights import arrays

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.identification.residual.networks import carried, onnx_model
from multipanda_py.robots.residual.inputs import Normalisation
from multipanda_py.robots.residual.network import PRECISE, REAL_TIME
from multipanda_py.robots.residual.weights import TrainedResidual

pytest.importorskip("onnx", reason="export needs onnx: the extra onnx")
runtime = pytest.importorskip("onnxruntime", reason="needs onnxruntime")
SCALE = Normalisation.of_limits(
    np.array([-1.0, -2.0]), np.array([1.0, 2.0]), np.array([3.0, 3.0]), np.array([50.0, 20.0])
)


def trained(distances=(0.01, 0.1), kind=REAL_TIME):
    rng, known = np.random.default_rng(2), arrays(kind, 2, units=5)
    observed = 8 + 2 * len(distances)
    for name in (name for name in known if name.startswith("first") and "of_input" in name):
        known[name] = rng.uniform(-0.5, 0.5, (20, observed))
    known["direct.weight"] = rng.normal(size=(6, observed))
    return TrainedResidual(
        kind, known, SCALE, "robot", ("one", "two"), 100.0, np.full(6, 0.3), np.full(6, 0.7),
        np.full(6, 1.5), "of", np.array([0.1]), None, np.array(distances),
    )  # fmt: skip


@pytest.mark.parametrize("distances", [(0.01, 0.1), ()])
def test_onnx_batch_matches_numpy(distances):
    found = trained(distances)
    session = runtime.InferenceSession(
        onnx_model(found).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    time = np.arange(200)[:, None]
    motions = [
        0.5 + 0.3 * np.sin(np.random.default_rng(seed).uniform(0.01, 0.1, 6) * time)
        for seed in range(2)
    ]
    states = np.stack([SCALE.state_of(one) for one in motions], axis=1).astype(np.float32)
    memory = {name: np.zeros((2, size), np.float32) for name, size in carried(found).items()}
    if distances:
        memory["last_q"][:] = states[0, :, :2]
    residuals, outside = [], []
    for state in states:
        names = [one.name for one in session.get_outputs()]
        given = dict(zip(names, session.run(None, {"state": state, **memory})))
        memory = {name: given[f"next_{name}"] for name in memory}
        residuals.append(given["residual"])
        outside.append(given["outside"])
    for arm, motion in enumerate(motions):
        expected = SCALE.residual_of(found.run(motion))
        assert np.abs(expected / SCALE.span).max() == pytest.approx(1.5)  # the bound
        assert np.array(residuals)[:, arm] / SCALE.span == pytest.approx(
            expected / SCALE.span, abs=1e-4
        )
        excess = np.maximum(np.abs(motion - 0.5).max(axis=1) - 0.2, 0.0)
        assert np.array(outside)[:, arm, 0] == pytest.approx(excess, abs=1e-6)


def test_onnx_model_has_metadata():
    about = {one.key: one.value for one in onnx_model(trained()).metadata_props}
    assert (about["robot"], json.loads(about["joints"])) == ("robot", ["one", "two"])
    assert (about["rate"], about["data"]) == ("100", "of")


def test_network_without_real_time_form_is_rejected():
    from multipanda_py.robots.residual.bodies import BodyDifference

    with pytest.raises(ConfigurationError, match=r"\bprecise\b.*\breal_time\b"):
        onnx_model(trained(kind=PRECISE))
    bodies = BodyDifference(
        np.tile(np.eye(4), (2, 1, 1)), np.eye(3)[:2], np.zeros(2), np.zeros(3), np.ones((2, 10))
    )
    with pytest.raises(ConfigurationError, match="bodies"):
        onnx_model(replace(trained(), bodies=bodies))
