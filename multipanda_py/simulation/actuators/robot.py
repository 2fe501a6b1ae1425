# SPDX-License-Identifier: Apache-2.0
"""Stand-alone simulation of a MuJoCo model with compliant actuators, without a cell."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from multipanda_py.actuator import positive_number
from multipanda_py.exceptions import ActuatorRejected, BackendError
from multipanda_py.registry import extras_named
from multipanda_py.simulation.actuators.joints import CompliantJoints
from multipanda_py.simulation.mujoco_friction import let_friction_stick
from multipanda_py.simulation.world import was_reset
from multipanda_py.state import Matrix, Vector

with extras_named():
    import mujoco

LONGEST_STEP = 4e-3
"""Default maximum of :func:`suggested_step` [s]. A robot moves little in this time."""
_STEP_FRACTION = 0.5
"""Maximum step relative to the inverse of the angular frequency of the fastest spring."""
MAX_STEP_MOTION = np.pi
"""Maximum motion of a joint in a step [rad or m]. Beyond it, MuJoCo's explicit centrifugal forces
and joint limits add energy."""


_Indices: TypeAlias = "slice | NDArray[np.intp]"


class CompliantRobot:
    """Simulation of a MuJoCo model with springs and motors at some of its joints.

    It is meant for studies in a notebook, faster than real time. Contacts, damping and the
    actuators of the model work as in MuJoCo. A joint moves by at most :data:`MAX_STEP_MOTION` per
    step; a larger motion is limited, with a warning.

    Args:
        model: MuJoCo model, with an Euler or implicit integrator.
        names: Names of the compliant joints, hinges or slides, in the order of ``joints``.
        joints: Springs and motors of the compliant joints.
        step: Length of a step [s]; None: that of the model. Motors and springs take substeps.

    Attributes:
        model: Given model, with step length and friction parameters (:func:`.let_friction_stick`)
            changed.
        external_torque: External torques on the compliant joints, (n,) [Nm]; writable.

    Raises:
        ActuatorRejected: If a joint does not exist or is neither a hinge nor a slide, if the
            number of names is wrong, or if the integrator is Runge-Kutta.

    Thread: the caller's.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        names: Sequence[str],
        joints: CompliantJoints,
        step: float | None = None,
    ) -> None:
        self._positions, self._dofs = _joint_addresses(model, names)
        if len(names) != joints.n_joints:
            raise ActuatorRejected(f"joints: got {len(names)} names, allowed {joints.n_joints}")
        allowed = (
            mujoco.mjtIntegrator.mjINT_EULER,
            mujoco.mjtIntegrator.mjINT_IMPLICIT,
            mujoco.mjtIntegrator.mjINT_IMPLICITFAST,
        )
        if model.opt.integrator not in [int(one) for one in allowed]:
            raise ActuatorRejected(
                f"integrator: got {mujoco.mjtIntegrator(model.opt.integrator).name}, allowed "
                f"{', '.join(one.name for one in allowed)}"
            )
        if step is not None:
            model.opt.timestep = positive_number("step", step, "s")
        let_friction_stick(model)
        self.model, self.data, self.joints = model, mujoco.MjData(model), joints
        self.external_torque = np.zeros(joints.n_joints)
        n, data = joints.n_joints, self.data
        self._qpos, self._qvel = data.qpos, data.qvel
        self._applied, self._smooth = data.qfrc_applied, data.qacc_smooth
        self._units, self._columns = np.zeros((n, model.nv)), np.zeros((n, model.nv))
        self._units[:, self._dofs] = np.eye(n)
        implicit = not model.opt.disableflags & int(mujoco.mjtDisableBit.mjDSBL_EULERDAMP)
        damped = implicit or model.opt.integrator != int(mujoco.mjtIntegrator.mjINT_EULER)
        self._damping: Vector = model.dof_damping[self._dofs] * damped
        self._has_warned = False
        self.reset()

    def reset(self, q: Vector | None = None, torque: Vector | None = None) -> None:
        """Set all joints and motors to rest.

        Args:
            q: Joint angles, (n,) [rad]; those of the model by default.
            torque: Spring torques at these angles, (n,) [Nm]; zero by default.

        Raises:
            ActuatorRejected: If springs cannot exert these torques.
        """
        result = self.model.qpos0[self._positions] if q is None else q
        self.joints.reset(result, 0.0 if torque is None else torque)
        mujoco.mj_resetData(self.model, self.data)
        self._qpos[self._positions] = result
        self.external_torque[:] = 0.0
        self._kicks: Vector | None = None
        mujoco.mj_forward(self.model, self.data)

    @property
    def q(self) -> Vector:
        """Angles of the compliant joints, (n,) [rad]."""
        result: Vector = self._qpos[self._positions].copy()
        return result

    @property
    def dq(self) -> Vector:
        """Velocities of the compliant joints, (n,) [rad/s]."""
        result: Vector = self._qvel[self._dofs].copy()
        return result

    @property
    def compliance(self) -> Matrix:
        """Current inverse mass matrix of the compliant joints, (n, n) [1/(kg m^2)]."""
        mujoco.mj_forward(self.model, self.data)
        mujoco.mj_solveM(self.model, self.data, self._columns, self._units)
        compliance: Matrix = self._columns[:, self._dofs]
        return compliance

    @property
    def link_torque(self) -> Vector:
        """Spring torques on links, (n,) [Nm]."""
        self.joints.set_link_state(self.q, self.dq)
        return self.joints.link_torque

    @property
    def weight(self) -> Vector:
        """Current gravity torques of the compliant joints, (n,) [Nm]."""
        scratch = mujoco.MjData(self.model)
        scratch.qpos[:] = self._qpos
        mujoco.mj_forward(self.model, scratch)
        weight: Vector = (scratch.qfrc_bias - scratch.qfrc_passive)[self._dofs]
        return weight

    def step(self) -> None:
        """Advance the simulation by one step of MuJoCo.

        Raises:
            BackendError: If spring torques are not finite, or MuJoCo diverged and reset its state.
        """
        model, data, dofs = self.model, self.data, self._dofs
        began, start = data.time, self._qpos[self._positions].copy()
        mujoco.mj_step1(model, data)
        others = self._applied[dofs] + self.external_torque
        own, self._applied[dofs] = self._applied[dofs].copy(), others
        mujoco.mj_fwdActuation(model, data)
        mujoco.mj_fwdAcceleration(model, data)
        mujoco.mj_solveM(model, data, self._columns, self._units)
        h, compliance, rest = model.opt.timestep, self._columns[:, dofs], self._smooth[dofs]
        # ``kicks`` are the accelerations by everything but springs and joint damping. The last
        # step should have used their mean at its start and end, but those at the end are known
        # only now. This corrects the velocity. See ``CompliantJoints``.
        dq = self._qvel[dofs]
        kicks = rest + compliance.dot(self._damping * dq)
        if self._kicks is not None:
            dq = dq + 0.5 * h * self.joints.is_substepped * (kicks - self._kicks)
            self._qvel[dofs] = dq
        self._kicks = kicks
        push = self.joints.advance(
            self._qpos[self._positions], dq, rest, compliance, h, self._damping
        )
        self._applied[dofs] = others + push.torque
        mujoco.mj_step2(model, data)
        self._applied[dofs] = own
        if was_reset(data, began):
            raise BackendError(
                f"torques: got {push.torque.tolist()!r:.200} Nm at {dq.tolist()!r:.200} rad/s; "
                f"accelerations above 1e10 rad/s^2 in a step of {1e3 * h:.3g} ms "
                "are not allowed. MuJoCo has reset its state; call reset()"
            )
        self._qpos[self._positions] += push.position_correction(self._qvel[dofs])
        self._limit_motion(start)
        if self.joints.accuracy_warning and not self._has_warned:
            self._has_warned = True
            warnings.warn(self.joints.accuracy_warning, RuntimeWarning, stacklevel=2)

    def _limit_motion(self, q_before_step: Vector) -> None:
        h = self.model.opt.timestep
        displacement, speed = self._qpos[self._positions] - q_before_step, self._qvel[self._dofs]
        moved = max(map(abs, [*displacement.tolist(), *(h * speed).tolist()]))
        if moved <= MAX_STEP_MOTION:
            return
        self._qpos[self._positions] = q_before_step + np.clip(
            displacement, -MAX_STEP_MOTION, MAX_STEP_MOTION
        )
        self._qvel[self._dofs] = np.clip(speed, -MAX_STEP_MOTION / h, MAX_STEP_MOTION / h)
        self.joints.set_warning(
            f"joints move by {moved:.3g} rad or m in a step of {1e3 * h:.3g} ms: limited to "
            f"{MAX_STEP_MOTION:.3g}, beyond which the simulation is unstable"
        )


def suggested_step(robot: CompliantRobot, longest: float = LONGEST_STEP) -> float:
    r"""Return a suitable step length for the springs of a robot at its current state [s].

    It is :math:`1/(2 \omega)` with the angular frequency :math:`\omega` of the fastest spring.

    Args:
        robot: Robot at the state of interest.
        longest: Maximum of the result [s].
    """
    omega = np.sqrt(np.dot(np.abs(robot.compliance), robot.joints.link_stiffness).max())
    return float(min(longest, _STEP_FRACTION / omega)) if omega else longest


def _joint_addresses(model: mujoco.MjModel, names: Sequence[str]) -> tuple[_Indices, _Indices]:
    """Return the indices of joints in ``qpos`` and in ``qvel``."""
    known = [model.joint(at).name for at in range(model.njnt)]
    for name in names:
        if name not in known:
            raise ActuatorRejected(f"joint {name!r} does not exist; known: {', '.join(known)}")
        kind = mujoco.mjtJoint(int(model.joint(name).type[0]))
        if kind not in (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE):
            raise ActuatorRejected(f"joint {name!r}: got {kind.name}, allowed a hinge or a slide")
    at = [model.joint(name) for name in names]
    return (
        _slice_if_consecutive([int(joint.qposadr[0]) for joint in at]),
        _slice_if_consecutive([int(joint.dofadr[0]) for joint in at]),
    )


def _slice_if_consecutive(indices: list[int]) -> slice | NDArray[np.intp]:
    if indices == list(range(indices[0], indices[0] + len(indices))):
        return slice(indices[0], indices[0] + len(indices))
    return np.array(indices)
