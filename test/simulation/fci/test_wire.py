# SPDX-License-Identifier: Apache-2.0
"""Layouts of packets as observed from libfranka."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from multipanda_py.hardware.franka.errors import ERRORS, bits_of, names_in
from multipanda_py.simulation.fci import wire

pytestmark = pytest.mark.inline


def test_packet_sizes():
    assert wire.STATE.itemsize == wire.STATE_SIZE == 1377
    assert wire.COMMAND.itemsize == wire.COMMAND_SIZE == 371
    assert wire.ROBOT_HEADER.size == 12
    assert wire.GRIPPER_HEADER.size == 10
    assert wire.MOVE.size == 113
    assert wire.GRIPPER_STATE.size == 23
    assert len(wire.ERRORS) == len(set(wire.ERRORS)) == 41
    assert set(wire.ERRORS) == set(ERRORS), "error names of the driver"


def test_errors_survive_conversion_to_bits():
    errors = SimpleNamespace(**{name: name in ERRORS[::7] for name in ERRORS})
    assert names_in(bits_of(errors)) == ERRORS[::7]
    assert bits_of(SimpleNamespace(**dict.fromkeys(ERRORS, True))) == 2**41 - 1
    assert names_in(0) == ()


@pytest.mark.parametrize(
    ("field", "offset"),
    [
        ("O_T_EE", 8), ("NE_T_EE", 328), ("m_ee", 392), ("m_load", 444), ("elbow", 496),
        ("tau_J", 512), ("q", 596), ("dq", 652), ("joint_contact", 736),
        ("tau_ext_hat_filtered", 840), ("O_ddP_O", 940), ("O_T_EE_c", 976), ("theta", 1088),
        ("accelerometer_bottom", 1216), ("motion_generator_mode", 1288), ("errors", 1290),
        ("reflex_reason", 1331), ("robot_mode", 1372), ("control_command_success_rate", 1373),
    ],
)  # fmt: skip
def test_offsets_of_state(field, offset):
    assert wire.STATE.fields[field][1] == offset


@pytest.mark.parametrize(
    ("field", "offset"),
    [("q_c", 8), ("dq_c", 64), ("O_T_EE_c", 120), ("O_dP_EE_c", 248), ("elbow_c", 296),
     ("motion_finished", 313), ("tau_J_d", 314), ("torque_finished", 370)],
)  # fmt: skip
def test_offsets_of_command(field, offset):
    assert wire.COMMAND.fields[field][1] == offset


@pytest.mark.parametrize(
    ("bit", "name"),
    [(6, "joint_reflex"), (7, "cartesian_reflex"), (25, "communication_constraints_violation"),
     (32, "controller_torque_discontinuity"), (34, "tau_j_range_violation"),
     (40, "base_acceleration_invalid_reading")],
)  # fmt: skip
def test_error_bits(bit, name):
    assert wire.ERRORS[bit] == name


def test_state_is_written_through_views():
    state = wire.StateDatagram()
    state.fields["robot_mode"][0] = wire.Mode.REFLEX
    state.fields["q"][:] = range(7)
    assert state.buffer[1372] == 4
    assert len(state.buffer) == wire.STATE_SIZE


def test_command_of_wrong_size_is_none():
    assert wire.command_from(bytes(370)) is None
    assert wire.command_from(bytes(371))["message_id"] == 0
