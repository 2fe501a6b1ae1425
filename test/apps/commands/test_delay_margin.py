# SPDX-License-Identifier: Apache-2.0
"""``multipanda delay-margin`` in cells of several robots."""

import json

import pytest
import yaml

from multipanda_py.apps.cli import main

pytestmark = pytest.mark.inline


def test_configuration_was_checked_against_arms_of_other_controllets(tmp_path, capsys):
    file = tmp_path / "cell.yaml"
    arms = {"left": {"model": "ur5e"}, "right": {"position": [0.0, 1.5, 0.0]}}
    law = {"moves": {"type": "joint_impedance"}}
    cell = {"arms": arms, "controllets": law}
    file.write_text(yaml.safe_dump({"/**": {"ros__parameters": cell}}))
    arguments = ["delay-margin", str(file), "--controllet", "left/moves", "--json"]
    configuration = ["--configuration", "0.1", "-1.2", "1.4", "-1.5", "-1.4", "0.2"]
    assert main([*arguments, *configuration]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["delay_margin_ms"] > 0.0
    assert main([*arguments, *configuration, "0.3"]) == 1
    assert "left" in capsys.readouterr().err
