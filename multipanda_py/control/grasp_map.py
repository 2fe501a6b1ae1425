# SPDX-License-Identifier: Apache-2.0
"""How hands that hold an object share a wrench on it, and what of their motion is the object's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from struct import Struct

import eigenpy
import numpy as np

from multipanda_py.state import Matrix, Vector

_subtract = np.subtract
_three, _six = Struct("3d").pack_into, Struct("6d").pack_into


class GraspMap:
    r"""Share wrenches by levers and inertia, so that light wrists get little of a moment.

    With A the map from the object's twist to those of the hands, one below the other, the hands'
    inertia :math:`\Lambda = \mathrm{diag}(\Lambda_i)`, and n the forces by which the hands press
    the object between them (:math:`A^T n = 0`):

    .. math::
        \Lambda_o = A^T \Lambda A, \qquad
        B = \Lambda A \Lambda_o^{-1}, \qquad
        c = \frac{B^T n}{n^T n}, \qquad
        B_n = B - n c^T

    Both are generalised inverses of the grasp map: :math:`A^T B = A^T B_n = I`, so that the hands
    together exert exactly the wrench that is shared. B is the inertia-weighted, dynamically
    consistent one: free hands accelerate like the rigid object, and a moment becomes forces at
    the levers, torques only as far as the wrists' inertia goes or where there are no levers. But
    hands of unequal inertia would press the object with it; :math:`B_n` never does
    (:math:`n^T B_n = 0`), so it shares what may last.

    The transposes measure: :math:`B^T \dot x` is the object's velocity and
    :math:`(I - A B^T) \dot x` the slip of the hands. Springs and dampers on what is measured,
    whose wrenches are shared by the same map, are gradients and only take energy, and damp no
    faster than they do on a hand or on :math:`\Lambda_o`, :math:`B_n` as on the inverse inertia

    .. math::
        B_n^T \Lambda^{-1} B_n = \Lambda_o^{-1} + c\, c^T\, n^T \Lambda^{-1} n

    Sources: Khatib 1987 (consistent inverse); Walker, Freeman and Marcus, Int. J. Robotics
    Research 1991, and Erhart and Hirche, IEEE Trans. Robotics 2015 (load distributions and
    internal force).

    All maps are rows of one matrix, so that measuring takes two products and sharing one, and
    what a law multiplies by its gains lies side by side; it is made anew by :meth:`refresh`,
    which need not be in every cycle.

    Args:
        n_hands: N.

    Attributes:
        ways: From the hands to where their grasps say that they are, e, written to by the owner,
            and how fast these change, minus the hands' velocities, (2, 6 N).
        inward: The forces in n, (N, 3).
        presses: The same as floats.
        size: :math:`n^T n`.
        errors: :math:`(I - A B_n^T) e`, (6 N,) [m, rad].
        shift: :math:`B_n^T e`, (6,) [m, rad].
        error: Of the object, written to by the law, (6,) [m, rad].
        ways_off: ``errors``, then ``error``, (6 N + 6,).
        rate: :math:`-B_n^T \dot x`, of the object, (6,) [m/s, rad/s].
        rates: :math:`-(I - A B^T) \dot x`, (6 N,) [m/s, rad/s].
        rates_off: ``rate``, then ``rates``, (6 + 6 N,).
        springs: :math:`R_1`, against the errors, written to by the law, (6 N,) [N, Nm].
        wrench: Of the object's spring, a part of W, written to by the law, (6,).
        pulls: ``springs``, then ``wrench``, (6 N + 6,).
        brake: Of the object's damper, a part of W, written to by the law, (6,).
        dampers: :math:`R_2`, against the rates, written to by the law, (6 N,).
        brakes: ``brake``, then ``dampers``, (6 + 6 N,).
        squeeze: :math:`F_s`, written to by the law, (1,) [N].

    Thread: control.
    """

    def __init__(self, n_hands: int) -> None:
        size = 6 * n_hands
        self._shifts: Matrix = np.vstack([np.eye(6)] * n_hands)  # A
        self._moved = np.zeros((size, 6))
        places = [slice(start, start + 6) for start in range(0, size, 6)]
        self._views = [(self._shifts[place], self._moved[place]) for place in places]
        self._levers = [shift.data for shift, _ in self._views]
        self._inertia, self._solver = np.zeros((6, 6)), eigenpy.LLT(np.eye(6))
        self._unit, self._all_unit = np.eye(6), np.eye(size)
        maps = np.zeros((2 * size + 19, size))
        measured, still, lasting, again, slip, press = np.split(
            maps, np.cumsum([6, size, 6, 6, size])
        )
        self._of_ways, self._of_rates = maps[: size + 6], maps[size + 12 : -1]
        self._of_wrenches, self._lasting = maps[6:], measured
        self._copies = [(measured.reshape(-1).data, one.reshape(-1).data)
                        for one in (lasting, again)]  # fmt: skip
        self._still, self._slip = still, slip
        self._press, self._row = press[0], press
        self._hands = self._press.reshape(n_hands, 6)
        self.inward = self._hands[:, :3]
        self._forces = [(hand, hand.data) for hand in self._hands]
        self.presses = [(0.0, 0.0, 0.0)] * n_hands
        self.size = 1e-12
        self._extra, self._share = np.zeros(6), np.zeros(size)
        self._shares = [share.data for share in self._share.reshape(n_hands, 6)]
        self._column, self._light = self._extra.reshape(6, 1), np.zeros((1, 6))
        self._mobile, self._outer = np.zeros((n_hands, 6)), np.zeros((6, 6))
        self.ways: Matrix = np.zeros((2, size))
        self._way, self._way_rate = self.ways
        found = np.zeros(size + 12)
        self._found, self.ways_off = found[:-6], found[6:]
        self.shift, self.errors, self.error = found[:6], found[6:-6], found[-6:]
        self.rates_off = np.zeros(size + 6)
        self.rate, self.rates = self.rates_off[:6], self.rates_off[6:]
        self._asked = asked = np.zeros(2 * size + 13)
        self.pulls, self.brakes = asked[: size + 6], asked[size + 6 : -1]
        self.springs, self.wrench = self.pulls[:size], self.pulls[size:]
        self.brake, self.dampers, self.squeeze = self.brakes[:6], self.brakes[6:], asked[-1:]
        self._shared = np.zeros(size)
        self._on_hands = list(self._shared.reshape(n_hands, 6))

    def refresh(self, levers: Matrix, inertias: Sequence[Matrix]) -> None:
        """Make all maps for levers (N, 3) [m] and the inertia of every hand, N of (6, 6)."""
        shifts, presses = self._shifts, []
        sx = sy = sz = 0.0
        for (x, y, z), own, inertia, views in zip(
            levers.tolist(), self._levers, inertias, self._views
        ):
            # v_i = v_o + w x r: minus the skew matrix of the lever
            _three(own, 24, 0.0, z, -y)
            _three(own, 72, -z, 0.0, x)
            _three(own, 120, y, -x, 0.0)
            inertia.dot(*views)
            scale = -1.0 / max(math.sqrt(x * x + y * y + z * z), 1e-6)
            presses.append((x * scale, y * scale, z * scale))
            sx, sy, sz = sx + x * scale, sy + y * scale, sz + z * scale
        self._set_presses(presses, (sx, sy, sz))
        self._solver.compute(shifts.T.dot(self._moved, self._inertia))
        consistent, lasting = self._solver.solve(self._moved.T), self._lasting
        consistent.dot(self._share, self._extra)
        _subtract(consistent, self._column.dot(self._row, lasting), lasting)
        for measured, copy in self._copies:
            copy[:] = measured
        for rest, of_object in ((self._still, lasting), (self._slip, consistent)):
            _subtract(self._all_unit, shifts.dot(of_object, rest), rest)

    def _set_presses(
        self, presses: list[tuple[float, float, float]], total: Sequence[float]
    ) -> None:
        """Take off what does not cancel, which would move the object."""
        n = len(presses)
        mx, my, mz = (part / n for part in total)
        self.presses = presses = [(x - mx, y - my, z - mz) for x, y, z in presses]
        self.size = size = max(sum([x * x + y * y + z * z for x, y, z in presses]), 1e-12)
        for (x, y, z), (_, force), share in zip(presses, self._forces, self._shares):
            _three(force, 0, x, y, z)
            _three(share, 0, x / size, y / size, z / size)

    def measure(self) -> None:
        """Find what of the hands' ways and rates is the object's, and what is not."""
        self._of_ways.dot(self._way, self._found)
        self._of_rates.dot(self._way_rate, self.rates_off)

    def share(self) -> list[Vector]:
        r"""Return the wrench of every hand, N of (6,); overwritten by the next call.

        .. math:: F = B_n W + (I - B_n A^T) R_1 + (I - B A^T) R_2 + n F_s
        """
        self._asked.dot(self._of_wrenches, self._shared)
        return self._on_hands

    def add_up(self, wrenches: Vector) -> Vector:
        r"""Return :math:`A^T F`, what wrenches on the hands (6 N,) do to the object, (6,)."""
        total: Vector = np.dot(wrenches, self._shifts)
        return total

    def carried(self, wrench: Vector) -> Vector:
        r"""Return :math:`B_n W`, what the hands do to carry a load (6,), (6 N,)."""
        wrenches: Vector = np.dot(wrench, self._lasting)
        return wrenches

    def inertia_inv(self, inertia_invs: Sequence[Matrix]) -> Matrix:
        r"""Return :math:`B_n^T \Lambda^{-1} B_n`, (6, 6), from the inverses of the hands'."""
        for inverse, (force, _), mobile in zip(inertia_invs, self._forces, self._mobile):
            inverse.dot(force, mobile)
        light = float(self._mobile.reshape(-1).dot(self._press))
        _six(self._light.data, 0, *[light * extra for extra in self._extra.tolist()])
        result: Matrix = self._solver.solve(self._unit)
        result += self._column.dot(self._light, self._outer)
        return result
