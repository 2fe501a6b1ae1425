# SPDX-License-Identifier: Apache-2.0
"""Images of robots from data files."""

from __future__ import annotations

import pytest
from repository import BENCH_ARM

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.robots.extra_data import read_extra
from multipanda_py.robots.geometry import SolidOfRevolution
from multipanda_py.robots.read_robot import read_robot

pytestmark = pytest.mark.inline


def bench(tmp_path, look):
    path = tmp_path / "bench.yaml"
    path.write_text(f"base: base_link\ntip: tool0\nvisuals:\n  {look}\n")
    return read_robot(path, urdf=BENCH_ARM)


def test_visual_belongs_to_its_link_or_fixed_parent(tmp_path):
    robot = bench(tmp_path, "tool0: [[blue, [0, 0, 0], [0, 0, 0.1], 0.02, 0.01]]")
    by_name = {link.name: link.visuals for link in robot.links}
    (solid,) = by_name["wrist_3_link"]  # tool0 is 0.04 m in front of it
    assert solid == SolidOfRevolution((0, 0, 0.04), (0, 0, 0.14), 0.02, 0.01, 0.0, 0.0, "blue")
    (rod,) = by_name["upper_arm_link"]  # no visual: its capsule
    assert rod.dome_end == rod.radius_end


@pytest.mark.parametrize(
    ("look", "message"),
    [
        ("tool1: []", "visuals:.*link 'tool1'.*base_link"),
        (
            "tool0: [[pink, [0, 0, 0], [0, 0, 1], 0.1]]",
            r"visuals: tool0: .*\bpink\b.*\bshell, ",
        ),
        ("tool0: [[blue, [0, 0, 0], 0.1]]", "visuals: tool0: .*blue"),
        ("tool0: 3", r"visuals: tool0:.*\b3\b"),
    ],
)
def test_invalid_visual_is_refused(tmp_path, look, message):
    with pytest.raises(ConfigurationError, match=message):
        bench(tmp_path, look)


def test_former_key_of_visuals_was_only_unknown(tmp_path):
    path = tmp_path / "extra.yaml"
    path.write_text("look:\n  tool0: []\n")
    with pytest.raises(ConfigurationError, match=r"extra\.yaml: look: .*visuals$"):
        read_extra(path)
