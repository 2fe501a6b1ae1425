# SPDX-License-Identifier: Apache-2.0
"""Torque terms: records per part, and single reports of reduced stiffness."""

from __future__ import annotations

import re

import numpy as np
import pytest

from multipanda_py import registry
from multipanda_py.cell.switch_planning import Strictness
from multipanda_py.control.impedance.modal_damping import STIFFNESS_SCALE
from multipanda_py.controllet import Controllet
from multipanda_py.feature import Feature
from multipanda_py.parameters import NoParams
from multipanda_py.realtime.cycle_record import record_dtype
from multipanda_py.realtime.events import Event
from multipanda_py.realtime.feature_set import FADE_TIME, FeatureSet
from multipanda_py.realtime.torque_terms import GainReductionNotice, TorqueTerms
from multipanda_py.targets import Target
from multipanda_py.testing import PERIOD, StateMaker, corners

pytestmark = pytest.mark.inline


LAW = 7.0


class Constant(Feature):
    """Feature with a constant torque, 1 Nm more for each further arm."""

    torque = 0.0

    def add(self, states, target, tau, period):
        for arm, own in enumerate(tau):
            own += self.torque + arm


class One(Constant):
    torque = 1.0


class Two(Constant):
    """Feature that is evaluated last, independent of its position."""

    torque, runs_last = 2.0, True


class Preparing(Feature):
    """Feature without torque."""

    def prepare(self, states, target, period):
        pass


class Four(Constant):
    torque = 4.0


@pytest.fixture
def rig():
    """Return two arms, a torque of 7 Nm, features Two (last), Preparing, One and Four."""
    maker = StateMaker(2)
    features = FeatureSet(
        [kind(maker.context, NoParams()) for kind in (Two, Preparing, One, Four)],
        [True] * 4,
        PERIOD,
    )
    features.activate(maker.states, Target(2))
    tau = [np.zeros(7), np.zeros(7)]
    records = [
        np.zeros(1, record_dtype(2, 0, 1, terms=6))["arms"][0, i : i + 1].reshape(())
        for i in (0, 1)
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


def test_terms_keep_order_of_cell_file(rig):
    _, _, cycle, records = rig
    first, second = cycle()
    assert first == [LAW, 2.0, 0.0, 1.0, 4.0, 0.0]
    assert second == [LAW, 3.0, 0.0, 2.0, 5.0, 0.0]
    assert [int(record["torque_terms_recorded"]) for record in records] == [5, 5]


def test_switched_feature_keeps_its_term_index(rig):
    features, maker, cycle, _ = rig
    cycle()
    features.switch([True, True, False, True], maker.states, Target(2))
    fading, _ = cycle()
    assert fading[3] == pytest.approx(1.0 - PERIOD / FADE_TIME)
    for _ in range(round(FADE_TIME / PERIOD) + 1):
        cycle()
        features.remove_settled()
    after_fade, _ = cycle()
    assert after_fade == [LAW, 2.0, 0.0, 0.0, 4.0, 0.0]


STIFF = [5000.0] * 3 + [300.0] * 3


class Reporting(Controllet):
    report_names = (STIFFNESS_SCALE,)

    def on_activate(self, states, target):
        pass

    def update(self, states, target, period):
        pass


def notices_of(scale_factors):
    """Return cycles and texts of the notices for a sequence of reported scales."""
    law = Reporting(StateMaker(2).context, None)
    law.min_scale_arm, derating, found = 1, GainReductionNotice("reporting", law), []
    for cycle, scale_value in enumerate(scale_factors):
        law.report[0] = scale_value
        derating.check()
        found += [(cycle, text) for text in law.context.notices]
        law.context.notices.clear()
    return found, derating.times


def test_scale_near_threshold_is_reported_once():
    found, times = notices_of([0.94, 0.96] * 2000)
    assert [cycle for cycle, _ in found] == [0]
    assert times == 1
    assert "arm1: reporting keeps 94%" in found[0][1]


def test_repeated_reduction_is_counted_and_reported_once_per_second():
    found, times = notices_of([0.9, 1.0] * 1750)
    assert times == 1750
    cycles = [cycle for cycle, _ in found]
    assert len(cycles) == 4
    assert min(np.diff(cycles)) >= 1000
    assert re.search(rf"\b{1 + cycles[-1] // 2}\b", found[-1][1])


def test_short_reduction_is_reported_later_and_worsening_too():
    found, _ = notices_of([0.9] * 10 + [1.0] * 10 + [0.8] * 3000 + [0.3] * 10)
    assert [(cycle, text.partition(" of its")[0][-3:]) for cycle, text in found] == [
        (0, "90%"), (1000, "80%"), (3020, "30%"),
    ]  # fmt: skip


def expected_scale(state, stiffness):
    """Return the scale that limits the modes of the spring to 60 rad/s, from mass and Jacobian."""
    inverse = state.jacobian @ np.linalg.solve(state.mass_matrix, state.jacobian.T)
    return min(1.0, 60.0**2 / np.linalg.eigvals(inverse @ np.diag(stiffness)).real.max())


def test_reduced_stiffness_was_not_reported_at_switch(make_cell):
    """Only the report and /diagnostics had it, not the result of the switch and the log."""
    law = {"type": "cartesian_impedance", "params": {"stiffness": STIFF}}
    cell = make_cell(None, {"law": law}, [])
    result = cell.switch(["right/law"])
    cell.step(100)
    scale = expected_scale(cell.loop.arms[1].state, STIFF)
    assert scale < 0.9
    assert result.message.count(f"right: cartesian_impedance keeps {scale:.0%}") == 1
    (event,) = [e for e in cell.events() if e.event is Event.NOTICE]
    assert event.controllet == "right/law"
    assert event.text in result.notices


def test_controllet_of_two_arms_reports_arm_with_reduced_stiffness(make_cell):
    """One configuration has a smaller effective mass than the stiffness requires."""
    soft = [0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785]
    light_wrist = [0.0, 0.4, 0.0, -1.2, 0.0, 1.0, 0.785]
    arms = {
        "left": {"position": [0.0, 0.5, 0.0], "q_start": light_wrist},
        "right": {"position": [0.0, -0.5, 0.0], "q_start": soft},
    }
    law = {
        "type": "cartesian_impedance",
        "arms": ["left", "right"],
        "params": {"stiffness": STIFF},
    }
    cell = make_cell(arms, {"law": law}, [])
    result = cell.switch(["law"])
    scale_factors = [expected_scale(arm.state, STIFF) for arm in cell.loop.arms]
    assert abs(scale_factors[0] - scale_factors[1]) > 0.02
    assert f"{('left', 'right')[int(np.argmin(scale_factors))]}: cartesian" in result.message


def test_every_controllet_with_stiffness_scale_reports_it(make_cell):
    laws = {name: registry.find("controllets", name) for name in registry.names("controllets")}
    laws = {name: law for name, law in laws.items()
            if STIFFNESS_SCALE in law.report_names and not law.commands_actuators}  # fmt: skip
    assert len(laws) >= 10
    controllets = {}
    for name, law in laws.items():
        highest = {key: np.asarray(value).tolist() for key, value in corners(law)[-1][1].items()
                   if "stiffness" in key}  # fmt: skip
        if name == "gravity_compensation":
            highest |= {"hold": "position", "keep_orientation": True}
        arms = ["left", "right"][: law.min_arms]
        controllets[name] = {"type": name, "arms": arms, "params": highest}
    light = [0.0, -0.3, 0.0, -2.8, 0.0, 2.6, 0.8]
    arms = {name: {"position": [0.0, y, 0.0], "q_start": light}
            for name, y in (("left", 0.5), ("right", -0.5))}  # fmt: skip
    cell = make_cell(arms, controllets, [])
    for name in laws:
        result = cell.switch([name], strictness=Strictness.FORCE_AUTO)
        assert len(result.notices) == 1, name
        where = "(left|right|grasped object)" if laws[name].min_arms > 1 else "left"
        assert re.fullmatch(rf"{where}: {name} keeps \d+% .*", result.notices[0])


def test_operational_space_reports_damping_beyond_latency_limit(make_cell):
    params = {"stiffness": [1600.0] * 6, "damping_ratio": [3.0] * 6}
    cell = make_cell(None, {"osc": {"type": "operational_space", "params": params}}, [])
    assert re.search(
        r"\b80 1/s.*\bstiffness\b.*\bdamping_ratio\b.*\b240 1/s", cell.switch(["left/osc"]).message
    )
    cell.step(100)
    assert len([e for e in cell.events() if e.event is Event.NOTICE]) == 1
