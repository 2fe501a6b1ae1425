# SPDX-License-Identifier: Apache-2.0
"""What a robot gets wrong that goes by a model which is not that of the arm."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

from multipanda_py.config.perturbation_section import PerturbationConfig
from multipanda_py.config.sections import JointsConfig
from multipanda_py.registry import extras_named
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.dynamics.arm_model import heavy_model
from multipanda_py.simulation.drivetrain.drive import Measured, Stage
from multipanda_py.state import Matrix, Vector

with extras_named():
    import mujoco


SLIPPING = (0.125, 0.25, 0.5, 1.0)
"""When each element slips the other way after a reversal, as a share of the distance after which
all do: strain wave gears are stiff first and give way gradually."""


class Hysteresis(Stage):
    r"""Rub as springs that slip one after another: rate-independent, with memory.

    .. math::
        \tau_h = \sum_i z_i, \qquad
        z_i \leftarrow \mathrm{clip}\left(z_i + \frac{2 w}{s_i d} \Delta q,\, -w,\, w\right),
        \qquad w = \frac{h}{m}

    This is the Maxwell-slip model, with m elements of the same strength. From rest torque grows
    with the angle up to :math:`h` (``hysteresis``), half of a reversal's distance away; after
    a reversal it takes the distance :math:`d` (``hysteresis_distance``) to be :math:`-h`. It
    follows Masing's rules: a loop within a loop closes, and leaves no trace once it has closed.
    Only angles count, not speed and not time, so a joint at rest keeps its torque. Of presliding
    friction: Al-Bender, Lampaert and Swevers, The generalized Maxwell-slip model, 2005; of strain
    wave gears: Tjahjowidodo, Al-Bender and Van Brussel, Theoretical modelling and experimental
    identification of nonlinear torsional behaviour in harmonic drives, 2013.

    As other friction that the robot does not know it is beyond what ``tau_J`` shows, and felt
    as a push from outside.

    Args:
        settings: What is wrong with the arm.
        q: Positions of its joints in the world, live, (n,) [rad].

    Thread: control.
    """

    CHANGING = ("_last", "_springs", "_torque")

    def __init__(self, settings: PerturbationConfig, q: Vector) -> None:
        self._q, n = q, len(q)
        strength: Vector = np.array(settings.hysteresis) / len(SLIPPING)
        distances = np.outer(SLIPPING, settings.hysteresis_distance)
        self._stiffness: Matrix = 2.0 * strength / distances
        self._most: Matrix = np.tile(strength, (len(SLIPPING), 1))
        self._least: Matrix = -self._most
        self._last: Vector | None = None  # where the joints were; None before the first cycle
        self._springs, self._torque = np.zeros((len(SLIPPING), n)), np.zeros(n)
        self._way, self._change = np.zeros(n), np.zeros((len(SLIPPING), n))

    def execute(self, tau: Vector) -> None:
        """Move the springs on to where the joints are, and take their torque away."""
        if self._last is None:
            self._last = self._q.copy()
        springs, change = self._springs, self._change
        way = np.subtract(self._q, self._last, self._way)
        self._last[:] = self._q
        np.add(springs, np.multiply(self._stiffness, way, change), springs)
        np.maximum(springs, self._least, out=springs)
        np.minimum(springs, self._most, out=springs)
        tau -= springs.sum(axis=0, out=self._torque)

    def measure(self, state: Measured) -> None:
        """Show the motor's torque, and feel the rest as a push."""
        state.tau_ext -= self._torque
        state.tau_J += self._torque


_add, _subtract, _multiply = np.add, np.subtract, np.multiply
_divide, _negative, _exp = np.divide, np.negative, np.exp


class JointFriction(Stage):
    r"""Rub as Coulomb, Stribeck, viscosity and an offset say, and be felt.

    .. math::
        \tau_f = \left(f_c + f_s e^{-(\dot q / v_s)^2}\right) \mathrm{sgn}(\dot q)
        + f_v \dot q + f_o

    Coulomb's and Stribeck's parts are MuJoCo's dry friction, whose bound follows the velocity:
    at rest it holds against any torque up to :math:`f_c + f_s`. An estimate of external torques
    that goes by a model without friction takes it for something from outside, so it is added
    there; ``joint_friction`` and ``joint_damping`` of the arm are known and are not.

    Args:
        settings: What is wrong with the arm.
        model: MuJoCo's model, whose bounds of friction this changes.
        data: MuJoCo's data.
        dof: The first of the arm's velocities.

    Attributes:
        known: Dry friction that the robot knows, (n,) [Nm].

    Thread: control.
    """

    CHANGING = ("_own",)

    def __init__(
        self,
        settings: PerturbationConfig,
        model: mujoco.MjModel,
        data: mujoco.MjData,
        dof: int,
    ) -> None:
        n = len(settings.coulomb)
        self._data, self._model = data, model
        self._speeds = data.qvel[dof : dof + n]
        self._bounds = model.dof_frictionloss[dof : dof + n]
        self._dofs = slice(dof, dof + n)
        self._stribeck, self._speed = (
            np.array(settings.stribeck),
            np.array(settings.stribeck_speed),
        )
        self._slowing = -np.array(settings.viscous)
        self._offset = np.array(settings.friction_offset)
        self._coulomb = np.array(settings.coulomb)
        self._own: Vector = self._coulomb + self._stribeck  # of what is in the bounds
        self.known = self._bounds - self._own
        self._varies = bool(self._stribeck.any())
        self._rubs = bool(self._own.any())
        self._shares_bounds = bool(self.known.any())
        self._dry, self._felt = np.zeros(model.nv), np.zeros(n)
        self._falling, self._bound = np.zeros((2, n))

    def execute(self, tau: Vector) -> None:
        """Set the bounds of dry friction for this cycle, and take the offset away."""
        if self._varies:
            falling = _divide(self._speeds, self._speed, self._falling)
            _exp(_negative(_multiply(falling, falling, falling), falling), falling)
            _add(self._coulomb, _multiply(self._stribeck, falling, falling), self._own)
            _add(self.known, self._own, self._bounds)
        tau -= self._offset

    def measure(self, state: Measured) -> None:
        """Add what the estimate of external torques takes for a push."""
        felt, data = self._felt, self._data
        _subtract(_multiply(self._slowing, self._speeds, felt), self._offset, felt)
        if self._rubs and data.nf:
            _add(felt, self._dry_friction(), felt)
        state.tau_ext += felt
        state.tau_J += self._offset  # of a motor, which friction is beyond

    def _dry_friction(self) -> Vector:
        """Return what of MuJoCo's dry friction is this arm's own, (n,) [Nm]."""
        data, dry = self._data, self._dry
        rows = slice(data.ne, data.ne + data.nf)  # a row per joint that rubs, with 1 at its place
        dry[:] = 0.0
        dry[data.efc_id[rows]] = data.efc_force[rows]
        own: Vector = dry[self._dofs]
        if not self._shares_bounds:
            return own
        bounds = _add(self.known, self._own, self._bound)
        share = np.divide(self._own, bounds, out=np.zeros_like(bounds), where=bounds > 0.0)
        found: Vector = share * own
        return found


class Ripple(Stage):
    r"""Add a torque that is periodic in the motor's angle.

    .. math:: \tau_i \leftarrow \tau_i + a_i \sin(n_i \theta_i)

    A strain wave gear errs twice per turn of its wave generator (Tuttle and Seering, A
    nonlinear model of a harmonic drive gear transmission, 1996), so a ratio of 100 gives 200
    waves per turn of the joint. The angle is that of the motor in turns of the joint, without
    the part of it by which gravity twists the gear. It is looked at once per cycle: at 2 rad/s
    and 200 waves there are sixteen samples to a wave.

    Args:
        settings: Amplitudes and numbers of waves.
        qpos: Joint positions of the world, live.
        places: Where the motors' angles are in it.

    Thread: control.
    """

    def __init__(self, settings: JointsConfig, qpos: Vector, places: NDArray[np.int64]) -> None:
        self._amplitude, self._waves = np.array(settings.ripple), np.array(settings.ripple_waves)
        self._qpos, self._places = qpos, places
        self._angle = np.zeros(len(places))

    def execute(self, tau: Vector) -> None:
        """Add the ripple of the motors' present angles."""
        angle = self._qpos.take(self._places, None, self._angle, "clip")
        np.sin(np.remainder(np.multiply(self._waves, angle, angle), math.tau, angle), angle)
        tau += np.multiply(self._amplitude, angle, angle)


FILTER_TIME = 0.005
"""Of the estimate of external torques, which sees accelerations as its observer does [s]."""
_gravity, _inverse_dynamics = pin.computeGeneralizedGravity, pin.rnea
_subtract, _multiply = np.subtract, np.multiply


class ModelError(Stage):
    r"""Let an arm be carried by the torque of the described arm, and misjudge what it feels.

    .. math::
        \tau_{joint} = \tau + \hat g(q) - g(q), \qquad
        T \dot e + e = \hat h(q, \dot q, \ddot q) - h(q, \dot q, \ddot q), \qquad
        \hat\tau_{ext} = \tau_{ext} + e

    with the inverse dynamics h and the gravity g of the real arm, and those of the described one
    with a hat. An arm that does not compensate gravity gets the torque of the described one from
    the loop already, and one on springs from these.

    Args:
        model: MuJoCo's model.
        data: MuJoCo's data.
        described: The arm as laws and robot believe it to be.
        real: The arm as it is simulated.
        dof: The first of its velocities.
        period: Cycle time [s].

    Attributes:
        error: Filtered error of the estimated external torque, (n,) [Nm].

    Thread: control.
    """

    CHANGING = ("error",)

    def __init__(
        self,
        model: mujoco.MjModel,
        data: mujoco.MjData,
        described: ArmDescription,
        real: ArmDescription,
        dof: int,
        period: float,
    ) -> None:
        first = int(model.joint(described.joint_names[0]).qposadr[0])
        self._positions = data.qpos[first : first + described.n_joints]
        self._accelerations = data.qacc[dof : dof + described.n_joints]
        self._believed: Any = heavy_model(described)
        self._true: Any = heavy_model(real)
        self._believed_data, self._true_data = (
            self._believed.createData(),
            self._true.createData(),
        )
        self._carried = bool(real.compensates_gravity)
        self._follow = -math.expm1(-period / FILTER_TIME)
        self.error: Vector = np.zeros(described.n_joints)
        self._change: Vector = np.zeros(described.n_joints)

    def execute(self, tau: Vector) -> None:
        """Carry the described arm instead of the real one, in place."""
        if not self._carried:
            return
        q = self._positions
        tau += _gravity(self._believed, self._believed_data, q)
        tau -= _gravity(self._true, self._true_data, q)

    def measure(self, state: Measured) -> None:
        """Add what the estimate of external torques gets wrong."""
        q, dq, ddq = state.q, state.dq, self._accelerations
        change, error = self._change, self.error
        believed = _inverse_dynamics(self._believed, self._believed_data, q, dq, ddq)
        true = _inverse_dynamics(self._true, self._true_data, q, dq, ddq)
        _subtract(_subtract(believed, true, change), error, change)
        error += _multiply(self._follow, change, change)
        state.tau_ext += error
