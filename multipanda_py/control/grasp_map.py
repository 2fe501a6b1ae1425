# SPDX-License-Identifier: Apache-2.0
"""How hands that hold an object share a wrench on it, and what of their motion is the object's."""

from __future__ import annotations

import math
from collections.abc import Sequence

import eigenpy
import numpy as np

from multipanda_py.state import Matrix, Vector

_multiply, _subtract = np.multiply, np.subtract


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

    All maps are rows of one matrix, so that measuring takes two products and sharing one; it is
    made anew by :meth:`refresh`, which need not be in every cycle.

    Args:
        n_hands: N.

    Attributes:
        ways: From the hands to where their grasps say that they are, e, written to by the owner,
            and how fast these change, minus the hands' velocities, (2, 6 N).
        inward: The forces in n, (N, 3).
        errors: :math:`(I - A B_n^T) e`, (6 N,) [m, rad].
        shift: :math:`B_n^T e`, (6,) [m, rad].
        rate: :math:`-B_n^T \dot x`, of the object, (6,) [m/s, rad/s].
        rates: :math:`-(I - A B^T) \dot x`, (6 N,) [m/s, rad/s].
        springs: :math:`R_1`, against the errors, written to by the law, (6 N,) [N, Nm].
        wrench: W on the object, written to by the law, (6,).
        dampers: :math:`R_2`, against the rates, written to by the law, (6 N,).
        squeeze: :math:`F_s`, written to by the law, (1,) [N].

    Thread: control.
    """

    def __init__(self, n_hands: int) -> None:
        size = 6 * n_hands
        self._shifts: Matrix = np.vstack([np.eye(6)] * n_hands)  # A
        self._moved = np.zeros((size, 6))
        places = [slice(start, start + 6) for start in range(0, size, 6)]
        self._views = [(self._shifts[place], self._moved[place]) for place in places]
        self._inertia, self._extra = np.zeros((6, 6)), np.zeros(6)
        self._solver = eigenpy.LLT(np.eye(6))
        self._unit, self._all_unit = np.eye(6), np.eye(size)
        maps = np.zeros((2 * size + 7, size))
        self._maps, self._of_ways, self._of_rates = maps, maps[: size + 6], maps[size:-1]
        self._still, self._slip, self._press = maps[:size], maps[size + 6 : -1], maps[-1]
        self._lasting = maps[size : size + 6]
        self.inward = self._press.reshape(n_hands, 6)[:, :3]
        self._forces = list(self.inward)
        self.ways: Matrix = np.zeros((2, size))
        self._way, self._way_rate = self.ways
        self._found, self._changing = np.zeros(size + 6), np.zeros(size + 6)
        self.errors, self.shift = self._found[:size], self._found[size:]
        self.rate, self.rates = self._changing[:6], self._changing[6:]
        self._asked = np.zeros(2 * size + 7)
        self.springs, self.wrench = self._asked[:size], self._asked[size : size + 6]
        self.dampers, self.squeeze = self._asked[size + 6 : -1], self._asked[-1:]
        self._shared = np.zeros(size)
        self._on_hands = list(self._shared.reshape(n_hands, 6))

    def refresh(self, levers: Matrix, inertias: Sequence[Matrix]) -> None:
        """Make all maps for levers (N, 3) [m] and the inertia of every hand, N of (6, 6)."""
        shifts, inward = self._shifts, self.inward
        sx = sy = sz = 0.0
        for i, (x, y, z) in enumerate(levers.tolist()):
            shift, moved = self._views[i]
            # v_i = v_o + w x r: minus the skew matrix of the lever
            shift[0, 4], shift[0, 5], shift[1, 5] = z, -y, x
            shift[1, 3], shift[2, 3], shift[2, 4] = -z, y, -x
            inertias[i].dot(shift, moved)
            scale = -1.0 / max(math.sqrt(x * x + y * y + z * z), 1e-6)
            inward[i] = x, y, z = x * scale, y * scale, z * scale
            sx, sy, sz = sx + x, sy + y, sz + z
        n = len(inward)
        inward -= (sx / n, sy / n, sz / n)  # what does not cancel would move the object
        self._solver.compute(shifts.T.dot(self._moved, self._inertia))
        consistent, press = self._solver.solve(self._moved.T), self._press
        size = max(float(press.dot(press)), 1e-12)
        extra = _multiply(consistent.dot(press), 1.0 / size, self._extra)
        _multiply(extra[:, None], press, self._lasting)
        _subtract(consistent, self._lasting, self._lasting)
        for rest, of_object in ((self._still, self._lasting), (self._slip, consistent)):
            _subtract(self._all_unit, shifts.dot(of_object, rest), rest)

    def measure(self) -> None:
        """Find what of the hands' ways and rates is the object's, and what is not."""
        self._of_ways.dot(self._way, self._found)
        self._of_rates.dot(self._way_rate, self._changing)

    def share(self) -> list[Vector]:
        r"""Return the wrench of every hand, N of (6,); overwritten by the next call.

        .. math:: F = B_n W + (I - B_n A^T) R_1 + (I - B A^T) R_2 + n F_s
        """
        self._asked.dot(self._maps, self._shared)
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
        light = 0.0
        for inverse, force in zip(inertia_invs, self._forces):
            light += float(force.dot(inverse[:3, :3].dot(force)))
        extra = self._extra
        result: Matrix = self._solver.solve(self._unit)
        result += _multiply(extra[:, None], extra * light)
        return result
