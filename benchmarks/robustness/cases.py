# SPDX-License-Identifier: Apache-2.0
"""Cases of the robustness map: controllets with default gains, and conditions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from multipanda_py.robots import MODELS

HERE, PEER = "this package", "textbook law, gains of another stack"

USUAL_STEP = 0.3
"""Step of a target as a fraction of the gate."""


@dataclass(frozen=True)
class Law:
    """Row of the map: a controllet and its kinds of target.

    Attributes:
        name: Name of the row.
        type: Type of the controllet in a cell file.
        moves_by: Kind of target in free space: ``joint``, ``goal`` (joint goal without a gate),
            ``velocity``, ``pose``, ``object``, ``leader`` (a force on the first arm) or empty.
        presses_by: Kind of target in contact: ``joint``, ``pose``, ``wrench``, ``squeeze``
            (internal force), ``leader`` or empty.
        params: Parameters other than the defaults.
        n_arms: Number of arms, 1 or 2.
        group: Origin of the controllet, ``HERE`` or ``PEER``.
        model: Robot model of the arms.
    """

    name: str
    type: str
    moves_by: str = ""
    presses_by: str = ""
    params: dict[str, Any] = field(default_factory=dict)
    n_arms: int = 1
    group: str = HERE
    model: str = "fr3"

    @property
    def settings(self) -> dict[str, Any]:
        """Parameters in the cell file, without the governor for laws of other stacks."""
        return self.params | ({"governor": {"enabled": False}} if self.group == PEER else {})

    @property
    def arms(self) -> tuple[str, ...]:
        """Names of the arms."""
        return ("arm",) if self.n_arms == 1 else ("left", "right")


@dataclass(frozen=True)
class Condition:
    """Column of the map: errors of the arm that the controllet does not model, and the task.

    Attributes:
        name: Name of the column.
        perturbation: Entry ``perturbation`` of the arm in the cell file.
        noise: Entry ``noise`` of the arm in the cell file.
        joints: Entry ``transmission`` of the arm in the cell file.
        surface: Stiffness of the contact surface [N/m], 0 for free space.
        step: Step of the target as a fraction of the gate.
    """

    name: str
    perturbation: dict[str, Any] = field(default_factory=dict)
    noise: dict[str, Any] = field(default_factory=dict)
    joints: dict[str, Any] = field(default_factory=dict)
    surface: float = 0.0
    step: float = USUAL_STEP


CRISP = {"error_clip": [0.1, 0.1, 0.1, 0.5, 0.5, 0.5], "posture_stiffness": 5.0,
         "posture_torque": 5.0}  # fmt: skip

LAWS = (
    Law("hold", "hold"),
    Law("joint_impedance", "joint_impedance", "joint", "joint"),
    Law("joint_velocity", "joint_velocity", "velocity"),
    Law("joint_trajectory", "joint_trajectory", "goal"),
    Law("cartesian_impedance", "cartesian_impedance", "pose", "pose"),
    Law("operational_space", "operational_space", "pose", "pose"),
    Law("admittance", "admittance", "pose", "pose"),
    Law("force_impedance", "force_impedance", "pose", "wrench"),
    Law("optimization_augmented, hybrid", "optimization_augmented", "goal", "wrench", {
        "mode": "hybrid"}),
    Law("optimization_augmented, force", "optimization_augmented", "pose", "wrench", {
        "mode": "force"}),
    Law("gravity_compensation, holding a pose", "gravity_compensation", params={
        "hold": "position", "keep_orientation": True, "joint_damping": 1.0}),
    Law("teleoperation", "teleoperation", "leader", "leader", n_arms=2),
    Law("coupled_impedance", "coupled_impedance", "object", "squeeze", n_arms=2),
    Law("coupled_force_impedance", "coupled_force_impedance", "object", "squeeze", n_arms=2),
    Law("franka_ros2 joint impedance", "textbook_joint_impedance", "joint", "joint", {
        "stiffness": [24.0, 24.0, 24.0, 24.0, 10.0, 6.0, 2.0],
        "damping": [2.0, 2.0, 2.0, 1.0, 1.0, 1.0, 0.5]}, group=PEER),
    Law("Franka Cartesian impedance example", "textbook_cartesian_impedance", "pose", "pose", {
        "stiffness": [200.0] * 3 + [10.0] * 3}, group=PEER),
    Law("multipanda_ros2 Cartesian impedance", "textbook_cartesian_impedance", "pose", "pose", {
        "stiffness": [400.0] * 3 + [20.0] * 3, "design": "inertia",
        "posture_stiffness": 10.0, "projector": "dynamic"}, group=PEER),
    Law("CRISP Cartesian impedance", "textbook_cartesian_impedance", "pose", "pose", {
        **CRISP, "stiffness": [600.0] * 3 + [30.0] * 3, "damping": [60.0] * 3 + [10.0] * 3},
        group=PEER),
    Law("CRISP operational space", "textbook_cartesian_impedance", "pose", "pose", {
        **CRISP, "stiffness": [1000.0] * 6, "damping": [100.0] * 6,
        "design": "operational_space"}, group=PEER),
)  # fmt: skip
"""Rows of FR3 arms in the order of the map."""
OTHERS = ("ur5e", "kinova_gen3", "iiwa14")
"""Other robot models, for the controllets of this package."""


def laws_on(model: str) -> tuple[Law, ...]:
    """Return the rows of a robot model; the gains of other stacks are for an FR3 only."""
    if model == "fr3":
        return LAWS
    own = (law for law in LAWS if law.group == HERE)
    return tuple(replace(law, name=f"{law.name}, {model}", model=model) for law in own)


EVERY_LAW = tuple(law for model in ("fr3", *OTHERS) for law in laws_on(model))

NOISE = {"q": 1e-5, "dq": 2e-3, "tau": 0.1}
BIAS = [0.5] * 7
HEAVY = 3.0
"""Maximum payload of an FR3 [kg]."""
OFF = {"tau_bias": BIAS, "tau_drift": [0.1] * 7}
ELASTIC = {
    "stiffness": [14000.0] * 4 + [9000.0] * 3,
    "damping": [14.0] * 4 + [9.0] * 3,
    "ripple": [0.2] * 7,
}
"""Estimated transmission of an FR3, see the reference of cell files."""
STIFFNESS_PER_TORQUE = 160.0
"""Assumed ratio of gear stiffness to torque limit of other arms [1/rad].

It is that of the first four joints of the FR3. A joint gets the FR3's stiffness if that is larger.
Manufacturers do not publish the stiffness."""
REDUCED_PAYLOAD = {"kinova_gen3": 2.0}
"""Payload that replaces ``HEAVY`` for arms whose torque limits are too low for it [kg].

In its ready configuration the sixth joint of a Gen3 can carry 2.2 kg."""


def fitted(condition: Condition, model: str) -> Condition:
    """Return a condition of an FR3 with stiffness, payload and vectors for another robot model."""
    limits, joints = MODELS[model].limits, dict(condition.joints)
    if "stiffness" in joints and model != "fr3":
        n = limits.n_joints
        minimum = STIFFNESS_PER_TORQUE * limits.torque
        own = np.maximum(joints["stiffness"][:n], minimum).tolist()
        joints |= {"stiffness": own, "damping": [1e-3 * k for k in own]}
    perturbation = dict(condition.perturbation)
    if perturbation.get("payload") == HEAVY:
        perturbation["payload"] = REDUCED_PAYLOAD.get(model, HEAVY)
    cut = (_for_joints(part, limits.n_joints) for part in (perturbation, condition.noise, joints))
    perturbation, noise, joints = cut
    return replace(condition, perturbation=perturbation, noise=noise, joints=joints)


def _for_joints(settings: dict[str, Any], joints: int) -> dict[str, Any]:
    """Return settings whose lists of seven values are cut to the number of joints."""
    return {
        key: value[:joints] if isinstance(value, list) and len(value) == 7 else value
        for key, value in settings.items()
    }


def _latency(delay: int, lag: int, **more: Any) -> dict[str, Any]:
    return {"state_delay": delay * 1e-3, "torque_lag": lag * 1e-3, **more}


FREE = (
    Condition("ideal arm"),
    *(Condition(f"delay {ms} ms", _latency(ms, 0)) for ms in (1, 2, 3, 5)),
    Condition("lag 2 ms", _latency(0, 2)),
    Condition("delay 3 + lag 2 ms", _latency(3, 2)),
    Condition("delay 5 + lag 2 ms", _latency(5, 2)),
    Condition("inertia x 0.8", {"inertia_scale": 0.8}),
    Condition("inertia x 1.2", {"inertia_scale": 1.2}),
    Condition("5 + 2 ms, inertia x 0.8", _latency(5, 2, inertia_scale=0.8)),
    Condition("5 + 2 ms, inertia x 1.2", _latency(5, 2, inertia_scale=1.2)),
    Condition("noise", {}, NOISE),
    Condition("bias 0.5 Nm", {"torque_bias": BIAS}),
    Condition("torque sensors off by 0.5 Nm, drift", {}, OFF),
    Condition("elastic joints, ripple", joints=ELASTIC),
    Condition("payload 1 kg", {"payload": 1.0}),
    Condition("payload 3 kg", {"payload": HEAVY}),
    Condition("all: 2 + 2 ms, x 0.8, noise, bias, 1 kg",
              _latency(2, 2, inertia_scale=0.8, torque_bias=BIAS, payload=1.0), NOISE),
    Condition("step of 0.9 gates", step=0.9),
    Condition("step of 0.9 gates, 5 + 2 ms, x 0.8", _latency(5, 2, inertia_scale=0.8), step=0.9),
)  # fmt: skip
CONTACT = tuple(
    Condition(f"surface {surface} N/m{latency}", perturbation, surface=float(surface))
    for latency, perturbation in (("", {}), (", 2 + 2 ms", _latency(2, 2)))
    for surface in ("1e3", "1e4", "1e5")
)
CONDITIONS = (*FREE, *CONTACT)
"""Columns of the map in order."""
QUICK = tuple(
    condition
    for condition in CONDITIONS
    if condition.name in ("ideal arm", "delay 5 + lag 2 ms", "surface 1e4 N/m")
)
"""Conditions of ``map.py --quick``."""


def applies(law: Law, condition: Condition) -> bool:
    """Return whether the map has a field for this controllet and condition."""
    if condition.surface:
        return bool(law.presses_by)
    return condition.step == USUAL_STEP or law.moves_by in ("joint", "pose", "object")
