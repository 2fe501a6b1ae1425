# SPDX-License-Identifier: Apache-2.0
"""``multipanda check`` says what is wrong with residuals of arms."""

from __future__ import annotations

from pathlib import Path

import pytest

from multipanda_py.apps.cli import main

pytestmark = pytest.mark.inline


def test_a_residual_that_is_not_there_passed_the_check_and_the_cell_never_started(
    tmp_path, capsys
):
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


def test_a_law_whose_other_arm_has_no_residual_passed_the_check(tmp_path, capsys):
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
def test_an_undamped_posture_was_driven_by_friction_that_the_arm_did_not_have(
    tmp_path, capsys, features
):
    """It swung at 1.5 rad/s after 24 s of a tool's circles; 0.003 with the feature nullspace."""
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


def test_a_law_with_friction_on_arms_that_are_not_there_was_an_error_of_python(tmp_path, capsys):
    file = tmp_path / "cell.yaml"
    file.write_text(
        "/**:\n  ros__parameters:\n    arms:\n      left: {}\n    controllets:\n"
        "      one: {type: cartesian_impedance, arms: [right], features: [friction]}\n"
    )
    assert main(["check", str(file)]) == 1
    assert "controllets.one.arms" in capsys.readouterr().err
