# SPDX-License-Identifier: Apache-2.0
"""State of a remote cell, from messages that are passed to the subscription by hand."""

from types import SimpleNamespace

import pytest
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.ros.client.cell_state import NodeStatus

pytestmark = pytest.mark.inline


def test_loop_statistics_are_read_with_units_and_counts():
    config = CellConfig.from_dict({"cell": {"name": "bench"}, "arms": {"left": {}}})
    status = NodeStatus(config, SimpleNamespace(create_subscription=lambda *_: None))
    values = {
        "active": "left/hold", "missed cycles": "3 of 1000", "rate [Hz]": "999.5",
        "lateness p50 [us]": "12", "lateness p99 [us]": "-123.4", "lateness max [us]": "400.0",
        "compute p50 [us]": "85.5", "compute p99 [us]": "130", "compute max [us]": "250",
        "real-time factor": "0.98",
    }  # fmt: skip
    items = [KeyValue(key=key, value=value) for key, value in values.items()]
    status.receive(DiagnosticArray(status=[DiagnosticStatus(hardware_id="bench", values=items)]))
    found = status.statistics()
    assert (found.cycles, found.missed) == (1000, 3)
    assert (found.rate, found.real_time_factor) == (999.5, 0.98)
    assert found.lateness_p50 == pytest.approx(12e-6)
    assert found.lateness_p99 == pytest.approx(-123.4e-6)
    assert found.compute_p50 == pytest.approx(85.5e-6)
    assert found.compute_max == pytest.approx(250e-6)
