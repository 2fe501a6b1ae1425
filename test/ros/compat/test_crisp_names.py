# SPDX-License-Identifier: Apache-2.0
"""Parameter names of CRISP, mapped to those of the controllet."""

from __future__ import annotations

import math

import pytest
from cell_names import LEFT_JOINTS

from multipanda_py.exceptions import ParameterRejected
from multipanda_py.ros.compat.crisp import CrispNames

pytestmark = pytest.mark.inline

OWN = {
    "stiffness": [400.0, 400.0, 400.0, 20.0, 20.0, 20.0],
    "damping_ratio": [0.7] * 6,
    "gain_frame": "base",
    "error_clip": [0.15] * 3 + [0.8] * 3,
    "nullspace.stiffness": [10.0] * 7,
    "nullspace.damping_ratio": [1.0] * 7,
    "nullspace.max_torque": [5.0] * 7,
    "nullspace.projector": "dynamic",
    "coriolis.enabled": True,
    "joint_limits.enabled": True,
    "joint_limits.range": [0.1] * 7,
    "joint_limits.max_torque": [10.0] * 7,
}


class Law:
    """Controllet parameters behind the names of CRISP."""

    def __init__(self):
        self.values, self.reported = {**OWN}, []
        self.names = CrispNames(OWN, LEFT_JOINTS, self.reported.append)

    def put(self, **values):
        for name, value in values.items():
            name = name.replace("__", ".")
            self.values |= self.names.to_own_parameters(name, value, self.values.get)
            self.names.keep(name, value)

    def get(self, name):
        return self.names.get(name, self.values.get)


@pytest.fixture
def law():
    return Law()


@pytest.mark.parametrize("order", [1, -1])
def test_single_gains_in_any_order(law, order):
    given = [("task__k_pos_x", 900.0), ("task__d_pos_x", 60.0), ("task__k_rot_z", 0.0),
             ("task__d_rot_z", 10.0), ("task__d_pos_y", -1.0)][::order]  # fmt: skip
    law.put(**dict(given))
    assert law.values["stiffness"] == [900.0, 400.0, 400.0, 20.0, 20.0, 0.0]
    ratio = law.values["damping_ratio"]
    assert ratio[0] == pytest.approx(60.0 / (2.0 * math.sqrt(900.0)))
    assert ratio[1:5] == [1.0, 0.7, 0.7, 0.7]
    assert law.get("task.k_pos_x") == 900.0
    assert law.get("task.k_pos_z") == 400.0
    assert law.get("task.d_pos_x") == 60.0
    assert law.get("task.d_pos_z") == -1.0


def test_value_under_native_name_was_undone_by_next_crisp_name(law):
    law.put(task__k_pos_x=900.0, task__d_pos_x=60.0, task__error_clip__x=0.05)
    for own in ("stiffness", "damping_ratio", "error_clip"):
        law.values[own] = OWN[own]
        law.names.forget(own)
    law.put(task__k_pos_y=500.0, task__error_clip__y=0.02)
    assert law.values["stiffness"] == [400.0, 500.0, 400.0, 20.0, 20.0, 20.0]
    assert law.values["damping_ratio"] == OWN["damping_ratio"]
    assert law.values["error_clip"] == [0.15, 0.02, 0.15, 0.8, 0.8, 0.8]
    assert law.get("task.k_pos_x") == 400.0
    assert law.get("task.d_pos_x") == -1.0


def test_disabled_error_clip_is_restored(law):
    law.put(task__error_clip__x=0.05, limit_error=False)
    assert law.values["error_clip"] == [10.0] * 6
    law.put(limit_error=True)
    assert law.values["error_clip"] == [0.05, 0.15, 0.15, 0.8, 0.8, 0.8]


def test_scalar_sets_vector_of_joints(law):
    law.put(nullspace__stiffness=4.0, nullspace__damping=2.0, nullspace__max_tau=3.0)
    assert law.values["nullspace.stiffness"] == [4.0] * 7
    assert law.values["nullspace.damping_ratio"] == [0.5] * 7
    assert law.values["nullspace.max_torque"] == [3.0] * 7
    law.put(**{"nullspace__weights__fr3_joint4__value": 2.5})
    assert law.values["nullspace.stiffness"] == [4.0, 4.0, 4.0, 10.0, 4.0, 4.0, 4.0]
    assert not law.names.has("nullspace.stiffness", [1.0] * 7)
    assert not law.names.has("nullspace.weights.elbow.value")


def test_boolean_was_accepted_as_number_one(law):
    """A wrong type set the nullspace stiffness of every joint to 1 Nm/rad."""
    assert not law.names.has("nullspace.stiffness", True)
    for name in ("task.k_pos_x", "task.error_clip.x", "nullspace.damping", "nullspace.max_tau"):
        with pytest.raises(ParameterRejected, match=f"^{name}: .*True"):
            law.names.to_own_parameters(name, True, law.values.get)


def test_flags_frames_and_projectors(law):
    law.put(use_local_jacobian=True, use_coriolis_compensation=False)
    law.put(**{"nullspace__projector_type": "none", "joint_limit_repulsion__safe_range": 0.2})
    assert law.values["gain_frame"] == "tool"
    assert law.values["coriolis.enabled"] is False
    assert law.values["nullspace.projector"] == "none"
    assert law.values["joint_limits.range"] == [0.2] * 7
    assert law.get("use_local_jacobian") is True


def test_names_without_counterpart_are_reported_and_conflicting_values_rejected(law):
    before = dict(law.values)
    law.put(use_friction=True, max_delta_tau=0.5, filter__q=0.5, stop_commands=False)
    assert law.values == before
    assert "use_friction: " in law.reported[0]
    assert law.reported[1].startswith("max_delta_tau ")
    assert law.get("filter.q") == 0.5
    for name, value in (("use_operational_space", True), ("stop_commands", True),
                        ("task.k_pos_x", "stiff"), ("task.k_pos_x", [1.0])):  # fmt: skip
        with pytest.raises(ParameterRejected, match=rf"^{name}: "):
            law.names.to_own_parameters(name, value, law.values.get)
    assert not law.names.has("task.k_pos_w")
