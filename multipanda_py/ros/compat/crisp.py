# SPDX-License-Identifier: Apache-2.0
r"""Parameters of CRISP's Cartesian controller, translated to ``cartesian_impedance``.

CRISP clients set single numbers (``task.k_pos_x``) instead of vectors. With a stiffness :math:`k`,
a damping :math:`d` becomes the damping ratio :math:`d / (2 \sqrt{k})`. Zero and negative values
mean critical damping, as in CRISP. The names do not appear as ROS parameters, because each
duplicates one of the controllet. doc/crisp.md lists them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

from multipanda_py.exceptions import ParameterRejected

Read = Callable[[str], Any]
"""Function that returns a parameter of the controllet by its name."""
_AXES = [(kind, axis) for kind in ("pos", "rot") for axis in "xyz"]
STIFFNESS = {f"task.k_{kind}_{axis}": i for i, (kind, axis) in enumerate(_AXES)}
DAMPING = {f"task.d_{kind}_{axis}": i for i, (kind, axis) in enumerate(_AXES)}
CLIP = {f"task.error_clip.{axis}": i for i, axis in enumerate(("x", "y", "z", "rx", "ry", "rz"))}
FLAGS = {
    "use_coriolis_compensation": "coriolis.enabled",
    "use_friction": "friction.enabled",
    "joint_limit_repulsion.enabled": "joint_limits.enabled",
}
PER_JOINT = {
    "nullspace.max_tau": "nullspace.max_torque",
    "joint_limit_repulsion.safe_range": "joint_limits.range",
    "joint_limit_repulsion.max_torque": "joint_limits.max_torque",
    "friction.fp1": "friction.phi_1",
    "friction.fp2": "friction.phi_2",
    "friction.fp3": "friction.phi_3",
}
CONFIGURATION = ("nullspace.stiffness", "nullspace.damping")
WEIGHT = ("nullspace.weights.", ".value")
_SWITCHES = ("limit_error", "use_local_jacobian")
REJECTED_PARAMETERS = {
    "use_operational_space": "switch to an operational_space controllet instead",
    "stop_commands": "switch to hold, or call the service stop, instead",
}
IGNORED_PARAMETERS: dict[str, tuple[Any, str]] = {
    **dict.fromkeys(("limit_torques",), (True, "torque and its rate are always limited")),
    **dict.fromkeys(("max_delta_tau",), (0.5, "the torque rate limit is the robot's")),
    **dict.fromkeys(("use_gravity_compensation",), (False, "gravity is always compensated")),
    **dict.fromkeys(("filter.q", "filter.dq", "filter.q_ref", "filter.output_torque"),
                    (1.0, "states and torques are not filtered")),
    "filter.target_pose": (1.0, "the governor of the controllet filters targets"),
    **dict.fromkeys(("nullspace.regularization", "operational_space_regularization"),
                    (0.0, "singular directions are detected automatically")),
    **dict.fromkeys((f"log.{description}" for description in (
        "enabled", "robot_state", "control_values", "limits", "controller_parameters",
        "computed_torques", "dynamic_params", "timing")), (False, "multipanda run records logs")),
    **dict.fromkeys(("noise.add_random_noise", "noise.amplitude"), (False, "there is no noise")),
    **dict.fromkeys(("base_frame", "end_effector_frame"), ("", "the cell file has the frames")),
}  # fmt: skip
"""CRISP parameters without an effect: the value that a client reads, and the reason."""
_SAME = {
    "damping_ratio": (*DAMPING,),
    "error_clip": (*CLIP, "limit_error"),
    "nullspace.stiffness": CONFIGURATION,
    "nullspace.damping_ratio": CONFIGURATION[1:],
}
_LOW, _HIGH = 0.3, 5.0  # Bounds of converted damping ratios.
_NO_CLIP = 10.0  # Error limit that has no effect [m, rad].


class CrispNames:
    """Translator between CRISP parameters and parameters of a controllet.

    Args:
        own: Names of the controllet's parameters.
        joints: Names of the arm's joints, in order.
        log: Function that receives messages about names without an effect.
    """

    def __init__(
        self, own: Collection[str], joints: Sequence[str], log: Callable[[str], None]
    ) -> None:
        self._own, self._joints, self._log = own, joints, log
        self._set_values: dict[str, Any] = {}

    def has(self, name: str, value: Any = 0.0) -> bool:
        """Return True if CRISP has a parameter of this name for values of this type."""
        # Some names exist both in CRISP, with one number for all joints, and in the controllet,
        # with a vector. The type of the value decides.
        if name in self._own:
            return name in CONFIGURATION and type(value) in (int, float)
        return (
            name
            in {
                *STIFFNESS,
                *DAMPING,
                *CLIP,
                *FLAGS,
                *PER_JOINT,
                *CONFIGURATION,
                *REJECTED_PARAMETERS,
                *IGNORED_PARAMETERS,
            }
            or name in (*_SWITCHES, "nullspace.projector_type")
            or self._weighted_joint(name) is not None
        )

    def get(self, name: str, read_own: Read) -> Any:
        """Return the value of a CRISP parameter, converted from parameters of the controllet.

        If the controllet has no equivalent, return the value that a client has set last, or a
        default.
        """
        if name in STIFFNESS:
            return read_own("stiffness")[STIFFNESS[name]]
        if name in CLIP and name not in self._set_values:
            return read_own("error_clip")[CLIP[name]]
        if FLAGS.get(name) in self._own:
            return read_own(FLAGS[name])
        if PER_JOINT.get(name) in self._own:
            return list(read_own(PER_JOINT[name]))
        if name == "use_local_jacobian":
            return read_own("gain_frame") == "tool"
        if name == "nullspace.projector_type":
            return read_own("nullspace.projector")
        if name in self._set_values:
            return self._set_values[name]
        if name in IGNORED_PARAMETERS:
            return IGNORED_PARAMETERS[name][0]
        if name in DAMPING or name == "nullspace.damping":
            return -1.0
        return 1.0 if name.startswith(WEIGHT[0]) else name == "limit_error"

    def to_own_parameters(self, name: str, value: Any, read_own: Read) -> dict[str, Any]:
        """Convert a CRISP parameter to parameters of the controllet; empty without an equivalent.

        Raises:
            ParameterRejected: If the value is not supported; the message names an alternative.
        """
        if name in REJECTED_PARAMETERS and value:
            raise ParameterRejected(
                f"{name}: got {value}, allowed false; {REJECTED_PARAMETERS[name]}"
            )
        is_word = name in IGNORED_PARAMETERS or name == "nullspace.projector_type"
        if not is_word and not isinstance(value, (int, float, list)):
            raise ParameterRejected(f"{name}: got {value!r:.60}, allowed a number or a boolean")
        if isinstance(value, bool) and not (
            is_word or name in {*FLAGS, *REJECTED_PARAMETERS, *_SWITCHES}
        ):
            raise ParameterRejected(f"{name}: got {value}, allowed a number")
        if not is_word and isinstance(value, list) and name not in PER_JOINT:
            raise ParameterRejected(f"{name}: got {len(value)} numbers, allowed one")
        if name in STIFFNESS or name in DAMPING:
            return self._gains(name, value, read_own)
        if name in CLIP or name == "limit_error":
            return self._clip(name, value, read_own)
        if name in CONFIGURATION or self._weighted_joint(name) is not None:
            return self._configuration(name, value, read_own)
        if name == "use_local_jacobian":
            return {"gain_frame": "tool" if value else "base"}
        if name == "nullspace.projector_type":
            return {"nullspace.projector": value}
        own = FLAGS.get(name) or PER_JOINT.get(name, "")
        if own in self._own:
            is_vector = name in PER_JOINT and not isinstance(value, list)
            model = {"friction.model": "custom"} if own.startswith("friction.phi") else {}
            return {**model, own: [float(value)] * len(read_own(own)) if is_vector else value}
        if name in FLAGS and value:
            self._log(f"{name}: add the feature {own.partition('.')[0]} to the controllet")
        elif name in IGNORED_PARAMETERS:
            self._log(f"{name} has no effect: {IGNORED_PARAMETERS[name][1]}")
        return {}

    def keep(self, name: str, value: Any) -> None:
        """Store the accepted value of a CRISP parameter, for :meth:`get` and conversions."""
        self._set_values[name] = value

    def forget(self, parameter: str) -> None:
        """Delete the stored CRISP values that a change of a controllet's parameter replaces."""
        weights = [name for name in self._set_values if name.startswith(WEIGHT[0])]
        for name in (
            *_SAME.get(parameter, ()),
            *(weights if parameter == CONFIGURATION[0] else ()),
        ):
            self._set_values.pop(name, None)

    def _gains(self, name: str, value: float, read: Read) -> dict[str, Any]:
        stiffness, ratio = list(read("stiffness")), list(read("damping_ratio"))
        values = {**self._set_values, name: value}
        if name in STIFFNESS:
            stiffness[STIFFNESS[name]] = float(value)
        for damping, i in DAMPING.items():
            if damping in values:
                ratio[i] = _damping_ratio(float(values[damping]), stiffness[i], ratio[i])
        return {"stiffness": stiffness, "damping_ratio": ratio}

    def _clip(self, name: str, value: float, read: Read) -> dict[str, Any]:
        clip = list(read("error_clip"))
        if name in CLIP:
            is_limited = self._set_values.get("limit_error", True)
            clip[CLIP[name]] = float(value) if is_limited else _NO_CLIP
        elif value:
            clip = [float(self._set_values.get(axis, clip[i])) for axis, i in CLIP.items()]
        else:
            for axis, i in CLIP.items():
                # Store the limits for a client that sets ``limit_error`` again.
                self._set_values.setdefault(axis, clip[i])
            clip = [_NO_CLIP] * len(clip)
        return {"error_clip": clip}

    def _configuration(self, name: str, value: float, read: Read) -> dict[str, Any]:
        stiffness = list(read("nullspace.stiffness"))
        ratio = list(read("nullspace.damping_ratio"))
        weights = {
            self._weighted_joint(n): float(v)
            for n, v in self._set_values.items()
            if n.startswith(WEIGHT[0])
        }
        joint = self._weighted_joint(name)
        if name == CONFIGURATION[0]:
            stiffness = [float(value) * weights.get(i, 1.0) for i in range(len(stiffness))]
        elif joint is not None:
            before = stiffness[joint] / (weights.get(joint, 1.0) or 1.0)
            stiffness[joint] = float(self._set_values.get(CONFIGURATION[0], before)) * float(value)
        damping = value if name == CONFIGURATION[1] else self._set_values.get(CONFIGURATION[1])
        if damping is not None:
            ratio = [_damping_ratio(float(damping), *pair) for pair in zip(stiffness, ratio)]
        return {"nullspace.stiffness": stiffness, "nullspace.damping_ratio": ratio}

    def _weighted_joint(self, name: str) -> int | None:
        joint = name.removeprefix(WEIGHT[0]).removesuffix(WEIGHT[1])
        if len(joint) + len("".join(WEIGHT)) != len(name):
            return None
        result = (i for i, known in enumerate(self._joints) if f"_{known}".endswith(f"_{joint}"))
        return next(result, None)


def _damping_ratio(damping: float, stiffness: float, old: float) -> float:
    if damping <= 0.0:
        return 1.0
    if stiffness <= 0.0:
        return old
    return min(max(damping / (2.0 * math.sqrt(stiffness)), _LOW), _HIGH)
