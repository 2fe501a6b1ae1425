# SPDX-License-Identifier: Apache-2.0
"""Examples without a ROS node run and print the expected output."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from long_form import long_form
from repository import ROOT

pytestmark = pytest.mark.inline

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
ARGUMENTS = {
    "04_paper_tasks.py": ["--task", "1"],
    "15_learn_to_lift.py": ["--quick", "--video", "film.gif", "--plot", "curve.png"],
}
"""Arguments that shorten an example; the others run without arguments."""
OUTPUTS = {
    "01_move_two_arms.py": r"2\.00 s  lifted 0\.(1000|0999) m 0\.(1000|0999) m",
    "03_own_controllet.py": r"torque \[ *0\. .*\] Nm",
    "11_lift_a_box_on_springs.py": r"stiff springs .* lifted 0\.04\d m, pressed with 2[45]\.",
    "12_learn_references_for_soft_joints.py": r"masses x 0\.97: 0\.0\d\d rad",
    "14_peg_in_hole.py": r"seed 0: 40\.\d mm deep of 40",
    "13_hand_over.py": r"the bar lies 1?\d\.\d mm from its goal",
    "15_learn_to_lift.py": r"lifted [45] of 5 .* longest step of a target [1-9]\d mm",
    "04_paper_tasks.py": r"task 1 .* rmse of joint 4 \[rad\]: 0\.00",
}


def imports(example: Path) -> set[str]:
    """Return the top-level names of the imports of an example."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(example.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.split(".")[0])
    return names


ALONE = [example for example in EXAMPLES if "rclpy" not in imports(example)]
LENGTHY = ("13_hand_over.py", "15_learn_to_lift.py")
"""Examples that take half a minute, with tasks that test/gym covers."""


def test_examples_without_ros_exist():
    assert len(ALONE) >= 3
    assert set(OUTPUTS) <= {example.name for example in ALONE}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_example_docstring_has_its_command(example):
    doc = ast.get_docstring(ast.parse(example.read_text())) or ""
    assert f"examples/{example.name}" in doc


@pytest.mark.slow
@pytest.mark.sim
@pytest.mark.parametrize(
    "example",
    long_form(ALONE, keep=(example for example in ALONE if example.name not in LENGTHY)),
    ids=lambda path: path.name,
)
def test_example_runs_and_prints_expected_output(example, tmp_path):
    done = subprocess.run(
        [sys.executable, str(example), *ARGUMENTS.get(example.name, [])],
        cwd=tmp_path, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert re.search(OUTPUTS.get(example.name, r"\S"), done.stdout), done.stdout
