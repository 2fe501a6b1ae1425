# SPDX-License-Identifier: Apache-2.0
"""Speed of Gymnasium environments relative to real time, in one or several processes.

Steps of MuJoCo alone, without controllets and sensors, alternate with the steps of the environment
and show the speed of the machine. Resets and camera images are measured, too.

.venv/bin/python benchmarks/gym_speed.py                  # two arms: reach_two and lift_box
.venv/bin/python benchmarks/gym_speed.py --task push --processes 4
"""

from __future__ import annotations

import argparse
import sys
import time

import gymnasium
import mujoco
import numpy as np

from multipanda_py.learning.gym import CellEnv
from multipanda_py.simulation.scene_view import SceneView

RATE = 20.0


def episode(env: CellEnv) -> list[np.ndarray]:
    """Return the actions of an episode of the expert."""
    env.reset(seed=0)
    actions, is_over = [], False
    while not is_over:
        actions.append(env.expert_action())
        _, _, terminated, truncated, _ = env.step(actions[-1])
        is_over = terminated or truncated
    return actions


def single_process(
    task: str, repeats: int, features: list[str] | None
) -> tuple[float, float, float, list[np.ndarray]]:
    """Return median CPU times of a step, a reset and a MuJoCo step [s], and the actions."""
    env = CellEnv(task, rate=RATE, features=features)
    actions = episode(env)
    bare = SceneView(env.cell.config)
    steps, resets, of_mujoco = [], [], []
    for _ in range(repeats):
        begin = time.process_time()
        env.reset(seed=0)
        resets.append(time.process_time() - begin)
        for action in actions:
            begin = time.process_time()
            env.step(action)
            steps.append(time.process_time() - begin)
            mujoco.mj_resetData(bare.model, bare.data)
            begin = time.process_time()
            for _ in range(round(1e3 / RATE)):
                mujoco.mj_step(bare.model, bare.data)
            of_mujoco.append(time.process_time() - begin)
    env.close()
    return float(np.median(steps)), float(np.median(resets)), float(np.median(of_mujoco)), actions


def image_time(task: str, repeats: int = 50) -> float:
    """Return the median time of an image of 128 by 128 pixels, for two cameras in turns [s]."""
    env = CellEnv(task, rate=RATE, cameras=["overview", "free"])
    env.reset(seed=0)
    times = []
    for k in range(2 * repeats):
        begin = time.perf_counter()
        env.scene.image(("overview", "free")[k % 2], 128, 128)
        times.append(time.perf_counter() - begin)
    env.close()
    return float(np.median(times))


def several_processes(
    task: str, actions: list[np.ndarray], processes: int, features: list[str] | None
) -> float:
    """Return the median time of a simultaneous step of all processes [s]."""
    envs = gymnasium.make_vec(
        f"multipanda_py.learning.gym:multipanda/{task}-v0", processes, vectorization_mode="async",
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
    """Measure and print the speed of each task."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--task", action="append", help="default: reach_two and lift_box")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument(
        "--features", nargs="*", help="features of the controllets; default: those of the task"
    )
    parser.add_argument("--repeats", type=int, default=3, help="episodes of the expert")
    options = parser.parse_args()
    for task in options.task or ["reach_two", "lift_box"]:
        step, reset, bare, actions = single_process(task, options.repeats, options.features)
        parallel_step = several_processes(task, actions, options.processes, options.features)
        sys.stdout.write(
            f"{task}: step of {1e3 / RATE:g} ms in {1e3 * step:.2f} ms, "
            f"{1.0 / RATE / step:.1f} times real time, MuJoCo alone {1.0 / RATE / bare:.1f}; "
            f"reset {1e3 * reset:.2f} ms; "
            f"{options.processes} processes {options.processes / RATE / parallel_step:.1f} times; "
            f"an image {1e3 * image_time(task):.1f} ms\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
