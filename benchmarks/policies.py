# SPDX-License-Identifier: Apache-2.0
"""Tracking of two policies of 30 and 10 Hz with a latency of 100 ms, on two compliant arms.

A scripted demonstration is recorded once. Every 0.4 s, a policy finds the recorded step whose
configuration is closest to the observed one. After the latency it answers with the next 1.6 s of
recorded target poses, at its own rate. Runs are in lockstep, so results are repeatable.

    python benchmarks/policies.py [--write]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from multipanda_py.learning.gym import CellEnv, GymTask
from multipanda_py.learning.policies import LockstepInference, PolicyRunner, RunLog

RATES, LATENCY, SECONDS, STEP_RATE = (30.0, 10.0), 0.1, 8.0, 50.0
CHUNK, REPLAN = 1.6, 0.4  # [s]
AHEAD = 100  # number of recorded steps in the search
PLOT = Path(__file__).parents[1] / "doc" / "images" / "policies.png"


class Draw(GymTask):
    """Task of two arms that draw an eight in an empty scene."""

    arms = {  # noqa: RUF012
        "left": {"position": [0.0, 0.4, 0.0], "gripper": False},
        "right": {"position": [0.0, -0.4, 0.0], "gripper": False},
    }
    time_limit = SECONDS

    def reward(self, scene: Any) -> float:
        """Return 0, because the task has no reward."""
        return 0.0

    def is_success(self, scene: Any) -> bool:
        """Return False, so that an episode lasts until its time limit."""
        return False


def demonstration(start: np.ndarray, time: float) -> np.ndarray:
    """Return the action at a time [s], for an eight of 16 by 8 cm with a slow start."""
    progress = np.clip(time / (SECONDS - 1.0), 0.0, 1.0)
    phase = 2.0 * np.pi * progress**2 * (3.0 - 2.0 * progress)
    action = start.copy()
    for arm in range(2):
        action[9 * arm + 1] += 0.08 * np.sin(phase)
        action[9 * arm + 2] += 0.04 * np.sin(2.0 * phase)
    return action


def record(env: CellEnv) -> tuple[np.ndarray, np.ndarray]:
    """Return observed configurations and actions, one row per step."""
    observed, _ = env.reset(seed=0)
    start, configurations, actions = env.hold_action().astype(float), [], []
    for step in range(round(SECONDS * STEP_RATE)):
        actions.append(demonstration(start, step / STEP_RATE))
        configurations.append(configuration(observed))
        observed, *_ = env.step(actions[-1])
    return np.array(configurations), np.array(actions)


def configuration(observed: dict[str, Any]) -> np.ndarray:
    """Return the observed joint positions of both arms, (14,) [rad]."""
    return np.concatenate([observed[arm]["q"] for arm in Draw.arms])


class NearestStep:
    """Policy that replays the recording from the configuration closest to the observation."""

    def __init__(self, recording: tuple[np.ndarray, np.ndarray], rate: float) -> None:
        self.configurations, self.actions = recording
        self.rate, self.step = rate, 0

    def __call__(self, observed: dict[str, Any]) -> np.ndarray:
        """Return actions from the closest step on."""
        # Earlier steps are excluded, because the drawing crosses itself.
        near = self.configurations[self.step : self.step + AHEAD] - configuration(observed)
        self.step += int(np.argmin((near**2).sum(axis=1)))
        rows = self.step + np.arange(round(CHUNK * self.rate)) * STEP_RATE / self.rate
        return self.actions[np.minimum(rows.round().astype(int), len(self.actions) - 1)]


def figures(log: RunLog, arm: str) -> tuple[float, float, float]:
    """Return maximum target step, and median and maximum distance of target and tool [mm]."""
    steps = np.linalg.norm(np.diff(log[f"{arm}/target"][:, :3], axis=0), axis=1)
    distance = log.distance(arm)
    return 1e3 * float(steps.max()), 1e3 * float(np.median(distance)), 1e3 * float(distance.max())


def draw(logs: dict[float, RunLog], recording: np.ndarray) -> None:
    """Plot target and tool of the left arm, and their distance for both arms."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, len(logs), figsize=(11, 6), sharex=True, sharey="row")
    for column, (rate, log) in enumerate(logs.items()):
        time = log["time"] - log["time"][0]
        above, below = axes[:, column]
        above.plot(np.arange(len(recording)) / STEP_RATE, recording[:, 1], "0.7", lw=4)
        above.plot(time, log["left/target"][:, 1], lw=1.2)
        above.plot(time + 1.0 / STEP_RATE, log["left/measured"][:, 1], lw=1.2)
        above.set_title(f"{rate:g} Hz, answers after {1e3 * LATENCY:.0f} ms")
        for arm in Draw.arms:
            below.plot(time, 1e3 * log.distance(arm), lw=1.0, label=arm)
        below.set_xlabel("time [s]")
    axes[0, 0].set_ylabel("y of the left tool in its base [m]")
    axes[0, 0].legend(["recorded actions", "target", "tool"])
    axes[1, 0].set_ylabel("target to tool [mm]")
    axes[1, 0].legend()
    figure.tight_layout()
    figure.savefig(PLOT, dpi=100, metadata={"Software": ""})


def main(arguments: Sequence[str] | None = None) -> None:
    """Record the demonstration, run both policies and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true", help=f"write the plot {PLOT.name}")
    options = parser.parse_args(arguments)
    env = CellEnv(Draw(), control="pose", rate=STEP_RATE)
    try:
        recording = record(env)
        gate = 1e3 * env.cell.config.gate.position
        logs = {}
        steps = 1e3 * np.linalg.norm(np.diff(recording[1][:, :3], axis=0), axis=1).max()
        print(f"gate {gate:g} mm, largest step of the recording {steps:.2f} mm")
        print("| rate [Hz] | arm | held [steps] | largest step of the target [mm] | "
              "target to tool, median [mm] | max [mm] | end error of target [mm] |")  # fmt: skip
        print("|---|---|---|---|---|---|---|")
        for rate in RATES:
            policy = NearestStep(recording, rate)
            runner = PolicyRunner(
                env, LockstepInference(policy, LATENCY), rate=rate, replan=REPLAN
            )
            runner.run(seed=0)
            logs[rate] = log = runner.log
            for number, arm in enumerate(Draw.arms):
                end = log[f"{arm}/target"][-1, :3] - recording[1][-1, 9 * number :][:3]
                values = (*figures(log, arm), 1e3 * float(np.linalg.norm(end)))
                cells = [f"{rate:g}", arm, str(int(log["held"].sum()))]
                print("| " + " | ".join([*cells, *(f"{one:.2f}" for one in values)]) + " |")
        if options.write:
            draw(logs, recording[1])
    finally:
        env.close()


if __name__ == "__main__":
    main()
