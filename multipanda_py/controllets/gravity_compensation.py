# SPDX-License-Identifier: Apache-2.0
"""Free floating, for guiding the arm by hand, with an optional hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from multipanda_py.context import Context, Handover
from multipanda_py.control.impedance.brakes import SpeedBrake, bound_speeds
from multipanda_py.control.impedance.gains import Ramp, RampedGains, damping_share
from multipanda_py.control.impedance.modal_damping import (
    BANDWIDTH,
    KEPT,
    LEAST_RATIO,
    ModalDamping,
)
from multipanda_py.control.impedance.pose_error import PoseError
from multipanda_py.control.impedance.singularity import SingularityGuard
from multipanda_py.parameters import choice, flag, number, vector
from multipanda_py.state import ArmState, Matrix, Vector
from multipanda_py.targets import HeldPose

_dot, _add, _multiply, _subtract = np.dot, np.add, np.multiply, np.subtract


@dataclass(frozen=True, eq=False)
class GravityCompensationParams:
    """What :class:`GravityCompensation` holds, and how firmly."""

    hold: str = choice(
        "none", options=("none", "position", "orientation", "plane"),
        doc="what stays where it is: nothing, the tool's point, its orientation, or the distance "
        "from a plane through the point",
    )  # fmt: skip
    keep_orientation: bool = flag(
        False, doc="with position or plane, hold the orientation as well"
    )
    normal: Vector = vector(
        0, 0, 1, low=-1, high=1,
        doc="normal of the plane in the base, of any length; zero holds nothing",
    )  # fmt: skip
    translational_stiffness: float = number(
        800.0, unit="N/m", low=0, high=5000, doc="of a held position or plane"
    )
    rotational_stiffness: float = number(
        40.0, unit="Nm/rad", low=0, high=300, doc="of a held orientation"
    )
    damping_ratio: float = number(
        1.0, low=LEAST_RATIO, high=5, doc="of the held modes; 1 is critical"
    )
    error_clip: Vector = vector(
        0.15, 0.15, 0.15, 0.8, 0.8, 0.8, unit="m, rad", low=1e-4, high=10,
        doc="largest error per axis that the hold acts on; bounds its force",
    )  # fmt: skip
    joint_damping: float = number(
        0.0,
        unit="Nm s/rad",
        low=0,
        high=5,
        doc="viscous damping of every joint, less for light rotors",
    )
    max_speed: float = number(
        1.0,
        unit="rad/s",
        low=0.1,
        high=10,
        doc="of a joint, beyond which it is braked; at most 0.7 of its limit",
    )  # fmt: skip
    gain_time: float = number(
        0.2, unit="s", low=0, high=10, doc="over which a hold sets in, lets go or changes"
    )


class GravityCompensation(RampedGains[HeldPose, GravityCompensationParams]):
    r"""Let the arm float, with gravity compensated by the robot, and hold what is asked for.

    .. math::
        \tau = -d\,\dot q + J^T \left( K\,\mathrm{clip}(e) - D J \dot q \right), \qquad
        K = \begin{bmatrix} k_p P & 0 \\ 0 & k_o O \end{bmatrix}, \qquad
        e = \begin{bmatrix} p_0 - p \\ \log(R_0 R^T)^\vee \end{bmatrix}

    P is I to hold the point, :math:`n n^T` to stay in the plane through it with normal n, else
    zero; O is I to hold the orientation, else zero. D belongs to K and the inertia, see
    :class:`.ModalDamping`: what is not held is not braked.

    The reference :math:`p_0, R_0` is measured at activation. What is not held follows the arm,
    so a hold that is asked for later holds what is measured then. The square root of K is
    ramped over ``gain_time``: a hold sets in and lets go without a torque step. The damping, and
    beyond ``max_speed`` a brake (:class:`.SpeedBrake`), are
    all that slows a floating arm apart from its own friction; the feature ``friction`` makes
    it lighter. What it carries floats only as far as the robot was told of it (``load_mass``): the
    rest of a weight is let go of, as the answer to the switch says, and the arm sinks with it.
    """

    Params, Target = GravityCompensationParams, HeldPose
    default_features = ("coriolis", "joint_limits", "collision_avoidance")
    touches = ("things",)
    report_names = (KEPT,)

    def __init__(self, context: Context, params: GravityCompensationParams) -> None:
        self._brakes = [SpeedBrake(arm.n_joints) for arm in context.arms]
        self._guards = [SingularityGuard(arm, context.period) for arm in context.arms]
        self._root = Ramp(np.zeros((6, 6)))
        self._stiffness = np.zeros((6, 6))
        self._damping = ModalDamping()
        self._error, self._wrench = PoseError(), np.zeros(6)
        self._apart = np.zeros(3)
        self._torques = context.joint_zeros()
        self._light = [damping_share(arm.robot) for arm in context.arms]
        super().__init__(context, params)

    def on_parameters(self) -> None:
        """Head for the stiffness of what is to be held: at once at rest, else within a time."""
        p = self.params
        self._held = _projector(p)
        self._turn_is_held = p.hold == "orientation" or (
            p.keep_orientation and p.hold in ("position", "plane")
        )
        root = np.zeros((6, 6))
        root[:3, :3] = np.sqrt(p.translational_stiffness) * self._held
        root[3:, 3:] = np.sqrt(p.rotational_stiffness) * np.eye(3) * self._turn_is_held
        self._root.go(root, self.gain_cycles())
        self._error.set_bounds(p.error_clip)
        self._speeds = [bound_speeds(p.max_speed, arm.limits) for arm in self.context.arms]
        self._viscous = [-p.joint_damping * light for light in self._light]
        # Both brakes act together; the lightest joint motion weighs 0.06 kg m^2.
        self._damping.set_bandwidth(max(BANDWIDTH / 2.0, BANDWIDTH - p.joint_damping / 0.06))
        self._set_gains()

    def _set_gains(self) -> None:
        _dot(self._root.value, self._root.value, self._stiffness)
        self._damping.set_root(self._root.value, self.params.damping_ratio)
        self._floats = self._root.arrived and not self._stiffness.any()

    def on_activate(self, states: Sequence[ArmState], target: HeldPose) -> None:
        """Take the measured poses as what is held."""
        target.seed(states)
        self.start_gains()
        for guard in self._guards:
            guard.reset()

    def on_handover(
        self, states: Sequence[ArmState], target: HeldPose, handovers: Sequence[Handover]
    ) -> str:
        """Keep the torques of a held arm along singular motions; release the others."""
        if not self._floats:
            for guard, state, handover in zip(self._guards, states, handovers):
                guard.resume(state, self._stiffness_along, handover.tau)
        return super().on_handover(states, target, handovers)

    def update(self, states: Sequence[ArmState], target: HeldPose, period: float) -> None:
        """Write the joint torques of every arm."""
        if self._root.step():
            self._set_gains()
        kept = 1.0
        for arm, state in enumerate(states):
            tau = _multiply(state.dq, self._viscous[arm], self.tau[arm])
            self._brakes[arm].add(state, self._speeds[arm], tau)
            if self._root.arrived:
                self._follow(state, target, arm)
            if not self._floats:
                held = self._hold(state, target, arm)
                _add(tau, _dot(held, state.jacobian, self._torques[arm]), tau)
                self._guards[arm].add(state, self._stiffness_along, tau)
                if self._damping.kept < kept:
                    kept, self.softest = self._damping.kept, arm
        self.report[0] = kept

    def _follow(self, state: ArmState, target: HeldPose, arm: int) -> None:
        """Let the part of the reference that is not held be where the arm is."""
        here, error = state.position_ee_in_base, self._apart
        reference = target.position_ee_in_base[arm]
        _subtract(reference, here, error)
        _add(here, _dot(self._held, error), reference)
        if not self._turn_is_held:
            target.rotation_ee_in_base[arm][:] = state.rotation_ee_in_base

    def _hold(self, state: ArmState, target: HeldPose, arm: int) -> Vector:
        """Return the wrench of spring and damper on the tool, (6,) [N, Nm]."""
        self._error.measure(
            state.position_ee_in_base, state.rotation_ee_in_base,
            target.position_ee_in_base[arm], target.rotation_ee_in_base[arm],
        )  # fmt: skip
        error = self._error.clip_measured()
        damping = self._damping
        brake = damping.damp(state.operational_space().inertia_inv, state.twist_ee_in_base)
        stiffness = self._stiffness if damping.kept == 1.0 else damping.stiffness
        wrench = _dot(stiffness, error, self._wrench)
        return _subtract(wrench, brake, wrench)

    def _stiffness_along(self, direction: Vector) -> float:
        """Return the stiffness of the hold along a twist in the base, (6,)."""
        return float(self._stiffness.dot(direction).dot(direction))


def _projector(params: GravityCompensationParams) -> Matrix:
    """Return P, the projector on the held translations, (3, 3)."""
    if params.hold == "position":
        return np.eye(3)
    length = float(np.linalg.norm(params.normal))
    if params.hold != "plane" or length < 1e-6:
        return np.zeros((3, 3))
    normal = params.normal / length
    return np.outer(normal, normal)
