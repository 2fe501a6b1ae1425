# SPDX-License-Identifier: Apache-2.0
"""Kinematics and dynamics of one arm, from pinocchio."""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any

import eigenpy
import numpy as np
import pinocchio as pin

from multipanda_py.dynamics.task_inertia import TaskInertia
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.load import Load
from multipanda_py.robots.urdf import arm_urdf
from multipanda_py.state import ArmState, Matrix

_crba, _nle = pin.crba, pin.nonLinearEffects
_update_frame, _frame_jacobian = pin.updateFramePlacement, pin.getFrameJacobian
_AXES = pin.ReferenceFrame.LOCAL_WORLD_ALIGNED
_ROW_BY_ROW = np.array([9, 10, 11, 0, 3, 6, 1, 4, 7, 2, 5, 8])
"""Where position and rotation, row by row, stand in an SE3 of pinocchio."""
_add = np.add
_joint_hessians, _frame_hessian = pin.computeJointKinematicHessians, pin.getFrameKinematicHessian


def build_pinocchio(arm: ArmDescription, *, base_in_world: bool = False) -> Any:
    """Return the pinocchio model of an arm with its fingers locked.

    The model's root is the arm's base (or the world, on request), and the reflected
    rotor inertia is its ``armature``, which pinocchio adds to the mass matrix.
    """
    if not base_in_world:
        arm = dataclasses.replace(
            arm, position_base_in_world=np.zeros(3), rotation_base_in_world=np.eye(3)
        )
    full = pin.buildModelFromXML(arm_urdf(arm, plain=True, shapes=False))
    q = pin.neutral(full)
    fingers = [
        joint for joint in range(1, full.njoints) if full.names[joint] not in arm.joint_names
    ]
    for joint in fingers:
        q[full.joints[joint].idx_q] = arm.finger_opening
    model = pin.buildReducedModel(full, fingers, q)
    model.armature = np.array(arm.robot.armature)
    return model


@cache
def _hessian_is_mislabelled() -> bool:
    """Find out how this eigenpy hands a third-order tensor over.

    Release 3.13 calls column-major memory row-major. An arm of turning joints in a bent posture
    tells: a joint does not move the axes of those before it, so the angular part is zero for
    j <= k.
    """
    model = pin.buildSampleModelManipulator()
    data, q = model.createData(), np.linspace(0.3, 0.9, model.nv)
    pin.computeJointJacobians(model, data, q)
    _joint_hessians(model, data)
    hessian = _frame_hessian(model, data, model.nframes - 1, _AXES)
    return bool(np.abs(hessian[3:][:, np.tri(len(q)).T.astype(bool)]).max() > 1e-9)


def _column_jacobian(*given: Any) -> Matrix:
    """Return the Jacobian of an arm with one joint, which pinocchio makes a vector of, (6, 1)."""
    found: Matrix = _frame_jacobian(*given).reshape(6, 1)
    return found


class LoadedFlange:
    """Let the last link of a pinocchio model carry a load, and then another one.

    Args:
        model: Without a load.
        flange_frame: Name of what the load is mounted on.
    """

    def __init__(self, model: Any, flange_frame: str) -> None:
        self._model = model
        self._placement = model.frames[model.getFrameId(flange_frame)].placement
        self._last = model.njoints - 1
        self._unloaded = model.inertias[self._last].copy()

    def carry(self, load: Load) -> None:
        """Count a load, instead of any before, in all dynamics."""
        link = self._unloaded
        if load.mass > 0.0:
            link = link + self._placement.act(pin.Inertia(load.mass, load.com, load.inertia))
        self._model.inertias[self._last] = link


class ArmModel:
    r"""Fill an arm's state with what follows from its joint positions and velocities.

    .. math::
        M(q),\quad C(q, \dot q) \dot q,\quad {}^{b}T_{ee}(q),\quad J(q),\quad
        \dot x = J \dot q,\quad F_{ext} = (J J^T + \epsilon I)^{-1} J \tau_{ext}

    The wrench is the least-squares estimate at the tool; :math:`\epsilon` only keeps it
    finite at singular postures.

    Attributes:
        arm: What it is a model of.

    Thread: control.
    """

    WRENCH_REGULARISATION = 1e-7
    """Far below the squared singular values of J in any useful posture (1e-3 and up)."""

    def __init__(self, arm: ArmDescription) -> None:
        self.arm = arm
        self._model = build_pinocchio(arm)
        self._model.gravity = pin.Motion.Zero()
        self._flange = LoadedFlange(self._model, arm.flange_frame)
        self._data = self._model.createData()
        self._frame = self._model.getFrameId(arm.ee_frame)
        self._convention: Any = getattr(pin, "Convention", None) and pin.Convention.WORLD
        self._gram, self._normal = np.zeros((6, 6)), np.zeros((6, 6))
        self._regular = self.WRENCH_REGULARISATION * np.eye(6)
        self._projected = np.zeros(6)
        self._solver = eigenpy.LLT(np.eye(6))
        self._mislabelled = _hessian_is_mislabelled()
        self._jacobian: Any = _frame_jacobian if self._model.nv > 1 else _column_jacobian
        self._bind()

    def _bind(self) -> None:
        """Keep live views of pinocchio's results; a property costs 0.1 to 0.6 us each."""
        zero = np.zeros(self._model.nv)
        pin.computeAllTerms(self._model, self._data, zero, zero)
        pin.updateFramePlacements(self._model, self._data)
        self._mass, self._coriolis = self._data.M, self._data.nle
        self._placement = self._data.oMf[self._frame]
        # An SE3 is its rotation, column by column, then its translation.
        self._pose = np.lib.stride_tricks.as_strided(self._placement.rotation, (12,), (8,))

    def attach(self, state: ArmState) -> None:
        """Give a state the live views of this model's terms, and a way to its Hessian."""
        state.jacobian_gram = self._gram
        state.attach(self._mass, self._coriolis, self.hessian, TaskInertia(self._model.nv))

    def set_load(self, load: Load) -> None:
        """Count what the flange carries, instead of any load before, in all dynamics."""
        self._flange.carry(load)
        self.load_mass = load.mass

    def hessian(self) -> Matrix:
        r"""Return :math:`\partial J_{rj} / \partial q_k` at [k, j, r], of the last update."""
        _joint_hessians(self._model, self._data)
        hessian = _frame_hessian(self._model, self._data, self._frame, _AXES)
        n = self._model.nv
        return hessian.reshape(n, n, 6) if self._mislabelled else self._relabel(hessian)

    @staticmethod
    def _relabel(hessian: Matrix) -> Matrix:
        r"""Turn :math:`\partial J_{rj} / \partial q_k` at [r, j, k] into [k, j, r]."""
        return np.ascontiguousarray(hessian.transpose(2, 1, 0))

    def update(self, state: ArmState) -> None:
        """Recompute every model quantity of ``state`` from its ``q``, ``dq`` and ``tau_ext``."""
        model, data, q, dq = self._model, self._data, state.q, state.dq
        if self._convention is not None:
            _crba(model, data, q, self._convention)
            _nle(model, data, q, dq)
        else:
            pin.computeAllTerms(model, data, q, dq)
        _update_frame(model, data, self._frame)
        jacobian = self._jacobian(model, data, self._frame, _AXES)
        state.jacobian = jacobian
        self._pose.take(_ROW_BY_ROW, None, state.pose_ee_in_base, "clip")  # "raise" costs twice
        jacobian.dot(dq, state.twist_ee_in_base)
        gram = jacobian.dot(jacobian.T, self._gram)
        self._solver.compute(_add(gram, self._regular, self._normal))
        state.wrench_ext_in_base[:] = self._solver.solve(
            jacobian.dot(state.tau_ext, self._projected)
        )
        state.invalidate()
