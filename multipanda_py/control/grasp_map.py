# SPDX-License-Identifier: Apache-2.0
"""Grasp map of an object held by several end effectors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from struct import Struct

import eigenpy
import numpy as np
from numpy import subtract

from multipanda_py.state import Matrix, Vector

_three, _six = Struct("3d").pack_into, Struct("6d").pack_into


class GraspMap:
    """Map between a grasped object and the end effectors that hold it.

    It distributes an object wrench to the end effectors, and separates the motion of the object
    from errors of the grasps.

    Equations::

        Lambda   = diag(Lambda_1, ..., Lambda_N)
        Lambda_o = A^T Lambda A
        B        = Lambda A Lambda_o^-1
        c        = B^T n / (n^T n)
        B_n      = B - n c^T

    - A: Map from the twist of the object to the stacked twists of the end effectors, (6 N, 6).
    - Lambda_i: Task-space inertia of end effector i, (6, 6) [kg, kg m^2].
    - Lambda_o: Inertia of all end effectors at the object origin, (6, 6).
    - n: Unit forces of the end effectors towards the object, minus the mean of these forces, so
      that A^T n = 0, (6 N,).
    - B, B_n: Generalised inverses of the grasp map: A^T B = A^T B_n = I, (6 N, 6).
    - c: Internal force that B exerts per object wrench, (6,).
    - W, R_1, R_2, F_s: Wrenches and internal force, see ``distribute``.

    B and B_n distribute an object wrench to end-effector wrenches that add up to it. B is
    dynamically consistent: free end effectors accelerate like a rigid object. B may exert an
    internal force on the object; B_n exerts none (n^T B_n = 0).

    With the end-effector twists dx, B_n^T dx is the object velocity and (I - A B^T) dx the slip.
    The inverse inertia for the spring of the object pose (``wrench``) is::

        B_n^T Lambda^-1 B_n = Lambda_o^-1 + c c^T (n^T Lambda^-1 n)

    Sources: Khatib 1987 (consistent inverse); Walker, Freeman and Marcus, Int. J. Robotics
    Research 1991, and Erhart and Hirche, IEEE Trans. Robotics 2015 (load distributions and
    internal force).

    Order of calls: ``refresh`` (not in every cycle), ``GraspedObject`` writes ``grasp_errors``,
    ``measure``, the controllet writes ``error`` and the wrenches, ``distribute``.

    Args:
        n_hands: Number of end effectors N.

    Attributes:
        grasp_errors: Displacements e from the end effectors to their grasp poses, and negative
            end-effector twists, (2, 6 N) [m, rad; m/s, rad/s].
        inward: Force part of n, (N, 3).
        presses: Same forces as ``inward``, one tuple of floats per end effector.
        size: Squared norm n^T n.
        errors: Grasp errors (I - A B_n^T) e, (6 N,) [m, rad].
        shift: Object displacement B_n^T e, (6,) [m, rad].
        error: Pose error of the object, (6,) [m, rad].
        stacked_errors: View of ``errors`` and ``error``, (6 N + 6,).
        rate: Negative object velocity -B_n^T dx, (6,) [m/s, rad/s].
        rates: Negative slip -(I - A B^T) dx, (6 N,) [m/s, rad/s].
        stacked_rates: View of ``rate`` and ``rates``, (6 + 6 N,).
        springs: Spring wrenches R_1 that reduce ``errors``, (6 N,) [N, Nm].
        wrench: Spring wrench of the object, part of W, (6,) [N, Nm].
        stacked_springs: View of ``springs`` and ``wrench``, (6 N + 6,).
        brake: Damper wrench of the object, part of W, (6,) [N, Nm].
        dampers: Damper wrenches R_2 that reduce ``rates``, (6 N,) [N, Nm].
        stacked_dampers: View of ``brake`` and ``dampers``, (6 + 6 N,).
        internal_force: Internal force F_s, (1,) [N].

    Thread: control.
    """

    def __init__(self, n_hands: int) -> None:
        size = 6 * n_hands
        # Map A from the object twist to the end-effector twists.
        self._shifts: Matrix = np.vstack([np.eye(6)] * n_hands)
        self._moved = np.zeros((size, 6))
        slices = [slice(start, start + 6) for start in range(0, size, 6)]
        self._views = [(self._shifts[index], self._moved[index]) for index in slices]
        self._levers = [shift.data for shift, _ in self._views]
        self._inertia, self._solver = np.zeros((6, 6)), eigenpy.LLT(np.eye(6))
        self._unit, self._all_unit = np.eye(6), np.eye(size)
        maps = np.zeros((2 * size + 19, size))
        measured, still, lasting, again, slip, press = np.split(
            maps, np.cumsum([6, size, 6, 6, size])
        )
        self._error_map, self._rate_map = maps[: size + 6], maps[size + 12 : -1]
        self._wrench_map, self._lasting = maps[6:], measured
        self._copies = [(measured.reshape(-1).data, one.reshape(-1).data)
                        for one in (lasting, again)]  # fmt: skip
        self._still, self._slip = still, slip
        self._press, self._row = press[0], press
        self._hands = self._press.reshape(n_hands, 6)
        self.inward = self._hands[:, :3]
        self._forces = [(hand, hand.data) for hand in self._hands]
        self.presses = [(0.0, 0.0, 0.0)] * n_hands
        self.size = 1e-12
        self._extra, self._hand_wrenches = np.zeros(6), np.zeros(size)
        self._wrench_views = [wrench.data for wrench in self._hand_wrenches.reshape(n_hands, 6)]
        self._column, self._light = self._extra.reshape(6, 1), np.zeros((1, 6))
        self._mobile, self._outer = np.zeros((n_hands, 6)), np.zeros((6, 6))
        self.grasp_errors: Matrix = np.zeros((2, size))
        self._error, self._error_rate = self.grasp_errors
        result = np.zeros(size + 12)
        self._estimate, self.stacked_errors = result[:-6], result[6:]
        self.shift, self.errors, self.error = result[:6], result[6:-6], result[-6:]
        self.stacked_rates = np.zeros(size + 6)
        self.rate, self.rates = self.stacked_rates[:6], self.stacked_rates[6:]
        self._desired = buffer = np.zeros(2 * size + 13)
        self.stacked_springs, self.stacked_dampers = buffer[: size + 6], buffer[size + 6 : -1]
        self.springs, self.wrench = self.stacked_springs[:size], self.stacked_springs[size:]
        self.brake, self.dampers, self.internal_force = (
            self.stacked_dampers[:6],
            self.stacked_dampers[6:],
            buffer[-1:],
        )
        self._shared = np.zeros(size)
        self._on_hands = list(self._shared.reshape(n_hands, 6))

    def refresh(self, levers: Matrix, inertias: Sequence[Matrix]) -> None:
        """Recompute the maps between object and end effectors.

        Args:
            levers: Vectors from the object origin to the end effectors, (N, 3) [m].
            inertias: Task-space inertia of each end effector, N of (6, 6) [kg, kg m^2].
        """
        shifts, presses = self._shifts, []
        sx = sy = sz = 0.0
        for (x, y, z), own, inertia, views in zip(
            levers.tolist(), self._levers, inertias, self._views
        ):
            # Write the block -[r]_x of A, with r = (x, y, z), row by row at its byte offsets. The
            # twist of the end effector contains the velocity v_o + omega x r.
            _three(own, 24, 0.0, z, -y)
            _three(own, 72, -z, 0.0, x)
            _three(own, 120, y, -x, 0.0)
            inertia.dot(*views)
            scale = -1.0 / max(math.sqrt(x * x + y * y + z * z), 1e-6)
            presses.append((x * scale, y * scale, z * scale))
            sx, sy, sz = sx + x * scale, sy + y * scale, sz + z * scale
        self._set_unit_forces(presses, (sx, sy, sz))
        self._solver.compute(shifts.T.dot(self._moved, self._inertia))
        consistent, lasting = self._solver.solve(self._moved.T), self._lasting
        consistent.dot(self._hand_wrenches, self._extra)
        subtract(consistent, self._column.dot(self._row, lasting), lasting)
        for measured, copy in self._copies:
            copy[:] = measured
        for rest, of_object in ((self._still, lasting), (self._slip, consistent)):
            subtract(self._all_unit, shifts.dot(of_object, rest), rest)

    def _set_unit_forces(
        self, presses: list[tuple[float, float, float]], total: Sequence[float]
    ) -> None:
        n = len(presses)
        mx, my, mz = (part / n for part in total)
        self.presses = presses = [(x - mx, y - my, z - mz) for x, y, z in presses]
        self.size = size = max(sum([x * x + y * y + z * z for x, y, z in presses]), 1e-12)
        for (x, y, z), (_, force), wrench in zip(presses, self._forces, self._wrench_views):
            _three(force, 0, x, y, z)
            _three(wrench, 0, x / size, y / size, z / size)

    def measure(self) -> None:
        """Compute ``shift``, ``errors``, ``rate`` and ``rates`` from ``grasp_errors``."""
        self._error_map.dot(self._error, self._estimate)
        self._rate_map.dot(self._error_rate, self.stacked_rates)

    def distribute(self) -> list[Vector]:
        """Return the wrench of each end effector, N of (6,) [N, Nm]. The next call overwrites it.

        Equation::

            F = B_n W + (I - B_n A^T) R_1 + (I - B A^T) R_2 + n F_s

        - F: Wrenches of all end effectors, (6 N,) [N, Nm].
        - W: Object wrench ``wrench`` + ``brake``, (6,).
        - R_1, R_2: Spring and damper wrenches of the grasps, (6 N,).
        - F_s: Internal force [N].
        - A, B, B_n, n: See ``GraspMap``.
        """
        self._desired.dot(self._wrench_map, self._shared)
        return self._on_hands

    def add_up(self, wrenches: Vector) -> Vector:
        """Return the total wrench on the object, (6,) [N, Nm].

        Args:
            wrenches: Wrenches of all end effectors, stacked, (6 N,) [N, Nm].
        """
        total: Vector = np.dot(wrenches, self._shifts)
        return total

    def load_wrenches(self, wrench: Vector) -> Vector:
        """Return end-effector wrenches that add up to an object wrench, without internal force.

        Args:
            wrench: Wrench on the object, (6,) [N, Nm].

        Returns:
            Wrenches of all end effectors, stacked, (6 N,) [N, Nm].
        """
        wrenches: Vector = np.dot(wrench, self._lasting)
        return wrenches

    def inertia_inv(self, inertia_invs: Sequence[Matrix]) -> Matrix:
        """Return the inverse inertia for the spring of the object pose, (6, 6), see ``GraspMap``.

        Args:
            inertia_invs: Inverse task-space inertia of each end effector, N of (6, 6).
        """
        for inverse, (force, _), mobile in zip(inertia_invs, self._forces, self._mobile):
            inverse.dot(force, mobile)
        light = float(self._mobile.reshape(-1).dot(self._press))
        _six(self._light.data, 0, *[light * extra for extra in self._extra.tolist()])
        result: Matrix = self._solver.solve(self._unit)
        result += self._column.dot(self._light, self._outer)
        return result
