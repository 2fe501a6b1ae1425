# SPDX-License-Identifier: Apache-2.0
"""A MuJoCo model some of whose joints have compliant actuators, without a cell around it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from multipanda_py.actuator import positive_number
from multipanda_py.exceptions import ActuatorRefused, BackendError
from multipanda_py.registry import extras_named
from multipanda_py.simulation.actuators.dry_friction import let_friction_stick
from multipanda_py.simulation.actuators.joints import CompliantJoints
from multipanda_py.simulation.world import was_reset
from multipanda_py.state import Matrix, Vector

with extras_named():
    import mujoco

LONGEST_STEP = 4e-3
"""That :func:`suggested_step` returns [s]: a robot turns by little in it."""
_STEP_SHARE = 0.5
"""Of the inverse of the fastest spring's frequency."""
MOST_TURN = np.pi
"""That a joint moves by in a step [rad, or m]: in more, MuJoCo's explicit centrifugal forces and
limits of joints gain energy."""


_Places: TypeAlias = "slice | NDArray[np.intp]"


class CompliantRobot:
    """Step a MuJoCo model with springs and motors at some of its joints.

    For studies in a notebook, faster than real time. Contacts, friction and damping of joints and
    everything else are the model's; its actuators go on as they are. Dry friction with MuJoCo's
    default parameters is made to stick: see :mod:`.dry_friction`. Joints that springs throw
    about by more than half a turn in a step are held at that, and it is said.

    Args:
        model: The model, with an integrator that takes one step at a time.
        names: Of the joints with actuators, hinges or slides, in the order of ``joints``.
        joints: Their springs and motors.
        step: Length of a step [s]; the model's by default. Motors and springs go through it in
            as many small ones as they need.

    Attributes:
        model: Model as given, with the step and with friction that sticks.
        data: MuJoCo's state.
        joints: As given.
        external_torque: Torques on these joints from outside, (n,) [Nm]; write to it.

    Raises:
        ActuatorRefused: If a joint does not exist, or is of another type; for another number of
            them; for the Runge-Kutta integrator.

    Thread: the caller's.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        names: Sequence[str],
        joints: CompliantJoints,
        step: float | None = None,
    ) -> None:
        self._positions, self._dofs = _places(model, names)
        if len(names) != joints.n_joints:
            raise ActuatorRefused(f"joints: got {len(names)} names, allowed {joints.n_joints}")
        allowed = (
            mujoco.mjtIntegrator.mjINT_EULER,
            mujoco.mjtIntegrator.mjINT_IMPLICIT,
            mujoco.mjtIntegrator.mjINT_IMPLICITFAST,
        )
        if model.opt.integrator not in [int(one) for one in allowed]:
            raise ActuatorRefused(
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
        self._complained = False
        self.reset()

    def reset(self, q: Vector | None = None, torque: Vector | None = None) -> None:
        """Put everything at rest.

        Args:
            q: Angles of the joints, (n,) [rad]; those of the model by default.
            torque: That springs exert there, (n,) [Nm]; none by default.

        Raises:
            ActuatorRefused: If springs cannot exert that.
        """
        found = self.model.qpos0[self._positions] if q is None else q
        self.joints.reset(found, 0.0 if torque is None else torque)
        mujoco.mj_resetData(self.model, self.data)
        self._qpos[self._positions] = found
        self.external_torque[:] = 0.0
        self._kicks: Vector | None = None
        mujoco.mj_forward(self.model, self.data)

    @property
    def q(self) -> Vector:
        """Angles of the joints, (n,) [rad]."""
        found: Vector = self._qpos[self._positions].copy()
        return found

    @property
    def dq(self) -> Vector:
        """Their velocities, (n,) [rad/s]."""
        found: Vector = self._qvel[self._dofs].copy()
        return found

    @property
    def compliance(self) -> Matrix:
        """Rows and columns of the inverse mass matrix where the robot is, (n, n) [1/(kg m^2)]."""
        mujoco.mj_forward(self.model, self.data)
        mujoco.mj_solveM(self.model, self.data, self._columns, self._units)
        found: Matrix = self._columns[:, self._dofs]
        return found

    @property
    def link_torque(self) -> Vector:
        """Torques of springs on links, (n,) [Nm]."""
        self.joints.sense(self.q, self.dq)
        return self.joints.link_torque

    @property
    def weight(self) -> Vector:
        """Torques that carry the robot where it is, at rest, (n,) [Nm]."""
        scratch = mujoco.MjData(self.model)
        scratch.qpos[:] = self._qpos
        mujoco.mj_forward(self.model, scratch)
        found: Vector = (scratch.qfrc_bias - scratch.qfrc_passive)[self._dofs]
        return found

    def step(self) -> None:
        """Go on by one step.

        Raises:
            BackendError: If springs push with what is not finite, or MuJoCo has given up and put
                everything to its start.
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
        # The other half of the last step's kick, which the joints' own damping has no part in.
        dq = self._qvel[dofs]
        kicks = rest + compliance.dot(self._damping * dq)
        if self._kicks is not None:
            dq = dq + 0.5 * h * self.joints.inner * (kicks - self._kicks)
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
                f"torques: got {push.torque.tolist()!r:.200} Nm at {dq.tolist()!r:.200} rad/s, "
                f"allowed what accelerates by up to 1e10 rad/s^2 in a step of {1e3 * h:.3g} ms; "
                "MuJoCo has put everything to its start: reset()"
            )
        self._qpos[self._positions] += push.shift_for(self._qvel[dofs])
        self._hold_back(start)
        if self.joints.complaint and not self._complained:
            self._complained = True
            warnings.warn(self.joints.complaint, RuntimeWarning, stacklevel=2)

    def _hold_back(self, start: Vector) -> None:
        """Let no joint have moved by more than :data:`MOST_TURN` since it was at its start."""
        h = self.model.opt.timestep
        way, speed = self._qpos[self._positions] - start, self._qvel[self._dofs]
        moved = max(map(abs, [*way.tolist(), *(h * speed).tolist()]))
        if moved <= MOST_TURN:
            return
        self._qpos[self._positions] = start + np.clip(way, -MOST_TURN, MOST_TURN)
        self._qvel[self._dofs] = np.clip(speed, -MOST_TURN / h, MOST_TURN / h)
        self.joints.complain(
            f"joints move by {moved:.3g} rad or m in a step of {1e3 * h:.3g} ms: held at "
            f"{MOST_TURN:.3g}, as the world holds no more"
        )


def suggested_step(robot: CompliantRobot, longest: float = LONGEST_STEP) -> float:
    r"""Return how long a step may be for the springs of a robot as it stands [s].

    That is half of :math:`1/\omega` of the fastest spring on its link, and at most ``longest``:
    between its steps the impulses of springs must not fall in with what else moves the links.

    Args:
        robot: The robot.
        longest: The longest step that is suggested [s].
    """
    omega = np.sqrt(np.dot(np.abs(robot.compliance), robot.joints.link_stiffness).max())
    return float(min(longest, _STEP_SHARE / omega)) if omega else longest


def _places(model: mujoco.MjModel, names: Sequence[str]) -> tuple[_Places, _Places]:
    """Return where positions and velocities of joints are.

    Raises:
        ActuatorRefused: If one does not exist, or has more than one degree of freedom.
    """
    known = [model.joint(at).name for at in range(model.njnt)]
    for name in names:
        if name not in known:
            raise ActuatorRefused(f"joint {name!r} does not exist; known: {', '.join(known)}")
        kind = mujoco.mjtJoint(int(model.joint(name).type[0]))
        if kind not in (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE):
            raise ActuatorRefused(f"joint {name!r}: got {kind.name}, allowed a hinge or a slide")
    at = [model.joint(name) for name in names]
    return (
        _row([int(joint.qposadr[0]) for joint in at]),
        _row([int(joint.dofadr[0]) for joint in at]),
    )


def _row(places: list[int]) -> slice | NDArray[np.intp]:
    """Return a slice where places follow one another, which is cheaper to look at."""
    if places == list(range(places[0], places[0] + len(places))):
        return slice(places[0], places[0] + len(places))
    return np.array(places)
