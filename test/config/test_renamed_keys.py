# SPDX-License-Identifier: Apache-2.0
"""Former names of keys and parameters are refused with the new name."""

from __future__ import annotations

import re

import pytest
import yaml

from multipanda_py import registry
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.perturbation import PerturbationSpec
from multipanda_py.config.renamed_keys import (
    ACTUATOR_PARAMETERS,
    FEATURES,
    KEYS,
    PARAMETERS,
    renamed_key,
    with_current_keys,
)
from multipanda_py.config.section import _section_classes_in
from multipanda_py.config.sections import CellSections
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.parameters import specs_of
from multipanda_py.planning.tasks.task_file import TaskFile

pytestmark = pytest.mark.inline

TASK = ("contacts", "law", "subtasks")
CELL_KEYS = [path for path in KEYS if path.split(".")[0] not in TASK]
TASK_KEYS = [path for path in KEYS if path.split(".")[0] in TASK]


def section_of(top, path):
    """Return the class of the section that contains the last key of a path."""
    section = top
    for name in path.split(".")[:-1]:
        if name != "*":
            annotation = section.model_fields[name].annotation
            section = next(_section_classes_in(annotation))
    return section


def nested(path, value):
    for name in reversed(path.split(".")):
        value = [value] if name == "*" and path.startswith("subtasks") else {name: value}
    return value


@pytest.mark.parametrize("path", KEYS)
def test_new_key_of_former_key_exists(path):
    fields = section_of(TaskFile if path in TASK_KEYS else CellSections, path).model_fields
    assert KEYS[path] in fields
    assert path.rpartition(".")[2] not in fields


@pytest.mark.parametrize("path", CELL_KEYS)
def test_former_key_of_cell_file_was_only_unknown(path):
    path = path.replace("arms.*", "arms.left").replace("*", "some")
    data = {"arms": {"left": {}}} | nested(path, 1)
    with pytest.raises(ConfigurationError) as raised:
        CellConfig.from_dict(data)
    (fault,) = (fault for fault in raised.value.faults if "renamed" in fault)
    assert fault == f"cell: {path}: renamed to {renamed_key(path.split('.'))}"


@pytest.mark.parametrize("path", TASK_KEYS)
def test_former_key_of_task_file_was_only_unknown(path):
    new, path = KEYS[path], path.replace("contacts.*", "contacts.sides")
    with pytest.raises(ConfigurationError) as raised:
        TaskFile.from_dict(nested(path, 1))
    (fault,) = (fault for fault in raised.value.faults if "renamed" in fault)
    assert fault == f"task: {path.replace('*', '0')}: renamed to {new}"


def parameters():
    """Return the parameter names of every controllet and of every feature."""
    for name in registry.names("controllets"):
        yield {spec.name for spec in specs_of(registry.find("controllets", name).Params)}
    for name in registry.names("features"):
        params = registry.find("features", name).Params
        yield {f"{name}.enabled", *(spec.name for spec in specs_of(params, f"{name}."))}


def test_every_new_parameter_exists():
    known = set().union(*parameters())
    assert {new for all_new in PARAMETERS.values() for new in all_new} <= known
    assert not {old for old in PARAMETERS if "." in old} & known
    assert set(FEATURES.values()) <= set(registry.names("features"))
    for (kind, old), new in ACTUATOR_PARAMETERS.items():
        fields = registry.find("actuators", kind).Params.__dataclass_fields__
        assert new in fields
        assert old not in fields


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        ("joint_velocity", "speed", "velocity_scaling"),
        ("joint_velocity", "leash", "max_reference_lead"),
        ("admittance", "max_speed", "max_linear_speed"),
        ("gravity_compensation", "max_speed", "max_joint_speed"),
        ("cartesian_impedance", "governor.share", "governor.limit_scale"),
    ],
)
def test_former_parameter_was_only_unknown(kind, old, new):
    controllet = {"type": kind, "params": {old: 0.5}}
    with pytest.raises(ConfigurationError) as raised:
        CellConfig.from_dict({"arms": {"left": {}}, "controllets": {"soft": controllet}})
    assert raised.value.faults == (f"cell: controllets.soft.params: {old}: renamed to {new}",)


@pytest.mark.sim
def test_former_parameter_set_at_runtime_was_only_unknown(make_cell):
    cell = make_cell({"arm": {}}, {"soft": {"type": "joint_velocity"}})
    with pytest.raises(ValueError, match=r"arm/soft: speed: .*velocity_scaling$"):
        cell.set_parameters("arm/soft", {"speed": 0.5})


def test_former_feature_and_parameters_were_only_unknown():
    lead = {
        "type": "gravity_compensation",
        "features": ["felt_wrench"],
        "params": {"felt_wrench": {"patience": 0.2}},
    }
    with pytest.raises(ConfigurationError) as raised:
        CellConfig.from_dict({"arms": {"left": {}}, "controllets": {"lead": lead}})
    assert set(raised.value.faults) == {
        "cell: controllets.lead.features: felt_wrench: renamed to feedback_wrench",
        "cell: controllets.lead.params: felt_wrench.patience: renamed to feedback_wrench.timeout",
    }


def test_former_parameter_of_spring_was_only_unknown():
    group = {"type": "awas2", "joints": ["joint7"], "params": {"spring": 10.0}}
    with pytest.raises(ConfigurationError, match=r"params\.spring: renamed to spring_stiffness"):
        CellConfig.from_dict({"arms": {"left": {"actuators": {"last": group}}}})


def test_former_keys_of_perturbation_were_only_unknown():
    text = "arms: {all: {joints: {ripple: 0.1}, noise: {q_step: 1.0e-6}}}"
    with pytest.raises(ConfigurationError) as raised:
        PerturbationSpec.from_dict(yaml.safe_load(text))
    first, second = raised.value.faults
    assert re.search(r"arms\.all\.joints: renamed to transmission\b", first)
    assert re.search(r"arms\.all\.noise\.q_step: renamed to q_resolution\b", second)


def test_recorded_cell_gets_current_keys():
    recorded = {
        "arms": {"left": {"joints": {"ripple": [0.1] * 7}, "perturbation": {"delay": 0.001}}},
        "gate": {"speed": 0.5},
        "controllets": {"own": {"type": "speed_limit", "params": {"speed": 0.1}}},
    }
    assert with_current_keys(recorded) == {
        "arms": {
            "left": {"transmission": {"ripple": [0.1] * 7}, "perturbation": {"state_delay": 0.001}}
        },
        "gate": {"linear_speed": 0.5},
        "controllets": {"own": {"type": "speed_limit", "params": {"speed": 0.1}}},
    }
