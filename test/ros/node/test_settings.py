# SPDX-License-Identifier: Apache-2.0
"""File names in parameters are relative to the folder of the parameter file."""

from __future__ import annotations

import pytest

from multipanda_py.ros.node.settings import folders_of, nested

pytestmark = pytest.mark.node


def test_folders_of_parameter_files_keep_order(tmp_path):
    args = ["node", "--ros-args", "--params-file", f"{tmp_path}/a/cell.yaml", "-p", "x:=1",
            "--params-file", f"{tmp_path}/b/more.yaml"]  # fmt: skip
    assert folders_of(args) == [tmp_path / "a", tmp_path / "b"]


def test_model_with_files_from_dotted_parameters():
    given = {"arms.left.model.extra": "own.yaml", "arms.left.model.tip": "tool0"}
    assert nested(given) == {"arms": {"left": {"model": {"extra": "own.yaml", "tip": "tool0"}}}}
