# SPDX-License-Identifier: Apache-2.0
"""Check targets before they reach the loop: finite, in a known frame, near enough."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from multipanda_py.config import CellConfig, GateConfig
from multipanda_py.describe import bases_in_world
from multipanda_py.exceptions import TargetRejected
from multipanda_py.limits import JointLimits
from multipanda_py.pose import Pose
from multipanda_py.state import JOINTS, ArmSnapshot, Vector


class Frames:
    """The frames that targets may be given in, by the cell's own geometry.

    Known are ``world`` and every arm's base, by the name of its first link
    (``left_fr3_link0``). An empty name is the base of the arm that is spoken to.
    """

    def __init__(self, config: CellConfig) -> None:
        bases = bases_in_world(config)
        self._base_frame = {name: f"{name}_{arm.model}_link0" for name, arm in config.arms.items()}
        self._pose_in_world: Mapping[str, Pose] = {
            "world": Pose.identity(),
            **{self._base_frame[name]: pose for name, pose in bases.items()},
        }

    def base_of(self, arm: str) -> str:
        """Return the name of an arm's base frame."""
        return self._base_frame[arm]

    def base_from(self, frame: str, arm: str) -> Pose:
        """Return the pose of ``frame`` in the base of ``arm``.

        Raises:
            TargetRejected: If the frame is unknown; lists the known ones.
        """
        base = self._base_frame[arm]
        if frame in ("", base):
            return Pose.identity()
        if frame not in self._pose_in_world:
            known = ", ".join(self._pose_in_world)
            raise TargetRejected(f"{arm}: frame {frame!r} is unknown; known: {known}")
        return self._pose_in_world[base].inverse() @ self._pose_in_world[frame]


def check_pose(pose_ee_in_base: Pose, state: ArmSnapshot, gate: GateConfig) -> Vector:
    """Return the record of channel ``pose`` for a target near the measured pose.

    Raises:
        TargetRejected: If the step from the measured pose is larger than the gate.
    """
    measured = Pose(state.position_ee_in_base, state.rotation_ee_in_base)
    distance, angle = measured.distance(pose_ee_in_base)
    if distance > gate.position:
        raise TargetRejected(
            f"{state.name}: target is {distance:.3f} m from the measured pose, allowed "
            f"{gate.position:g} m (gate.position)"
        )
    if angle > gate.rotation:
        raise TargetRejected(
            f"{state.name}: target is turned {angle:.3f} rad from the measured pose, allowed "
            f"{gate.rotation:g} rad (gate.rotation)"
        )
    return np.concatenate([pose_ee_in_base.position, pose_ee_in_base.rotation.reshape(-1)])


def check_joint(
    q: ArrayLike, dq: ArrayLike | None, state: ArmSnapshot, limits: JointLimits, gate: GateConfig
) -> Vector:
    """Return the record of channel ``joint`` for a target within limits and the gate.

    Raises:
        TargetRejected: If a number is not finite, out of limits or too far away.
    """
    target = _joints(f"{state.name}: q", q)
    rate = np.zeros(JOINTS) if dq is None else _joints(f"{state.name}: dq", dq)
    for joint in range(JOINTS):
        where = f"joint {joint + 1} of {state.name}"
        low, high = limits.lower[joint], limits.upper[joint]
        if not low <= target[joint] <= high:
            raise TargetRejected(
                f"{where}: target {target[joint]:.4f} rad is outside [{low:g}, {high:g}]"
            )
        step = abs(target[joint] - state.q[joint])
        if step > gate.joint:
            raise TargetRejected(
                f"{where}: target is {step:.3f} rad from the measured position, allowed "
                f"{gate.joint:g} rad (gate.joint)"
            )
        if abs(rate[joint]) > limits.velocity[joint]:
            raise TargetRejected(
                f"{where}: target velocity {rate[joint]:.3f} rad/s is outside "
                f"+-{limits.velocity[joint]:g}"
            )
    return np.concatenate([target, rate])


def _joints(what: str, values: ArrayLike) -> Vector:
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise TargetRejected(f"{what}: got {values!r:.60}, allowed {JOINTS} numbers") from None
    if array.shape != (JOINTS,) or not np.isfinite(array).all():
        raise TargetRejected(f"{what}: got {array.tolist()}, allowed {JOINTS} finite numbers")
    return array
