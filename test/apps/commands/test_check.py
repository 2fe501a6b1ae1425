# SPDX-License-Identifier: Apache-2.0
"""``multipanda check`` reports errors in residuals of arms."""

from __future__ import annotations

from pathlib import Path

import pytest

from multipanda_py.apps.cli import main

pytestmark = pytest.mark.inline


def test_missing_residual_file_passed_check(tmp_path, capsys):
    file = tmp_path / "cell.yaml"
    file.write_text(
        "/**:\n  ros__parameters:\n    arms:\n"
        "      left: {residual: {state: none.npz}}\n"
        "      right: {position: [0.0, -0.6, 0.0], residual: {wrench: none.npz}}\n"
    )
    assert main(["check", str(file)]) == 1
    reported = capsys.readouterr().err
    for place in ("arms.left.residual.state", "arms.right.residual.wrench"):
        assert f"{place}: {tmp_path / 'none.npz'}: cannot be read" in reported


def test_controllet_with_one_missing_residual_passed_check(tmp_path, capsys):
    file = tmp_path / "cell.yaml"
    weights = Path(__file__).parents[3] / "config" / "residual" / "plant.npz"
    file.write_text(
        "/**:\n  ros__parameters:\n    arms:\n"
        f"      left: {{residual: {{torque: {weights}}}}}\n"
        "      right: {position: [0.0, -0.6, 0.0]}\n"
        "    controllets:\n      one: {type: joint_impedance, features: [residual]}\n"
    )
    assert main(["check", str(file)]) == 1
    reported = capsys.readouterr().err
    assert "controllets.one.features: residual: arm right has no residual file" in reported
    assert "arm left has no" not in reported


@pytest.mark.parametrize("features", ["residual", "coriolis, friction"])
def test_friction_feature_drove_undamped_null_space(tmp_path, capsys, features):
    """After 24 s of circles the arm swung at 1.5 rad/s; 0.003 rad/s with the feature nullspace."""
    file = tmp_path / "cell.yaml"
    weights = Path(__file__).parents[3] / "config" / "residual" / "plant.npz"
    law = f"      one: {{type: cartesian_impedance, features: [{features}]}}\n"
    text = (
        "/**:\n  ros__parameters:\n    arms:\n"
        f"      left: {{residual: {{torque: {weights}}}}}\n    controllets:\n{law}"
    )
    file.write_text(text)
    assert main(["check", str(file)]) == 1
    assert "does not fit cartesian_impedance without nullspace" in capsys.readouterr().err
    file.write_text(text.replace(f"[{features}]", f"[nullspace, {features}]"))
    assert main(["check", str(file)]) == 0
    file.write_text(text.replace("cartesian_impedance", "joint_impedance"))
    assert main(["check", str(file)]) == 0


def test_friction_feature_on_missing_arm_was_python_error(tmp_path, capsys):
    file = tmp_path / "cell.yaml"
    file.write_text(
        "/**:\n  ros__parameters:\n    arms:\n      left: {}\n    controllets:\n"
        "      one: {type: cartesian_impedance, arms: [right], features: [friction]}\n"
    )
    assert main(["check", str(file)]) == 1
    assert "controllets.one.arms" in capsys.readouterr().err
