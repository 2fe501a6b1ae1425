# SPDX-License-Identifier: Apache-2.0
"""Impedance of an object that several arms hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot
from struct import Struct
from typing import ClassVar, TypeVar

import numpy as np
import pinocchio as pin
from numpy import add, multiply

from multipanda_py.context import (
    SMALL_FORCE,
    BumplessTransfer,
    Context,
    bounded_error,
    fraction_of,
    tool_wrench,
)
from multipanda_py.control.grasped_object import (
    GraspedObject,
    InternalForceEstimator,
    InternalForceLimiter,
    buckling_warning,
)
from multipanda_py.control.impedance.cartesian_spring import ConservativeSpring
from multipanda_py.control.impedance.free_motion import is_soft
from multipanda_py.control.impedance.gains import MAX_STIFFNESS
from multipanda_py.control.impedance.modal_damping import (
    BANDWIDTH,
    MIN_DAMPING_RATIO,
    STIFFNESS_SCALE,
    ModalDamping,
)
from multipanda_py.control.impedance.pose_error import PoseError
from multipanda_py.control.impedance.singularity import SingularityHold
from multipanda_py.controllet import Controllet
from multipanda_py.controllets.targets.cartesian import OBJECT_POSITION
from multipanda_py.parameters import number, vector
from multipanda_py.state import ArmState, Matrix, Vector
from multipanda_py.targets import ObjectTarget, Report

_pack = Struct("7d").pack_into
REACHED_FRACTION = 0.98
"""Fraction of the desired internal force above which it counts as reached at a switch."""
MIN_STIFFNESS = 1.0
"""Stiffness below which a spring takes over no load at a switch [N/m, Nm/rad]."""


@dataclass(frozen=True, eq=False)
class CoupledImpedanceParams:
    """Gains of ``CoupledImpedance``."""

    stiffness: Vector = vector(
        600, 600, 600, 100, 100, 100, unit="N/m, Nm/rad", low=0, high=MAX_STIFFNESS,
        doc="stiffness of the object along the axes of the world",
    )  # fmt: skip
    relative_stiffness: Vector = vector(
        1500, 1500, 1500, 60, 60, 60, unit="N/m, Nm/rad", low=0, high=MAX_STIFFNESS,
        doc="stiffness between each end effector and its grasp pose, along the axes of the world",
    )  # fmt: skip
    damping_ratio: float = number(
        1.0, low=MIN_DAMPING_RATIO, high=5, doc="damping ratio; 1 is critical"
    )
    error_clip: Vector = vector(
        0.15, 0.15, 0.15, 0.8, 0.8, 0.8, unit="m, rad", low=1e-4, high=10,
        doc="maximum error of the object per axis that the spring acts on",
    )  # fmt: skip
    internal_force_time: float = number(
        0.2, unit="s", low=0, high=10,
        doc="time constant with which the internal force follows its target",
    )  # fmt: skip


UPDATE_CYCLES = 8
"""Number of cycles in which all dampers, levers and inertias are updated, one per cycle. More than
six arms need N + 2 cycles."""
SHARED_BANDWIDTH = 0.7 * BANDWIDTH
"""Maximum rate of each damper [1/s]. It is below ``BANDWIDTH``, because the dampers of end
effectors and object partly add up."""
_ParamsT = TypeVar("_ParamsT", bound=CoupledImpedanceParams)


class CoupledImpedanceLaw(Controllet[ObjectTarget, _ParamsT]):
    """Impedance of an object that several arms hold in formation by stiff springs.

    Equations::

        e_o      = clip([p_d - p; log(R_d R^T)] + B_n^T e)
        W_1, R_1 = K_o e_o, K_r e
        W_2, R_2 = -D_o B_n^T dx, -D_r (I - A B^T) dx
        F        = B_n (W_1 + W_2) + (I - B_n A^T) R_1 + (I - B A^T) R_2 + n F_s
        tau      = J^T F + tau_h

    - W_1, W_2: Wrenches of spring and damper on the object, (6,) [N, Nm].
    - R_1, R_2: Wrenches of the springs and dampers of the formation, (6 N,) [N, Nm].
    - F: Wrenches of the N end effectors, (6 N,) [N, Nm]; J: their Jacobians, along the diagonal.
    - tau: Joint torques of all arms [Nm]; tau_h: torques of ``SingularityHold`` [Nm].
    - K_o, D_o: Stiffness and damping of the object, (6, 6).
    - e_o: Clipped pose error of the object, (6,) [m, rad].
    - p, R: Measured position [m] and rotation of the object; p_d, R_d: target.
    - dx: Twists of the end effectors, (6 N,) [m/s, rad/s].
    - K_r, D_r: Stiffness and damping of the formation, (6 N, 6 N).
    - e: Displacements from the end effectors to their grasp poses, (6 N,) [m, rad].
    - A: Map from the object twist to the end-effector twists, (6 N, 6).
    - B, B_n: Maps from an object wrench to end-effector wrenches (``GraspMap``), (6 N, 6). B_n
      exerts no internal force.
    - n: Unit forces of the end effectors towards the object origin, with zero sum, (6 N,).
    - F_s: Internal force [N].

    The end effectors together exert exactly W_1 + W_2 on the object. If torque limits require it,
    all arms use a lower internal force (``InternalForceLimiter``). All arms yield to a push on one
    end effector.

    ``ModalDamping`` designs D_o for the inertia of the object, and D_r for that of each end
    effector.

    The report ``internal force [N]`` is measured (``InternalForceEstimator``). With feed-forward
    only, it deviates from the target.

    The object frame starts in the centre of the end effectors, along the world axes.

    Sources: Caccavale, Chiacchio, Marino and Villani, IEEE/ASME Trans. Mechatronics 2008 (object
    and internal impedance); Wimböck, Ott and Hirzinger, IJRR 2012 (object-level control).

    Attributes:
        dampers: Dampers of the end effectors, then of the object.
    """

    Target = ObjectTarget
    min_arms = 2
    default_features = ("nullspace", "coriolis", "joint_limits", "collision_avoidance")
    feature_channels = ("joint",)
    contact_classes = ("objects", "grippers")
    report_names: ClassVar[tuple[Report | str, ...]] = (
        *OBJECT_POSITION,
        Report("relative error", "m", "maximum grasp error in position"),
        Report("relative error", "rad", "maximum grasp error in rotation"),
        Report("internal force", "N", "measured internal force"),
        STIFFNESS_SCALE,
    )

    def __init__(self, context: Context, params: _ParamsT) -> None:
        n = context.n_arms
        self.held = GraspedObject(context)
        sharing = self.held.sharing
        self._error = PoseError(sharing.error)
        self._conservative, self._object_is_free = ConservativeSpring(), False
        # One damper per arm, followed by the damper of the object.
        self.dampers = [ModalDamping(bandwidth=SHARED_BANDWIDTH) for _ in range(n + 1)]
        self._phase, self._update_all = 0, True
        cycles = max(n + 2, UPDATE_CYCLES)
        rotations = {index * cycles // (n + 2): index for index in range(n + 2)}
        self._schedule = [rotations.get(cycle) for cycle in range(cycles)]
        self._stiffness, self._damping = np.zeros(6 * n + 6), np.zeros((6 * n + 6, 6 * n + 6))
        blocks = [self._damping[i : i + 6, i : i + 6] for i in range(0, 6 * n + 6, 6)]
        # The object is first in ``stacked_rates`` and last in ``dampers``.
        self._blocks = [*blocks[1:], blocks[0]]
        self._springs = sharing.springs.reshape(n, 6)
        self._elastic = list(
            zip(
                self.dampers,
                sharing.stacked_errors.reshape(-1, 6),
                sharing.stacked_springs.reshape(-1, 6),
                (*range(n), -1),
            )
        )
        self._force_estimator = InternalForceEstimator(self.held)
        self._force_limiter = InternalForceLimiter(self.held, context)
        self._holds = [
            SingularityHold(arm, context.period, self._min_stiffness_along) for arm in context.arms
        ]
        self._states: Sequence[ArmState] = ()
        self._strain, self._is_strained = np.zeros((2 * n, 3)), False
        self._strain_in_world = np.zeros((2 * n, 3))
        self._internal_force = self._checked_force = self._limited_force = 0.0
        self.measured = 0.0
        super().__init__(context, params)

    def on_parameters(self) -> None:
        """Set stiffness, damping ratios and error bounds of the object and the end effectors."""
        p = self.params
        *hands, of_object = self.dampers
        for damper in hands:
            damper.set_root(np.diag(np.sqrt(p.relative_stiffness)), p.damping_ratio)
        self._stiffness[:-6] = np.tile(p.relative_stiffness, len(hands))
        self._stiffness[-6:] = p.stiffness
        of_object.set_root(np.diag(np.sqrt(p.stiffness)), p.damping_ratio)
        self._object_is_free = is_soft(np.diag(p.stiffness))
        is_free = self._object_is_free or is_soft(np.diag(p.relative_stiffness))
        self.is_free[:] = [is_free] * len(self.is_free)
        self._update_all, self._checked_force = True, 0.0
        both = np.minimum(p.stiffness, p.relative_stiffness)
        self._min_stiffness = np.repeat((both[:3].min(), both[3:].min()), 3)
        self._error.set_bounds(p.error_clip)
        self._follow = self.context.period / (p.internal_force_time + self.context.period)

    def on_activate(self, states: Sequence[ArmState], target: ObjectTarget) -> None:
        """Grasp the object at the current end-effector poses, without internal force."""
        self._states = states
        self.held.grasp(states)
        target.position_object_in_world[:] = self.held.position
        target.rotation_object_in_world[:] = self.held.rotation
        for configuration, state in zip(target.nullspace_configuration, states):
            configuration[:] = state.q
        self._internal_force = self._checked_force = self._limited_force = 0.0
        self._is_strained = False
        self._phase, self._update_all = 0, True
        for hold in self._holds:
            hold.reset()

    def on_transfer(
        self,
        states: Sequence[ArmState],
        target: ObjectTarget,
        transfers: Sequence[BumplessTransfer],
    ) -> str:
        """Continue to carry and press the object.

        The object spring takes over the sum of the end-effector wrenches. The component of the
        rest towards the object origin becomes the internal force. Other components stay constant
        in the object frame.

        Returns:
            Message about the preserved force; empty if no force acted before the switch.
        """
        torques = [
            hold.resume(state, handover.tau)
            for hold, state, handover in zip(self._holds, states, transfers)
        ]
        if not any(handover.is_significant for handover in transfers):
            return ""
        held, p = self.held, self.params
        wrenches = np.array(
            [
                base.six_to_world(h.wrench_in_base - tool_wrench(state, tau))
                for base, h, state, tau in zip(held.bases, transfers, states, torques)
            ]
        )
        load = held.sharing.add_up(wrenches.reshape(-1))
        self._design_due_dampers()
        damper = self.dampers[-1]
        stiffness = np.diag(p.stiffness) if damper.stiffness_scale == 1.0 else damper.stiffness
        held_up = p.stiffness >= MIN_STIFFNESS
        error = np.zeros(6)
        error[held_up] = np.linalg.solve(stiffness[np.ix_(held_up, held_up)], load[held_up])
        bounded_error(error, p.error_clip)
        target.position_object_in_world[:] += error[:3]
        turned = np.dot(pin.exp3(error[3:]), target.rotation_object_in_world)
        target.rotation_object_in_world[:] = turned
        wrenches -= held.sharing.load_wrenches(load).reshape(wrenches.shape)
        inward = held.inward
        size = max(float(np.vdot(inward, inward)), 1e-12)
        internal_force = max(0.0, float(np.vdot(wrenches[:, :3], inward)) / size)
        self._internal_force = internal_force if internal_force > SMALL_FORCE else 0.0
        target.internal_force[0] = requested = (
            self._requested_internal_force(transfers) or self._internal_force
        )
        wrenches[:, :3] -= self._internal_force * inward
        wrenches[:, p.relative_stiffness < MIN_STIFFNESS] = 0.0
        np.dot(wrenches.reshape(-1, 3), held.rotation, self._strain)
        self._is_strained = True
        fraction = fraction_of(np.dot(stiffness, error), load)
        words = BumplessTransfer(wrench_in_base=load).describe("the load of all arms", fraction)
        if requested:
            less = internal_force < REACHED_FRACTION * requested
            of = f" of {requested:.1f}" if less else ""
            words = "; ".join(
                filter(None, (f"internal force continues with {internal_force:.1f}{of} N", words))
            )
        return words

    def _requested_internal_force(self, handovers: Sequence[BumplessTransfer]) -> float:
        """Return the internal force desired before the switch [N]; 0 unless every arm pressed."""
        held, parts = self.held, []
        for base, handover, inward in zip(held.bases, handovers, held.inward):
            force = base.six_to_world(handover.requested_in_base)[:3]
            parts.append(float(np.dot(force, inward)))
        size = max(float(np.vdot(held.inward, held.inward)), 1e-12)
        return sum(parts) / size if min(parts) > 0.0 else 0.0

    def requested_force(
        self, arm: int, states: Sequence[ArmState], target: ObjectTarget
    ) -> Vector:
        """Return the wrench of one arm that exerts the target internal force, (6,) [N, Nm]."""
        wrench = np.zeros(6)
        np.multiply(self.held.inward[arm], target.internal_force[0], wrench[:3])
        return self.held.bases[arm].six_to_base(wrench)

    def update(self, states: Sequence[ArmState], target: ObjectTarget, period: float) -> None:
        """Write the joint torques of all arms."""
        held, sharing = self.held, self.held.sharing
        held.update(states, self._update_all or self._schedule[self._phase] == len(states))
        self._design_due_dampers()
        self.measured = self._force_estimator.estimate(states)
        self._measure_error(target)
        stiffness_scale = self._update_spring_wrenches()
        self._damping.dot(sharing.stacked_rates, sharing.stacked_dampers)
        sharing.internal_force[0] = self.desired_internal_force(target)
        wrenches = sharing.distribute()
        for arm, state in enumerate(states):
            wrench = held.bases[arm].six_to_base(wrenches[arm])
            tau = wrench.dot(state.jacobian, self.tau[arm])
            self._holds[arm].add(state, tau)
        self._write_report(stiffness_scale)

    def _measure_error(self, target: ObjectTarget) -> None:
        held, error = self.held, self._error
        error.measure(
            held.position, held.rotation, target.position_object_in_world,
            target.rotation_object_in_world, held.sharing.shift,
        )  # fmt: skip
        if self._object_is_free:
            self._conservative.project(error.value, 0.0)
        error.clip_measured()

    def _update_spring_wrenches(self) -> float:
        """Return the minimum factor by which ``ModalDamping`` reduces a stiffness, 0 to 1."""
        held, sharing, stiffness_scale = self.held, self.held.sharing, 1.0
        multiply(sharing.stacked_errors, self._stiffness, sharing.stacked_springs)
        for damper, error, spring_wrench, index in self._elastic:
            if damper.stiffness_scale < 1.0:
                if damper.stiffness_scale < stiffness_scale:
                    stiffness_scale, self.min_scale_arm = damper.stiffness_scale, index
                damper.stiffness.dot(error, spring_wrench)
        if self._object_is_free:
            self._conservative.correct(sharing.stacked_springs[-6:], 1.0, False)
        if self._is_strained:
            strain = self._strain.dot(held.rotation.T, self._strain_in_world)
            add(self._springs, strain.reshape(self._springs.shape), self._springs)
        return stiffness_scale

    @property
    def dissipated(self) -> float:
        """Power dissipated by the dampers between the arms that hold the object [W]."""
        sharing = self.held.sharing
        return float(sharing.rates.dot(sharing.dampers))

    def _design_due_dampers(self) -> None:
        # ``_schedule`` has an index or None for each cycle: i < N for the damper of end effector
        # i, N + 1 for the damper of the object, and N for the grasp map.
        held, n = self.held, len(self.dampers) - 1
        for index in range(n + 2) if self._update_all else (self._schedule[self._phase],):
            if index is None or index == n:
                continue
            if index < n:
                self._design_damper(index, held.inertia_inv(index))
            else:
                invs = [held.inertia_inv(hand) for hand in range(n)]
                self._design_damper(n, held.sharing.inertia_inv(invs))
        self._phase = (self._phase + 1) % len(self._schedule)
        self._update_all = False

    def _design_damper(self, index: int, inertia_inv: Matrix) -> None:
        damper = self.dampers[index]
        damper.design(inertia_inv)
        self._blocks[index][:] = damper.damping

    def desired_internal_force(self, target: ObjectTarget) -> float:
        """Return the smoothed target of the internal force, limited by the joint torques [N]."""
        desired = target.internal_force.item()
        if desired != self._checked_force:
            self._warn_if_not_exertable(desired)
        elif not self._phase:
            self._limited_force = self._force_limiter.limit(desired, self._states)
        self._internal_force += self._follow * (self._limited_force - self._internal_force)
        return self._internal_force

    def _min_stiffness_along(self, twist: Vector) -> float:
        return float(self._min_stiffness.dot(twist * twist))

    def _warn_if_not_exertable(self, desired: float) -> None:
        self._checked_force, limit, states = desired, self._force_limiter, self._states
        stiffness = self.params.relative_stiffness
        weakness = buckling_warning(desired, self.dampers[:-1], stiffness, self.held)
        for words in (weakness, limit.overload(desired, states)):
            if words:
                self.context.notify(words)
        self._limited_force = limit.limit(desired, states)

    def _write_report(self, stiffness_scale: float) -> None:
        apart = turned = 0.0
        errors = self.held.sharing.errors.tolist()
        for start in range(0, len(errors), 6):
            x, y, z, rx, ry, rz = errors[start : start + 6]
            distance, angle = hypot(x, y, z), hypot(rx, ry, rz)
            if distance > apart:
                apart = distance
            if angle > turned:
                turned = angle
        x, y, z = self.held.position.tolist()
        _pack(self.report.data, 0, x, y, z, apart, turned, self.measured, stiffness_scale)


class CoupledImpedance(CoupledImpedanceLaw[CoupledImpedanceParams]):
    """Impedance of an object that several arms hold, with internal-force feed-forward.

    ``CoupledImpedanceLaw`` has the equations. F_s is the smoothed target of the internal force.
    """

    Params = CoupledImpedanceParams
