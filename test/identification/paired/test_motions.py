# SPDX-License-Identifier: Apache-2.0
"""Generated motions: joint combinations, limits, clearances and seeds."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arm
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.identification.paired.data_set import DataSetSpec, motion_of
from multipanda_py.identification.paired.folder import split_of
from multipanda_py.identification.paired.motions import (
    LIMIT_MARGIN,
    REST_TIME,
    joint_motion,
    moving_together,
)
from multipanda_py.identification.validation.task import tool_in_world
from multipanda_py.planning.trajectory.quintic import evaluate

pytestmark = [pytest.mark.sim, pytest.mark.inline]
CELL = CellConfig.from_dict({"arms": {"arm": {}}})
ARM = describe_arm("arm", CELL.arms["arm"])


def path(motion):
    return evaluate(motion.points, np.arange(0.0, motion.points[-1, 0], 0.005))


def test_joint_combinations_repeat_only_after_all_others():
    found = [moving_together(7, k, "multi", 3) for k in range(120)]
    assert len(set(found)) == 2**7 - 7 - 1
    assert all(len(set(c)) == len(c) > 1 for c in found)
    assert [moving_together(7, k, "single", 3) for k in range(8)] == [
        (0,), (1,), (2,), (3,), (4,), (5,), (6,), (0,)
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["multi", "single"])
def test_motion_keeps_limits_and_moves_selected_joints_only(kind):
    limits = ARM.limits
    for number in range(20):
        motion = joint_motion(kind, number, 1, limits, lambda configurations: -1.0)
        q, dq, ddq = path(motion).transpose(1, 0, 2)
        assert (q > limits.lower + 0.99 * LIMIT_MARGIN).all()
        assert (q < limits.upper - 0.99 * LIMIT_MARGIN).all()
        assert (np.abs(dq) <= limits.velocity).all()
        assert (np.abs(ddq) <= limits.acceleration).all()
        assert tuple(np.flatnonzero(np.ptp(q, axis=0) > 1e-9)) == motion.joints
        assert np.ptp(q[: int(REST_TIME / 0.005)], axis=0).max() < 1e-12


def test_motion_depends_on_seed_and_number_only():
    again = [motion_of(CELL, "arm", DataSetSpec(seed=4), "multi", 9).points for _ in range(2)]
    assert again[0].tolist() == again[1].tolist()
    other = motion_of(CELL, "arm", DataSetSpec(seed=5), "multi", 9).points
    assert not np.array_equal(again[0][-1, 1:8], other[-1, 1:8])


def test_motion_without_collision_free_target_is_rejected():
    with pytest.raises(ConfigurationError, match=r"^motion multi 3: .*\b2000\b"):
        joint_motion("multi", 3, 0, ARM.limits, lambda configurations: 1.0)


@pytest.mark.parametrize(("number", "still"), [(0, 1), (1, 2), (2, 0)])
def test_linear_motion_keeps_plane_and_orientation(number, still):
    motion = motion_of(CELL, "arm", DataSetSpec(), "linear", number)
    poses = [tool_in_world(ARM, q) for q in path(motion)[::20, 0]]
    positions = np.array([pose.position for pose in poses])
    assert np.ptp(positions[:, still]) < 2e-3
    assert np.ptp(positions, axis=0).max() > 0.02
    assert max(np.abs(pose.rotation - poses[0].rotation).max() for pose in poses) < 5e-3


def test_splits_have_requested_fractions():
    kinds = ["multi"] * 850 + ["single"] * 870 + ["linear"] * 50
    found = split_of(kinds, 2)
    assert found == split_of(kinds, 2) != split_of(kinds, 3)
    counts = {s: found[:850].count(s) for s in ("train", "validation", "test")}
    assert list(counts.values()) == [680, 128, 42] or list(counts.values()) == [680, 127, 43]
    assert set(found[-50:]) == {"test"}
