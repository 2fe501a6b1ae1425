# SPDX-License-Identifier: Apache-2.0
"""Dynamics of an arm: mass matrix, Coriolis and gravity torques, Jacobian, external wrench."""

from __future__ import annotations

import dataclasses
import math
from functools import cache
from typing import Any

import eigenpy
import numpy as np
import pinocchio as pin
from numpy import add

from multipanda_py.robots import ArmDescription
from multipanda_py.robots.dynamics.task_inertia import TaskInertia
from multipanda_py.robots.inertial import STANDARD_GRAVITY, Load
from multipanda_py.robots.urdf import arm_urdf
from multipanda_py.state import ArmState, Matrix, Vector

_crba, _nle = pin.crba, pin.nonLinearEffects
_update_frame, _frame_jacobian = pin.updateFramePlacement, pin.getFrameJacobian
_AXES = pin.ReferenceFrame.LOCAL_WORLD_ALIGNED
_ROW_BY_ROW = np.array([9, 10, 11, 0, 3, 6, 1, 4, 7, 2, 5, 8])
"""Indices of position and row-major rotation in the memory of pinocchio's SE3."""
_joint_hessians, _frame_hessian = pin.computeJointKinematicHessians, pin.getFrameKinematicHessian


def build_pinocchio(arm: ArmDescription, *, base_in_world: bool = False) -> Any:
    """Return the pinocchio model of an arm with locked fingers and reflected rotor inertias.

    Args:
        arm: Description of the arm.
        base_in_world: True for the world as the root frame, False for the arm's base.
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
def _hessian_has_wrong_memory_order() -> bool:
    # Release 3.13 of eigenpy labels column-major tensors as row-major. The test uses the angular
    # part of a Hessian, which is zero for j <= k, because a joint does not move earlier axes.
    model = pin.buildSampleModelManipulator()
    data, q = model.createData(), np.linspace(0.3, 0.9, model.nv)
    pin.computeJointJacobians(model, data, q)
    _joint_hessians(model, data)
    hessian = _frame_hessian(model, data, model.nframes - 1, _AXES)
    return bool(np.abs(hessian[3:][:, np.tri(len(q)).T.astype(bool)]).max() > 1e-9)


def _column_jacobian(*arguments: Any) -> Matrix:
    # pinocchio returns a vector for an arm with one joint.
    result: Matrix = _frame_jacobian(*arguments).reshape(6, 1)
    return result


class LoadedFlange:
    """Payload on the flange of a pinocchio model, which can be replaced.

    Args:
        model: Pinocchio model without payload.
        flange_frame: Name of the flange's frame in the model.
    """

    def __init__(self, model: Any, flange_frame: str) -> None:
        self._model = model
        self._placement = model.frames[model.getFrameId(flange_frame)].placement
        self._last = model.njoints - 1
        self._unloaded = model.inertias[self._last].copy()

    def set_load(self, load: Load) -> None:
        """Replace the payload on the flange."""
        link = self._unloaded
        if load.mass > 0.0:
            link = link + self._placement.act(pin.Inertia(load.mass, load.com, load.inertia))
        self._model.inertias[self._last] = link


class ArmModel:
    r"""Model that computes an arm's kinematic and dynamic terms from its state.

    .. math::
        M(q),\quad C(q, \dot q) \dot q,\quad {}^{b}T_{ee}(q),\quad J(q),\quad
        \dot x = J \dot q,\quad F_{ext} = (J J^T + \epsilon I)^{-1} J \tau_{ext}.

    M is the mass matrix, and :math:`C \dot q` are the Coriolis torques. The end effector has the
    pose T in the base, the Jacobian J and the twist :math:`\dot x`. The external wrench
    :math:`F_{ext}` is a least-squares estimate from the external joint torques
    :math:`\tau_{ext}`; :math:`\epsilon` keeps it finite at singularities.

    Attributes:
        arm: Description of the arm.

    Thread: control.
    """

    WRENCH_REGULARISATION = 1e-7
    """Regularisation epsilon of the wrench estimate. The squared singular values of J are 1e-3 or
    more outside of singularities."""

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
        self._mislabelled = _hessian_has_wrong_memory_order()
        self._jacobian: Any = _frame_jacobian if self._model.nv > 1 else _column_jacobian
        self._keep_result_arrays()

    def _keep_result_arrays(self) -> None:
        # The properties of pinocchio are slow, so references to the arrays are kept.
        zero = np.zeros(self._model.nv)
        pin.computeAllTerms(self._model, self._data, zero, zero)
        pin.updateFramePlacements(self._model, self._data)
        self._mass, self._coriolis = self._data.M, self._data.nle
        self._placement = self._data.oMf[self._frame]
        # View of the rotation (column-major) and the translation, which pinocchio stores in one
        # array.
        self._pose = np.lib.stride_tricks.as_strided(self._placement.rotation, (12,), (8,))

    def attach(self, state: ArmState) -> None:
        """Let a state share the result arrays of this model, which :meth:`update` overwrites."""
        state.jacobian_gram = self._gram
        state.attach(self._mass, self._coriolis, self.hessian, TaskInertia(self._model.nv))

    def set_load(self, load: Load) -> None:
        """Replace the payload on the flange."""
        self._flange.set_load(load)
        self.load_mass = load.mass

    def hessian(self) -> Matrix:
        r"""Return the derivative of the Jacobian by the joint positions, (n, n, 6).

        Element [k, j, r] is :math:`\partial J_{rj} / \partial q_k`, at the last state of
        :meth:`update`.
        """
        _joint_hessians(self._model, self._data)
        hessian = _frame_hessian(self._model, self._data, self._frame, _AXES)
        n = self._model.nv
        return hessian.reshape(n, n, 6) if self._mislabelled else self._swap_memory_order(hessian)

    @staticmethod
    def _swap_memory_order(hessian: Matrix) -> Matrix:
        return np.ascontiguousarray(hessian.transpose(2, 1, 0))  # [r, j, k] to [k, j, r].

    def update(self, state: ArmState) -> None:
        """Recompute all model quantities of ``state`` from its ``q``, ``dq`` and ``tau_ext``."""
        model, data, q, dq = self._model, self._data, state.q, state.dq
        if self._convention is not None:
            _crba(model, data, q, self._convention)
            _nle(model, data, q, dq)
        else:
            pin.computeAllTerms(model, data, q, dq)
        _update_frame(model, data, self._frame)
        jacobian = self._jacobian(model, data, self._frame, _AXES)
        state.jacobian = jacobian
        # ``take`` with mode "clip" needs half the time of the default "raise".
        self._pose.take(_ROW_BY_ROW, None, state.pose_ee_in_base, "clip")
        jacobian.dot(dq, state.twist_ee_in_base)
        gram = jacobian.dot(jacobian.T, self._gram)
        self._solver.compute(add(gram, self._regular, self._normal))
        state.wrench_ext_in_base[:] = self._solver.solve(
            jacobian.dot(state.tau_ext, self._projected)
        )
        state.invalidate()


RAMP_TIME = 0.2
"""Time in which the weight of a grasped object fades in [s]. It may still rest on a table."""
_gravity = pin.computeGeneralizedGravity


def model_with_gravity(arm: ArmDescription) -> Any:
    """Return the pinocchio model of an arm, with gravity for the orientation of its base."""
    model = build_pinocchio(arm)
    down_in_base = -arm.rotation_base_in_world[2]
    model.gravity = pin.Motion(STANDARD_GRAVITY * down_in_base, np.zeros(3))
    return model


class ArmGravity:
    r"""Gravity compensation of an arm with its tool, payload and grasped object.

    .. math::
        \tau_g = g(q) + J^T \begin{bmatrix} f \\ (c - x) \times f \end{bmatrix}, \qquad
        f = s \, m \, 9.81 \, u.

    Here g are the torques of arm, tool and payload, and J is the Jacobian. The force f carries the
    grasped object of mass m and centre c. The end effector is at x, and u is the upward unit
    vector, all in the base. The factor s ramps to 1 after a grasp, and is 0 without one.

    Args:
        arm: Description of the arm.
        state: State of the arm, updated in place by the caller.
        period: Cycle time [s].
        out: Array for the torques, (n,); default: ``tau_gravity`` of the state.

    Attributes:
        load_fraction: Factor s.

    Thread: control.
    """

    def __init__(
        self, arm: ArmDescription, state: ArmState, period: float, out: Vector | None = None
    ) -> None:
        self._model = model_with_gravity(arm)
        self._flange = LoadedFlange(self._model, arm.flange_frame)
        self._data = self._model.createData()
        self._state, self._out = state, state.tau_gravity if out is None else out
        self._base: Vector = np.array(arm.position_base_in_world)
        self._rotation: Matrix = np.array(arm.rotation_base_in_world)
        self._up_in_base = self._rotation[2]
        self._step = period / RAMP_TIME
        self._mass = self.load_fraction = 0.0
        self._centre_in_world: Vector = np.zeros(3)

    def set_load(self, load: Load) -> None:
        """Set the payload at the flange; it replaces the previous one."""
        self._flange.set_load(load)

    def set_grasped_object(self, mass: float, centre_in_world: Vector) -> None:
        """Add a grasped object; a mass of zero removes it.

        Args:
            mass: Mass that this arm has to carry [kg].
            centre_in_world: Centre of the object, (3,) [m]. The caller updates the array in place.
        """
        if mass <= 0.0 or self._mass <= 0.0:
            self.load_fraction = 0.0
        self._mass, self._centre_in_world = mass, centre_in_world

    def update(self) -> None:
        """Compute the gravity torques; they stay unchanged if joint positions are not finite."""
        tau = _gravity(self._model, self._data, self._state.q)
        if self._mass > 0.0:
            tau = tau + self._of_attached_object()
        if math.isfinite(tau.dot(tau)):
            self._out[:] = tau

    def _of_attached_object(self) -> Vector:
        self.load_fraction = min(1.0, self.load_fraction + self._step)
        state = self._state
        force = self.load_fraction * self._mass * STANDARD_GRAVITY * self._up_in_base
        centre = np.dot(self._centre_in_world - self._base, self._rotation)
        torque = np.cross(centre - state.position_ee_in_base, force)
        tau: Vector = np.dot(np.concatenate([force, torque]), state.jacobian)
        return tau


class ToolJacobian:
    """Geometric Jacobian of an arm's end effector.

    Thread: any.
    """

    def __init__(self, arm: ArmDescription) -> None:
        self._model = build_pinocchio(arm)
        self._data = self._model.createData()
        self._frame = self._model.getFrameId(arm.ee_frame)

    def compute(self, q: Vector) -> Matrix:
        """Return J at joint positions q [rad], (6, n), along the axes of the base."""
        jacobian: Matrix = pin.computeFrameJacobian(self._model, self._data, q, self._frame, _AXES)
        return jacobian
