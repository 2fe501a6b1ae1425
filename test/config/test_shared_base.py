# SPDX-License-Identifier: Apache-2.0
"""Two arms of one description that begin with the same link."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.cell.checks import check_initial_contacts
from multipanda_py.config.checks import check_overlapping_bases

pytestmark = [pytest.mark.sim, pytest.mark.inline]

BODY = """<inertial><origin xyz="0 0 0.2"/><mass value="3"/><inertia ixx="0.05" iyy="0.05"
 izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial><collision><origin xyz="0 0 0.2"/><geometry>
 <cylinder radius="0.05" length="0.3"/></geometry></collision>"""
EXTRA = """
capsules:
  torso: [[[0, 0, -0.3], [0, 0, 0.3], 0.2]]
  SIDE_1: [[[0, 0, 0.05], [0, 0, 0.3], 0.05]]
  SIDE_2: [[[0, 0, 0.05], [0, 0, 0.3], 0.05]]
ready: [0.5, 0.5]
"""


def arm(folder, side, sign):
    parts = [f'<link name="torso">{BODY}</link>']
    for name, y in (("left", 0.18), ("right", -0.18)):
        turn = -1.3 if y > 0 else 1.3
        parts += [f'<link name="{name}_{n}">{BODY}</link>' for n in (1, 2)]
        for n, before, place in ((1, "torso", f'xyz="0 {y} 0.2" rpy="{turn} 0 0"'),
                                 (2, f"{name}_1", 'xyz="0 0 0.4"')):  # fmt: skip
            parts.append(
                f'<joint name="{name}_j{n}" type="revolute"><parent link="{before}"/>'
                f'<child link="{name}_{n}"/><origin {place}/><axis xyz="1 0 0"/>'
                '<limit lower="-2" upper="2" velocity="2" effort="80"/></joint>'
            )
    (folder / "two.urdf").write_text(f'<robot name="two">{"".join(parts)}</robot>')
    (folder / f"{side}.yaml").write_text(EXTRA.replace("SIDE", side))
    model = {"urdf": str(folder / "two.urdf"), "extra": str(folder / f"{side}.yaml"),
             "base": "torso", "tip": f"{side}_2"}  # fmt: skip
    return {"model": model, "position": [0.0, 0.0, 1.0], "q_start": [0.2 * sign, 0.2 * sign]}


def test_arms_that_begin_with_one_torso_were_thrown_out_of_each_others(make_cell, tmp_path):
    arms = {"left": arm(tmp_path, "left", -1), "right": arm(tmp_path, "right", 1)}
    law = {"type": "joint_impedance", "features": ["collision_avoidance"]}
    cell = make_cell(arms, {"law": law}, ["left/law", "right/law"])
    assert check_overlapping_bases(cell.config) == check_initial_contacts(cell.config) == []
    start = {side: cell.state(side).q for side in arms}
    cell.step(500)
    for side, q in start.items():
        state = cell.state(side)
        assert not state.fault
        np.testing.assert_allclose(state.q, q, atol=1e-3)
        assert np.abs(state.tau_ext).max() < 0.1
