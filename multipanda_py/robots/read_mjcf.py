# SPDX-License-Identifier: Apache-2.0
"""Read bodies and joints of an MJCF file with MuJoCo's compiler."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.files import MAX_DESCRIPTION_SIZE, check_regular
from multipanda_py.registry import extras_named
from multipanda_py.robots.inertial import NO_LOAD, STANDARD_GRAVITY, Load
from multipanda_py.robots.tree import PRISMATIC_TYPE, Tree, TreeJoint, moved, pose_from

with extras_named():
    import mujoco

Matrix = NDArray[np.float64]

GRAVITY = (0.0, 0.0, -STANDARD_GRAVITY)
"""Required gravity vector [m/s^2]."""
_KINDS = {mujoco.mjtJoint.mjJNT_BALL: "ball", mujoco.mjtJoint.mjJNT_FREE: "floating"}


def read_mjcf(path: Path) -> Tree:
    """Return the bodies, sites and joints of an MJCF file.

    The frame of a body is at the anchor of its joint, along the body's axes. A site counts as a
    link that is fixed to its body. The torque limit of a joint is ``actuatorfrcrange``, or without
    it the maximum torque of its actuator.

    Raises:
        ConfigurationError: MuJoCo rejects the file, gravity is not that of the earth, or a body
            has several joints.
    """
    try:
        check_regular(path, MAX_DESCRIPTION_SIZE)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        model = mujoco.MjModel.from_xml_path(str(path))
    except ValueError as error:
        raise ConfigurationError(
            f"{path}: cannot be read: {' '.join(str(error).split())}"
        ) from None
    gravity = model.opt.gravity.tolist()
    if not np.allclose(gravity, GRAVITY, atol=0.05):
        raise ConfigurationError(f"{path}: gravity: got {gravity}, allowed {list(GRAVITY)} m/s^2")
    anchors = np.zeros((model.nbody, 3))
    for body in range(1, model.nbody):
        if model.body_jntnum[body] > 1:
            raise ConfigurationError(
                f"{path}: body {model.body(body).name}: got {model.body_jntnum[body]} joints, "
                "allowed one or none"
            )
        if model.body_jntnum[body]:
            anchors[body] = model.jnt_pos[model.body_jntadr[body]]
    bodies: dict[str, Load] = {}
    joints = []
    for body in range(model.nbody):
        bodies[_name(model, body)] = _body(model, body, anchors[body])
        if body:
            joints.append(_joint(model, body, anchors))
    for number in range(model.nsite):
        site = model.site(number)
        if site.name and site.name not in bodies:
            body = int(model.site_bodyid[number])
            bodies[site.name] = NO_LOAD
            pose = _pose(site.pos - anchors[body], site.quat)
            joints.append(
                TreeJoint(
                    f"{site.name}_site", "fixed", _name(model, body), site.name, pose, np.zeros(3)
                )
            )
    return Tree(path, bodies, joints)


def _name(model: mujoco.MjModel, body: int) -> str:
    return str(model.body(body).name) or f"body{body}"


def _body(model: mujoco.MjModel, body: int, anchor: Matrix) -> Load:
    mass = float(model.body_mass[body])
    if mass == 0.0:
        return NO_LOAD
    own = Load(mass, np.zeros(3), np.diag(model.body_inertia[body]))
    return moved(own, _pose(model.body_ipos[body] - anchor, model.body_iquat[body]))


def _joint(model: mujoco.MjModel, body: int, anchors: Matrix) -> TreeJoint:
    parent = int(model.body_parentid[body])
    pose = _pose(model.body_pos[body], model.body_quat[body])
    pose[:3, 3] += pose[:3, :3] @ anchors[body] - anchors[parent]
    ends = _name(model, parent), _name(model, body)
    if not model.body_jntnum[body]:
        return TreeJoint(f"{ends[1]}_fixed", "fixed", *ends, pose, np.zeros(3))
    joint = int(model.body_jntadr[body])
    name = str(model.joint(joint).name) or f"joint{joint}"
    kind = _KINDS.get(mujoco.mjtJoint(model.jnt_type[joint]))
    if kind is not None:
        return TreeJoint(name, kind, *ends, pose, np.zeros(3))
    limited = bool(model.jnt_limited[joint])
    lower, upper = model.jnt_range[joint].tolist() if limited else (-np.inf, np.inf)
    limits = {"lower": lower, "upper": upper}
    armature = float(model.dof_armature[model.jnt_dofadr[joint]])
    if armature > 0.0:
        limits["armature"] = armature
    torque = _torque_limit(model, joint)
    if torque is not None:
        limits["torque"] = torque
    if model.jnt_type[joint] == int(mujoco.mjtJoint.mjJNT_SLIDE):
        kind = PRISMATIC_TYPE
    else:
        kind = "revolute" if limited else "continuous"
    return TreeJoint(name, kind, *ends, pose, np.array(model.jnt_axis[joint]), limits)


def _torque_limit(model: mujoco.MjModel, joint: int) -> float | None:
    if model.jnt_actfrclimited[joint]:
        return float(np.abs(model.jnt_actfrcrange[joint]).min())
    on_joint = int(mujoco.mjtTrn.mjTRN_JOINT)
    for number in range(model.nu):
        if model.actuator_trntype[number] != on_joint or model.actuator_trnid[number, 0] != joint:
            continue
        gear = abs(float(model.actuator_gear[number, 0]))
        if model.actuator_forcelimited[number]:
            return gear * float(np.abs(model.actuator_forcerange[number]).min())
        plain = model.actuator_biastype[number] == int(mujoco.mjtBias.mjBIAS_NONE)
        if plain and model.actuator_ctrllimited[number]:
            gain = abs(float(model.actuator_gainprm[number, 0]))
            return gear * gain * float(np.abs(model.actuator_ctrlrange[number]).min())
    return None


def _pose(position: Matrix, quaternion: Matrix) -> Matrix:
    rotation = np.zeros(9)
    mujoco.mju_quat2Mat(rotation, np.array(quaternion))
    return pose_from(rotation.reshape(3, 3), np.array(position))
