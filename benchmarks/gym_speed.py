# SPDX-License-Identifier: Apache-2.0
"""How much faster than real time environments are stepped: alone, and in processes.

.venv/bin/python benchmarks/gym_speed.py                  # two arms: reach_two and lift_box
.venv/bin/python benchmarks/gym_speed.py --task push --processes 4
"""

from __future__ import annotations

import argparse
import sys
import time

import gymnasium
import numpy as np

from multipanda_py.gym import CellEnv

RATE = 20.0


def episode(env: CellEnv) -> list[np.ndarray]:
    """Return the actions of an expert's episode."""
    env.reset(seed=0)
    actions, is_over = [], False
    while not is_over:
        actions.append(env.expert_action())
        _, _, ended, cut, _ = env.step(actions[-1])
        is_over = ended or cut
    return actions


def alone(
    task: str, repeats: int, features: list[str] | None
) -> tuple[float, float, list[np.ndarray]]:
    """Return the medians of a step and a reset [s], and the actions."""
    env = CellEnv(task, rate=RATE, features=features)
    actions = episode(env)
    steps, resets = [], []
    for _ in range(repeats):
        begin = time.perf_counter()
        env.reset(seed=0)
        resets.append(time.perf_counter() - begin)
        for action in actions:
            begin = time.perf_counter()
            env.step(action)
            steps.append(time.perf_counter() - begin)
    env.close()
    return float(np.median(steps)), float(np.median(resets)), actions


def together(
    task: str, actions: list[np.ndarray], processes: int, features: list[str] | None
) -> float:
    """Return the median time in which every process does a step [s]."""
    envs = gymnasium.make_vec(
        f"multipanda_py.gym:multipanda/{task}-v0", processes, vectorization_mode="async",
        vector_kwargs={"context": "spawn"}, rate=RATE, features=features,
    )  # fmt: skip
    envs.reset(seed=[0] * processes)
    steps = []
    for action in actions:
        begin = time.perf_counter()
        envs.step(np.stack([action] * processes))
        steps.append(time.perf_counter() - begin)
    envs.close()
    return float(np.median(steps))


def main() -> int:
    """Measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--task", action="append", help="default: reach_two and lift_box")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--features", nargs="*", help="of the laws; default: their own")
    parser.add_argument("--repeats", type=int, default=3, help="episodes of the expert")
    options = parser.parse_args()
    for task in options.task or ["reach_two", "lift_box"]:
        step, reset, actions = alone(task, options.repeats, options.features)
        several = together(task, actions, options.processes, options.features)
        sys.stdout.write(
            f"{task}: step of {1e3 / RATE:g} ms in {1e3 * step:.2f} ms, "
            f"{1.0 / RATE / step:.1f} times real time; reset {1e3 * reset:.2f} ms; "
            f"{options.processes} processes {options.processes / RATE / several:.1f} times\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
