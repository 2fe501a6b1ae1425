# SPDX-License-Identifier: Apache-2.0
"""Robustness map: rig and verdicts on known cases, and agreement of the page."""

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


def test_undamped_spring_is_unstable():
    found = scenarios.run(law("textbook_joint_impedance", damping=[0.0] * 7), IDEAL, seed=0)
    assert found.verdict == UNSTABLE
    assert found.reason.startswith("push: moves at")
    assert found.speed > 0.1  # the push of 0.3 rad/s is not damped


def test_slow_decaying_oscillation_was_unstable_at_some_phases():
    """A window of 0.5 s at the turning point was compared with the following window."""
    for phase in np.linspace(0.0, np.pi, 7):
        time = np.arange(6 * WINDOW) * 1e-3
        swing = 0.5 * np.cos(2.0 * time + phase) * np.exp(-time / 3.0)
        assert verdict.judge_rest(Verdict(), "push", speeds(swing))
        assert not verdict.judge_rest(Verdict(), "push", speeds(swing * np.exp(time / 3.0)))


class Course:
    """Rig with a given joint speed, (cycles,) [rad/s]."""

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
        (3.0, 0.7, STABLE),  # late decay
        (0.0, 0.0, UNSTABLE),
        (0.0, -0.05, UNSTABLE),
    ],
)
def test_late_decaying_oscillation_was_unstable(push, rate, expected):
    time = np.arange(9000) * 1e-3
    course = 0.3 * np.cos(8.0 * time) * np.exp(-rate * np.maximum(time - push, 0.0))
    found = Verdict()
    scenarios.rest(Course(course), found, 1800)
    assert found.verdict == expected


def test_raising_controllet_faults_and_arm_rests():
    def break_it(tried, found, rng):
        tried.step(10)
        tried.cell.set_parameters("arm/law", {"fault": "raise"})
        scenarios.go(tried, 1)

    found = scenarios.run(law("misbehaving"), IDEAL, seed=0, scenario=break_it)
    assert found.verdict == FAULTS
    assert "controllet_error" in found.reason
    assert found.speed < verdict.AT_REST


def test_damped_spring_is_stable():
    found = scenarios.run(law("textbook_joint_impedance", damping=[20.0] * 7), IDEAL, seed=1)
    assert (found.verdict, found.reason) == (STABLE, "")


def test_surface_has_declared_stiffness():
    # Controllet and surface are two springs in series.
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
        (0.5 * np.sin(4.0 * TIME) * np.exp(-TIME), STABLE),  # slow decaying oscillation
        (0.5 * np.sin(60.0 * TIME), UNSTABLE),
        (0.04 * np.sin(60.0 * TIME), STABLE),  # below the threshold of motion
        (np.full_like(TIME, 0.2), UNSTABLE),  # constant drift
        (np.where(TIME > 1.0, np.nan, 0.0), UNSTABLE),
    ],
)
def test_rest_verdict_depends_on_motion(course, expected):
    found = Verdict()
    assert verdict.judge_rest(found, "push", speeds(course)) == (expected == STABLE)
    assert found.verdict == expected


def test_resting_arm_at_limits_has_limits_verdict():
    found, limited = Verdict(), np.zeros(len(TIME), bool)
    limited[::50] = True
    verdict.judge_rest(found, "push", speeds(0.0 * TIME), limited)
    assert (found.verdict, found.limited) == (LIMITS, pytest.approx(0.02))


def test_oscillating_contact_force_is_unstable():
    found = Verdict()
    assert not verdict.judge_contact(found, 10.0 + 8.0 * np.sin(60.0 * TIME))
    assert found.verdict == UNSTABLE
    assert verdict.judge_contact(Verdict(), 10.0 + 8.0 * np.sin(60.0 * TIME) * np.exp(-3 * TIME))


def test_rig_detects_torque_rate_limit():
    tried = rig.Rig(law("misbehaving", torque=10.0), IDEAL, seed=0)
    tried.step(25)
    limited = tried.limited(25)
    tried.close()
    assert limited[3:9].all()  # from 0 to 10 Nm at 1 Nm per cycle, blended in over 5 ms
    assert not limited[12:].any()


def test_released_leader_decelerates():
    leader = next(item for item in cases.LAWS if item.moves_by == "leader")
    tried = rig.Rig(leader, IDEAL, seed=0)
    tried.pull[0] = [0.0, 0.0, 4.0]
    tried.step(300)
    speed_pulled = np.abs(tried.speed[-1][:7]).max()
    tried.pull[:] = 0.0
    tried.step(3000)
    tried.close()
    assert speed_pulled > 0.1
    assert np.abs(tried.speed[-1][:7]).max() < 0.3 * speed_pulled  # damped instead of accelerated


@pytest.mark.slow
@pytest.mark.parametrize(("name", "condition"), TRIED)
def test_stored_map_matches_current_results(name, condition):
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
        ("teleoperation, kinova_gen3", "ideal arm", 1),  # the follower exceeded its speed limit
        (
            "coupled_force_impedance, kinova_gen3",
            "surface 1e4 N/m",
            0,
        ),  # it did not reach the surface
        ("hold, kinova_gen3", "payload 3 kg", 0),  # exceeds the torque limit of the sixth joint
        (
            "hold, iiwa14",
            "elastic joints, ripple",
            0,
        ),  # transmissions of an arm of a quarter of the torque
    ],
)
def test_other_arms_were_unstable_under_fr3_conditions(name, condition, seed):
    tried = next(item for item in cases.EVERY_LAW if item.name == name)
    where = next(item for item in cases.CONDITIONS if item.name == condition)
    found = scenarios.run(tried, where, seed)
    assert found.verdict == STABLE
    if where.surface:
        assert found.force == pytest.approx(10.0, rel=0.05)


def test_conditions_are_scaled_to_arm():
    elastic = next(c for c in cases.CONDITIONS if c.joints)
    heavy = next(c for c in cases.CONDITIONS if c.perturbation.get("payload") == cases.HEAVY)
    for condition in cases.CONDITIONS:
        assert cases.fitted(condition, "fr3") == condition
    assert cases.fitted(heavy, "kinova_gen3").perturbation == {"payload": 2.0}
    elastic_joints = cases.fitted(elastic, "ur5e").joints
    assert elastic_joints["stiffness"] == [24000.0] * 3 + [14000.0, 9000.0, 9000.0]
    assert elastic_joints["damping"] == pytest.approx([24.0] * 3 + [14.0, 9.0, 9.0])


@pytest.mark.slow
def test_page_matches_map():
    written = json.loads(robustness_map.RESULT.read_text(encoding="utf-8"))
    assert page.PAGE.read_text(encoding="utf-8") == page.page(written)
    laws = (*cases.LAWS, *page.tried(written))
    assert set(written) == {
        robustness_map.key(episode)
        for episode in robustness_map.episodes(laws, cases.CONDITIONS, robustness_map.SEEDS)
    }


def test_unstable_entries_have_reason():
    written = json.loads(robustness_map.RESULT.read_text(encoding="utf-8"))
    for law, condition, seed in robustness_map.episodes(
        (*cases.LAWS, *page.tried(written)), cases.CONDITIONS, robustness_map.SEEDS
    ):
        found = written[robustness_map.key((law, condition, seed))]
        assert found["verdict"] == STABLE or page.reason(law, condition), (law.name, condition)


def test_other_arms_have_separate_rows_and_table():
    """Conditions with biases of seven joints apply to arms with fewer joints."""
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
