# SPDX-License-Identifier: Apache-2.0
"""A simulated arm that differs from what its laws believe."""

from __future__ import annotations

import numpy as np

from multipanda_py.config.perturbation_section import PerturbationConfig
from multipanda_py.extras import extras_named
from multipanda_py.robots import ArmDescription
from multipanda_py.simulation.drive import Measured, Stage
from multipanda_py.simulation.mjcf_elements import put
from multipanda_py.state import Vector

with extras_named():
    import mujoco

_add, _subtract, _multiply = np.add, np.subtract, np.multiply
PAYLOAD_RADIUS = 0.03
"""Of the sphere whose rotational inertia an unknown payload has [m]."""


def add_payload(
    spec: mujoco.MjSpec, arm: ArmDescription, settings: PerturbationConfig, weighs: bool = False
) -> None:
    """Hang the unknown payload on the flange of an arm.

    Its weight is compensated like the arm's own here; :class:`Perturbation` takes that
    compensation away again, so that the weight is felt as an external torque. One that ``weighs``
    does so in MuJoCo, for springs to feel.
    """
    if settings.payload <= 0.0:
        return
    flange = next(body for body in spec.bodies if body.name == arm.flange_frame)
    load = put(flange.add_body(), name=f"{arm.prefix}payload", gravcomp=float(not weighs))
    put(load, pos=np.array(settings.payload_com), mass=settings.payload)
    inertia = 0.4 * settings.payload * PAYLOAD_RADIUS**2
    # MuJoCo takes the body's own place for a centre of mass that it is not given.
    put(load, ipos=np.zeros(3), inertia=np.full(3, inertia), explicitinertial=True)


def scale_inertia(model: mujoco.MjModel, arm: ArmDescription, factor: float) -> None:
    """Scale all inertia of an arm that moves, hand, tool and rotors included."""
    for body in range(model.nbody):
        name = model.body(body).name
        if name in arm.link_names and model.body_weldid[body]:
            model.body_mass[body] *= factor
            model.body_inertia[body] *= factor
    first = int(model.joint(arm.joint_names[0]).dofadr[0])
    model.dof_armature[first : first + arm.n_joints] *= factor
    mujoco.mj_setConst(model, mujoco.MjData(model))


class Perturbation(Stage):
    r"""Spoil the torque that an arm executes.

    .. math::
        T \dot\tau_m = \tau - \tau_m, \qquad
        \tau_{joint} = \tau_m + \tau_{bias} + J_c^T m g

    The bias is of motors that do more than they were told. It is shown, and felt too: right for a
    robot that estimates by what it commanded, and not for one that does so by torque sensors.
    Their error is :class:`.SensorNoise`.

    Args:
        settings: What is wrong with the arm.
        model: MuJoCo's model.
        data: MuJoCo's data.
        arm: The arm.
        dof: The first of its velocities.
        period: Cycle time [s].

    Attributes:
        motor: Lagged torque of the motors, (n,) [Nm]; None before the first command.

    Thread: control.
    """

    CHANGING = ("motor",)

    def __init__(
        self,
        settings: PerturbationConfig,
        model: mujoco.MjModel,
        data: mujoco.MjData,
        arm: ArmDescription,
        dof: int,
        period: float,
    ) -> None:
        self._model, self._data = model, data
        self._dofs = slice(dof, dof + arm.n_joints)
        lag = settings.torque_lag
        self._follow = 1.0 - float(np.exp(-period / lag)) if lag > 0.0 else 1.0
        self.motor: Vector | None = None
        self._bias = np.array(settings.torque_bias)
        self._change = np.zeros(arm.n_joints)
        self._payload = settings.payload
        self._body = int(model.body(f"{arm.prefix}payload").id) if self._payload else -1
        self._weighs = bool(self._payload) and model.body_gravcomp[self._body] == 0.0
        self._jacobian, self._weight = np.zeros((3, model.nv)), np.zeros(arm.n_joints)

    def measure(self, state: Measured) -> None:
        """Add what the estimate of external torques feels of it."""
        if self._payload:
            state.tau_ext += self._weigh()
        state.tau_ext += self._bias

    def execute(self, tau: Vector) -> None:
        """Turn commanded torques (n,) [Nm] into executed ones, in place."""
        if self.motor is None:
            self.motor = tau.copy()
        change = _subtract(tau, self.motor, self._change)
        _add(self.motor, _multiply(self._follow, change, change), self.motor)
        _add(self.motor, self._bias, tau)
        if self._payload and not self._weighs:
            tau += self._weigh()

    def _weigh(self) -> Vector:
        """Return what the payload's weight does to the joints, (n,) [Nm]."""
        centre = self._data.xipos[self._body]
        mujoco.mj_jac(self._model, self._data, self._jacobian, None, centre, self._body)
        force = self._payload * self._model.opt.gravity
        return np.dot(force, self._jacobian[:, self._dofs], out=self._weight)
