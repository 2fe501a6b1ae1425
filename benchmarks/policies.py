# SPDX-License-Identifier: Apache-2.0
"""Two policies from one recording, at 30 and 10 Hz and late by 100 ms, on two compliant arms.

A scripted demonstration is recorded once. A policy then finds where in it the arms seem to be, by
the nearest posture, and answers with what was asked for from there on: 1.6 s of poses, at its own
rate, when the latency is over; it is asked every 0.4 s. In lockstep: figures are the same again.

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
AHEAD = 100  # rows of the recording in which the arms are looked for
PICTURE = Path(__file__).parents[1] / "doc" / "images" / "policies.png"


class Draw(GymTask):
    """Draw with two arms; nothing else in the scene."""

    arms = {  # noqa: RUF012
        "left": {"position": [0.0, 0.4, 0.0], "gripper": False},
        "right": {"position": [0.0, -0.4, 0.0], "gripper": False},
    }
    time_limit = SECONDS

    def reward(self, scene: Any) -> float:
        """Return nothing: there is no prize."""
        return 0.0

    def is_success(self, scene: Any) -> bool:
        """Go on until the time is over."""
        return False


def demonstration(start: np.ndarray, time: float) -> np.ndarray:
    """Return both arms' poses of an instant: an eight of 16 by 8 cm, begun and ended slowly."""
    share = np.clip(time / (SECONDS - 1.0), 0.0, 1.0)
    phase = 2.0 * np.pi * share**2 * (3.0 - 2.0 * share)
    expected = start.copy()
    for arm in range(2):
        expected[9 * arm + 1] += 0.08 * np.sin(phase)
        expected[9 * arm + 2] += 0.04 * np.sin(2.0 * phase)
    return expected


def record(env: CellEnv) -> tuple[np.ndarray, np.ndarray]:
    """Return postures that were seen and actions that were taken there, a row a step."""
    observed, _ = env.reset(seed=0)
    start, postures, actions = env.hold_action().astype(float), [], []
    for step in range(round(SECONDS * STEP_RATE)):
        actions.append(demonstration(start, step / STEP_RATE))
        postures.append(posture(observed))
        observed, *_ = env.step(actions[-1])
    return np.array(postures), np.array(actions)


def posture(observed: dict[str, Any]) -> np.ndarray:
    """Return what tells where in the recording the arms are."""
    return np.concatenate([observed[arm]["q"] for arm in Draw.arms])


class NearestRow:
    """Answer with the recording from the row on that is nearest to what is seen."""

    def __init__(self, recording: tuple[np.ndarray, np.ndarray], rate: float) -> None:
        self.postures, self.actions = recording
        self.rate, self.row = rate, 0

    def __call__(self, observed: dict[str, Any]) -> np.ndarray:
        """Look ahead of the row of the last time; a drawing crosses itself."""
        near = self.postures[self.row : self.row + AHEAD] - posture(observed)
        self.row += int(np.argmin((near**2).sum(axis=1)))
        rows = self.row + np.arange(round(CHUNK * self.rate)) * STEP_RATE / self.rate
        return self.actions[np.minimum(rows.round().astype(int), len(self.actions) - 1)]


def figures(log: RunLog, arm: str) -> tuple[float, float, float]:
    """Return the largest step of the target, and target to tool at the median and most [mm]."""
    steps = np.linalg.norm(np.diff(log[f"{arm}/target"][:, :3], axis=0), axis=1)
    distance = log.distance(arm)
    return 1e3 * float(steps.max()), 1e3 * float(np.median(distance)), 1e3 * float(distance.max())


def draw(logs: dict[float, RunLog], recording: np.ndarray) -> None:
    """Draw target and tool of the left arm, and how far they are apart."""
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
    axes[0, 0].legend(["recording's actions", "target", "tool"])
    axes[1, 0].set_ylabel("target to tool [mm]")
    axes[1, 0].legend()
    figure.tight_layout()
    figure.savefig(PICTURE, dpi=100, metadata={"Software": ""})


def main(arguments: Sequence[str] | None = None) -> None:
    """Record, run both policies, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true", help=f"draw {PICTURE.name} anew")
    options = parser.parse_args(arguments)
    env = CellEnv(Draw(), control="pose", rate=STEP_RATE)
    try:
        recording = record(env)
        gate = 1e3 * env.cell.config.gate.position
        logs = {}
        steps = 1e3 * np.linalg.norm(np.diff(recording[1][:, :3], axis=0), axis=1).max()
        print(f"gate {gate:g} mm, largest step of the recording {steps:.2f} mm")
        print("| rate [Hz] | arm | held [steps] | largest step of the target [mm] | "
              "target to tool, median [mm] | most [mm] | end [mm] |")  # fmt: skip
        print("|---|---|---|---|---|---|---|")
        for rate in RATES:
            policy = NearestRow(recording, rate)
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
