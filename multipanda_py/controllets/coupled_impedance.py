# SPDX-License-Identifier: Apache-2.0
"""Several arms that hold one object, controlled as one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import eigenpy
import numpy as np
import pinocchio as pin

from multipanda_py.cartesian_gains import MAX_STIFFNESS
from multipanda_py.context import Context
from multipanda_py.controllet import Controllet
from multipanda_py.handover import SMALL_FORCE, Handover, bounded_error, share_of
from multipanda_py.held_object import HeldObject, skew
from multipanda_py.modal_damping import LEAST_RATIO, ModalDamping
from multipanda_py.parameters import number, vector
from multipanda_py.state import ArmState, Matrix, Vector
from multipanda_py.targets import ObjectTarget

_dot, _add, _subtract, _multiply = np.dot, np.add, np.subtract, np.multiply
_minimum, _maximum, _log3 = np.minimum, np.maximum, pin.log3
SOFT = 1.0
"""Stiffness too small to carry with [N/m, Nm/rad]."""


@dataclass(frozen=True, eq=False)
class CoupledImpedanceParams:
    """Gains of :class:`CoupledImpedance`."""

    stiffness: Vector = vector(
        600, 600, 600, 100, 100, 100, unit="N/m, Nm/rad", low=0, high=MAX_STIFFNESS,
        doc="of the object, along the axes of the world",
    )  # fmt: skip
    relative_stiffness: Vector = vector(
        1500, 1500, 1500, 60, 60, 60, unit="N/m, Nm/rad", low=0, high=MAX_STIFFNESS,
        doc="between each hand and its grasp, along the axes of the world",
    )  # fmt: skip
    damping_ratio: float = number(1.0, low=LEAST_RATIO, high=5, doc="1 is critically damped")
    error_clip: Vector = vector(
        0.15, 0.15, 0.15, 0.8, 0.8, 0.8, unit="m, rad", low=1e-4, high=10,
        doc="largest error of the object per axis that the spring acts on",
    )  # fmt: skip
    squeeze_time: float = number(
        0.2, unit="s", low=0, high=10, doc="time constant with which the squeeze follows"
    )


_ParamsT = TypeVar("_ParamsT", bound=CoupledImpedanceParams)


class CoupledImpedanceLaw(Controllet[ObjectTarget, _ParamsT]):
    r"""Give an object an impedance, and the hands a stiff formation around it.

    .. math::
        W_o = K_o e_o - D_o \dot x_o, \qquad
        F_i = A_i^{-T} \frac{W_o}{N} + K_r e_i - D_{r,i} (\dot x_i - A_i \dot x_o)
              + \left( n_i - \bar n \right) F_s

    with :math:`A_i` the map from the object's twist to that of hand *i*, :math:`e_i` its
    deviation from the grasp captured at activation, and :math:`n_i` from the hand to the
    object's origin. The squeeze adds up to nothing, so it strains the object and does not move
    it. All damping comes from the inertia it acts on:
    :math:`D_o` from :math:`\Lambda_o = \sum_i A_i^T \Lambda_i A_i`, :math:`D_{r,i}` from
    :math:`\Lambda_i` (:class:`~multipanda_py.modal_damping.ModalDamping`), one damper designed
    anew per cycle, in turn: in N + 1 cycles an inertia hardly changes. A push on one hand
    moves the object, so both hands give way together; the pair of them does not come apart.

    The report ``squeeze [N]`` is measured, the mean of what the hands' estimated wrenches press
    inwards with. It differs from what was asked for where the squeeze is only fed forward: the
    formation holds hands back that have to move to press.

    The object's frame starts between the hands, along the axes of the world. Sources: Caccavale,
    Chiacchio, Marino and Villani, IEEE/ASME Trans. Mechatronics 2008 (object and internal
    impedance); Wimböck, Ott and Hirzinger, IJRR 2012 (object-level control).
    """

    Target = ObjectTarget
    min_arms = 2
    default_features = ("nullspace", "coriolis")
    report_names: ClassVar[tuple[str, ...]] = (
        "object_x [m]", "object_y [m]", "object_z [m]",
        "relative error [m]", "relative error [rad]", "squeeze [N]",
    )  # fmt: skip

    def __init__(self, context: Context, params: _ParamsT) -> None:
        n = context.n_arms
        self.held = HeldObject(context)
        self._error, self._spring, self._share = np.zeros(6), np.zeros(6), np.zeros(6)
        self._dampers = [ModalDamping() for _ in range(n + 1)]  # of the hands, then the object
        self._turn, self._all_are_due = 0, True
        self._object, self._unit = eigenpy.LLT(np.eye(6)), np.eye(6)
        self._inertia, self._stack = np.zeros((6, 6)), np.zeros((6 * n, 6))
        self._moved = [self._stack[6 * i : 6 * i + 6] for i in range(n)]
        self._wrenches, self.inward = np.zeros((n, 6)), np.zeros((n, 3))
        self._forces, self._torques = self._wrenches[:, :3], self._wrenches[:, 3:]
        self._hand_wrenches = list(self._wrenches)
        self._pressed, self._cross = np.zeros((n, 3)), np.zeros((3, 3))
        self._inward_views = list(self.inward)
        self._error_position, self._error_rotation = self._error[:3], self._error[3:]
        self._strain, self._strains = np.zeros((2 * n, 3)), False
        self._strain_in_world = np.zeros((2 * n, 3))
        self._squeeze = 0.0
        self.measured = 0.0
        super().__init__(context, params)

    def on_parameters(self) -> None:
        """Prepare G = z K^1/2 of all dampers."""
        p = self.params
        *hands, of_object = self._dampers
        for damper in hands:
            damper.set_root(np.diag(p.damping_ratio * np.sqrt(p.relative_stiffness)))
        of_object.set_root(np.diag(p.damping_ratio * np.sqrt(p.stiffness)))
        self._all_are_due = True
        self._clip_low = -p.error_clip
        self._follow = self.context.period / (p.squeeze_time + self.context.period)

    def on_activate(self, states: Sequence[ArmState], target: ObjectTarget) -> None:
        """Grasp: hold the object where the hands are, without squeezing it."""
        self.held.grasp(states)
        target.position_object_in_world[:] = self.held.position
        target.rotation_object_in_world[:] = self.held.rotation
        for posture, state in zip(target.posture, states):
            posture[:] = state.q
        self._squeeze = 0.0
        self._strains = False
        self._all_are_due = True

    def on_handover(
        self, states: Sequence[ArmState], target: ObjectTarget, handovers: Sequence[Handover]
    ) -> str:
        r"""Go on carrying and squeezing what the hands hold.

        The hands' wrenches add up to :math:`W_o = \sum_i A_i^T F_i`, which the object's spring
        takes over; what is left only strains the object, and is squeeze where it points inwards.
        The rest of the strain is kept as it is, along the axes of the object.
        """
        if not any(handover.matters for handover in handovers):
            return ""
        held, p, n = self.held, self.params, len(handovers)
        self._update_inward()
        wrenches = np.array(
            [base.six_to_world(h.wrench_in_base) for base, h in zip(held.bases, handovers)]
        )
        load = np.dot(wrenches.reshape(-1), held.shift_stack)
        soft = p.stiffness < SOFT
        error: Vector = np.where(soft, 0.0, load / np.where(soft, 1.0, p.stiffness))
        bounded_error(error, p.error_clip)
        target.position_object_in_world[:] += error[:3]
        turned = np.dot(pin.exp3(error[3:]), target.rotation_object_in_world)
        target.rotation_object_in_world[:] = turned
        for wrench, lever in zip(wrenches, held.levers):
            wrench[:3] -= load[:3] / n
            wrench[3:] -= load[3:] / n - np.cross(lever, load[:3] / n)
        squeeze = max(0.0, _inward_part(wrenches, self.inward))
        self._squeeze = target.squeeze[0] = squeeze if squeeze > SMALL_FORCE else 0.0
        wrenches[:, :3] -= self._squeeze * self.inward
        wrenches[:, p.relative_stiffness < SOFT] = 0.0
        np.dot(wrenches.reshape(-1, 3), held.rotation, self._strain)
        self._strains = True
        share = share_of(p.stiffness * error, load)
        words = Handover(wrench_in_base=load).words("the load of both hands", share)
        if self._squeeze:
            words = "; ".join(filter(None, (f"squeeze goes on with {squeeze:.1f} N", words)))
        return words

    def update(self, states: Sequence[ArmState], target: ObjectTarget, period: float) -> None:
        """Write the joint torques of every arm."""
        held, wrenches = self.held, self._wrenches
        held.update(states)
        self._design_dampers()
        self._update_object(target)
        self._update_inward()
        self._measure_squeeze(states)
        force = self.squeeze(target)
        share, cross = self._share, self._cross
        skew(share[:3].tolist(), cross)
        _multiply(held.errors, self.params.relative_stiffness, wrenches)
        _add(wrenches, share, wrenches)
        # A hand's share at the object's origin, moved to the hand: T - r x F
        _subtract(self._torques, _dot(held.levers, cross), self._torques)
        _add(self._forces, _multiply(self.inward, force, self._pressed), self._forces)
        if self._strains:
            strain = _dot(self._strain, held.rotation.T, self._strain_in_world)
            _add(wrenches, strain.reshape(wrenches.shape), wrenches)
        for place, (state, wrench) in enumerate(zip(states, self._hand_wrenches)):
            _subtract(wrench, self.relative_brake(place), wrench)
            _dot(held.bases[place].six_to_base(wrench), state.jacobian, self.tau[place])
        self._report()

    def relative_brake(self, place: int) -> Vector:
        """Return the damping wrench against the slip of one hand, (6,) [N, Nm]."""
        return self._dampers[place].apply(self.held.slips[place])

    def _design_dampers(self) -> None:
        """Design one damper anew, in turn; all of them at first and with new gains."""
        held, n = self.held, len(self.held.bases)
        for place in range(n + 1) if self._all_are_due else (self._turn,):
            inertia_inv = held.inertia_invs[place] if place < n else self._object_inertia_inv()
            self._dampers[place].design(inertia_inv)
        self._turn = (self._turn + 1) % (n + 1)
        self._all_are_due = False

    def _object_inertia_inv(self) -> Matrix:
        r"""Return the inverse of :math:`\Lambda_o`, which is one product over all hands."""
        held = self.held
        for inertia, shift, moved in zip(held.inertias, held.shifts, self._moved):
            _dot(inertia, shift, moved)
        self._object.compute(_dot(held.shift_stack.T, self._stack, self._inertia))
        inertia_inv: Matrix = self._object.solve(self._unit)
        return inertia_inv

    def squeeze(self, target: ObjectTarget) -> float:
        """Return the internal force of this cycle [N]: the target, smoothed."""
        self._squeeze += self._follow * (float(target.squeeze[0]) - self._squeeze)
        return self._squeeze

    def _measure_squeeze(self, states: Sequence[ArmState]) -> None:
        """Find how hard the hands press the object, from the measured wrenches [N]."""
        total = 0.0
        for base, state, inward in zip(self.held.bases, states, self._inward_views):
            fx, fy, fz, *_ = base.six_to_world(state.wrench_ext_in_base).tolist()
            x, y, z = inward.tolist()
            total -= (fx * x + fy * y + fz * z) / max(x * x + y * y + z * z, 1e-12)
        self.measured = total / len(states)

    def _update_object(self, target: ObjectTarget) -> None:
        """Compute each hand's equal share of the object's wrench, at the object's origin."""
        held, error = self.held, self._error
        _subtract(target.position_object_in_world, held.position, self._error_position)
        self._error_rotation[:] = _log3(_dot(target.rotation_object_in_world, held.rotation.T))
        _minimum(error, self.params.error_clip, out=error)
        _maximum(error, self._clip_low, out=error)
        brake = self._dampers[-1].apply(held.twist)
        _multiply(self.params.stiffness, error, self._spring)
        _subtract(self._spring, brake, self._share)
        _multiply(self._share, 1.0 / len(held.bases), self._share)

    def _update_inward(self) -> None:
        """Point from every hand to the object; what does not cancel is taken out."""
        inward = self.inward
        sx = sy = sz = 0.0
        for place, (x, y, z) in enumerate(self.held.levers.tolist()):
            scale = -1.0 / max(math.sqrt(x * x + y * y + z * z), 1e-6)
            inward[place] = x, y, z = x * scale, y * scale, z * scale
            sx, sy, sz = sx + x, sy + y, sz + z
        n = len(inward)
        inward -= (sx / n, sy / n, sz / n)

    def _report(self) -> None:
        report = self.report
        report[:3] = self.held.position
        apart = turned = 0.0
        for ex, ey, ez, rx, ry, rz in self.held.errors.tolist():
            apart = max(apart, ex * ex + ey * ey + ez * ez)
            turned = max(turned, rx * rx + ry * ry + rz * rz)
        report[3], report[4], report[5] = math.sqrt(apart), math.sqrt(turned), self.measured


def _inward_part(wrenches: Matrix, inward: Matrix) -> float:
    """Return the mean force with which hands press inwards, of wrenches (N, 6) on them [N]."""
    parts = np.einsum("ij,ij->i", wrenches[:, :3], inward)
    return float(np.mean(parts / np.maximum(np.einsum("ij,ij->i", inward, inward), 1e-12)))


class CoupledImpedance(CoupledImpedanceLaw[CoupledImpedanceParams]):
    """Move an object held by several arms; the squeeze is fed forward."""

    Params = CoupledImpedanceParams
