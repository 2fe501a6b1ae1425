# SPDX-License-Identifier: Apache-2.0
"""Warnings for implausible descriptions, and refusal of impossible ones."""

from __future__ import annotations

import re

import pytest

from multipanda_py.apps.cli import main
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.robots.models import DATA_FOLDER, MODELS
from multipanda_py.robots.read_robot import read_robot

pytestmark = pytest.mark.inline

URDF = (DATA_FOLDER / "ur5e.urdf").read_text()
INERTIA = 'iyy="0.33388086" iyz="-1.81e-06" izz="0.33247207"'


def changed(tmp_path, old, new):
    assert old in URDF
    path = tmp_path / "odd.urdf"
    path.write_text(URDF.replace(old, new, 1))
    return path


@pytest.mark.parametrize("name", ["fr3", "ur5e", "kinova_gen3", "iiwa14"])
def test_shipped_arms_have_no_warnings(name):
    assert MODELS[name].warnings == ()


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('<mass value="8.058"', '<mass value="700"', "link upper_arm_link: got 700 kg, usual"),
        (INERTIA, 'iyy="33388" iyz="0" izz="33388"', "m from its centre, usual 0.001 to 1 m"),
        ('effort="150"', 'effort="1e6"', "joint shoulder_pan_joint: torque: got 1e.06 Nm"),
        ('velocity="3.14', 'velocity="1e-9" was="', "velocity: got 1e-09 rad/s, usual 0.05 to"),
        ('lower="-6.28', 'lower="-360" was="', "got limits of 360 rad, usual .* rad: degrees"),
        ('<mass value="2.846"', '<mass value="140"', "joint shoulder_lift_joint: torque: got 150"),
    ],
)
def test_implausible_value_is_reported_at_import_and_check(tmp_path, capsys, old, new, sentence):
    path = changed(tmp_path, old, new)
    found = read_robot(DATA_FOLDER / "ur5e.yaml", urdf=path).warnings
    assert any(re.search(re.escape(str(path)) + ".*" + sentence, text) for text in found), found
    cell = tmp_path / "cell.yaml"
    cell.write_text(
        "/**:\n  ros__parameters:\n    arms:\n      a:\n        model: "
        f"{{urdf: {path}, extra: {DATA_FOLDER / 'ur5e.yaml'}, base: base_link, tip: tool0}}\n"
    )
    assert main(["check", str(cell)]) == 0
    assert re.search(f"note: arms.a.model: .*{sentence}", capsys.readouterr().out)


def test_link_without_mass_is_refused(tmp_path):
    path = changed(tmp_path, '<mass value="8.058"', '<mass value="0"')
    with pytest.raises(ConfigurationError, match=r"link upper_arm_link:.*mass 0 kg"):
        read_robot(DATA_FOLDER / "ur5e.yaml", urdf=path)


def test_arm_without_capsules_warns_of_assumed_radius(tmp_path):
    bare = tmp_path / "bare.yaml"
    text = (DATA_FOLDER / "ur5e.yaml").read_text()
    kept = text[: text.index("capsules:")]
    bare.write_text(kept.replace("urdf: ur5e.urdf", f"urdf: {DATA_FOLDER / 'ur5e.urdf'}"))
    (doubt,) = read_robot(bare).warnings
    assert doubt.startswith(f"{bare}: capsules: missing")
    assert "rods of 0.04 m" in doubt
