# SPDX-License-Identifier: Apache-2.0
"""The physics of one arm on a floor, in a MuJoCo world of its own."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import BackendError
from multipanda_py.extras import extras_named
from multipanda_py.fci_sim.end_effector import hand_load, hand_tcp
from multipanda_py.robots import READY_POSTURE, ArmDescription, Tool
from multipanda_py.robots.fci_limits import LOWER, UPPER
from multipanda_py.robots.franka import ARMATURE, FLANGE_HEIGHT
from multipanda_py.robots.load import Load
from multipanda_py.simulation.mjcf import build_scene
from multipanda_py.simulation.mjcf_elements import put
from multipanda_py.simulation.mujoco_warnings import diverged, listen

with extras_named():
    import mujoco

Vector = NDArray[np.float64]

PERIOD = 1e-3
"""Of the control loop and of the physics [s]."""
STOP_MARGIN = 0.05
"""The mechanical stops lie this far behind the limits that the robot guards [rad]."""
_FIRST_CONTACT = int(mujoco.mjtConstraint.mjCNSTR_CONTACT_FRICTIONLESS)
_REGULARISATION = 1e-7  # far below the squared singular values of J in useful postures


class Physics:
    r"""An FR3 with its hand as a rigid load; gravity is compensated.

    The equation of motion, with rotor inertia B and torques that the environment applies:

    .. math:: (M + B) \ddot q + c(q, \dot q) = \tau + \tau_{env}

    Attributes:
        q: Joint positions, (7,) [rad].
        dq: Joint velocities, (7,) [rad/s].
        ddq: Joint accelerations of the last step, (7,) [rad/s^2].
        tau_environment: What the environment did in the last step, (7,) [Nm].
        tau_J: What link-side torque sensors measure, gravity included, (7,) [Nm].
    """

    def __init__(self) -> None:
        listen()
        hand = hand_load()
        tool = Tool(hand.mass, hand.com, hand.inertia, hand_tcp())
        arm = ArmDescription("robot", "fr3", hand=False, tool=tool)
        spec = build_scene([arm], timestep=PERIOD)
        flange = next(body for body in spec.bodies if body.name == f"{arm.prefix}link8")
        put(flange.add_body(), name="load", gravcomp=1.0, explicitinertial=True)
        model = self._model = spec.compile()
        self._data, self._scratch = mujoco.MjData(model), mujoco.MjData(model)
        model.jnt_range[:] = np.column_stack((LOWER - STOP_MARGIN, UPPER + STOP_MARGIN))
        self._link7 = int(model.body(f"{arm.prefix}link7").id)
        self._load = int(model.body("load").id)
        self.q, self.dq, self.ddq = self._data.qpos, self._data.qvel, self._data.qacc
        self.tau_environment, self.tau_J = np.zeros(7), np.zeros(7)
        self._contact = np.zeros(7)
        self.place(READY_POSTURE)

    def place(self, q: Vector) -> None:
        """Put the arm at rest at joint positions, (7,) [rad]."""
        mujoco.mj_resetData(self._model, self._data)
        self.q[:] = q
        self.refresh()

    def refresh(self) -> None:
        """Recompute what follows from positions, for an arm that rests."""
        self.dq[:] = 0.0
        self.ddq[:] = 0.0
        mujoco.mj_step1(self._model, self._data)
        self.tau_environment[:] = 0.0
        self.tau_J[:] = self._data.qfrc_gravcomp

    def set_load(self, load: Load) -> None:
        """Attach a load to the flange; the one before is taken off."""
        model = self._model
        moments, axes = np.linalg.eigh(load.inertia)
        if np.linalg.det(axes) < 0.0:
            axes[:, 0] *= -1.0
        quat = np.zeros(4)
        mujoco.mju_mat2Quat(quat, np.ascontiguousarray(axes).ravel())
        model.body_mass[self._load] = load.mass
        model.body_ipos[self._load] = load.com
        model.body_inertia[self._load] = np.maximum(moments, 0.0)
        model.body_iquat[self._load] = quat
        mujoco.mj_setConst(model, self._scratch)
        mujoco.mj_step1(model, self._data)

    def step(self, tau: Vector, tau_pushed: Vector, wrench: Vector, point: Vector) -> None:
        """Move on by one period.

        Args:
            tau: Torques of the motors without gravity, (7,) [Nm].
            tau_pushed: Joint torques of somebody who pushes, (7,) [Nm].
            wrench: Force and torque of somebody who pushes, in the base's axes, (6,) [N, Nm].
            point: Where the wrench acts, in the base, (3,) [m].

        Raises:
            BackendError: If the simulation has diverged.
        """
        model, data = self._model, self._data
        environment = self.tau_environment
        environment[:] = tau_pushed
        if wrench.any():
            mujoco.mj_applyFT(model, data, wrench[:3], wrench[3:], point, self._link7, environment)
        np.add(tau, environment, data.qfrc_applied)
        before = data.time
        mujoco.mj_step2(model, data)
        if data.time <= before:
            raise BackendError(diverged("the simulated arm diverged"))
        if data.ncon and data.nefc:
            force = np.where(data.efc_type >= _FIRST_CONTACT, data.efc_force, 0.0)
            mujoco.mj_mulJacTVec(model, data, self._contact, force)
            environment += self._contact
        self.tau_J[:] = tau
        self.tau_J += data.qfrc_gravcomp
        self.tau_J -= ARMATURE * self.ddq
        mujoco.mj_step1(model, data)

    def flange(self) -> Vector:
        """Return the pose of the flange in the base, (4, 4)."""
        return self._flange(self._data)

    def jacobian(self, point: Vector) -> Vector:
        """Return the Jacobian of a point of the flange in the base's axes, (6, 7)."""
        return self._jacobian(self._data, point)

    def wrench_at(self, point: Vector, tau: Vector) -> Vector:
        """Return the wrench at a point that causes joint torques, least squares, (6,)."""
        J = self.jacobian(point)
        normal = J @ J.T + _REGULARISATION * np.eye(6)
        return np.asarray(np.linalg.solve(normal, J @ tau))

    def kinematics_at(self, q: Vector, F_T_EE: Vector) -> tuple[Vector, Vector]:
        """Return pose (4, 4) and Jacobian (6, 7) of the end effector at other positions."""
        data = self._scratch
        data.qpos[:] = q
        mujoco.mj_kinematics(self._model, data)
        mujoco.mj_comPos(self._model, data)
        pose = self._flange(data) @ F_T_EE
        return pose, self._jacobian(data, pose[:3, 3])

    def inertias(self) -> Vector:
        """Return the diagonal of the mass matrix with rotors, (7,) [kg m^2]."""
        diagonal, column = np.zeros(7), np.zeros(7)
        for i, unit in enumerate(np.eye(7)):
            mujoco.mj_mulM(self._model, self._data, column, unit)
            diagonal[i] = column[i]
        return diagonal

    def _flange(self, data: mujoco.MjData) -> Vector:
        pose = np.eye(4)
        pose[:3, :3] = data.xmat[self._link7].reshape(3, 3)
        pose[:3, 3] = data.xpos[self._link7] + FLANGE_HEIGHT * pose[:3, 2]
        return pose

    def _jacobian(self, data: mujoco.MjData, point: Vector) -> Vector:
        J = np.empty((6, 7))
        mujoco.mj_jac(self._model, data, J[:3], J[3:], point, self._link7)
        return J
