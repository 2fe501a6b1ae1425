# SPDX-License-Identifier: Apache-2.0
"""Benchmark of the gain of identified twins: statistics over plants, and resumption."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path

import pytest

from multipanda_py.identification.validation.compare import QUANTITIES

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))
benchmark = import_module("twin_gain")
parts = import_module("parts.gain_table")

pytestmark = [pytest.mark.inline]


def plant(before, after, fault=""):
    """Return the result of a plant with the same pair of errors for all quantities."""
    pair = [before, after]
    tasks = [
        {
            "task": number, "law": "ufic",
            "errors": {q.name: pair for q in QUANTITIES},
            "forces": {"measured minus true force [N]": pair if number == 4 else [1.0, 9.0]},
            "faults": [fault] if fault else [],
        }
        for number in (3, 4)
    ]  # fmt: skip
    return {"tasks": tasks}


def test_force_ratio_is_median_of_task_4_over_plants(tmp_path):
    plants = {1: plant(4.0, 1.0), 2: plant(2.0, 1.6, "plant: reflex"), 3: plant(3.0, 0.9)}
    assert parts.force_ratio(plants) == pytest.approx(0.3)
    text = parts.table(plants)
    assert "| 4, ufic | measured minus true force [N] | 3 | 1 | 0.30 | 0.80 |" in text
    assert "| 2 | 1.00 → 9.00 | 2.00 → 1.60 |" in text
    assert "seed 2, task 4: plant: reflex" in text
    pytest.importorskip("matplotlib")
    parts.draw(plants, tmp_path / "gain.png")
    assert (tmp_path / "gain.png").stat().st_size > 10_000


def test_results_of_other_options_are_not_resumed(tmp_path):
    file, requested = tmp_path / "gain.json", {"seconds": 10.0, "tasks": [4]}
    assert benchmark.known(file, requested, False) == {}
    file.write_text(json.dumps({"asked": requested, "plants": {"3": plant(1.0, 0.5)}}))
    assert list(benchmark.known(file, requested, False)) == ["3"]
    assert benchmark.known(file, {**requested, "seconds": 4.0}, True) == {}
    with pytest.raises(SystemExit, match=r"\bseconds\b.*--again"):
        benchmark.known(file, {**requested, "seconds": 4.0}, False)
