# SPDX-License-Identifier: Apache-2.0
r"""The parameter names of CRISP's Cartesian controller, beside those of ``cartesian_impedance``.

Its clients set one number at a time (``task.k_pos_x``) where a law has a vector. A damping
:math:`d` becomes the ratio :math:`d / (2 \sqrt{k})`, which it is at unit mass; zero and negative
ones are critical, as there. Names are those of its parameter files; they are not listed, as each
says again what a parameter of the law's own says. doc/crisp.md has the table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

from multipanda_py.exceptions import ParameterRejected

Read = Callable[[str], Any]
"""Returns a parameter of the law by its own name."""
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
POSTURE = ("nullspace.stiffness", "nullspace.damping")
WEIGHT = ("nullspace.weights.", ".value")
_SWITCHES = ("limit_error", "use_local_jacobian")
REFUSED = {
    "use_operational_space": "switch to a law of type operational_space instead",
    "stop_commands": "switch to hold, or call the service stop, instead",
}
NOTHING: dict[str, tuple[Any, str]] = {
    **dict.fromkeys(("limit_torques",), (True, "torque and its rate are always limited")),
    **dict.fromkeys(("max_delta_tau",), (0.5, "the torque rate limit is the robot's")),
    **dict.fromkeys(("use_gravity_compensation",), (False, "gravity is always compensated")),
    **dict.fromkeys(("filter.q", "filter.dq", "filter.q_ref", "filter.output_torque"),
                    (1.0, "states and torques are not filtered")),
    "filter.target_pose": (1.0, "targets go through the law's governor"),
    **dict.fromkeys(("nullspace.regularization", "operational_space_regularization"),
                    (0.0, "what is lost near singular postures is found by its size")),
    **dict.fromkeys((f"log.{what}" for what in (
        "enabled", "robot_state", "control_values", "limits", "controller_parameters",
        "computed_torques", "dynamic_params", "timing")), (False, "multipanda run records rows")),
    **dict.fromkeys(("noise.add_random_noise", "noise.amplitude"), (False, "there is no noise")),
    **dict.fromkeys(("base_frame", "end_effector_frame"), ("", "the cell file says frames")),
}  # fmt: skip
"""Names without a counterpart: what they read as, and why."""
_SAME = {
    "damping_ratio": (*DAMPING,),
    "error_clip": (*CLIP, "limit_error"),
    "nullspace.stiffness": POSTURE,
    "nullspace.damping_ratio": POSTURE[1:],
}
_LOW, _HIGH = 0.3, 5.0
_NO_CLIP = 10.0


class CrispNames:
    """Translate names and values, one at a time.

    Args:
        own: Names of the law's parameters.
        joints: Names of its arm's joints, in order.
        say: Takes, once each, what has no counterpart.
    """

    def __init__(
        self, own: Collection[str], joints: Sequence[str], say: Callable[[str], None]
    ) -> None:
        self._own, self._joints, self._say = own, joints, say
        self._given: dict[str, Any] = {}

    def has(self, name: str, value: Any = 0.0) -> bool:
        """Return whether a name, with such a value, is one of these."""
        if name in self._own:  # CRISP has one number where the law has one per joint
            return name in POSTURE and type(value) in (int, float)
        return (
            name in {*STIFFNESS, *DAMPING, *CLIP, *FLAGS, *PER_JOINT, *POSTURE, *REFUSED, *NOTHING}
            or name in (*_SWITCHES, "nullspace.projector_type")
            or self._weighed(name) is not None
        )

    def get(self, name: str, read: Read) -> Any:
        """Return what a name reads as."""
        if name in STIFFNESS:
            return read("stiffness")[STIFFNESS[name]]
        if name in CLIP and name not in self._given:
            return read("error_clip")[CLIP[name]]
        if FLAGS.get(name) in self._own:
            return read(FLAGS[name])
        if PER_JOINT.get(name) in self._own:
            return list(read(PER_JOINT[name]))
        if name == "use_local_jacobian":
            return read("gain_frame") == "tool"
        if name == "nullspace.projector_type":
            return read("nullspace.projector")
        if name in self._given:
            return self._given[name]
        if name in NOTHING:
            return NOTHING[name][0]
        if name in DAMPING or name == "nullspace.damping":
            return -1.0
        return 1.0 if name.startswith(WEIGHT[0]) else name == "limit_error"

    def ours(self, name: str, value: Any, read: Read) -> dict[str, Any]:
        """Return what a value means to the law's own parameters; nothing if it means none.

        Raises:
            ParameterRejected: If it cannot be, with what can be instead.
        """
        if name in REFUSED and value:
            raise ParameterRejected(f"{name}: got {value}, allowed false; {REFUSED[name]}")
        is_word = name in NOTHING or name == "nullspace.projector_type"
        if not is_word and not isinstance(value, (int, float, list)):
            raise ParameterRejected(f"{name}: got {value!r:.60}, allowed a number or a flag")
        if isinstance(value, bool) and not (is_word or name in {*FLAGS, *REFUSED, *_SWITCHES}):
            raise ParameterRejected(f"{name}: got {value}, allowed a number")
        if not is_word and isinstance(value, list) and name not in PER_JOINT:
            raise ParameterRejected(f"{name}: got {len(value)} numbers, allowed one")
        if name in STIFFNESS or name in DAMPING:
            return self._gains(name, value, read)
        if name in CLIP or name == "limit_error":
            return self._clip(name, value, read)
        if name in POSTURE or self._weighed(name) is not None:
            return self._posture(name, value, read)
        if name == "use_local_jacobian":
            return {"gain_frame": "tool" if value else "base"}
        if name == "nullspace.projector_type":
            return {"nullspace.projector": value}
        own = FLAGS.get(name) or PER_JOINT.get(name, "")
        if own in self._own:
            is_vector = name in PER_JOINT and not isinstance(value, list)
            model = {"friction.model": "custom"} if own.startswith("friction.phi") else {}
            return {**model, own: [float(value)] * len(read(own)) if is_vector else value}
        if name in FLAGS and value:
            self._say(f"{name}: the law has no feature {own.partition('.')[0]}; see the cell file")
        elif name in NOTHING:
            self._say(f"{name} has no effect: {NOTHING[name][1]}")
        return {}

    def keep(self, name: str, value: Any) -> None:
        """Remember a value that has been accepted."""
        self._given[name] = value

    def forget(self, own: str) -> None:
        """Forget what a parameter of the law's own was given under these names."""
        weights = [name for name in self._given if name.startswith(WEIGHT[0])]
        for name in (*_SAME.get(own, ()), *(weights if own == POSTURE[0] else ())):
            self._given.pop(name, None)

    def _gains(self, name: str, value: float, read: Read) -> dict[str, Any]:
        stiffness, ratio = list(read("stiffness")), list(read("damping_ratio"))
        given = {**self._given, name: value}
        if name in STIFFNESS:
            stiffness[STIFFNESS[name]] = float(value)
        for damping, i in DAMPING.items():
            if damping in given:
                ratio[i] = _ratio(float(given[damping]), stiffness[i], ratio[i])
        return {"stiffness": stiffness, "damping_ratio": ratio}

    def _clip(self, name: str, value: float, read: Read) -> dict[str, Any]:
        clip = list(read("error_clip"))
        if name in CLIP:
            is_limited = self._given.get("limit_error", True)
            clip[CLIP[name]] = float(value) if is_limited else _NO_CLIP
        elif value:
            clip = [float(self._given.get(axis, clip[i])) for axis, i in CLIP.items()]
        else:
            for axis, i in CLIP.items():
                self._given.setdefault(axis, clip[i])  # for when it is limited again
            clip = [_NO_CLIP] * len(clip)
        return {"error_clip": clip}

    def _posture(self, name: str, value: float, read: Read) -> dict[str, Any]:
        stiffness = list(read("nullspace.stiffness"))
        ratio = list(read("nullspace.damping_ratio"))
        weights = {
            self._weighed(n): float(v) for n, v in self._given.items() if n.startswith(WEIGHT[0])
        }
        joint = self._weighed(name)
        if name == POSTURE[0]:
            stiffness = [float(value) * weights.get(i, 1.0) for i in range(len(stiffness))]
        elif joint is not None:
            before = stiffness[joint] / (weights.get(joint, 1.0) or 1.0)
            stiffness[joint] = float(self._given.get(POSTURE[0], before)) * float(value)
        damping = value if name == POSTURE[1] else self._given.get(POSTURE[1])
        if damping is not None:
            ratio = [_ratio(float(damping), *pair) for pair in zip(stiffness, ratio)]
        return {"nullspace.stiffness": stiffness, "nullspace.damping_ratio": ratio}

    def _weighed(self, name: str) -> int | None:
        """Return the joint whose weight a name is."""
        joint = name.removeprefix(WEIGHT[0]).removesuffix(WEIGHT[1])
        if len(joint) + len("".join(WEIGHT)) != len(name):
            return None
        found = (i for i, known in enumerate(self._joints) if f"_{known}".endswith(f"_{joint}"))
        return next(found, None)


def _ratio(damping: float, stiffness: float, old: float) -> float:
    if damping <= 0.0:
        return 1.0
    if stiffness <= 0.0:
        return old
    return min(max(damping / (2.0 * math.sqrt(stiffness)), _LOW), _HIGH)
