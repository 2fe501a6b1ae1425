# SPDX-License-Identifier: Apache-2.0
"""Attached objects: selection by name or distance, release by fingers."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.exceptions import AttachmentRejected, UnknownName
from multipanda_py.pose import Pose

pytestmark = pytest.mark.inline

ROD = {"shape": "capsule", "size": [0.01, 0.09], "position": [0.35, 0.3, 0.42], "mass": 0.1,
       "rpy": [0.1, 0.2, 0.3]}  # fmt: skip
BALL = {"shape": "sphere", "size": [0.03], "position": [0.6, -0.6, 0.03], "mass": 0.1}
TABLE = {"shape": "box", "size": [0.1, 0.1, 0.1], "position": [0.5, 0.0, 0.1]}
OBJECTS = {"table": TABLE, "ball": BALL, "rod": ROD}
BASE = [0.1, 0.3, 0.0]


@pytest.fixture
def cell(make_cell):
    """Return a cell without measured objects, as for real arms."""
    arms = {
        "left": {"backend": "mock", "position": BASE, "rpy": [0.0, 0.0, 0.5]},
        "right": {"backend": "mock", "position": [0.0, -0.3, 0.0]},
    }
    return make_cell(arms, {"law": {"type": "joint_velocity"}}, ["left/law"], objects=OBJECTS)


def in_tool(cell):
    base = Pose.from_rpy(BASE, [0.0, 0.0, 0.5])
    return (base @ cell.pose("left")).inverse() @ cell.objects()["rod"]


def test_unmeasured_objects_were_at_origin_without_orientation(cell):
    cell.step()
    rod, declared = cell.objects()["rod"], Pose.from_rpy(ROD["position"], ROD["rpy"])
    assert max(rod.distance(declared)) < 1e-9
    assert np.allclose(cell.objects()["ball"].position, BALL["position"])


def test_attached_object_moves_with_tool_and_stays_after_detachment(cell):
    cell.step()
    before = in_tool(cell)
    assert cell.attach("left") == "rod"  # the nearest object
    assert cell.attached_objects() == {"left": "rod"}
    start = cell.objects()["rod"]
    for _ in range(200):
        cell.set_target("left", dq=[0.5, 0, 0, 0, 0, 0, 1.0])
        cell.step()
    assert cell.objects()["rod"].distance(start)[0] > 0.01
    assert max(in_tool(cell).distance(before)) < 1e-9
    assert cell.detach("left") == "rod"
    assert cell.attached_objects() == {}
    released = cell.objects()["rod"]
    cell.step(50)
    assert cell.objects()["rod"].distance(released)[0] == 0.0
    assert cell.detach("left") == ""
    placed = Pose.from_rpy([0.0, 0.01, 0.05], [0.0, 0.4, 0.0])
    cell.attach("left", "rod", placed)
    cell.step()
    assert max(in_tool(cell).distance(placed)) < 1e-9


def test_opening_fingers_detach_object(cell):
    gripper = cell.gripper("left")
    gripper.grasp(0.02).wait()
    cell.attach("left", "rod")
    gripper.stop().wait()
    assert cell.attached_objects() == {"left": "rod"}
    gripper.move(0.04).wait()
    assert cell.attached_objects() == {}
    cell.attach("right", "ball")  # closed fingers hold it without a grasp
    cell.gripper("right").move(0.01).wait()
    assert cell.attached_objects() == {"right": "ball"}
    cell.gripper("right").homing().wait()
    assert cell.attached_objects() == {}


def test_unsuitable_attachment_is_refused_with_reason(cell, make_cell):
    cell.step()
    with pytest.raises(AttachmentRejected, match=r"^table\b.*\b0\b.*objects\.table\.mass"):
        cell.attach("left", "table")
    with pytest.raises(AttachmentRejected, match=r"'cup'.*ball, rod"):
        cell.attach("left", "cup")
    with pytest.raises(AttachmentRejected, match=r"^right: .*\brod\b.*0\.61 m"):
        cell.attach("right")
    with pytest.raises(UnknownName, match=r"'middle'.*\bleft, right"):
        cell.attach("middle", "rod")
    assert cell.rejected == {"left attach": 2, "right attach": 1}
    assert cell.attached_objects() == {}
    simulated = make_cell({"arm": {}}, objects={"ball": BALL})
    with pytest.raises(AttachmentRejected, match=r"^arm: pose_in_tool: "):
        simulated.attach("arm", "ball", Pose.identity())


def test_replaced_request_was_pending_for_two_seconds(cell):
    """A client attaches and detaches without a wait."""
    cell.step()
    attached, detached = cell.request_attach("left"), cell.request_detach("left")
    with pytest.raises(AttachmentRejected, match=r"^left: .*\brequest\b"):
        cell.attachment_done(attached)
    assert not cell.attachment_done(detached)
    cell.step()
    assert cell.attachment_done(detached)
    with pytest.raises(AttachmentRejected, match=r"^left: .*\brequest\b"):
        cell.attachment_done(attached)
