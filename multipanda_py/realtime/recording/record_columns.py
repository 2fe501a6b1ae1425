# SPDX-License-Identifier: Apache-2.0
"""Convert cycle records of a cell to logs of its arms."""

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
_LEFT_OUT = ("state_cycle_ns", "robot_time", "robot_mode", "robot_errors")
_PER_JOINT = {field.name for field in ARM_FIELDS if {*field.shape} & {"joints", "sprung"}}


@dataclass(frozen=True)
class ArmFacts:
    """Properties of an arm that its log contains.

    Attributes:
        name: Name in the cell.
        robot: Name of the robot model.
        joints: Joint names without prefix.
        gravity_in_base: Gravity in the base frame, (3,) [m/s^2].
        rotors_in_tau: True if measured torques include the torque that accelerates the rotors.
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
    """Return the log of an arm, without cycle records that have no new state of the arm.

    Args:
        records: Fields of the arm by name, (n, ...) each.
        cycles: Fields of the cell: ``time`` and ``wake_ns``, (n,).
        facts: Properties of the arm.
        laws: Names of the controllets, by number.

    Raises:
        LogError: If there is no record.
    """
    if not len(cycles):
        raise LogError(f"{facts.name}: the log has no samples")
    sensed = records["state_cycle_ns"]
    own_time = records.get("robot_time", np.zeros(len(cycles)))
    time = own_time if own_time.any() else cycles["time"]
    is_new = (sensed == 0) | (sensed == cycles["wake_ns"])
    is_new[1:] &= (time[1:] != time[:-1]) | (sensed[1:] != sensed[:-1])
    selected = np.flatnonzero(is_new) if is_new.any() else np.array([0])
    time, starts, increasing = _forward(time[selected])
    selected = selected[increasing]
    joints = len(facts.joints)
    result: dict[str, NDArray[Any]] = {"time": time}
    for name, values in records.items():
        # A size of 0 means that no arm has the field, such as actuators.
        if name in _LEFT_OUT or 0 in values.shape[1:]:
            continue
        taken = values[selected]
        if name in _PER_JOINT:  # The record has the size of the arm with the most joints.
            taken = taken[..., :joints]
        result[_RENAMED.get(name, name)] = np.ascontiguousarray(taken)
    if not result["torque_terms_recorded"].any():
        del result["torque_terms"]
    return ArmLog(
        arm=facts.name,
        robot=facts.robot,
        joints=tuple(facts.joints),
        time=time,
        q=result["q"],
        laws=laws,
        gravity_in_base=np.array(facts.gravity_in_base),
        rotors_in_tau=facts.rotors_in_tau,
    ).with_columns(result, starts)


def _forward(time: Vector) -> tuple[Vector, tuple[int, ...], NDArray[np.bool_]]:
    """Return increasing time: after a reset of the clock, time continues one second later.

    Returns:
        Time, first samples of the recordings, and flags of the samples without repeated times.
    """
    step = np.diff(time)
    selected = np.concatenate([[True], step != 0.0])
    time = time[selected].copy()
    back = np.flatnonzero(np.diff(time) < 0.0) + 1
    for at in back.tolist():
        time[at:] += time[at - 1] + 1.0 - time[at]
    return time, (0, *back.tolist()), selected


def log_of_rows(rows: NDArray[np.void], config: CellConfig) -> Log:
    """Return the log of cycle records of a cell, as :func:`.read` does for a file.

    Args:
        rows: Records in order, (n,), from :meth:`.Cell.rows` or :class:`.RowFollower`.
        config: Configuration of the cell.

    Raises:
        LogError: If there is no record.
    """
    laws = tuple(spec.name for spec in instance_specs(config))
    arms = arm_logs(rows, arm_facts(config), laws)
    return Log(arms, cell=config.model_dump_json(), marks=marks_of(arms))


def arm_logs(
    rows: NDArray[np.void], facts: Sequence[ArmFacts], laws: tuple[str, ...]
) -> dict[str, ArmLog]:
    """Return the logs of arms from cycle records, by name.

    Args:
        rows: Records in order, (n,).
        facts: Properties of the arms, in the order of the cell.
        laws: Names of the controllets, by number.

    Raises:
        LogError: If there is no record.
    """
    arm_logs = {}
    for index, arm in enumerate(facts):
        records = rows["arms"][:, index]
        fields = {name: records[name] for name in records.dtype.names or ()}
        arm_logs[arm.name] = arm_log_of_records(fields, rows, arm, laws)
    return arm_logs


def arm_facts(config: CellConfig) -> list[ArmFacts]:
    """Return the properties of the arms of a cell, in order."""
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
