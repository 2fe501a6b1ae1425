# SPDX-License-Identifier: Apache-2.0
"""Two links in a plane on qbMoves: steps where gravity has no part, a sinusoid where it has."""

from __future__ import annotations

import math

import numpy as np

from multipanda_py.spring_validation.finding import Check, Curve, ExperimentResult, Panel
from multipanda_py.spring_validation.models import ALONG_THE_AXES, DOWN, TWO_LINKS, chain_model
from multipanda_py.spring_validation.motion import (
    PRESETS,
    SpringMotion,
    follow,
    identified,
    offset,
    robot_of,
)

ANGLE, OMEGA = 0.8, 0.8
"""Of steps and of the sinusoid [rad, rad/s]."""
STEP = 2e-3
_REACHED = 0.06
"""Friction of 0.025 Nm keeps soft springs from that much [rad]."""


def horizontal(quick: bool) -> ExperimentResult:
    """Let both joints step by 0.8 rad in a horizontal plane."""
    model = chain_model(TWO_LINKS, ALONG_THE_AXES, step=STEP)
    seconds, motions = 2.0 if quick else 4.0, {}
    for name, preset in PRESETS.items():
        springs = identified(2)
        robot = robot_of(model, springs, preset)
        beside = offset(springs, preset)
        follow(robot, lambda _: 0.0, 0.5, beside=beside)
        motions[name] = follow(robot, lambda _: ANGLE, seconds, 0.0, beside)
    rests = {name: float(np.abs(ANGLE - one.q[-1]).max()) for name, one in motions.items()}
    swings = {name: _crossings(motion) for name, motion in motions.items()}
    checks = (
        Check(f"links come to rest at 0.8 rad, within {_REACHED:g} rad",
              ", ".join(f"{name} {rest:.3f} rad" for name, rest in rests.items()),
              max(rests.values()) <= _REACHED),
        Check("stiff links oscillate more often than soft ones, damping being the same",
              ", ".join(f"{name} {count} crossings of the rest" for name, count in swings.items()),
              swings["stiff"] > swings["soft"]),
    )  # fmt: skip
    return ExperimentResult(
        "horizontal", "Two joints in a horizontal plane, steps of 0.8 rad",
        "Mode 6, identified springs, damping 0.065 Nm s/rad and friction 0.025 Nm of links, whose "
        "masses the paper does not state; the motors get what unequal springs rest beside their "
        "equilibrium on top.",
        "Equilibrium and link reach the desired position; simulated, the stiff links oscillate "
        "much, for their damping does not grow with the preset as it does in reality.",
        checks, _panels(motions), {f"{name} rest error rad": rest for name, rest in rests.items()},
    )  # fmt: skip


def vertical(quick: bool) -> ExperimentResult:
    """Let both joints follow a sinusoid under gravity."""
    model, motions = chain_model(TWO_LINKS, DOWN, step=STEP), {}
    seconds = math.tau / OMEGA * (0.3 if quick else 2.0)
    for name, preset in PRESETS.items():
        springs = identified(2)
        robot = robot_of(model, springs, preset)
        beside = offset(springs, preset)
        motions[name] = follow(robot, lambda t: ANGLE * math.sin(OMEGA * t), seconds, 1.0, beside)
    errors = {name: np.abs(one.commanded - one.q).max(axis=0) for name, one in motions.items()}
    motors = max(np.abs(one.commanded - one.equilibrium).max() for one in motions.values())
    said = ", ".join(f"{name} {error[0]:.3f} / {error[1]:.3f} rad" for name, error in
                     errors.items())  # fmt: skip
    checks = (
        Check("motors follow what is commanded, within 0.05 rad", f"{motors:.3f} rad",
              bool(motors <= 0.05)),
        Check("soft links stay behind it under their weight, stiff ones less", said,
              bool((errors["soft"] > errors["stiff"]).all())),
        Check("in the soft case the difference is plain to see, more than 0.1 rad", said,
              bool(errors["soft"].max() > 0.1)),
    )  # fmt: skip
    figures = {
        f"{name} joint {k + 1} largest error rad": float(value)
        for name, error in errors.items()
        for k, value in enumerate(error)
    }
    return ExperimentResult(
        "vertical", "Two joints in a vertical plane, 0.8 sin(0.8 t) rad",
        "Mode 6, identified springs; links and friction as in the horizontal plane.",
        "The soft link is not where it is desired although its equilibrium tracks the reference: "
        "gravity acts on the springs. The real platform does the same.",
        checks, _panels(motions), figures,
    )  # fmt: skip


def _panels(motions: dict[str, SpringMotion]) -> tuple[Panel, ...]:
    return tuple(
        Panel(f"joint {k + 1}, {name}", "angle [rad]", (
            Curve("commanded", motion.time, motion.commanded[:, k], "k:"),
            Curve("equilibrium of the motors", motion.time, motion.equilibrium[:, k]),
            Curve("link", motion.time, motion.q[:, k]),
        ))
        for k in range(2) for name, motion in motions.items()
    )  # fmt: skip


def _crossings(motion: SpringMotion, band: float = 0.02) -> int:
    """Return how often the first link goes through where it comes to rest, by more than a band."""
    away = motion.q[:, 0] - motion.q[-1, 0]
    sides = np.sign(away[np.abs(away) > band])
    return int(np.count_nonzero(np.diff(sides)))
