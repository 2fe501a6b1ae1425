# SPDX-License-Identifier: Apache-2.0
"""Reports of a SpaceMouse, read by the real library."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from multipanda_py.exceptions import SourceLost

library = pytest.importorskip("pyspacemouse", reason="pyspacemouse is not installed: extra teleop")
from pyspacemouse.config_helpers import apply_axis_convention  # noqa: E402
from pyspacemouse.loader import get_device_specs  # noqa: E402

from multipanda_py.apps.teleoperation.devices import REOPEN_PERIOD, SPACE_MOUSE_SPEED, SpaceMouse  # noqa: E402


class Wire:
    """Input of the library: reports in the order of sending."""

    product_string = manufacturer_string = serial_number = ""
    release_number = 1

    def __init__(self):
        self.reports, self.is_there = [], True

    def open(self):
        if not self.is_there:
            raise OSError("no device")

    def close(self):
        pass

    def read(self, size):
        if not self.is_there:
            raise OSError("unplugged")
        return self.reports.pop(0) if self.reports else b""

    def cap(self, x=0, y=0, z=0):
        self.reports.append(bytes([1]) + struct.pack("<3h", x, y, z) + bytes(6))

    def buttons(self, bits):
        self.reports.append(bytes([3, bits]) + bytes(11))


@pytest.fixture
def mouse():
    wire, now = Wire(), [0.0]
    spec = apply_axis_convention(get_device_specs()["SpaceNavigator"], library.AxisConvention.ROS)

    def open_device():
        device = library.SpaceMouseDevice(info=spec, device=wire)
        device.open()
        return device

    return wire, now, SpaceMouse(("left",), open_device=open_device, clock=lambda: now[0])


def test_cap_commands_twist_and_all_reports_of_period_count(mouse):
    wire, _, source = mouse
    for push in range(0, 351, 35):
        wire.cap(y=-push)  # Away from the user.
    reported = source.read()["left"]
    np.testing.assert_allclose(reported.twist, [SPACE_MOUSE_SPEED[0], 0, 0, 0, 0, 0], atol=1e-9)
    assert not reported.is_engaged
    wire.buttons(1)
    wire.buttons(0)
    assert source.read()["left"].is_engaged
    wire.buttons(2)
    assert source.read()["left"].gripper == "close"
    assert source.read()["left"].gripper == ""
    wire.buttons(1)
    assert not source.read()["left"].is_engaged


def test_unplugged_mouse_is_lost_and_reopens_with_open_clutch(mouse):
    wire, now, source = mouse
    wire.buttons(1)
    assert source.read()["left"].is_engaged
    wire.is_there = False
    with pytest.raises(SourceLost, match=r"was disconnected \(unplugged\)"):
        source.read()
    now[0] += 2.0 * REOPEN_PERIOD
    with pytest.raises(SourceLost, match="device"):
        source.read()
    wire.is_there = True
    now[0] += 2.0 * REOPEN_PERIOD
    assert not source.read()["left"].is_engaged
    source.close()
