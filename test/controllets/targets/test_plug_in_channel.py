# SPDX-License-Identifier: Apache-2.0
"""Channels of a plug-in controllet; invalid channels are refused."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.apps.cli import main
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.controllets.coupled_impedance import CoupledImpedance
from multipanda_py.exceptions import ConfigurationError, ReportMissing, TargetRejected
from multipanda_py.targets import (
    Channel,
    Report,
    Reports,
    built_in_channels,
    channel_table,
    report_titles,
)
from multipanda_py.testing import simple_cell

pytestmark = pytest.mark.inline

OWN = {"tugged": {"type": "tugged"}}


def test_plug_in_channel_reaches_controllet_and_enforces_bounds():
    with simple_cell({"arm": {}}, OWN, ["arm/tugged"]) as cell:
        cell.set_channel("arm", "tug", [3.0, 0.0, 4.0])
        cell.step(2)
        assert cell.report("arm/tugged")["force [N]"] == pytest.approx(5.0)
        with pytest.raises(TargetRejected, match=r"arm: tug:.*\[0\.0, 0\.0, 21\.0\]"):
            cell.set_channel("arm", "tug", [0.0, 0.0, 21.0])
        complex_numbers, digits = np.array([1.0 + 2.0j] * 3), ["1", "2", "3"]
        for wrong in ([1.0], "x", [np.nan] * 3, complex_numbers, digits, [True] * 3):
            with pytest.raises(TargetRejected, match=r"arm: tug:.*\b3\b"):
                cell.set_channel("arm", "tug", wrong)
        with pytest.raises(TargetRejected, match=r"\btug, tip_force\b.*\bpose\b"):
            cell.set_target("arm", cell.pose("arm"))
        with pytest.raises(TargetRejected, match=r"tip_force:.*10 N"):
            cell.set_channel("arm", "tip_force", [11.0, 0.0, 0.0])
        assert cell.rejected["arm target"] == 9
        cell.step(1)
        assert cell.report("arm/tugged")["force [N]"] == pytest.approx(5.0)


def test_plug_in_channel_is_listed_with_topic_and_meaning(capsys):
    assert main(["list", "controllets"]) == 0
    out = capsys.readouterr().out
    assert "target tug: force along the axes of the base; 3 numbers N; <arm>/target_tug, " in out
    assert 'set_channel(arm, "tug", values)' in out
    assert main(["list", "controllets", "--markdown"]) == 0
    assert "`<arm>/target_tip_force`, geometry_msgs/Vector3Stamped" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"name": "Tip Force"}, "name: .*'Tip Force'"),
        ({"name": "a__b"}, "name: .*'a__b'"),
        ({"width": 0}, r"width:.*\b0\b.*\b1\b.*\b4096\b"),
        ({"width": 2.5}, "width:.*2.5"),
        ({"message": "Float64"}, "message: .*'Float64'"),
        ({"message": "std_msgs/msg/Int32"}, "message: .*'std_msgs/msg/Int32'"),
        (
            {"low": [1, 2], "high": [3, 4]},
            r"low: .*\[1, 2\](.|\n)*high: ",
        ),
        ({"low": 2.0, "high": 1.0}, r"low: .*\b2\.0\b.*\b1\.0\b"),
    ],
)
def test_invalid_channel_is_refused_with_received_and_allowed_values(given, reason):
    with pytest.raises(ConfigurationError, match=reason):
        Channel(**{"name": "own", "width": 3, **given})


def test_duplicate_channel_names_are_refused():
    with pytest.raises(ConfigurationError, match=r"name: .*'pose'"):
        channel_table([Channel("pose", 3)])
    with pytest.raises(ConfigurationError, match=r"name: .*'own'"):
        channel_table([Channel("own", 3), Channel("own", 3)])
    with pytest.raises(ConfigurationError, match=r"topic:.*'target_joint'"):
        channel_table([Channel("own", 3, topic="target_joint")])
    with pytest.raises(ConfigurationError, match=r"channel 'poes'.*pose"):
        channel_table(["poes"])


def test_cell_file_error_names_path_of_channel_conflict(monkeypatch):
    laws = {"a": {"type": "tugged", "arms": ["x"]}, "b": {"type": "gravity_compensation"}}
    monkeypatch.setattr(
        "multipanda_py.controllets.gravity_compensation.GravityCompensation.Target.channels",
        (Channel("tug", 1),),
    )
    with pytest.raises(ConfigurationError, match=r"controllets\.b\.type: .*'tug'"):
        CellConfig.from_dict({"arms": {"x": {}}, "controllets": laws})


def test_faulty_channel_check_is_refused_at_gate(monkeypatch):
    with simple_cell({"arm": {}}, OWN, ["arm/tugged"]) as cell:
        channel = cell.spec("arm/tugged").channel_table["tug"]
        for check, reason in (
            (lambda value, requested: np.zeros(2), r"\(2,\).*\b3\b"),
            (lambda value, requested: np.full(3, np.nan), "allowed 3 finite numbers"),
            (lambda value, requested: 1 / 0, "ZeroDivisionError"),
        ):
            monkeypatch.setitem(channel.__dict__, "check", check)
            with pytest.raises(TargetRejected, match=f"^arm: tug: .*{reason}"):
                cell.set_channel("arm", "tug", [0.0] * 3)


def test_missing_or_non_finite_report_raises():
    distance = Report("distance", "m")
    assert Reports({"distance [m]": 1.0}).value(distance) == 1.0
    with pytest.raises(ReportMissing, match=r"^distance \[m\].*\bnone\b"):
        Reports().value(distance)
    with pytest.raises(ReportMissing, match=r"^distance \[m\]: .*\bnan\b"):
        Reports({"distance [m]": float("nan")}).value(distance)
    with pytest.raises(ConfigurationError, match=r"got distance .m. twice"):
        report_titles([distance, "distance [m]"])
    with pytest.raises(ConfigurationError, match=r"\b13\b.*\b12\b"):
        report_titles([str(number) for number in range(13)])


def test_object_pose_without_reported_position_is_refused(monkeypatch):
    """A missing report became NaN, which exceeds no bound."""
    with simple_cell(
        {"left": {"position": [0.0, 0.3, 0.0]}, "right": {"position": [0.0, -0.3, 0.0]}},
        {"pair": {"type": "coupled_impedance", "arms": ["left", "right"]}},
        ["pair"],
    ) as cell:
        cell.step(2)
        monkeypatch.setattr(CoupledImpedance, "report_names", ())
        with pytest.raises(TargetRejected, match=r"^pair: .*\bobject_x \[m\]"):
            cell.set_object_target("pair", cell.pose("left"))
        with pytest.raises(TargetRejected, match=r"^pair: joint\b"):
            cell.set_channel("pair", "joint", (np.zeros(7), None))
        assert cell.rejected["pair target"] == 2


def test_every_built_in_channel_has_check_and_meaning():
    assert all(channel.check and channel.doc for channel in built_in_channels().values())
