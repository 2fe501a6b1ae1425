# SPDX-License-Identifier: Apache-2.0
"""Learn to lift a box with two arms by behaviour cloning with a small network, on a CPU.

Run: .venv/bin/python examples/15_learn_to_lift.py --video lift.gif --plot lift.png

The expert of ``lift_box`` gives 100 demonstrations under random disturbances. A network of two
hidden layers in numpy learns its actions from states, in chunks of 0.5 s. The policy then runs
with a latency of 50 ms, on boxes that were not in the demonstrations. `--quick` is a short form.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

from multipanda_py.learning.gym import CellEnv
from multipanda_py.learning.gym.control import pose_numbers
from multipanda_py.learning.policies import LockstepInference, PolicyRunner

RATE, CHUNK, LATENCY = 20.0, 10, 0.05  # Rate [Hz], actions of a chunk, latency [s].
ARMS, POSE = ("left", "right"), 9
MAX_STEP = 0.02  # Maximum step of a target [m].
FORCE = 30.0  # Scale of forces in the state [N].
PUSH = 0.006  # Standard deviation of the disturbance of demonstrations [m].
FIRST_TEST_SEED = 1000
UNITS, EPOCHS, BATCH, STEP = 256, 600, 128, 1e-3


def state_of(obs: dict, bases: dict) -> np.ndarray:
    """Return the input of the network: box, its distance to the goal, tools, targets, forces."""
    box = obs["objects"]["box"]
    parts = [box, obs["goal"] - box[2]]
    for arm in ARMS:
        offset = bases[arm] - box[:3]
        parts += [obs[arm]["pose"][:3] + offset, obs[arm]["target"][:3] + offset]
        parts += [obs[arm]["wrench"][:3] / FORCE]
    return np.concatenate(parts).astype(float)


def demonstrate(env: CellEnv, seed: int) -> tuple[np.ndarray, np.ndarray, bool]:
    """Return states, the target poses of the expert for both tools, and the success."""
    random = np.random.default_rng(seed)
    obs, _ = env.reset(seed=seed)
    states, expected, disturbance, is_over, info = [], [], np.zeros((2, 3)), False, {}
    while not is_over:
        states.append(state_of(obs, bases_of(env)))
        poses = env.task.expert(env.scene, 0.0)
        expected.append([pose_numbers(env.scene.in_base(arm, poses[arm][0])) for arm in ARMS])
        disturbance = 0.8 * disturbance + 0.6 * PUSH * random.normal(size=(2, 3))
        action = env.expert_action().reshape(2, POSE)
        action[:, :3] += disturbance
        obs, _, terminated, truncated, info = env.step(action.ravel())
        is_over = terminated or truncated
    return np.array(states), np.array(expected), bool(info["is_success"])


def bases_of(env: CellEnv) -> dict[str, np.ndarray]:
    """Return the positions of the bases in the world, (3,) each [m]."""
    return {arm: env.cell.descriptions[arm].position_base_in_world for arm in ARMS}


class ClonedPolicy:
    """Network that predicts the tool poses of the next steps from a state.

    Positions are relative to the box. Targets move in steps of up to 2 cm.
    """

    def __init__(
        self,
        states: list[np.ndarray],
        expected: list[np.ndarray],
        bases: dict[str, np.ndarray],
        seed: int = 0,
    ) -> None:
        self.bases = bases
        x, y = [], []
        for episode, poses in zip(states, expected):
            steps = np.arange(len(episode))[:, None] + np.arange(CHUNK)
            chunks = poses[np.minimum(steps, len(episode) - 1)]
            chunks[..., :3] -= episode[:, None, None, :3]
            x.append(episode)
            y.append(chunks.reshape(len(episode), -1))
        self.x, self.y = np.vstack(x), np.vstack(y)
        self.mean, self.deviation = self.x.mean(0), self.x.std(0) + 1e-3
        self.middle, self.size = self.y.mean(0), self.y.std(0) + 1e-4
        self.low, self.high = self.y.min(0), self.y.max(0)  # Bounds of the output.
        random, sizes = np.random.default_rng(seed), (self.x.shape[1], UNITS, UNITS)
        output_sizes = (*sizes[1:], self.y.shape[1])
        self.weights = [random.normal(size=s) / np.sqrt(s[0]) for s in zip(sizes, output_sizes)]
        self.biases = [np.zeros(end) for end in output_sizes]
        self.curve: list[float] = []

    def forward(self, x: np.ndarray) -> list[np.ndarray]:
        """Return the outputs of all layers."""
        found = [x]
        for number, (weight, bias) in enumerate(zip(self.weights, self.biases)):
            z = found[-1] @ weight + bias
            found.append(np.tanh(z) if number < 2 else z)
        return found

    def train(self, epochs: int, seed: int = 0) -> None:
        """Minimise the mean square error by Adam, with a cosine schedule of the learning rate."""
        random, parts = np.random.default_rng(seed), [*self.weights, *self.biases]
        moments = [(np.zeros_like(part), np.zeros_like(part)) for part in parts]
        x, y = (self.x - self.mean) / self.deviation, (self.y - self.middle) / self.size
        batches, batch = max(1, len(x) // BATCH), 0
        for epoch in range(epochs):
            losses = []
            for rows in np.array_split(random.permutation(len(x)), batches):
                layers = self.forward(x[rows] + 0.02 * random.normal(size=x[rows].shape))
                error = layers[-1] - y[rows]
                losses.append(float(np.square(error).mean()))
                gradient, gradients = 2.0 * error / error.size, []
                for number in (2, 1, 0):
                    gradients.append((layers[number].T @ gradient, gradient.sum(0)))
                    gradient = gradient @ self.weights[number].T * (1.0 - layers[number] ** 2)
                batch += 1
                rate = STEP * (0.01 + 0.495 * (1.0 + np.cos(np.pi * batch / epochs / batches)))
                of_weights, of_biases = zip(*reversed(gradients))
                for part, (m, v), g in zip(parts, moments, [*of_weights, *of_biases]):
                    m += 0.1 * (g - m)
                    v += 0.001 * (g * g - v)
                    part -= rate * m / (1 - 0.9**batch) / (np.sqrt(v / (1 - 0.999**batch)) + 1e-8)
            self.curve.append(float(np.mean(losses)))
            if epoch % 100 == 99:
                print(f"epoch {epoch + 1} of {epochs}: relative variance {self.curve[-1]:.4f}")

    def __call__(self, obs: dict) -> np.ndarray:
        """Return a chunk of poses of both tools, (10, 18)."""
        state = state_of(obs, self.bases)
        out = self.forward((state - self.mean) / self.deviation)[-1] * self.size + self.middle
        poses = np.clip(out, self.low, self.high).reshape(CHUNK, len(ARMS), POSE)
        poses[..., :3] += state[:3]
        here = np.stack([obs[arm]["target"][:3] for arm in ARMS])
        for pose in poses:
            offset = pose[:, :3] - here
            size = np.linalg.norm(offset, axis=1, keepdims=True)
            here = pose[:, :3] = here + offset * np.minimum(1.0, MAX_STEP / np.maximum(size, 1e-9))
        return poses.reshape(CHUNK, -1)


def test(
    env: CellEnv, policy: ClonedPolicy, seeds: range, frames: list | None
) -> tuple[int, float]:
    """Return the number of successful episodes, and the longest step of a target [m]."""
    runner = PolicyRunner(env, LockstepInference(policy, latency=LATENCY), rate=RATE)
    succeeded, longest = 0, 0.0
    for seed in seeds:
        runner.reset(seed=seed)
        is_over, info = False, {}
        while not is_over and runner.fault is None:
            _, _, terminated, truncated, info = runner.step()
            is_over = terminated or truncated
            if frames is not None and seed < seeds[0] + 4:
                frames.append(env.render())
        succeeded += bool(info["is_success"])
        for arm in ARMS:
            steps = np.diff(runner.log[f"{arm}/target"][:, :3], axis=0)
            longest = max(longest, float(np.linalg.norm(steps, axis=1).max()))
        print(f"seed {seed}: {'lifted' if info['is_success'] else 'not lifted'} {info['fault']}")
    return succeeded, longest


def main(arguments: list[str] | None = None) -> int:
    """Demonstrate, learn and test; return 0 if at least 80 % of the boxes were lifted."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--demonstrations", type=int, default=100)
    parser.add_argument("--tries", type=int, default=50)
    parser.add_argument("--quick", action="store_true", help="20 demonstrations, 5 test episodes")
    parser.add_argument("--plot", type=Path, help="image file for the learning curve")
    parser.add_argument("--video", type=Path, help="GIF file for the first four test episodes")
    options = parser.parse_args(arguments)
    if options.quick:
        options.demonstrations, options.tries = 20, 5
    begin, frames = time.monotonic(), [] if options.video else None
    env = CellEnv("lift_box", control="pose", rate=RATE, render_mode="rgb_array")
    demonstrations = [demonstrate(env, seed) for seed in range(options.demonstrations)]
    good = [(states, actions) for states, actions, is_success in demonstrations if is_success]
    print(
        f"{len(good)} of {len(demonstrations)} demonstrations succeeded, "
        f"{time.monotonic() - begin:.0f} s"
    )
    policy = ClonedPolicy(*map(list, zip(*good)), bases_of(env))
    policy.train(EPOCHS // 3 if options.quick else EPOCHS)
    print(f"learned after {time.monotonic() - begin:.0f} s")
    succeeded, longest = test(
        env, policy, range(FIRST_TEST_SEED, FIRST_TEST_SEED + options.tries), frames
    )
    env.close()
    print(
        f"lifted {succeeded} of {options.tries} new boxes; longest step of a "
        f"target {1e3 * longest:.0f} mm; {time.monotonic() - begin:.0f} s in all"
    )
    if options.video:
        from PIL import Image

        images = [Image.fromarray(frame).resize((320, 240)) for frame in frames or []]
        images[0].save(options.video, save_all=True, append_images=images[1:], duration=50, loop=0)
    if options.plot:
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots(figsize=(5.0, 3.0))
        axes.semilogy(policy.curve)
        axes.set_xlabel("epoch")
        axes.set_ylabel("relative variance")
        figure.tight_layout()
        figure.savefig(options.plot)
    return int(succeeded < 0.8 * options.tries)


if __name__ == "__main__":
    sys.exit(main())
