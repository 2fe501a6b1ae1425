# SPDX-License-Identifier: Apache-2.0
"""Every torque term stands in the place of what has added it."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.feature import Feature
from multipanda_py.parameters import NoParams
from multipanda_py.realtime.cycle_record import row_dtype
from multipanda_py.realtime.feature_set import FADE_TIME, FeatureSet
from multipanda_py.realtime.torque_terms import TorqueTerms
from multipanda_py.targets import Target
from multipanda_py.testing import PERIOD, StateMaker

pytestmark = pytest.mark.inline

LAW = 7.0


class Constant(Feature):
    """Adds the same torque to every joint of every arm, more to later arms."""

    torque = 0.0

    def add(self, states, target, tau, period):
        for arm, own in enumerate(tau):
            own += self.torque + arm


class One(Constant):
    torque = 1.0


class Two(Constant):
    """Comes after all others, wherever it stands."""

    torque, last = 2.0, True


class Preparing(Feature):
    """Adds nothing."""

    def prepare(self, states, target, period):
        pass


class Four(Constant):
    torque = 4.0


@pytest.fixture
def rig():
    """Two arms, a law that writes 7 Nm, features Two (last), Preparing, One and Four."""
    maker = StateMaker(2)
    features = FeatureSet(
        [kind(maker.context, NoParams()) for kind in (Two, Preparing, One, Four)],
        [True] * 4,
        PERIOD,
    )
    features.activate(maker.states, Target(2))
    tau = [np.zeros(7), np.zeros(7)]
    records = [
        np.zeros(1, row_dtype(2, 0, 1, terms=6))["arms"][0, i : i + 1].reshape(()) for i in (0, 1)
    ]
    terms = TorqueTerms(tau, records, 5)
    terms.is_on = True
    terms.attach_records()

    def cycle():
        for own in tau:
            own[:] = LAW
        terms.add(features, maker.states, Target(2), PERIOD, tau)
        return [record["torque_terms"][:, 0].tolist() for record in records]

    return features, maker, cycle, records


def test_terms_stand_in_the_order_of_the_cell_file_though_they_add_in_another(rig):
    _, _, cycle, records = rig
    first, second = cycle()
    assert first == [LAW, 2.0, 0.0, 1.0, 4.0, 0.0]
    assert second == [LAW, 3.0, 0.0, 2.0, 5.0, 0.0]
    assert [int(record["torque_terms_recorded"]) for record in records] == [5, 5]


def test_a_feature_that_comes_or_goes_keeps_its_place_and_leaves_nothing_behind(rig):
    features, maker, cycle, _ = rig
    cycle()
    features.switch([True, True, False, True], maker.states, Target(2))
    fading, _ = cycle()
    assert fading[3] == pytest.approx(1.0 - PERIOD / FADE_TIME)
    for _ in range(round(FADE_TIME / PERIOD) + 1):
        cycle()
        features.remove_settled()
    gone, _ = cycle()
    assert gone == [LAW, 2.0, 0.0, 0.0, 4.0, 0.0]
