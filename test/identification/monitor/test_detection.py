# SPDX-License-Identifier: Apache-2.0
"""What breaks in the middle of a task is found in time, and good runs are left alone."""

from __future__ import annotations

import numpy as np
import pytest
from long_form import LONG
from monitor_rig import BREAKS, Rig, friction, payload, sensor

from multipanda_py.identification.monitor import BandMonitor, learn

pytestmark = [pytest.mark.sim, pytest.mark.inline]
BROKEN = {  # what, within how many seconds, and where among others
    "payload of 0.5 kg": (payload(0.5), 0.5, "external"),
    "friction of 1 Nm in joint 5": (friction(5, 1.0), 1.0, "external"),
    "torque sensor of joint 2 off by 0.8 Nm": (sensor(2, 0.8), 0.5, "tau"),
}


@pytest.fixture(scope="module", params=[1, 2] if LONG else [1])
def learnt(request):
    """A task on an arm that is not as described, with noise; and the band of three good runs."""
    rig = Rig(request.param)
    good = [rig.shadowed(seed) for seed in range(3)]
    return rig, learn({"arm": good}, {"arm": rig.arm.limits})


def watched(rig, band, seed, what=None):
    found = rig.shadowed(seed, what)
    watch = BandMonitor("arm", band.of("arm", found.log.joints))
    watch.check(found)
    assert watch.sample_count > 3000
    return watch


@pytest.mark.long
def test_good_runs_of_other_seeds_stay_within(learnt):
    rig, band = learnt
    for seed in range(100, 120 if LONG else 102):
        watch = watched(rig, band, seed)
        assert watch.alarms == []
        assert max(watch.use.values()) < 0.9
        assert set(watch.use) == {"q", "dq", "tau", "external", "wrench", "correction"}


@pytest.mark.long
@pytest.mark.parametrize("name", BROKEN)
def test_what_breaks_is_found(learnt, name):
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
def test_an_alarm_is_said_once_until_the_arm_was_back(learnt):
    rig, band = learnt
    found = rig.shadowed(300)
    place = slice(0, 7)
    for begin, end in ((1500, 1700), (2000, 2050), (3200, 3400)):
        found.residuals[begin:end, place] = 1.0  # 0.2 s, too short, and again 1.15 s later
    watch = BandMonitor("arm", band.of("arm", found.log.joints))
    times = np.unique([round(alarm.time, 2) for alarm in watch.check(found)])
    begin = found.time[0]
    np.testing.assert_allclose(times - begin, [1.6, 3.3], atol=0.02)
    assert {alarm.quantity for alarm in watch.alarms} == {"q"}
    assert watch.now == {}
