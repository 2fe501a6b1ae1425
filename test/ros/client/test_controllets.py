# SPDX-License-Identifier: Apache-2.0
"""Client of the controllets of a running node, on a link whose answers are given."""

from types import SimpleNamespace

import pytest
from std_srvs.srv import Trigger

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import RecoveryFailed
from multipanda_py.ros.client.cell_state import ArmStatus
from multipanda_py.ros.client.controllets import RemoteControllets

pytestmark = pytest.mark.inline


def controllets(status):
    link = SimpleNamespace(
        offer=lambda *_: None,
        ask=lambda *_: Trigger.Response(success=True),
        until=lambda condition, timeout: condition(),
    )
    arms = {"left": SimpleNamespace(status=status)}
    return RemoteControllets(
        link, "/cell", CellConfig.from_dict({"arms": {"left": {}}}), arms, None, 1.0
    )


def test_recovery_returned_while_diagnostics_still_reported_a_fault():
    latched = ArmStatus(owner="left/hold", fault="velocity_limit", reason="joint 5 at 1.3 rad/s")
    with pytest.raises(RecoveryFailed) as error:
        controllets(latched).recover(["left"])
    assert error.value.reasons == {"left": "velocity_limit: joint 5 at 1.3 rad/s"}


def test_recovery_returns_once_diagnostics_report_no_fault():
    controllets(ArmStatus(owner="left/hold")).recover(["left"])
