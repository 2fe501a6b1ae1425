# SPDX-License-Identifier: Apache-2.0
"""Checks of targets before they reach the loop: frames, steps, limits."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from configurations import READY
from hypothesis import given
from hypothesis import strategies as st

from multipanda_py import Cell
from multipanda_py.cell.goals import Frames
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.sections import GateConfig
from multipanda_py.controllets.targets.cartesian import POSE, check_pose, check_stiffness
from multipanda_py.controllets.targets.joint import JOINT, check_joint
from multipanda_py.exceptions import TargetRejected
from multipanda_py.pose import Pose
from multipanda_py.robots.franka import LIMITS
from multipanda_py.targets import IDENTITY_POSE, STREAM_TIMEOUT, Stream

pytestmark = pytest.mark.inline

GATE = GateConfig()
LIMIT = LIMITS["fr3"]
STATE: Any = SimpleNamespace(
    name="left",
    position_ee_in_base=np.array([0.4, 0.1, 0.5]),
    rotation_ee_in_base=np.eye(3),
    q=READY,
)
CELL = CellConfig.from_dict(
    {
        "arms": {
            "left": {"position": [1.0, 2.0, 3.0], "rpy": [0.0, 0.0, math.pi / 2]},
            "right": {"model": "fer"},
        }
    }
)


def rotation_about(index: int, angle: float) -> np.ndarray:
    rpy = np.zeros(3)
    rpy[index] = angle
    return Pose.from_rpy(np.zeros(3), rpy).rotation


def test_world_point_is_transformed_into_rotated_base() -> None:
    frames = Frames(CELL)
    point = frames.base_from("world", "left") @ Pose(np.array([1.0, 3.0, 3.5]), np.eye(3))
    np.testing.assert_allclose(point.position, [1.0, 0.0, 0.5], atol=1e-12)
    np.testing.assert_allclose(point.rotation, rotation_about(2, -math.pi / 2), atol=1e-12)


def test_short_base_names_are_valid_only_for_arm() -> None:
    frames = Frames(CELL)
    for arm, model in (("left", "fr3"), ("right", "fer")):
        for name in ("", "base", f"{model}_link0", f"{arm}_{model}_link0"):
            assert frames.base_from(name, arm) is IDENTITY_POSE
    for frame in ("base", "fr3_link0"):
        with pytest.raises(TargetRejected, match="is unknown"):
            frames.world_from(frame)
    with pytest.raises(TargetRejected, match="is unknown"):
        frames.base_from("fr3_link0", "right")


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("count", [6, 36])
def test_non_finite_stiffness_is_not_reported_as_wrong_shape(value: float, count: int) -> None:
    requested = np.eye(6).reshape(-1) if count == 36 else np.ones(6)
    requested[0] = value
    with pytest.raises(TargetRejected, match=rf"^left: stiffness: .*\b{value}\b"):
        check_stiffness(requested, STATE)


def test_frames_of_own_and_other_arms_are_known() -> None:
    frames = Frames(CELL)
    assert frames.base_of("right") == "right_fer_link0"
    for own in ("", "left_fr3_link0"):
        np.testing.assert_array_equal(frames.base_from(own, "left").position, np.zeros(3))
    there = frames.base_from("right_fer_link0", "left")
    back = frames.base_from("left_fr3_link0", "right")
    np.testing.assert_allclose((there @ back).position, np.zeros(3), atol=1e-12)


def test_unknown_frame_is_refused_with_known_frames() -> None:
    with pytest.raises(TargetRejected, match=r"'map'.*\bworld, left_fr3_link0"):
        Frames(CELL).base_from("map", "left")


@given(
    st.lists(st.floats(-0.3, 0.3), min_size=3, max_size=3), st.integers(0, 2), st.floats(-1.5, 1.5)
)
def test_pose_passes_if_and_only_if_near(step: list[float], index: int, angle: float) -> None:
    pose = Pose(STATE.position_ee_in_base + np.array(step), rotation_about(index, angle))
    near = math.dist(step, [0, 0, 0]) <= GATE.position and abs(angle) <= GATE.rotation
    if abs(math.dist(step, [0, 0, 0]) - GATE.position) < 1e-9:
        return
    if abs(abs(angle) - GATE.rotation) < 1e-9:
        return
    if near:
        record = check_pose(pose, STATE, GATE)
        np.testing.assert_array_equal(record[:3], pose.position)
        np.testing.assert_array_equal(record[3:].reshape(3, 3), pose.rotation)
    else:
        with pytest.raises(TargetRejected, match=r"left: target is .*gate\."):
            check_pose(pose, STATE, GATE)


def test_stream_lost_blocked_arm() -> None:
    """The gate refused all targets, even of the free arm, until the stream came back."""
    clipped: Counter[str] = Counter()
    stream, here = (
        Stream("left pose", clipped).for_activation("soft", 1, 5.0),
        STATE.position_ee_in_base,
    )
    for step in np.arange(0.01, 0.5, 0.01):
        pose = Pose(here + [0.6 * step, 0.8 * step, 0.0], rotation_about(2, 3.0 * step))
        record = check_pose(pose, STATE, GATE, stream)
        travel = min(step, GATE.position)
        np.testing.assert_allclose(
            record[:3], here + [0.6 * travel, 0.8 * travel, 0.0], atol=1e-12
        )
        angle = min(3.0 * step, GATE.rotation)
        np.testing.assert_allclose(record[3:].reshape(3, 3), rotation_about(2, angle), atol=1e-9)
    assert clipped["left pose"] == pytest.approx(34, abs=1)


def test_jumping_paused_or_foreign_stream_is_refused() -> None:
    now = 5.0
    stream, here = Stream("left pose", Counter()), STATE.position_ee_in_base
    far, further = (Pose(here + [x, 0.0, 0.0], np.eye(3)) for x in (0.16, 0.31))
    near = Pose(here + [0.1, 0.0, 0.0], np.eye(3))
    check_pose(near, STATE, GATE, stream.for_activation("soft", 1, now))
    with pytest.raises(TargetRejected, match=r"gate\.position"):
        # A refused target is no part of the stream.
        check_pose(further, STATE, GATE, stream.for_activation("soft", 1, now))
    check_pose(far, STATE, GATE, stream.for_activation("soft", 1, now))
    with pytest.raises(TargetRejected, match=r"gate\.position"):
        check_pose(far, STATE, GATE, stream.for_activation("stiff", 1, now))
    check_pose(near, STATE, GATE, stream.for_activation("stiff", 1, now))
    now += 1.1 * STREAM_TIMEOUT
    with pytest.raises(TargetRejected, match=r"gate\.position"):
        check_pose(far, STATE, GATE, stream.for_activation("stiff", 1, now))


def test_stopped_controllet_continued_stream_from_before_stop() -> None:
    """After a stop or a reset a jump of 25 cm was clipped to 15 cm, and the arm moved there."""
    cell = Cell.from_yaml("config/dual_sim.yaml", placement="inline")
    law = "left/cartesian_impedance_controller"
    with cell:
        here, start = cell.pose("left"), cell.simulation.save()
        stops: list[Callable[[], Any]] = [
            lambda: (cell.hold(), cell.switch([law])),
            lambda: cell.switch([law], [law]),
            lambda: cell.simulation.reset(start),
        ]
        for stop in stops:
            cell.simulation.reset(start)
            cell.set_target("left", Pose(here.position + [0.0, 0.0, 0.14], here.rotation))
            stop()
            with pytest.raises(TargetRejected, match=r"gate\.position"):
                cell.set_target("left", Pose(here.position + [0.0, 0.0, 0.25], here.rotation))
            cell.step(300)
            np.testing.assert_allclose(cell.pose("left").position, here.position, atol=2e-3)


def test_clipping_of_stepped_cell_depended_on_machine_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Cell.from_yaml("config/dual_sim.yaml", placement="inline") as cell:
        here = cell.pose("left")
        near, far = (Pose(here.position + [0.0, 0.0, z], here.rotation) for z in (0.14, 0.25))
        cell.set_target("left", near)
        now = time.monotonic()
        monkeypatch.setattr(time, "monotonic", lambda: now + 1.1 * STREAM_TIMEOUT)
        cell.set_target("left", far)
        assert cell.clipped == {"left pose": 1}


def test_joint_stream_is_clipped_along_path_and_within_limits() -> None:
    stream = Stream("left joint", Counter()).for_activation("joints", 1, 5.0)
    travel = np.array([1.0, 0.5, 0.0, 0.0, -0.25, 0.0, 0.0])
    for step in np.arange(0.05, 1.0, 0.05):
        record = check_joint(READY + step * travel, None, STATE, LIMIT, GATE, stream=stream)
        np.testing.assert_allclose(record[:7], READY + min(step, GATE.joint) * travel, atol=1e-12)
    stream = stream.for_activation("another", 1, 5.0)
    for step in (0.2, 0.4, 0.6):
        check_joint(READY - [0, 0, 0, step, 0, 0, 0], None, STATE, LIMIT, GATE, stream=stream)
    with pytest.raises(TargetRejected, match=r"joint 4 .*left: "):
        check_joint(READY - [0, 0, 0, 0.7, 0, 0, 0], None, STATE, LIMIT, GATE, stream=stream)


@pytest.mark.slow
@pytest.mark.sim
@pytest.mark.parametrize(
    ("law", "arms"), [("cartesian_impedance", ["left"]), ("coupled_impedance", ["left", "right"])]
)
def test_nullspace_target_of_pose_controllet_was_gated(make_cell, law, arms) -> None:
    """crisp_py streams both: the elbow follows a far joint configuration, the tool stays."""
    cell = make_cell(controllets={"law": {"type": law, "arms": arms}}, active=["law"])
    before, q = cell.pose("left").position, cell.state("left").q.copy()
    nullspace_q, fastest = q + [2.0, 0, -2.0, 0, 0, 0, 0], 0.0
    cell.set_target("left", q=nullspace_q)
    for _ in range(1500):
        cell.step(1)
        fastest = max(fastest, float(np.abs(cell.state("left").dq).max()))
    assert cell.state("left").owner == "law"
    assert np.abs(cell.state("left").q - q).max() > 0.2
    assert fastest < 1.2, "the arm must move slowly"
    assert np.linalg.norm(cell.pose("left").position - before) < 0.01
    with pytest.raises(TargetRejected, match="is outside"):
        cell.set_target("left", q=q + [0, 0, 0, 3.0, 0, 0, 0])
    cell.set_parameters("law", {"governor.enabled": False})
    with pytest.raises(TargetRejected, match=r"gate\.joint"):
        cell.set_target("left", q=nullspace_q)


@pytest.mark.slow
@pytest.mark.sim
@pytest.mark.parametrize("cycles", [0, 1, 30])
def test_governor_switched_off_let_far_nullspace_target_swing_arm(make_cell, cycles) -> None:
    """The target passed the gate because of the governor; without it the arm moved at 2 rad/s."""
    cell = make_cell(controllets={"law": {"type": "cartesian_impedance"}}, active=["left/law"])
    cell.set_target("left", q=cell.state("left").q + [2.0, 0, -2.0, 0, 0, 0, 0])
    cell.step(cycles)
    cell.set_parameters("left/law", {"governor.enabled": False})
    fastest = 0.0
    for _ in range(1500):
        cell.step()
        fastest = max(fastest, float(np.abs(cell.state("left").dq).max()))
    assert 0.3 < fastest < 1.2


@given(st.lists(st.floats(-0.6, 0.6), min_size=7, max_size=7))
def test_joints_pass_if_and_only_if_near_and_within_limits(step: list[float]) -> None:
    q = READY + np.array(step)
    near = np.abs(q - READY).max() <= GATE.joint
    if near and ((q >= LIMIT.lower) & (q <= LIMIT.upper)).all():
        record = check_joint(q, None, STATE, LIMIT, GATE)
        np.testing.assert_array_equal(record, [*q, *np.zeros(7)])
    else:
        with pytest.raises(TargetRejected, match="of left: target"):
            check_joint(q, None, STATE, LIMIT, GATE)


def test_joint_outside_limits_is_named_with_limits() -> None:
    q = READY.copy()
    q[3] = 0.0
    with pytest.raises(TargetRejected, match=r"joint 4.*\bleft:.*\[-3\.0421, -0\.1518\]"):
        check_joint(q, None, STATE, LIMIT, GATE)


def test_target_velocity_above_limit_is_refused() -> None:
    with pytest.raises(TargetRejected, match=r"joint 7\b.*\bleft:.*velocity"):
        check_joint(READY, [0, 0, 0, 0, 0, 0, -6.0], STATE, LIMIT, GATE)


@pytest.mark.parametrize(
    "q", [READY[:6], [math.nan] * 7, [math.inf] * 7, "home", None, [[0] * 7], [10**400] * 7, {}]
)
def test_value_without_seven_finite_numbers_is_refused(q: Any) -> None:
    with pytest.raises(TargetRejected, match="left: q:"):
        check_joint(q, None, STATE, LIMIT, GATE)
    if q is not None:
        with pytest.raises(TargetRejected, match="left: dq:"):
            check_joint(READY, q, STATE, LIMIT, GATE)


@pytest.mark.parametrize(
    ("channel", "value", "allowed"),
    [(POSE, 5, "Pose"), (JOINT, np.zeros(7), r"\(q, dq\)"), (JOINT, 5, r"\(q, dq\)")],
)
def test_wrong_type_was_refused_with_python_error(channel: Any, value: Any, allowed: str) -> None:
    requested: Any = SimpleNamespace(
        owner="left", state=STATE, limits=LIMIT, gate=GATE, frame=IDENTITY_POSE
    )
    with pytest.raises(TargetRejected, match=rf"^left: {channel.name}: .*{allowed}"):
        channel.check(value, requested)
