# SPDX-License-Identifier: Apache-2.0
"""Environments: contract of Gymnasium, reproducible episodes, and meaning of actions."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from long_form import long_form

import multipanda_py.learning.gym
from multipanda_py.exceptions import ActionRejected, ConfigurationError, UnknownName
from multipanda_py.learning.gym import CellEnv, GymTask
from multipanda_py.learning.gym.control import CONTROLS, TOOL_SPEED
from multipanda_py.learning.gym.task import BUILT_IN

pytestmark = pytest.mark.inline


@pytest.fixture
def make():
    """Function that makes environments; the end of the test closes them."""
    made = []

    def one(task, **options):
        made.append(CellEnv(task, **options))
        return made[-1]

    yield one
    for env in made:
        env.close()


class Float(GymTask):
    """Task of a user, without a goal."""

    arms = {"arm": {"gripper": False}}
    time_limit = 0.5

    def reward(self, scene):
        return 0.0

    def is_success(self, scene):
        return False


@pytest.mark.parametrize("control", CONTROLS)
def test_gymnasium_checks_pass(make, control):
    check_env(make("reach_two", control=control), skip_render_check=True)


def test_gymnasium_checks_pass_with_grippers_and_objects(make):
    check_env(make("pick_and_place"), skip_render_check=True)


def test_every_task_is_registered_once():
    for name in BUILT_IN:
        assert gymnasium.spec(f"multipanda/{name}-v0").kwargs == {"task": name}
    before = dict(gymnasium.registry)
    multipanda_py.learning.gym.register()
    assert gymnasium.registry == before, "a second call changes nothing"


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", long_form(BUILT_IN, keep=(name for name in BUILT_IN if name != "stack_bricks"))
)
def test_expert_solves_task(make, name):
    env = make(name)
    _, info = env.reset(seed=1)
    rewards, ended, cut = [], False, False
    while not (ended or cut):
        _, reward, ended, cut, info = env.step(env.expert_action())
        rewards.append(reward)
    assert info["is_success"]
    assert not info["fault"]
    assert 0.0 <= min(rewards) <= max(rewards[:-1]) <= 1.0 == rewards[-1]


def leaves(observed):
    return [
        leaf
        for part in observed.values()
        for leaf in (leaves(part) if isinstance(part, dict) else [part])
    ]


def episode(env, seed, steps=10):
    observed = [env.reset(seed=seed)[0]]
    observed += [env.step(env.expert_action())[0] for _ in range(steps)]
    return np.concatenate([leaf for one in observed for leaf in leaves(one)])


def test_seed_reproduces_episode_to_last_bit(make):
    env = make("pick_and_place")
    first = episode(env, 7)
    other = episode(env, 8)
    assert not np.array_equal(first, other)
    assert np.array_equal(first, episode(env, 7))
    assert np.array_equal(first, episode(make("pick_and_place"), 7)), (
        "another environment repeats the episode"
    )


def test_step_moves_target_by_its_action_and_tool_follows(make):
    env = make(Float(), rate=20.0)
    env.reset(seed=0)
    start = env.cell.pose("arm")
    for _ in range(5):
        observed, *_ = env.step([0.0, 0.0, -0.5, 0.0, 0.0, 0.0])
    path = np.array([0.0, 0.0, -0.5 * TOOL_SPEED * 5 / 20.0])
    assert observed["arm"]["target"][:3] == pytest.approx(start.position + path, abs=1e-6)
    for _ in range(10):
        observed, *_, is_over, _ = env.step(np.zeros(6))
        if is_over:
            break
    assert is_over, "the time limit is 0.5 s"
    assert observed["arm"]["pose"][:3] == pytest.approx(start.position + path, abs=0.015)


@pytest.mark.parametrize("control", ["pose", "delta_pose", "joint"])
def test_distant_target_is_limited_to_gate(make, control):
    env = make(Float(), control=control)
    env.reset(seed=0)
    far = env.action_space.high
    for _ in range(8):
        _, _, _, _, info = env.step(far)
    assert not info["fault"]
    assert not env.cell.rejected
    gate, state = env.cell.config.gate, env.cell.state("arm")
    target = env.controls["arm"].target
    if control == "joint":
        assert np.abs(target - state.q).max() < gate.joint
    else:
        assert np.linalg.norm(target[:3] - state.position_ee_in_base) < gate.position


@pytest.mark.parametrize(
    ("action", "words"),
    [(np.zeros(5), r"got shape \(5,\), allowed \(6,\)"),
     ([0, 0, np.nan, 0, 0, 0], "component 2 is nan"),
     ([0, 0, 0, 0, 0, -np.inf], "component 5 is -inf")],
)  # fmt: skip
def test_invalid_action_is_rejected_without_motion(make, action, words):
    env = make(Float())
    env.reset(seed=0)
    before = env.cell.time, env.controls["arm"].target.tolist()
    with pytest.raises(ActionRejected, match=words):
        env.step(action)
    assert (env.cell.time, env.controls["arm"].target.tolist()) == before


def test_step_before_reset_is_rejected_and_closed_environment_reopens(make):
    env = make(Float())
    with pytest.raises(ActionRejected, match=r"Call reset\(\)"):
        env.step(np.zeros(6))
    env.reset(seed=0)
    env.close()
    with pytest.raises(ActionRejected, match=r"Call reset\(\)"):
        env.step(np.zeros(6))
    env.reset(seed=0)
    assert env.step(np.zeros(6))[4]["fault"] == ""


def test_fault_ends_episode_and_reset_clears_it(make):
    env = make(Float())
    env.reset(seed=0)
    env.cell.simulation.apply_wrench("arm_fr3_link7", force=[3000.0, 3000.0, 0.0])
    for _ in range(5):
        _, _, ended, _, info = env.step(np.zeros(6))
        if ended:
            break
    assert ended
    assert info["fault"].startswith("arm: ")
    assert not info["is_success"]
    _, info = env.reset(seed=0)
    assert not info["fault"]


def test_randomised_plant_depends_only_on_seed(make):
    env = make("push", randomise={"objects": {"puck": {"mass": {"range": [0.1, 0.9]}}}})
    masses = []
    for seed in (3, 4, 3):
        env.reset(seed=seed)
        model = env.cell.simulation.model
        masses.append(float(model.body("puck").mass[0]))
    assert masses[0] == masses[2] != masses[1]
    assert all(0.1 <= mass <= 0.9 for mass in masses)


def test_rejected_step_moved_the_arms_before_it(make):
    env = make("reach_two")
    env.reset(seed=0)
    env.cell.switch(deactivate=["right/gym"])
    with pytest.raises(ActionRejected, match=r"\bright/hold\b.*\bright\b"):
        env.step(np.ones(env.action_space.shape))
    before = env.cell.state("left").q
    env.cell.step(100)
    assert env.cell.state("left").q == pytest.approx(before, abs=1e-9)


def test_omitted_features_and_their_parameters_are_absent(make):
    env = make("hand_over", features=["nullspace", "coriolis"])
    env.reset(seed=0)
    assert list(env.cell.spec("left/gym").features) == ["nullspace", "coriolis", "governor"]
    own = make("hand_over")
    own.reset(seed=0)
    assert "collision_avoidance" in own.cell.spec("left/gym").features


def test_images_are_observed_if_requested(make):
    from multipanda_py.exceptions import RenderingUnavailable

    env = make("push", cameras={"overview": (48, 64)}, objects=False, render_mode="rgb_array")
    try:
        observed, _ = env.reset(seed=0)
    except RenderingUnavailable as error:
        pytest.skip(str(error))
    assert "objects" not in observed
    assert observed["images"]["overview"].shape == (48, 64, 3)
    assert np.ptp(observed["images"]["overview"]) > 50
    assert env.observation_space.contains(observed)
    assert env.render().shape == (480, 640, 3)


@pytest.mark.parametrize(
    ("options", "words"),
    [({"rate": 0.0}, "rate: got 0"), ({"render_mode": "human"}, r"'human'.*rgb_array"),
     ({"control": "telepathy"}, r"^control .*'telepathy'.*delta_pose"),
     ({"randomise": {"walls": {}}}, "walls: unknown key"), ({"rate": "fast"}, "rate: got 'fast'"),
     ({"randomise": 5}, r"^randomise: .*\b5\b"), ({"topics": "x"}, "topics: got 'x'"),
     ({"features": "nullspace"}, r"^features: .*'nullspace'")],
)  # fmt: skip
def test_invalid_arguments_are_rejected(make, options, words):
    with pytest.raises(ConfigurationError, match=words):
        make("reach", **options)


def test_unknown_task_is_rejected_with_known_names():
    with pytest.raises(UnknownName, match="known: reach, reach_two, push"):
        CellEnv("fly")
    with pytest.raises(ConfigurationError, match=r"^task: .*\bNone\b"):
        CellEnv(None)


def test_close_objects_changed_last_bits_of_next_episode(make):
    env = make("lift_box", control="delta_joints")

    def episode(seed):
        env.reset(seed=seed)
        wave = np.arange(env.action_space.shape[0])
        for k in range(4):
            env.step(0.7 * np.sin(0.3 * k + wave))
        states = [env.cell.state(arm) for arm in ("left", "right")]
        return np.concatenate([[*state.q, *state.dq, *state.tau_ext] for state in states])

    first = episode(5)
    episode(6)
    np.testing.assert_array_equal(episode(5), first)


@pytest.mark.parametrize(
    "action",
    [["1"] * 6, [[1.0], [1.0, 2.0]], {}, object(), None, [10**400] * 6, np.ones(6) * 1j,
     np.ones(6, "datetime64[s]"), np.ma.masked_all(6)],
    ids=lambda one: type(one).__name__,
)  # fmt: skip
def test_non_numeric_actions_are_rejected_with_message(make, action):
    env = make("reach")
    env.reset(seed=0)
    before = env.cell.time
    with pytest.raises(ActionRejected, match=r"^action: "):
        env.step(action)
    assert env.cell.time == before


@pytest.mark.parametrize(
    "cameras", [5, "overview", [3], {"overview": (-3, 5)}, {"overview": (0, 0)}, {"overview": 64},
                {"overview": (64.5, 64)}],
)  # fmt: skip
def test_invalid_cameras_raised_python_errors_or_failed_first_reset(cameras):
    with pytest.raises(ConfigurationError, match=r"^cameras: "):
        CellEnv("push", cameras=cameras)
