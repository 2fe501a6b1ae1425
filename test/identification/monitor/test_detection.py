# SPDX-License-Identifier: Apache-2.0
"""Detection of faults during a task, without alarms in normal runs."""

from __future__ import annotations

import numpy as np
import pytest
from long_form import LONG
from monitor_rig import BREAKS, Rig, friction, payload, sensor

from multipanda_py.identification.monitor import BandMonitor, learn

pytestmark = [pytest.mark.sim, pytest.mark.inline]
BROKEN = {  # fault, maximum delay of detection [s], one of the alarmed quantities
    "payload of 0.5 kg": (payload(0.5), 0.5, "external"),
    "friction of 1 Nm in joint 5": (friction(5, 1.0), 1.0, "external"),
    "torque sensor of joint 2 off by 0.8 Nm": (sensor(2, 0.8), 0.5, "tau"),
}


@pytest.fixture(scope="module", params=[1, 2] if LONG else [1])
def learnt(request):
    """Task with model errors and noise, and the band of three normal runs."""
    rig = Rig(request.param)
    good = [rig.monitored(seed) for seed in range(3)]
    return rig, learn({"arm": good}, {"arm": rig.arm.limits})


def watched(rig, band, seed, what=None):
    found = rig.monitored(seed, what)
    watch = BandMonitor("arm", band.of("arm", found.log.joints))
    watch.check(found)
    assert watch.sample_count > 3000
    return watch


@pytest.mark.long
def test_normal_runs_of_other_seeds_stay_in_band(learnt):
    rig, band = learnt
    for seed in range(100, 120 if LONG else 102):
        watch = watched(rig, band, seed)
        assert watch.alarms == []
        assert max(watch.use.values()) < 0.9
        assert set(watch.use) == {"q", "dq", "tau", "external", "wrench", "correction"}


@pytest.mark.long
@pytest.mark.parametrize("name", BROKEN)
def test_fault_is_detected_in_time(learnt, name):
    what, within, where = BROKEN[name]
    rig, band = learnt
    watch = watched(rig, band, 200, what)
    assert watch.alarms, watch.use
    delay = watch.alarms[0].time - BREAKS
    assert 0.0 < delay < within, watch.alarms[0]
    assert where in {alarm.quantity for alarm in watch.alarms}
    text = str(watch.alarms[0])
    assert text.startswith("arm: ")
    assert "in good runs [" in text


@pytest.mark.long
def test_alarm_is_reported_once_until_residual_returns(learnt):
    rig, band = learnt
    found = rig.monitored(300)
    joint_positions = slice(0, 7)
    for begin, end in ((1500, 1700), (2000, 2050), (3200, 3400)):
        # 0.2 s, then too short, and again 1.15 s later
        found.residuals[begin:end, joint_positions] = 1.0
    watch = BandMonitor("arm", band.of("arm", found.log.joints))
    times = np.unique([round(alarm.time, 2) for alarm in watch.check(found)])
    begin = found.time[0]
    np.testing.assert_allclose(times - begin, [1.6, 3.3], atol=0.02)
    assert {alarm.quantity for alarm in watch.alarms} == {"q"}
    assert watch.now == {}
