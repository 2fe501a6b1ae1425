# SPDX-License-Identifier: Apache-2.0
"""Client of the controllets of a running node, on a link whose answers are given."""

import time
from types import SimpleNamespace

import pytest
from std_srvs.srv import Trigger

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import RecoveryFailed, TargetRejected
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


def checked(sent, rejected):
    """Check an arm after a number of sent targets, of which the node has rejected some."""
    name = "left/soft"
    controllets = {"soft": {"type": "cartesian_impedance", "target_timeout": 0.5},
                   "joint_trajectory_controller": {"type": "joint_trajectory"}}  # fmt: skip
    config = CellConfig.from_dict({"arms": {"left": {}}, "controllets": controllets})
    arm = SimpleNamespace(status=ArmStatus(owner=name), topics=[])
    targets = SimpleNamespace(
        sent={"left": 0},
        forget_earlier_targets=lambda: None,
        target_age=lambda _: 0.0,
        competing_topic=lambda _: "",
    )
    link = SimpleNamespace(offer=lambda *_: None, ask=lambda *_: SimpleNamespace(ok=True))
    remote = RemoteControllets(link, "/cell", config, {"left": arm}, targets, 1.0)
    assert remote.choose(["left"], "cartesian_impedance", 0.05) == {"left": name}
    remote.switch([name])
    targets.sent["left"] = sent
    now = time.monotonic() + 1.0
    arm.status = ArmStatus(owner=name, refused=rejected, refusal="too far", received_at=now)
    remote.check()


def test_majority_of_rejected_targets_is_reported():
    with pytest.raises(TargetRejected, match="too far"):
        checked(sent=20, rejected=15)
    checked(sent=20, rejected=10)


def test_few_targets_are_not_judged():
    checked(sent=4, rejected=4)
