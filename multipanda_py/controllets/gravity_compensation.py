# SPDX-License-Identifier: Apache-2.0
"""Floating arm for hand guiding, with an optional hold of position or orientation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy import add, dot, multiply, subtract

from multipanda_py.context import BumplessTransfer, Context
from multipanda_py.control.impedance.brakes import SpeedBrake, bound_speeds
from multipanda_py.control.impedance.gains import Ramp, RampedGains, rotor_damping_scale
from multipanda_py.control.impedance.modal_damping import (
    BANDWIDTH,
    MIN_DAMPING_RATIO,
    STIFFNESS_SCALE,
    ModalDamping,
)
from multipanda_py.control.impedance.pose_error import PoseError
from multipanda_py.control.impedance.singularity import SingularityHold
from multipanda_py.parameters import choice, flag, number, vector
from multipanda_py.state import ArmState, Matrix, Vector
from multipanda_py.targets import HeldPose


@dataclass(frozen=True, eq=False)
class GravityCompensationParams:
    """Parameters of ``GravityCompensation``: held directions, gains and speed bound."""

    hold: str = choice(
        "none", options=("none", "position", "orientation", "plane"),
        doc="held directions: none, position of the tool, its orientation, or its distance from a "
        "plane through the start position",
    )  # fmt: skip
    keep_orientation: bool = flag(
        False, doc="hold the orientation in addition to position or plane"
    )
    normal: Vector = vector(
        0, 0, 1, low=-1, high=1,
        doc="normal of the plane in the base, of any length; zero disables the hold",
    )  # fmt: skip
    translational_stiffness: float = number(
        800.0, unit="N/m", low=0, high=5000, doc="stiffness of a held position or plane"
    )
    rotational_stiffness: float = number(
        40.0, unit="Nm/rad", low=0, high=300, doc="stiffness of a held orientation"
    )
    damping_ratio: float = number(
        1.0,
        low=MIN_DAMPING_RATIO,
        high=5,
        doc="damping ratio of the held directions; 1 is critical",
    )
    error_clip: Vector = vector(
        0.15, 0.15, 0.15, 0.8, 0.8, 0.8, unit="m, rad", low=1e-4, high=10,
        doc="maximum error per axis that the hold acts on; bounds its wrench",
    )  # fmt: skip
    joint_damping: float = number(
        0.0, unit="Nm s/rad", low=0, high=5,
        doc="viscous damping of every joint; reduced for light rotors",
    )  # fmt: skip
    max_joint_speed: float = number(
        1.0, unit="rad/s", low=0.1, high=10,
        doc="joint speed above which the joint is braked; limited to 0.7 of the speed limit",
    )  # fmt: skip
    gain_time: float = number(
        0.2, unit="s", low=0, high=10, doc="duration of a change of the hold"
    )


class GravityCompensation(RampedGains[HeldPose, GravityCompensationParams]):
    """Floating arm that resists only along the held directions.

    Equations::

        tau = -d dq + J^T (K clip(e) - D J dq)
        K   = [k_p P, 0; 0, k_o O]
        e   = [p_0 - p; log(R_0 R^T)]

    - tau: Joint torques in addition to the gravity compensation by the robot, (n,) [Nm].
    - d: Viscous joint damping [Nm s/rad]; dq: joint velocities [rad/s], (n,).
    - J: Jacobian along the base axes, (6, n).
    - K, D: Stiffness and damping of the held directions, (6, 6).
    - k_p, k_o: ``translational_stiffness`` [N/m] and ``rotational_stiffness`` [Nm/rad].
    - e: Pose error, (6,) [m, rad]; clip: bound per axis.
    - P: Held translations: I for a position, n n^T for a plane with normal n, otherwise zero.
    - O: Held rotations: I for an orientation, otherwise zero.
    - p, R: Measured position [m] and rotation; p_0, R_0: reference.

    D is designed for K and the inertia (``ModalDamping``), so free directions are not damped.
    Along free directions, the reference follows the arm. After a change of ``hold``, the new
    directions are therefore held at the measured pose. K changes in a ramp over ``gain_time``.

    Apart from friction, only the viscous damping and the brake above ``max_joint_speed``
    (``SpeedBrake``) slow a floating arm. Set the mass of a payload in the robot (``load_mass``).
    Otherwise its weight lowers the arm.
    """

    Params, Target = GravityCompensationParams, HeldPose
    default_features = ("coriolis", "joint_limits", "collision_avoidance")
    contact_classes = ("objects",)
    report_names = (STIFFNESS_SCALE,)

    def __init__(self, context: Context, params: GravityCompensationParams) -> None:
        self._brakes = [SpeedBrake(arm.n_joints) for arm in context.arms]
        self._holds = [
            SingularityHold(arm, context.period, self._held_stiffness_along)
            for arm in context.arms
        ]
        self._root = Ramp(np.zeros((6, 6)))
        self._stiffness = np.zeros((6, 6))
        self._damping = ModalDamping()
        self._error, self._wrench = PoseError(), np.zeros(6)
        self._apart = np.zeros(3)
        self._torques = context.joint_zeros()
        self._light = [rotor_damping_scale(arm.robot) for arm in context.arms]
        super().__init__(context, params)

    def on_parameters(self) -> None:
        """Start the ramp to the new stiffness. While inactive, it applies immediately."""
        p = self.params
        self._held = _held_translation_projector(p)
        self._rotation_is_held = p.hold == "orientation" or (
            p.keep_orientation and p.hold in ("position", "plane")
        )
        root = np.zeros((6, 6))
        root[:3, :3] = np.sqrt(p.translational_stiffness) * self._held
        root[3:, 3:] = np.sqrt(p.rotational_stiffness) * np.eye(3) * self._rotation_is_held
        self._root.go(root, self.gain_cycles())
        self._error.set_bounds(p.error_clip)
        self._speeds = [bound_speeds(p.max_joint_speed, arm.limits) for arm in self.context.arms]
        self._viscous = [-p.joint_damping * light for light in self._light]
        # The damping rate of a joint is up to ``joint_damping`` divided by 0.06 kg m^2, the
        # inertia of the lightest rotor. The Cartesian damper gets the rest of BANDWIDTH, at least
        # half.
        self._damping.set_bandwidth(max(BANDWIDTH / 2.0, BANDWIDTH - p.joint_damping / 0.06))
        self._set_gains()

    def _set_gains(self) -> None:
        dot(self._root.value, self._root.value, self._stiffness)
        self._damping.set_root(self._root.value, self.params.damping_ratio)
        self._floats = self._root.arrived and not self._stiffness.any()

    def on_activate(self, states: Sequence[ArmState], target: HeldPose) -> None:
        """Set the measured poses as the reference."""
        target.seed(states)
        self.start_gains()
        for hold in self._holds:
            hold.reset()

    def on_transfer(
        self, states: Sequence[ArmState], target: HeldPose, transfers: Sequence[BumplessTransfer]
    ) -> str:
        """Release the torques from before the switch.

        If directions are held, torques along singular directions continue (``SingularityHold``).

        Returns:
            Message about the preserved force; empty if no force acted before the switch.
        """
        if not self._floats:
            for hold, state, handover in zip(self._holds, states, transfers):
                hold.resume(state, handover.tau)
        return super().on_transfer(states, target, transfers)

    def update(self, states: Sequence[ArmState], target: HeldPose, period: float) -> None:
        """Write the joint torques of all arms."""
        if self._root.step():
            self._set_gains()
        stiffness_scale = 1.0
        for arm, state in enumerate(states):
            tau = multiply(state.dq, self._viscous[arm], self.tau[arm])
            self._brakes[arm].add(state, self._speeds[arm], tau)
            if self._root.arrived:
                self._follow_free_directions(state, target, arm)
            if not self._floats:
                wrench = self._hold_wrench(state, target, arm)
                add(tau, dot(wrench, state.jacobian, self._torques[arm]), tau)
                self._holds[arm].add(state, tau)
                if self._damping.stiffness_scale < stiffness_scale:
                    stiffness_scale, self.min_scale_arm = self._damping.stiffness_scale, arm
        self.report[0] = stiffness_scale

    def _follow_free_directions(self, state: ArmState, target: HeldPose, arm: int) -> None:
        here, error = state.position_ee_in_base, self._apart
        reference = target.position_ee_in_base[arm]
        subtract(reference, here, error)
        add(here, dot(self._held, error), reference)
        if not self._rotation_is_held:
            target.rotation_ee_in_base[arm][:] = state.rotation_ee_in_base

    def _hold_wrench(self, state: ArmState, target: HeldPose, arm: int) -> Vector:
        """Return the wrench of spring and damper on the tool, (6,) [N, Nm]."""
        self._error.measure(
            state.position_ee_in_base, state.rotation_ee_in_base,
            target.position_ee_in_base[arm], target.rotation_ee_in_base[arm],
        )  # fmt: skip
        error = self._error.clip_measured()
        damping = self._damping
        brake = damping.damp(state.operational_space().inertia_inv, state.twist_ee_in_base)
        stiffness = self._stiffness if damping.stiffness_scale == 1.0 else damping.stiffness
        wrench = dot(stiffness, error, self._wrench)
        return subtract(wrench, brake, wrench)

    def _held_stiffness_along(self, twist: Vector) -> float:
        return float(self._stiffness.dot(twist).dot(twist))


def _held_translation_projector(params: GravityCompensationParams) -> Matrix:
    if params.hold == "position":
        return np.eye(3)
    length = float(np.linalg.norm(params.normal))
    if params.hold != "plane" or length < 1e-6:
        return np.zeros((3, 3))
    normal = params.normal / length
    return np.outer(normal, normal)
