# SPDX-License-Identifier: Apache-2.0
"""What is tried: laws with their default gains, and conditions that they do not know of."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from multipanda_py.robots import MODELS

HERE, PEER = "this package", "textbook law, gains of another stack"


USUAL_STEP = 0.3


@dataclass(frozen=True)
class Law:
    """A law as it is tried.

    Attributes:
        name: In the map.
        type: As in a cell file.
        params: Where they are not the defaults.
        n_arms: How many arms it gets.
        moves_by: What a target is: ``joint``, ``goal`` (a joint goal anywhere), ``velocity``,
            ``pose``, ``object``, ``leader`` (the first arm is pulled) or nothing.
        presses_by: How it is brought to push: ``joint``, ``pose``, ``wrench``, ``squeeze``,
            ``leader``, or nothing.
        group: Whose it is.
        model: What its arms are.
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
        """Parameters as in a cell file; other stacks hand their laws the target as it comes."""
        return self.params | ({"governor": {"enabled": False}} if self.group == PEER else {})

    @property
    def arms(self) -> tuple[str, ...]:
        """Names of its arms."""
        return ("arm",) if self.n_arms == 1 else ("left", "right")


@dataclass(frozen=True)
class Condition:
    """What the laws do not know of.

    Attributes:
        name: In the map.
        perturbation: As in a cell file.
        noise: As in a cell file.
        joints: As in a cell file.
        surface: Stiffness of what is pushed against [N/m]; 0 is free space.
        step: Share of the gate that a step of the target takes.
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
"""In the order of the map."""
OTHERS = ("ur5e", "kinova_gen3", "iiwa14")
"""Arms that the laws of this package are tried on besides."""


def laws_on(model: str) -> tuple[Law, ...]:
    """Return what is tried on a kind of arm; gains of other stacks are for an FR3."""
    if model == "fr3":
        return LAWS
    own = (law for law in LAWS if law.group == HERE)
    return tuple(replace(law, name=f"{law.name}, {model}", model=model) for law in own)


EVERY_LAW = tuple(law for model in ("fr3", *OTHERS) for law in laws_on(model))


NOISE = {"q": 1e-5, "dq": 2e-3, "tau": 0.1}
BIAS = [0.5] * 7
HEAVY = 3.0
"""What an FR3 may carry [kg]."""
OFF = {"tau_bias": BIAS, "tau_drift": [0.1] * 7}
ELASTIC = {
    "stiffness": [14000.0] * 4 + [9000.0] * 3,
    "damping": [14.0] * 4 + [9.0] * 3,
    "ripple": [0.2] * 7,
}
"""A fair guess at an FR3, see the cell file's reference."""
STIFFNESS_PER_TORQUE = 160.0
"""Of gears, over the torque limit of their joint, where that is more than an FR3's: an assumption
of ours, as makers publish neither. It is what the FR3's strong joints have here [1/rad]."""
BORNE = {"kinova_gen3": 2.0}
"""The heavy payload where a joint bears no 3 kg in the usual posture: a Gen3's sixth bears
2.2 kg beside its own weight [kg]."""


def fitted(condition: Condition, model: str) -> Condition:
    """Return a condition, which is given for an FR3, as it is for another kind of arm."""
    limits, joints = MODELS[model].limits, dict(condition.joints)
    if "stiffness" in joints and model != "fr3":
        n = limits.n_joints
        minimum = STIFFNESS_PER_TORQUE * limits.torque
        own = np.maximum(joints["stiffness"][:n], minimum).tolist()
        joints |= {"stiffness": own, "damping": [1e-3 * k for k in own]}
    perturbation = dict(condition.perturbation)
    if perturbation.get("payload") == HEAVY:
        perturbation["payload"] = BORNE.get(model, HEAVY)
    cut = (_for_joints(part, limits.n_joints) for part in (perturbation, condition.noise, joints))
    perturbation, noise, joints = cut
    return replace(condition, perturbation=perturbation, noise=noise, joints=joints)


def _for_joints(settings: dict[str, Any], joints: int) -> dict[str, Any]:
    """Return settings of seven joints for an arm of fewer: those of the last ones are left out."""
    return {
        key: value[:joints] if isinstance(value, list) and len(value) == 7 else value
        for key, value in settings.items()
    }


def _late(delay: int, lag: int, **more: Any) -> dict[str, Any]:
    return {"state_delay": delay * 1e-3, "torque_lag": lag * 1e-3, **more}


FREE = (
    Condition("ideal arm"),
    *(Condition(f"delay {ms} ms", _late(ms, 0)) for ms in (1, 2, 3, 5)),
    Condition("lag 2 ms", _late(0, 2)),
    Condition("delay 3 + lag 2 ms", _late(3, 2)),
    Condition("delay 5 + lag 2 ms", _late(5, 2)),
    Condition("inertia x 0.8", {"inertia_scale": 0.8}),
    Condition("inertia x 1.2", {"inertia_scale": 1.2}),
    Condition("5 + 2 ms, inertia x 0.8", _late(5, 2, inertia_scale=0.8)),
    Condition("5 + 2 ms, inertia x 1.2", _late(5, 2, inertia_scale=1.2)),
    Condition("noise", {}, NOISE),
    Condition("bias 0.5 Nm", {"torque_bias": BIAS}),
    Condition("torque sensors off by 0.5 Nm, drift", {}, OFF),
    Condition("elastic joints, ripple", joints=ELASTIC),
    Condition("payload 1 kg", {"payload": 1.0}),
    Condition("payload 3 kg", {"payload": HEAVY}),
    Condition("all: 2 + 2 ms, x 0.8, noise, bias, 1 kg",
              _late(2, 2, inertia_scale=0.8, torque_bias=BIAS, payload=1.0), NOISE),
    Condition("step of 0.9 gates", step=0.9),
    Condition("step of 0.9 gates, 5 + 2 ms, x 0.8", _late(5, 2, inertia_scale=0.8), step=0.9),
)  # fmt: skip
CONTACT = tuple(
    Condition(f"surface {surface} N/m{late}", perturbation, surface=float(surface))
    for late, perturbation in (("", {}), (", 2 + 2 ms", _late(2, 2)))
    for surface in ("1e3", "1e4", "1e5")
)
CONDITIONS = (*FREE, *CONTACT)
"""In the order of the map."""
QUICK = tuple(
    condition
    for condition in CONDITIONS
    if condition.name in ("ideal arm", "delay 5 + lag 2 ms", "surface 1e4 N/m")
)
"""Those of the short form."""


def applies(law: Law, condition: Condition) -> bool:
    """Return whether a law can be tried under a condition."""
    if condition.surface:
        return bool(law.presses_by)
    return condition.step == USUAL_STEP or law.moves_by in ("joint", "pose", "object")
