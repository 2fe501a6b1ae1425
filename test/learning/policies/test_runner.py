# SPDX-License-Identifier: Apache-2.0
"""Timing of policy actions for any latency, and hold of arms when a policy fails."""

from __future__ import annotations

import re

import numpy as np
import pytest

from multipanda_py.exceptions import ActionRejected, ConfigurationError, PolicyFailed
from multipanda_py.learning.gym import CellEnv, GymTask
from multipanda_py.learning.policies import LockstepInference, PolicyRunner
from multipanda_py.learning.policies.runner import ActionChunk, ChunkPlayer, checked


def ramp(begin, slope, *, start=0.0, n=5, between=True):
    return ActionChunk(start + slope * np.arange(n)[:, None], begin, 0.1, between)


def test_absolute_actions_are_interpolated_and_increments_are_not():
    assert ramp(1.0, 1.0).sample(1.25) == pytest.approx([2.5])
    assert ramp(1.0, 1.0, between=False).sample(1.24) == pytest.approx([2.0])


@pytest.mark.parametrize("late", [-0.04, 0.0, 0.04])
def test_increments_at_uneven_instants_are_each_played_once(late):
    steps = ramp(0.0, 1.0, between=False)
    for k in range(5):
        assert steps.sample(0.1 * k + late) == pytest.approx([k])
        assert not steps.is_over(0.1 * k + late)
    assert steps.is_over(0.5 + late)


def test_last_action_holds_for_one_period():
    one = ramp(1.0, 1.0)
    assert one.sample(1.49) == pytest.approx([4.0])
    assert not one.is_over(1.49)
    assert one.is_over(1.5)


def test_chunk_takes_over_without_jump_during_another_blend():
    player = ChunkPlayer(blend=0.2)
    player.add_chunk(ramp(0.0, 0.0, n=20), 0.0, np.array([1.0]))
    assert player.sample(0.0) == pytest.approx([1.0]), "the blend begins at the hold"
    assert player.sample(0.1) == pytest.approx([0.5])
    player.add_chunk(ramp(0.1, 0.0, start=-2.0, n=20), 0.1, np.array([9.0]))
    assert player.sample(0.1) == pytest.approx([0.5]), "unchanged at the start of the blend"
    assert player.sample(0.2) == pytest.approx([-0.75])
    assert player.sample(0.3) == pytest.approx([-2.0])


def test_finished_chunk_yields_no_action():
    player = ChunkPlayer(blend=0.0)
    assert player.sample(0.0) is None
    player.add_chunk(ramp(0.0, 1.0), 0.2, np.zeros(1))
    assert player.sample(0.2) == pytest.approx([2.0]), "past actions are skipped"
    assert player.sample(0.6) is None


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (np.zeros((4, 3)), r"\(4, 3\).*\(n, 2\)"),
        (np.zeros((0, 2)), r"shape \(0, 2\)"),
        (np.zeros((1, 4, 2)), r"shape \(1, 4, 2\)"),
        ([[0.0, 1.0], [0.0, np.nan]], r"\b1\b.*\b1\b.*\bnan\b"),
        ([[0.0, np.inf]], r"\b1\b.*\b0\b.*\binf\b"),
        ([[0.0, 1.0], [0.0]], r"\blist\b"),
        ([[10**400, 1]], r"\bobject\b"),
        (np.ones((1, 2), complex), r"\bcomplex128\b"),
        ([["1", "2"]], "<U1"),
        (np.zeros((1, 2), "datetime64[D]"), "datetime64"),
        (np.ma.array([[1.0, 2.0]], mask=[[True, False]]), "masked"),
        ((one for one in [[1.0, 2.0]]), r"\bgenerator\b"),
        ("left", r"\bstr\b"),
    ],
)
def test_invalid_chunk_is_rejected(answer, sentence):
    with pytest.raises(PolicyFailed, match=sentence):
        checked(answer, 2)


def test_single_action_is_a_chunk():
    assert checked([1, 2], 2).tolist() == [[1.0, 2.0]]


class Float(GymTask):
    """Task without a goal, 1.5 s long."""

    arms = {"arm": {"gripper": False}}
    time_limit = 1.5

    def reward(self, scene):
        return 0.0

    def is_success(self, scene):
        return False


@pytest.fixture(scope="module")
def env():
    """Absolute poses at 50 Hz, in lockstep."""
    env = CellEnv(Float(), control="pose", rate=50.0, features=["nullspace", "coriolis"])
    env.reset(seed=0)
    yield env
    env.close()


def circle(env, rate, seconds=0.8):
    """Return a policy that follows a circle, and the circle as a function of time."""
    env.reset(seed=0)
    n = round(seconds * rate)
    start, begin = env.hold_action().astype(float), env.cell.time

    def expected(time):
        phase = 2.0 * np.pi * (np.asarray(time) - begin) / 3.0
        aside = 0.05 * np.stack([np.sin(phase), 1.0 - np.cos(phase)], -1)
        return np.concatenate(
            [
                np.broadcast_to(start[:1], (*aside.shape[:-1], 1)),
                start[1:3] + aside,
                np.broadcast_to(start[3:], (*aside.shape[:-1], 6)),
            ],
            -1,
        )

    return (lambda observed: expected(env.cell.time + np.arange(n) / rate)), expected


@pytest.mark.parametrize("rate", [30.0, 10.0])
@pytest.mark.parametrize("latency", [0.0, 0.1, 0.25])
def test_actions_are_played_at_their_instants_for_any_latency(env, rate, latency):
    policy, expected = circle(env, rate)
    runner = PolicyRunner(env, LockstepInference(policy, latency), rate=rate)
    assert runner.run(seed=0)["policy"] == ""
    log = runner.log
    settled = log["time"] > log["time"][0] + latency + 0.15
    error = np.abs(log["action"] - expected(log["time"]))[settled]
    # At 10 Hz, chords deviate 0.27 mm from the circle, blends by a little more; 0.1 s are 10 mm.
    assert error.max() < 0.001
    assert log["held"].sum() == np.ceil(latency * 50.0), "only before the first answer"
    assert np.nanmax(log["age"]) <= 2.0 * latency + 2.0 / 50.0
    assert log.distance("arm").max() < 0.9 * env.cell.config.gate.position
    assert log.distance("arm")[settled].max() > 0.0


def test_lockstep_run_is_reproducible_to_last_bit(env):
    logs = []
    for _ in range(2):
        policy, _ = circle(env, 10.0)
        runner = PolicyRunner(env, LockstepInference(policy, 0.1), rate=10.0)
        runner.run(seed=0)
        logs.append(runner.log["arm/measured"])
    assert np.array_equal(*logs)


def test_late_policy_leaves_targets_unchanged_and_continues(env):
    policy, _ = circle(env, 10.0, seconds=0.5)
    late = LockstepInference(policy, lambda k: 0.7 if k == 4 else 0.1)
    runner = PolicyRunner(env, late, rate=10.0, blend=0.2)
    # A chunk lasts 0.5 s, so one that arrives after 0.7 s is past.
    assert runner.run(seed=0)["policy"] == ""
    log = runner.log
    held = log["held"].copy()
    held[:5] = False
    assert 0.3 < held.sum() / 50.0 < 0.5
    assert np.ptp(log["arm/target"][held][1:, :3], axis=0).max() < 1e-6
    assert not held[-1], "the policy continues"
    steps = np.linalg.norm(np.diff(log["arm/target"][:, :3], axis=0), axis=1)
    assert steps.max() < 0.02, "the target does not jump"


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        (lambda good: good[:, :-1], "policy: got a chunk of shape (40, 8), allowed (n, 9)"),
        (lambda good: good * np.nan, "policy: component 0 of action 0 is nan"),
        (lambda good: 1 / 0, "policy: raised ZeroDivisionError: division by zero"),
        (lambda good: None, "policy: got None, allowed actions"),
    ],
)
def test_failed_policy_leaves_arms_holding(env, bad, sentence):
    policy, _ = circle(env, 50.0)
    requested = []

    def failing(observed):
        requested.append(1)
        return bad(policy(observed)) if len(requested) == 10 else policy(observed)

    runner = PolicyRunner(env, LockstepInference(failing), rate=50.0)
    info = runner.run(seed=0)
    assert info["policy"].startswith(sentence)
    assert len(runner.log) == 10
    target = runner.log["arm/target"][-1]
    for _ in range(50):
        observed, *_ = runner.step()
    assert len(requested) == 10, "the policy receives no further request"
    assert observed["arm"]["target"] == pytest.approx(target, abs=1e-5)
    assert np.abs(observed["arm"]["dq"]).max() < 0.01
    runner.reset(seed=0)
    assert runner.fault is None, "a reset clears the fault"


def test_stalled_policy_fails_after_its_timeout(env):
    policy, _ = circle(env, 50.0)
    stalls = LockstepInference(policy, lambda k: 0.0 if k < 3 else np.inf)
    runner = PolicyRunner(env, stalls, rate=50.0, timeout=0.5)
    reported = runner.run(seed=0)["policy"]
    assert re.fullmatch(r"policy: no answer for 0.5\d s, allowed 0.5 s", reported)
    assert runner.log["held"][-1]


def test_expired_chunks_held_arms_without_message(env):
    policy, _ = circle(env, 10.0, seconds=0.2)
    runner = PolicyRunner(env, LockstepInference(policy, 0.3), rate=10.0)
    reported = runner.run(seed=0)["policy"]
    assert re.fullmatch(r"policy: .*\b3\b.*\b2 actions\b.*\b0\.20 s\b.*\b0\.30 s\b.*", reported)
    assert len(runner.log) == pytest.approx(0.9 * 50.0, abs=3)
    runner = PolicyRunner(
        env, LockstepInference(policy, 0.6), rate=10.0
    )  # The episode lasts 1.5 s.
    assert runner.run(seed=0)["policy"].startswith(
        "policy: chunks end before they arrive: 2 consecutive"
    )
    assert runner.log["held"].all()


def test_increments_at_another_rate_are_rejected():
    env = CellEnv(Float(), rate=20.0)
    with pytest.raises(ConfigurationError, match=r"\b10 Hz.*\b20 Hz"):
        PolicyRunner(env, LockstepInference(lambda observed: None), rate=10.0)
    with pytest.raises(ConfigurationError, match="blend: got -1"):
        PolicyRunner(env, LockstepInference(lambda observed: None), rate=20.0, blend=-1.0)


def test_log_is_written_with_residuals(env, tmp_path):
    policy, _ = circle(env, 50.0)
    runner = PolicyRunner(env, LockstepInference(policy), rate=50.0)
    runner.run(seed=0)
    runner.log.save(tmp_path / "run.npz")
    read = np.load(tmp_path / "run.npz")
    assert read["arm/residual"] == pytest.approx(
        read["arm/target"][:, :9] - read["arm/measured"], abs=1e-7
    )


def test_step_before_reset_was_python_error(env):
    runner = PolicyRunner(env, LockstepInference(lambda observed: observed, 0.0), rate=50.0)
    with pytest.raises(ActionRejected, match=r"^step: "):
        runner.step()
