# SPDX-License-Identifier: Apache-2.0
"""Logs out of the rows of a cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multipanda_py.config.backend_section import find_backend
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.instance_spec import instance_specs
from multipanda_py.exceptions import LogError
from multipanda_py.realtime.cycle_record import ARM_FIELDS
from multipanda_py.realtime.recording.arm_log import ArmLog
from multipanda_py.realtime.recording.log import Log, marks_of
from multipanda_py.robots.geometry import gravity_in_base
from multipanda_py.state import Vector

_RENAMED = {"q": "q", "dq": "dq", "tau_J": "tau", "tau": "tau_commanded"}
_LEFT_OUT = ("sensed_ns", "robot_time", "robot_mode", "robot_errors")
_PER_JOINT = {field.name for field in ARM_FIELDS if {*field.shape} & {"joints", "sprung"}}


@dataclass(frozen=True)
class ArmFacts:
    """What a log says of an arm.

    Attributes:
        name: In the cell.
        robot: Name of its model.
        joints: Names, without prefix.
        gravity_in_base: (3,) [m/s^2].
        rotors_in_tau: Whether measured torques have in them what turns the rotors.
    """

    name: str
    robot: str
    joints: Sequence[str]
    gravity_in_base: Sequence[float]
    rotors_in_tau: bool = True


def arm_log_of_records(
    records: Mapping[str, NDArray[Any]],
    cycles: NDArray[np.void],
    facts: ArmFacts,
    laws: tuple[str, ...],
) -> ArmLog:
    """Return the log of an arm; rows without a new state of it are left out.

    Args:
        records: Fields of the arm in rows by their names, (n, ...) each.
        cycles: What rows say of the cell: ``time`` and ``wake_ns``, (n,).
        facts: Of the arm.
        laws: Names of the controllets, by number.

    Raises:
        LogError: If there is no row.
    """
    if not len(cycles):
        raise LogError(f"{facts.name}: a log without a sample")
    sensed = records["sensed_ns"]
    own_time = records.get("robot_time", np.zeros(len(cycles)))
    time = own_time if own_time.any() else cycles["time"]
    is_new = (sensed == 0) | (sensed == cycles["wake_ns"])
    is_new[1:] &= (time[1:] != time[:-1]) | (sensed[1:] != sensed[:-1])
    kept = np.flatnonzero(is_new) if is_new.any() else np.array([0])
    time, starts, increasing = _forward(time[kept])
    kept = kept[increasing]
    joints = len(facts.joints)
    found: dict[str, NDArray[Any]] = {"time": time}
    for name, values in records.items():
        if name in _LEFT_OUT or 0 in values.shape[1:]:  # as for actuators that no arm has
            continue
        taken = values[kept]
        if name in _PER_JOINT:  # a slot has room for the arm with most of them
            taken = taken[..., :joints]
        found[_RENAMED.get(name, name)] = np.ascontiguousarray(taken)
    if not found["terms_traced"].any():
        del found["terms"]
    return ArmLog(
        arm=facts.name,
        robot=facts.robot,
        joints=tuple(facts.joints),
        time=time,
        q=found["q"],
        laws=laws,
        gravity_in_base=np.array(facts.gravity_in_base),
        rotors_in_tau=facts.rotors_in_tau,
    ).with_columns(found, starts)


def _forward(time: Vector) -> tuple[Vector, tuple[int, ...], NDArray[np.bool_]]:
    """Return time that increases: where a world or a robot began anew, a second later goes on.

    Returns:
        Time, where recordings begin, and which samples are kept: none twice.
    """
    step = np.diff(time)
    kept = np.concatenate([[True], step != 0.0])
    time = time[kept].copy()
    back = np.flatnonzero(np.diff(time) < 0.0) + 1
    for at in back.tolist():
        time[at:] += time[at - 1] + 1.0 - time[at]
    return time, (0, *back.tolist()), kept


def log_of_rows(rows: NDArray[np.void], config: CellConfig) -> Log:
    """Return what the rows of a cell say of its arms, as :func:`.read` does.

    Args:
        rows: In their order, (n,), as of :meth:`.Cell.rows` or a :class:`.RowFollower`.
        config: The cell.

    Raises:
        LogError: If there is no row.
    """
    laws = tuple(spec.name for spec in instance_specs(config))
    arms = arm_logs(rows, arm_facts(config), laws)
    return Log(arms, cell=config.model_dump_json(), marks=marks_of(arms))


def arm_logs(
    rows: NDArray[np.void], facts: Sequence[ArmFacts], laws: tuple[str, ...]
) -> dict[str, ArmLog]:
    """Return what rows say of arms, by name.

    Args:
        rows: In their order, (n,).
        facts: Of the arms, in the order of the cell.
        laws: Names of the controllets, by number.

    Raises:
        LogError: If there is no row.
    """
    found = {}
    for index, arm in enumerate(facts):
        records = rows["arms"][:, index]
        fields = {name: records[name] for name in records.dtype.names or ()}
        found[arm.name] = arm_log_of_records(fields, rows, arm, laws)
    return found


def arm_facts(config: CellConfig) -> list[ArmFacts]:
    """Return what logs say of the arms of a cell, in their order."""
    return [
        ArmFacts(
            name,
            arm.robot.name,
            tuple(joint.name for joint in arm.robot.joints),
            tuple(gravity_in_base(arm.rpy).tolist()),
            find_backend(arm.backend).rotors_in_torques,
        )
        for name, arm in config.arms.items()
    ]
