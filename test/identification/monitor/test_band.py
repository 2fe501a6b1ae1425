# SPDX-License-Identifier: Apache-2.0
"""Band of normal residuals: quantiles, file and rejected input."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from multipanda_py.exceptions import MonitorRejected
from multipanda_py.identification.monitor import Band, MonitoredLog, learn
from multipanda_py.identification.monitor.arm_monitor import min_half_widths, residual_slices
from multipanda_py.realtime.recording import ArmLog
from multipanda_py.robots import ArmDescription

pytestmark = pytest.mark.inline

ARM = ArmDescription("arm", "fr3")
JOINTS = tuple(joint.name for joint in ARM.robot.joints)
WIDTH = max(residual_range.stop for residual_range in residual_slices(7).values())


def monitored(seconds=4.0):
    time = np.arange(0.0, seconds, 1e-3)
    zero = np.zeros((len(time), 7))
    rows = np.random.default_rng(0).uniform(-1.0, 3.0, (len(time), WIDTH))
    log = ArmLog("arm", "fr3", JOINTS, time, zero, tau=zero)
    return MonitoredLog(log, zero, zero, zero, zero, rows, time >= 0.0)


def test_band_is_quantiles_with_margin():
    band = learn({"arm": [monitored()]}, {"arm": ARM.limits}, margin=0.25).arms["arm"]
    minimum = min_half_widths(ARM.limits)
    np.testing.assert_allclose(band.low, -1.0 - 1.0 - minimum, atol=0.02)
    np.testing.assert_allclose(band.high, 3.0 + 1.0 + minimum, atol=0.02)


def test_band_survives_its_file(tmp_path):
    run = monitored()
    run.residuals[:, residual_slices(7)["wrench"]] = np.nan  # not measured
    band = learn({"arm": [run]}, {"arm": ARM.limits})
    path = tmp_path / "band.yaml"
    path.write_text(band.to_yaml())
    again = Band.from_yaml(path).of("arm", JOINTS)
    np.testing.assert_allclose(again.low, band.arms["arm"].low, rtol=1e-4)
    np.testing.assert_allclose(again.high, band.arms["arm"].high, rtol=1e-4)
    assert np.isnan(again.low[residual_slices(7)["wrench"]]).all()


def test_too_few_evaluated_samples_are_rejected():
    short = monitored(1.5)
    with pytest.raises(MonitorRejected, match=r"\b1\.5 s\b.*\b2 s\b"):
        learn({"arm": [short]}, {"arm": ARM.limits})
    unevaluated = monitored()
    unevaluated = replace(unevaluated, evaluated=np.zeros(len(unevaluated.time), bool))
    with pytest.raises(MonitorRejected, match=r"\b0\.0 s\b"):
        learn({"arm": [unevaluated]}, {"arm": ARM.limits})


GOOD = "{joints: [a], q: {low: [-1.0], high: [1.0]}}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nonsense", "contains no arms"),
        ("arms: {}", "contains no arms"),
        ("arms: [1", r"band\.yaml: .*line 2, column 1"),
        ("arms: {left: 3}", "left: joints: got None"),
        (f"arms: {{left: {GOOD.replace('q:', 'qq:')}}}", "left: qq: unknown key; known: "),
        (f"arms: {{left: {GOOD.replace('-1.0', '.nan')}}}", "low: got .*allowed 1 finite"),
        (f"arms: {{left: {GOOD.replace('-1.0', '-1.0, 2.0')}}}", "low: got .*allowed 1 finite"),
        (f"arms: {{left: {GOOD.replace('-1.0', 'x')}}}", "low: got .*allowed 1 finite"),
        (f"arms: {{left: {GOOD.replace('-1.0', '1.0')}}}", "low is not below high"),
    ],
)
def test_invalid_band_file_is_rejected(tmp_path, text, message):
    path = tmp_path / "band.yaml"
    path.write_text(text)
    with pytest.raises(MonitorRejected, match=message):
        Band.from_yaml(path)
    path.write_text(f"arms: {{left: {GOOD}}}")
    band = Band.from_yaml(path)
    with pytest.raises(MonitorRejected, match=r"'right'.*\bleft\b"):
        band.of("right", ["a"])
    with pytest.raises(MonitorRejected, match=r"joints a\b.* b\b"):
        band.of("left", ["b"])
    with pytest.raises(MonitorRejected, match=r"nowhere\.yaml"):
        Band.from_yaml(tmp_path / "nowhere.yaml")
