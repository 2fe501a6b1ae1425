# SPDX-License-Identifier: Apache-2.0
"""The map of robustness: its rig is right on known cases, and the page says what the map says."""

import json
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from multipanda_py import registry

FOLDER = Path(__file__).parent.parent / "benchmarks" / "robustness"
sys.path.append(str(FOLDER))
cases, page, rig, scenarios, verdict = map(
    import_module, ("cases", "page", "rig", "scenarios", "verdict")
)
robustness_map = import_module("map")
STABLE, LIMITS, FAULTS, UNSTABLE = verdict.ORDER
WINDOW, Verdict = verdict.WINDOW, verdict.Verdict

pytestmark = [pytest.mark.sim, pytest.mark.inline]
IDEAL, SURFACE = cases.Condition("ideal"), cases.Condition("surface", surface=1e3)
TIME = np.arange(4 * WINDOW) * 1e-3


TRIED = (
    ("hold", "delay 5 + lag 2 ms"),
    ("cartesian_impedance", "surface 1e4 N/m"),
    ("franka_ros2 joint impedance", "ideal arm"),
    ("CRISP Cartesian impedance", "surface 1e3 N/m"),
)


@pytest.fixture(autouse=True, scope="module")
def _textbook_laws():
    rig.find_textbook_laws()
    yield
    sys.path.remove(str(rig.PLUGIN))
    for cached in (registry.names, registry.find, registry.plug_ins):
        cached.cache_clear()


def law(kind, moves_by="", presses_by="", **params):
    return cases.Law("tried", kind, moves_by, presses_by, params)


def speeds(course):
    return np.outer(course, np.ones(7))


def test_a_spring_without_damper_is_unstable():
    found = scenarios.run(law("textbook_joint_impedance", damping=[0.0] * 7), IDEAL, seed=0)
    assert found.verdict == UNSTABLE
    assert found.reason.startswith("push: moves at")
    assert found.speed > 0.1  # a push of 0.3 rad/s is never forgotten


def test_a_slow_swing_that_dies_down_is_stable_whenever_it_is_looked_at():
    """It was unstable where half a second at its turning point was compared with one after it."""
    for phase in np.linspace(0.0, np.pi, 7):
        time = np.arange(6 * WINDOW) * 1e-3
        swing = 0.5 * np.cos(2.0 * time + phase) * np.exp(-time / 3.0)
        assert verdict.judge_rest(Verdict(), "push", speeds(swing))
        assert not verdict.judge_rest(Verdict(), "push", speeds(swing * np.exp(time / 3.0)))


class Course:
    """What an arm does, as a rig would see it, (cycles,) [rad/s]."""

    def __init__(self, course):
        self.course, self.speed, self.faults, self.phase = course, [], [], "step"

    def step(self, cycles):
        now = len(self.speed)
        self.speed += [[speed] for speed in self.course[now : now + cycles]]

    def limited(self, cycles):
        return np.zeros(cycles, bool)


@pytest.mark.parametrize(
    ("push", "rate", "expected"),
    [
        (3.0, 0.7, STABLE),  # comes late to what it swings about, and dies down there
        (0.0, 0.0, UNSTABLE),
        (0.0, -0.05, UNSTABLE),
    ],
)
def test_a_slow_swing_that_rests_in_the_end_was_unstable(push, rate, expected):
    time = np.arange(9000) * 1e-3
    course = 0.3 * np.cos(8.0 * time) * np.exp(-rate * np.maximum(time - push, 0.0))
    found = Verdict()
    scenarios.rest(Course(course), found, 1800)
    assert found.verdict == expected


def test_a_law_that_raises_faults_and_rests():
    def break_it(tried, found, rng):
        tried.step(10)
        tried.cell.set_parameters("arm/law", {"fault": "raise"})
        scenarios.go(tried, 1)

    found = scenarios.run(law("misbehaving"), IDEAL, seed=0, scenario=break_it)
    assert found.verdict == FAULTS
    assert "controllet_error" in found.reason
    assert found.speed < verdict.AT_REST


def test_a_damped_spring_is_stable():
    found = scenarios.run(law("textbook_joint_impedance", damping=[20.0] * 7), IDEAL, seed=1)
    assert (found.verdict, found.reason) == (STABLE, "")


def test_the_surface_is_as_stiff_as_it_says():
    # Two springs in series over the distance between target and surface.
    spring = law(
        "textbook_cartesian_impedance", "pose", "pose", stiffness=[400.0] * 3 + [20.0] * 3
    )
    found = scenarios.run(spring, SURFACE, seed=0)
    series = 1.0 / (1.0 / 400.0 + 1.0 / SURFACE.surface)
    assert found.verdict == STABLE
    assert found.force == pytest.approx(series * scenarios.DEEP, rel=2e-3)


@pytest.mark.parametrize(
    ("course", "expected"),
    [
        (0.5 * np.sin(4.0 * TIME) * np.exp(-TIME), STABLE),  # a slow swing that dies down
        (0.5 * np.sin(60.0 * TIME), UNSTABLE),
        (0.04 * np.sin(60.0 * TIME), STABLE),  # below what counts as motion
        (np.full_like(TIME, 0.2), UNSTABLE),  # goes away
        (np.where(TIME > 1.0, np.nan, 0.0), UNSTABLE),
    ],
)
def test_rest_is_judged_by_what_moves(course, expected):
    found = Verdict()
    assert verdict.judge_rest(found, "push", speeds(course)) == (expected == STABLE)
    assert found.verdict == expected


def test_an_arm_at_rest_may_be_at_its_limits():
    found, limited = Verdict(), np.zeros(len(TIME), bool)
    limited[::50] = True
    verdict.judge_rest(found, "push", speeds(0.0 * TIME), limited)
    assert (found.verdict, found.limited) == (LIMITS, pytest.approx(0.02))


def test_a_contact_force_that_swings_is_unstable():
    found = Verdict()
    assert not verdict.judge_contact(found, 10.0 + 8.0 * np.sin(60.0 * TIME))
    assert found.verdict == UNSTABLE
    assert verdict.judge_contact(Verdict(), 10.0 + 8.0 * np.sin(60.0 * TIME) * np.exp(-3 * TIME))


def test_a_limit_of_the_torque_rate_is_seen():
    tried = rig.Rig(law("misbehaving", torque=10.0), IDEAL, seed=0)
    tried.step(25)
    limited = tried.limited(25)
    tried.close()
    assert limited[3:9].all()  # from 0 to 10 Nm at 1 Nm per cycle, blended in over 5 ms
    assert not limited[12:].any()


def test_a_hand_that_lets_go_pulls_no_more():
    leader = next(item for item in cases.LAWS if item.moves_by == "leader")
    tried = rig.Rig(leader, IDEAL, seed=0)
    tried.pull[0] = [0.0, 0.0, 4.0]
    tried.step(300)
    moved = np.abs(tried.speed[-1][:7]).max()
    tried.pull[:] = 0.0
    tried.step(3000)
    tried.close()
    assert moved > 0.1
    assert np.abs(tried.speed[-1][:7]).max() < 0.3 * moved  # damped, where a pull speeds it up


@pytest.mark.slow
@pytest.mark.parametrize(("name", "condition"), TRIED)
def test_the_map_is_what_happens_today(name, condition):
    tried = next(item for item in cases.LAWS if item.name == name)
    where = next(item for item in cases.CONDITIONS if item.name == condition)
    now = scenarios.run(tried, where, 0).rounded()
    written = json.loads(robustness_map.RESULT.read_text(encoding="utf-8"))
    then = written[robustness_map.key((tried, where, 0))]
    assert now["verdict"] == then["verdict"]
    assert now["force"] == pytest.approx(then["force"], rel=0.05)


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "condition", "seed"),
    [
        ("teleoperation, kinova_gen3", "ideal arm", 1),  # the follower passed its speed limit
        ("coupled_force_impedance, kinova_gen3", "surface 1e4 N/m", 0),  # it never got there
        ("hold, kinova_gen3", "payload 3 kg", 0),  # more than the sixth joint has torque for
        ("hold, iiwa14", "elastic joints, ripple", 0),  # gears of an arm with a quarter its torque
    ],
)
def test_other_arms_stand_what_they_fell_to(name, condition, seed):
    tried = next(item for item in cases.EVERY_LAW if item.name == name)
    where = next(item for item in cases.CONDITIONS if item.name == condition)
    found = scenarios.run(tried, where, seed)
    assert found.verdict == STABLE
    if where.surface:
        assert found.force == pytest.approx(10.0, rel=0.05)


def test_conditions_are_those_of_an_fr3_or_fitted_to_the_arm():
    elastic = next(c for c in cases.CONDITIONS if c.joints)
    heavy = next(c for c in cases.CONDITIONS if c.perturbation.get("payload") == cases.HEAVY)
    for condition in cases.CONDITIONS:
        assert cases.fitted(condition, "fr3") == condition
    assert cases.fitted(heavy, "kinova_gen3").perturbation == {"payload": 2.0}
    gears = cases.fitted(elastic, "ur5e").joints
    assert gears["stiffness"] == [24000.0] * 3 + [14000.0, 9000.0, 9000.0]
    assert gears["damping"] == pytest.approx([24.0] * 3 + [14.0, 9.0, 9.0])


@pytest.mark.slow
def test_the_page_says_what_the_map_says():
    written = json.loads(robustness_map.RESULT.read_text(encoding="utf-8"))
    assert page.PAGE.read_text(encoding="utf-8") == page.page(written)
    laws = (*cases.LAWS, *page.tried(written))
    assert set(written) == {
        robustness_map.key(episode)
        for episode in robustness_map.episodes(laws, cases.CONDITIONS, robustness_map.SEEDS)
    }


def test_every_field_that_is_not_stable_has_its_reason():
    written = json.loads(robustness_map.RESULT.read_text(encoding="utf-8"))
    for law, condition, seed in robustness_map.episodes(
        (*cases.LAWS, *page.tried(written)), cases.CONDITIONS, robustness_map.SEEDS
    ):
        found = written[robustness_map.key((law, condition, seed))]
        assert found["verdict"] == STABLE or page.reason(law, condition), (law.name, condition)


def test_other_arms_have_rows_and_a_table_of_their_own():
    """Fewer joints, and biases of seven, among the conditions."""
    rows = cases.laws_on("ur5e")
    assert [row.name for row in rows[:2]] == ["hold, ur5e", "joint_impedance, ur5e"]
    assert all(row.group == cases.HERE for row in rows)
    bias = next(c for c in cases.CONDITIONS if c.name == "bias 0.5 Nm")
    pose = next(row for row in rows if row.type == "cartesian_impedance")
    result = scenarios.run(pose, bias, seed=1)
    assert result.verdict == STABLE
    found = {robustness_map.key((pose, bias, 1)): result.rounded()}
    (other,) = page.tried(found)
    assert other == pose
    assert page.letters(found, (other,))[2].startswith("cartesian_impedance, ur5e")
