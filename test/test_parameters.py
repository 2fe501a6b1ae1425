# SPDX-License-Identifier: Apache-2.0
"""Parameters: valid and invalid values, messages, and the flat form."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multipanda_py import registry
from multipanda_py.apps.commands.list import entry
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import ConfigurationError, ParameterRejected, UnknownName
from multipanda_py.parameters import (
    NoParams,
    ParameterSet,
    Spec,
    check_values,
    choice,
    flag,
    joint_vector,
    number,
    specs_of,
    vector,
)

pytestmark = pytest.mark.inline


@dataclass(frozen=True, eq=False)
class Params:
    gain: float = number(2.0, unit="N/m", low=0, high=10, doc="how stiff")
    axes: np.ndarray = vector(1, 2, 3, unit="m", low=-5)
    active: bool = flag(True)
    frame: str = choice("base", options=("base", "tool"))


STIFF = Spec("k", "vector", np.ones(4), "N/m", (0.0, 0.0, 1.0, 1.0), (5000.0, 5000.0, 300.0, 20.0))
SPECS = {spec.name: spec for spec in specs_of(Params)}
_axis = st.floats(-5, 1e6)
_values = st.fixed_dictionaries(
    {
        "gain": st.floats(0, 10),
        "axes": st.lists(_axis, min_size=3, max_size=3),
        "active": st.booleans(),
        "frame": st.sampled_from(["base", "tool"]),
    }
)


@given(_values)
def test_values_survive_flat_form(values: dict) -> None:
    parameters = ParameterSet(Params)
    flat = parameters.encode({name: SPECS[name].check(value) for name, value in values.items()})
    assert flat.shape == (parameters.width,) == (6,)
    back = parameters.decode(flat)
    assert (back.gain, back.active, back.frame) == tuple(
        values[name] for name in ("gain", "active", "frame")
    )
    assert back.axes.tolist() == values["axes"]
    assert type(back.active) is bool


def test_defaults_satisfy_their_specs() -> None:
    for spec in SPECS.values():
        np.testing.assert_array_equal(spec.check(spec.default), spec.default)


def test_vectors_are_read_only_copies_of_flat_form() -> None:
    parameters = ParameterSet(Params)
    flat = parameters.encode({name: spec.default for name, spec in SPECS.items()})
    decoded = parameters.decode(flat)
    flat[:] = -1.0
    assert decoded.axes.tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match="read-only"):
        decoded.axes[0] = 0.0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("gain", -0.1), ("gain", 10.1), ("gain", math.nan), ("gain", math.inf), ("gain", True),
        ("gain", "2"), ("gain", None), ("gain", [2.0]), ("gain", 10**400),
        ("axes", [1, 2]), ("axes", [1, 2, 3, 4]), ("axes", [1, 2, math.nan]), ("axes", 1.0),
        ("axes", [1, 2, True]), ("axes", [1, 2, -5.1]), ("axes", "123"), ("axes", {1: 2}),
        ("axes", [[1, 2, 3]]), ("axes", np.zeros((3, 1))), ("axes", [1, 2, 10**400]),
        ("active", 1), ("active", "true"), ("frame", "flange"), ("frame", 0), ("frame", None),
    ],
)  # fmt: skip
def test_invalid_value_is_rejected_with_allowed_range(name: str, value: object) -> None:
    with pytest.raises(ParameterRejected) as refusal:
        SPECS[name].check(value, "law")
    message = str(refusal.value)
    assert message.startswith(f"law: {name}: ")
    assert message.endswith(SPECS[name].allowed)


@pytest.mark.parametrize("value", [2, 2.0, np.float64(2), np.float32(2), np.int64(2)])
def test_numbers_of_numpy_and_python_are_accepted(value: object) -> None:
    found = SPECS["gain"].check(value)
    assert found == 2.0
    assert type(found) is float


@pytest.mark.parametrize("value", [[1, 2, 3], (1, 2, 3), np.array([1.0, 2.0, 3.0])])
def test_sequences_and_arrays_are_accepted_as_vector(value: object) -> None:
    assert SPECS["axes"].check(value).tolist() == [1, 2, 3]


def test_allowed_range_is_described_in_words() -> None:
    assert SPECS["gain"].allowed == "a number in [0, 10] N/m"
    above = replace(SPECS["gain"], exclusive_low=True)
    assert above.allowed == "a number in (0, 10] N/m", (
        "an exclusive minimum was described as allowed"
    )
    assert SPECS["axes"].allowed == "3 numbers in [-5, inf] m"
    assert STIFF.allowed == "4 numbers, 2 in [0, 5000], then 1 in [1, 300], then 1 in [1, 20] N/m"
    assert SPECS["active"].allowed == "true or false"
    assert SPECS["frame"].allowed == "one of base, tool"


def test_all_faults_are_collected_and_valid_values_kept() -> None:
    values = {"gain": -1, "axes": [0, 0, 0], "frame": "x", "nonsense": 1}
    accepted, faults = check_values(list(SPECS.values()), values, "here")
    assert list(accepted) == ["axes"]
    assert len(faults) == 3
    assert any("'nonsense'" in fault and "gain, axes, active, frame" in fault for fault in faults)


def test_feature_parameters_have_prefix() -> None:
    assert ParameterSet(Params, "nullspace.").names[0] == "nullspace.gain"


def test_no_params_has_empty_flat_form() -> None:
    parameters = ParameterSet(NoParams)
    assert parameters.width == 0
    assert parameters.encode({}).shape == (0,)
    assert parameters.decode(np.zeros(0)) == NoParams()


@pytest.mark.parametrize(
    ("value", "good"),
    [
        ([5000, 0, 300, 20], True), ([0, 5000, 1, 1], True), ([5001, 0, 1, 1], False),
        ([1, 1, 301, 1], False), ([1, 1, 300, 21], False), ([1, 1, 0.5, 1], False),
    ],
)  # fmt: skip
def test_vector_elements_have_separate_bounds(value: list[float], good: bool) -> None:
    if good:
        assert STIFF.check(value).tolist() == value
        return
    with pytest.raises(ParameterRejected, match="then 1 in"):
        STIFF.check(value, "law")


def test_bounds_of_wrong_length_are_rejected_in_declaration() -> None:
    with pytest.raises(ValueError, match=r"2 bounds.*\b3\b"):
        vector(1, 2, 3, low=(0, 0), doc="axes")


@pytest.mark.parametrize(
    ("declare", "words"),
    [
        (lambda: number(20.0, low=0, high=10, doc="g"), r"default.*g:.*20.0.*10\]"),
        (lambda: number(0.0, low=0, exclusive_low=True), "got 0.0, allowed a number"),
        (lambda: vector(1, 2, 3, low=(0, 0, 4)), "got .*3.0.*, allowed 3 numbers"),
        (lambda: choice("c", options=("a", "b")), "'c'.* a, b"),
        (lambda: flag(1), r"\b1\b.*\btrue\b.*\bfalse\b"),
    ],
)
def test_default_outside_of_bounds_was_accepted_in_declaration(declare: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        declare()


def test_plain_field_of_params_ended_in_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @dataclass(frozen=True)
    class Plain:
        g: float = 1.0

    law = registry.find("controllets", "gravity_compensation")
    feature = registry.find("features", "coriolis")
    cell = {"arms": {"a": {}}, "controllets": {
        "l": {"type": "gravity_compensation", "features": []},
        "f": {"type": "joint_impedance", "features": ["coriolis"]}}}  # fmt: skip
    words = "Plain: g: "
    for part, kind, path in (
        (law, "controllets", "controllets.l.type: gravity_compensation: "),
        (feature, "features", "controllets.f.features: coriolis: "),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(part, "Params", Plain)
            with pytest.raises(ConfigurationError) as refusal:
                CellConfig.from_dict(cell)
            (fault,) = refusal.value.faults
            assert path in fault
            assert words in fault
            assert words in entry(kind, path.split(": ")[-2].split(".")[-1])["error"]


@pytest.mark.parametrize("kind", ["controllets", "features"])
def test_defaults_of_plug_ins_are_within_bounds(kind: str) -> None:
    for name in registry.names(kind):
        for spec in specs_of(registry.find(kind, name).Params):
            spec.check(spec.default)


def test_translational_and_rotational_stiffness_have_separate_maxima() -> None:
    """A common maximum of 5000 does not bound the rotational part."""
    for name in registry.names("controllets"):
        for spec in specs_of(registry.find("controllets", name).Params):
            if spec.unit == "N/m, Nm/rad":
                assert spec.bounds[0][1] > 5 * spec.bounds[3][1], f"{name}.{spec.name}"


class ThreeJoints:
    """Robot data that a joint vector needs."""

    n_joints = 3

    def value(self, name: str) -> tuple[float, ...]:
        return {"strength": (30.0, 20.0, 10.0)}[name]

    def unit(self, of: str) -> str:
        return of


@dataclass(frozen=True, eq=False)
class PerJoint:
    stiffness: np.ndarray = joint_vector(5.0, unit="Nm/rad", low=0, high="strength")
    torque: np.ndarray = joint_vector("strength", unit="Nm")


def test_joint_vector_has_length_and_limits_of_robot() -> None:
    parameters = ParameterSet(PerJoint, "posture.", {"arm": ThreeJoints()})
    stiffness, torque = parameters.specs
    assert (stiffness.default.tolist(), torque.default.tolist()) == ([5] * 3, [30, 20, 10])
    assert stiffness.bounds == ((0, 30), (0, 20), (0, 10))
    assert parameters.width == 6
    with pytest.raises(
        ParameterRejected,
        match=r"posture\.stiffness: .*\b7 .*\b3\b",
    ):
        stiffness.check([1.0] * 7)


def test_joint_vector_without_robot_uses_default_robot() -> None:
    with pytest.raises(UnknownName, match=r"\bfr3 'strength'"):
        PerJoint()
    assert registry.find("controllets", "joint_impedance").Params().stiffness.shape == (7,)
