# SPDX-License-Identifier: Apache-2.0
"""Policies in a program of another Python environment: steps continue and arms hold on failure."""

from __future__ import annotations

import io
import json
import sys
import time

import numpy as np
import pytest
from inferences import awaited

from multipanda_py.exceptions import PolicyFailed
from multipanda_py.learning.datasets.features import features_of, observation_vectors
from multipanda_py.learning.gym import CellEnv
from multipanda_py.learning.policies import LeRobotInference, PolicyRunner, ProgramInference
from multipanda_py.learning.policies.server import lerobot_policy
from multipanda_py.learning.policies.server import serve as serving

PROGRAM = """
import json, os, sys, time
import numpy as np

def make(kind):
    if kind == "no weights":
        raise RuntimeError("no\\n  weights")
    if kind == "slow":
        time.sleep(600)
    print("what is printed is no answer")
    requests = []

    def policy(observed):
        requests.append(1)
        chunk = np.repeat(observed["arm/target"][None], 40, 0)
        chunk[:, 2] -= 0.0005 * np.arange(40)
        if len(requests) < 3:
            return chunk
        if kind == "raises":
            raise KeyError("goal")
        if kind == "nan":
            return chunk * np.nan
        if kind == "dies":
            os.kill(os.getpid(), 9)
        if kind == "stalls":
            time.sleep(600)
        return chunk

    return policy

def echo(path, sizes, task, device):
    def policy(observed):
        names = json.dumps({key: list(np.shape(value)) for key, value in sorted(observed.items())})
        assert "multipanda_py" not in sys.modules
        begins = float(observed["begins"])
        return [[begins, float(observed["observation.state"].sum()), len(names)]]
    return policy
"""


@pytest.fixture(scope="module")
def env():
    """Absolute poses at 50 Hz, in lockstep."""
    env = CellEnv("reach", control="pose", rate=50.0, features=["nullspace", "coriolis"])
    env.reset(seed=0)
    yield env
    env.close()


@pytest.fixture
def program(tmp_path):
    """Function that starts a substitute policy in another Python process."""
    (tmp_path / "standin.py").write_text(PROGRAM, encoding="utf-8")
    started = []

    def start(kind, **options):
        started.append(
            ProgramInference(sys.executable, "standin:make", [kind], folders=[tmp_path], **options)
        )
        return started[-1]

    yield start
    for one in started:
        one.close()


def test_program_receives_flat_keys_and_answers(program, env):
    inference = program("good")
    observed, _ = env.reset(seed=0)
    inference.request(observed, 0.0)
    actions = awaited(inference)
    assert actions.shape == (40, 9)
    assert actions[0] == pytest.approx(observed["arm"]["target"])


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("raises", "policy: raised KeyError: 'goal'"),
        ("nan", "policy: component 0 of action 0 is nan"),
        ("dies", "policy: its program has ended, exit code -9"),
        ("stalls", "policy: no answer for 0.5"),
    ],
)
def test_failed_program_leaves_arms_holding(program, env, kind, sentence):
    # Answers take wall time, not simulated time, so only the stalled policy gets a timeout.
    timeout = 0.5 if kind == "stalls" else 1e9
    inference = program(kind)
    runner = PolicyRunner(env, inference, rate=50.0, timeout=timeout)
    runner.reset(seed=0)
    if kind == "stalls":
        for _ in range(2):
            inference.request(env.reset(seed=0)[0], 0.0)
            assert awaited(inference) is not None
        runner.reset(seed=0)
    end = time.monotonic() + 60.0
    while runner.fault is None and time.monotonic() < end:
        runner.step()
    assert runner.fault.startswith(sentence)
    target = runner.log["arm/target"][-1]
    for _ in range(25):
        observed, *_ = runner.step()
    assert observed["arm"]["target"] == pytest.approx(target, abs=1e-5)
    assert runner.log["held"][-25:].all()


def test_failed_creation_of_policy_is_reported(program, tmp_path):
    with pytest.raises(PolicyFailed, match=r"^policy: .*RuntimeError: no weights"):
        program("no weights")
    with pytest.raises(PolicyFailed, match=r"^policy: .* 0\.5 s\b"):
        program("slow", timeout=0.5)
    with pytest.raises(PolicyFailed, match=r"\bnowhere\b.*No such file"):
        ProgramInference(tmp_path / "nowhere", "standin:make")
    other = tmp_path / "other"
    other.write_text("#!/bin/sh\necho hello there\n")
    other.chmod(0o755)
    with pytest.raises(PolicyFailed, match="message"):
        ProgramInference(other, "standin:make")
    other.write_text("#!/bin/sh\nexit 3\n")
    with pytest.raises(PolicyFailed, match=r"\b3$"):
        ProgramInference(other, "standin:make")


def test_truncated_or_pickled_messages_are_rejected():
    pipe = io.BytesIO()
    serving.send(pipe, {"left/q": np.arange(7.0), "picture": np.zeros((4, 6, 3), np.uint8)})
    content = pipe.getvalue()
    reported = serving.receive(io.BytesIO(content))
    assert reported["left/q"].tolist() == list(range(7))
    assert reported["picture"].dtype == np.uint8
    with pytest.raises(EOFError):
        serving.receive(io.BytesIO(content[:-1]))
    pickled = io.BytesIO()
    serving.send(pickled, {"a": np.array([{}], object)})
    with pytest.raises(ValueError, match="allow_pickle"):
        serving.receive(io.BytesIO(pickled.getvalue()))


class Echo(LeRobotInference):
    """Inference with a program that reports its observations, instead of LeRobot."""

    MAKE = "standin:echo"


def test_lerobot_policy_receives_recorded_frame_layout(tmp_path, monkeypatch, env):
    (tmp_path / "standin.py").write_text(PROGRAM, encoding="utf-8")
    monkeypatch.setattr(Echo, "FOLDERS", [tmp_path])
    inference = Echo(tmp_path, env, python=sys.executable)
    try:
        observed, _ = env.reset(seed=0)
        numbers = observation_vectors(env, observed)
        shown = {key: list(value.shape) for key, value in numbers.items()} | {"begins": []}
        names = len(json.dumps(dict(sorted(shown.items()))))
        for first in (True, False, True):
            inference.request(observed, 0.0)
            assert awaited(inference)[0] == pytest.approx(
                [float(first), numbers["observation.state"].sum(), names], rel=1e-5
            )
            if not first:
                inference.discard()
    finally:
        inference.close()


class Feature:
    """Shape of a feature, as LeRobot's configuration has it."""

    def __init__(self, *shape):
        self.shape = shape


class Trained:
    """Configuration of a trained policy."""

    def __init__(self, state, action, n_obs_steps=1):
        self.input_features = {"observation.state": Feature(state)}
        self.output_features = {"action": Feature(action)}
        self.n_obs_steps = n_obs_steps


def test_policy_of_another_robot_is_rejected_before_motion(env):
    sizes = {key: [len(names)] for key, names in features_of(env).vectors.items()}
    state, action = sizes["observation.state"][0], sizes["action"][0]
    lerobot_policy.check(Trained(state, action), sizes)
    with pytest.raises(ValueError, match=rf"\baction: .*\[7\].*\[{action}\]"):
        lerobot_policy.check(Trained(state, 7), sizes)
    with pytest.raises(ValueError, match=r"observation\.state: .*\[6\]"):
        lerobot_policy.check(Trained(6, action), sizes)
    with pytest.raises(ValueError, match=r"n_obs_steps: .*\b2\b.*\b1\b"):
        lerobot_policy.check(Trained(state, action, 2), sizes)
