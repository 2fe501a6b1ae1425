# SPDX-License-Identifier: Apache-2.0
"""``multipanda residual``: its outputs, and one line for each error."""

from __future__ import annotations

import json
from importlib.util import find_spec

import numpy as np
import pytest
from paired_table import LIMITS, write_table
from repository import ROOT
from residual_weights import arrays

from multipanda_py.apps.cli import main
from multipanda_py.robots.residual.inputs import Normalisation
from multipanda_py.robots.residual.network import REAL_TIME
from multipanda_py.robots.residual.weights import TrainedResidual, load_residual

pytestmark = pytest.mark.inline


@pytest.fixture
def files(tmp_path):
    write_table(tmp_path / "pairs.parquet")
    TrainedResidual(
        REAL_TIME, arrays(REAL_TIME, 2), Normalisation(-LIMITS, LIMITS), "robot", ("one", "two"),
        100.0, np.zeros(6), np.ones(6), np.full(6, 0.1), "",
    ).save(tmp_path / "residual.npz")  # fmt: skip
    return [str(tmp_path / name) for name in ("residual.npz", "pairs.parquet")]


def test_evaluate_reports_errors_by_joint_and_plots(files, tmp_path, capsys):
    numbers, picture = tmp_path / "gain.json", tmp_path / "torques.png"
    options = ["--json", str(numbers), "--plot", str(picture)]
    assert main(["residual", "evaluate", *files, *options]) == 0
    reported = capsys.readouterr().out
    assert "linear, 3 motions" in reported
    assert "| ratio |" in reported
    assert np.shape(json.loads(numbers.read_text())["linear"]["before"]) == (3, 2)
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.skipif(find_spec("torch") is not None, reason="torch is installed")
def test_training_without_torch_names_missing_extra(files, tmp_path, capsys):
    assert main(["residual", "train", files[1], "-o", str(tmp_path / "out.npz")]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "torch is not installed. Run: pip install 'multipanda_py[learn]'" in line
    assert not (tmp_path / "out.npz").exists()


@pytest.mark.skipif(find_spec("torch") is None, reason="training needs torch: the extra learn")
def test_train_writes_file_that_evaluate_reads(files, tmp_path, capsys):
    out, curves = tmp_path / "out.npz", tmp_path / "loss.png"
    options = ["--epochs", "12", "--curves", str(curves), "-o", str(out)]
    assert main(["residual", "train", files[1], *options]) == 0
    assert "12 epochs" in capsys.readouterr().out
    assert curves.exists()
    assert load_residual(out).robot == "robot"
    assert main(["residual", "evaluate", str(out), files[1]]) == 0


@pytest.mark.skipif(find_spec("onnx") is not None, reason="onnx is installed")
def test_export_without_onnx_names_missing_extra(files, tmp_path, capsys):
    assert main(["residual", "export", files[0], "-o", str(tmp_path / "out.onnx")]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "onnx is not installed. Run: pip install 'multipanda_py[onnx]'" in line
    assert not (tmp_path / "out.onnx").exists()


@pytest.mark.skipif(find_spec("onnx") is None, reason="exporting needs onnx: the extra onnx")
def test_export_writes_a_model(files, tmp_path, capsys):
    out = tmp_path / "out.onnx"
    assert main(["residual", "export", files[0], "-o", str(out)]) == 0
    assert (
        "state (6) at 100 Hz, kept from call to call: first_output (6)" in capsys.readouterr().out
    )
    assert b"multipanda_py" in out.read_bytes()


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        (["evaluate", "none.npz", "PAIRS"], "none.npz: cannot be read"),
        (["evaluate", "FILE", "none.parquet"], "none.parquet: cannot be read"),
        (["evaluate", "PAIRS", "PAIRS"], "not a trained residual"),
        (["evaluate", "FILE", "FILE"], "not a table"),
        (["evaluate", "FILE", "PAIRS", "--plot", "x.txt"], "--plot: x.txt "),
        (["export", "FILE", "-o", "x.npz"], "--output: x.npz "),
        (["export", "PAIRS", "-o", "x.onnx"], "not a trained residual"),
        (["train", "PAIRS", "-o", "x.txt"], "--output: x.txt "),
        (["train", "PAIRS", "-o", "x.npz", "--threads", "0"], "--threads: got 0"),
    ],
)
def test_invalid_input_is_reported_in_one_line(files, capsys, words, reported):
    words = [{"FILE": files[0], "PAIRS": files[1]}.get(word, word) for word in words]
    assert main(["residual", *words]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert reported in line


def test_shipped_weights_reach_documented_accuracy(tmp_path, capsys):
    """A part of the test motions ships with the package; the table of the page uses all."""
    files = [str(ROOT / "config" / "residual" / n) for n in ("plant.npz", "some_pairs.parquet")]
    ratios = {}
    for options in ([], ["--no-bodies"]):
        out = tmp_path / "gain.json"
        assert main(["residual", "evaluate", *files, *options, "--json", str(out)]) == 0
        for kind, gain in json.loads(out.read_text()).items():
            ratio = np.array(gain["before"][2]) / np.array(gain["after"][2])
            ratios[kind, bool(options)] = float(np.median(ratio))
    assert ratios["multi", False] > 23.9
    assert ratios["linear", False] > 13.6
    assert ratios["linear", True] < ratios["linear", False]


def test_shipped_weights_with_hysteresis_reach_documented_accuracy(tmp_path):
    names = ("geared_plant.npz", "some_geared_pairs.parquet")
    files, out = [str(ROOT / "config" / "residual" / name) for name in names], tmp_path / "g.json"
    assert main(["residual", "evaluate", *files, "--json", str(out)]) == 0
    trained = load_residual(ROOT / "config" / "residual" / names[0])
    assert (trained.robot, len(trained.distances)) == ("fr3", 6)
    for kind, gain in json.loads(out.read_text()).items():
        ratio = np.array(gain["before"][2]) / np.array(gain["after"][2])
        assert np.median(ratio) > 20.0, kind
