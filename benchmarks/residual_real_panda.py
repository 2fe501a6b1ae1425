# SPDX-License-Identifier: Apache-2.0
"""Torque errors of a residual trained on 17 s of a real Panda, for the next 7 s.

The twin is rigid: its torques are those of the model's bodies at the measured positions,
velocities and their differences. The recording of the Automatic Control Group of UNISA (24 s, 30
Hz) is not part of the package. Needs torch.

    .venv/bin/python benchmarks/residual_real_panda.py panda_exciting_trajectory.db3
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import pinocchio as pin

from multipanda_py.apps.commands.identify import motion_of
from multipanda_py.identification.residual.motions import PairedMotion, PairedMotions
from multipanda_py.identification.residual.networks import TrainingSettings
from multipanda_py.identification.residual.train import fit_bodies, train
from multipanda_py.realtime import recording as logs
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.dynamics.arm_dynamics import model_with_gravity
from multipanda_py.robots.residual.inputs import Normalisation

HELD_OUT, PARTS = 0.3, 8
"""Fraction of the recording for testing; number of parts of the rest, of which the last but one is
for validation."""
ARM = ArmDescription("arm", "fer", hand=False)


def pairs_of(path: Path) -> tuple[PairedMotions, PairedMotion]:
    """Return the training data in parts, and the whole recording."""
    motion = motion_of(logs.read(path).the_arm(), "Panda")
    limits, model = ARM.robot.limits, model_with_gravity(ARM)
    scale = Normalisation.of_limits(limits.lower, limits.upper, limits.velocity, limits.torque)
    rate = 1.0 / float(np.median(np.diff(motion.time)))
    dq = np.gradient(motion.q, 1.0 / rate, axis=0) if motion.dq is None else motion.dq
    ddq, data = np.gradient(dq, 1.0 / rate, axis=0), model.createData()
    rigid = [pin.rnea(model, data, *row) for row in zip(motion.q, dq, ddq)]
    twin, plant = (scale.state(np.hstack([motion.q, dq, tau])) for tau in (rigid, motion.tau))
    edges = np.linspace(0, int((1.0 - HELD_OUT) * len(twin)), PARTS + 1).astype(int)
    motions = tuple(
        PairedMotion("multi", split, twin[a:b], plant[a:b])
        for a, b, split in zip(edges, edges[1:], ["train"] * (PARTS - 2) + ["validation", "train"])
    )
    joints = tuple(joint.name for joint in ARM.robot.joints)
    pairs = PairedMotions(motions, scale, ARM.robot.name, joints, rate, "recording")
    return pairs, PairedMotion("multi", "test", twin, plant)


def main() -> int:
    """Train residuals and print their torque errors."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("recording", type=Path, help="panda_exciting_trajectory.db3")
    parser.add_argument("--epochs", type=int, default=1500)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    pairs, whole = pairs_of(options.recording)
    test = slice(int((1.0 - HELD_OUT) * len(whole.twin)), None)
    span, torques = pairs.normalisation.span[14:], slice(14, 21)
    rmse = {"rigid": whole.residual[test, torques] * span}
    for bodies in (None, fit_bodies(pairs, ARM)):
        for seed in range(options.seeds):
            settings = TrainingSettings(
                epochs=options.epochs, batch=12, weights=(0.0, 0.0, 1.0), patience=400, seed=seed
            )
            found, _ = train(pairs, settings, bodies=bodies)
            errors = (whole.residual - found.run(whole.twin))[test, torques] * span
            rmse[f"real time{'' if bodies is None else ', bodies first'}, seed {seed}"] = errors
    sys.stdout.write("| RMSE [Nm] of joint | 1 | 2 | 3 | 4 | 5 | 6 | 7 |\n" + "|---" * 8 + "|\n")
    for name, errors in rmse.items():
        numbers = " | ".join(f"{v:.2f}" for v in np.sqrt(np.square(errors).mean(axis=0)))
        sys.stdout.write(f"| {name} | {numbers} |\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
