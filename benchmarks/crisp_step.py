# SPDX-License-Identifier: Apache-2.0
"""Errors after a step of the target pose on three arms, as in Fig. 2 of the CRISP paper.

After a second the target jumps by 10 cm in a random direction and by 0.3 rad about a random axis.
Three controllets with CRISP's gains follow it: operational-space control, Cartesian impedance, and
a stiff Cartesian impedance with a clipped error. Dry friction in the joints causes the
steady-state errors.

    .venv/bin/python benchmarks/crisp_step.py         # prints the table
    .venv/bin/python benchmarks/crisp_step.py --write # also writes doc/crisp_step.md and its plot
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin
from parts.options import count

from multipanda_py.pose import Pose
from multipanda_py.robots import MODELS
from multipanda_py.testing import simple_cell

DOC = Path(__file__).resolve().parent.parent / "doc"
ROBOTS = ("fr3", "kinova_gen3", "iiwa14")
STEP, ROTATION = 0.1, 0.3
BEFORE, AFTER, STEADY = 1000, 6000, 500  # cycles
# The gains are the presets of crisp_py: 1000 1/s^2 with 100 1/s; 600 N/m and 30 Nm/rad; 2500 N/m
# and 200 Nm/rad with an error clipped at 1 cm and 0.08 rad.
CLIP = [0.01] * 3 + [0.08] * 3
LAWS: dict[str, tuple[str, dict[str, Any]]] = {
    "OSC": (
        "operational_space",
        {"stiffness": [1000.0] * 6, "damping_ratio": [100.0 / (2.0 * 1000.0**0.5)] * 6},
    ),
    "CI": ("cartesian_impedance", {"stiffness": [600.0] * 3 + [30.0] * 3}),
    "CI-clipped": (
        "cartesian_impedance",
        {"stiffness": [2500.0] * 3 + [200.0] * 3, "error_clip": CLIP},
    ),
}
PUBLISHED = {"OSC": (5.54, 0.0998), "CI": (4.73, 0.0532), "CI-clipped": (0.81, 0.0029)}
"""Steady-state errors of CRISP on a real FR3 [mm, rad]."""


def friction(model: str) -> np.ndarray:
    """Return the dry friction of the joints of an arm, (n,) [Nm].

    The friction of a Panda is half of the step that Gaz et al. identified. Other arms have no
    published values; 1 % of the torque limit is an assumption.
    """
    step = np.array(MODELS[model].value("friction_phi_1"))
    return 0.5 * step if step.any() else 0.01 * MODELS[model].limits.torque


def errors(model: str, law: str, seed: int) -> np.ndarray:
    """Return position and rotation errors of all cycles, (cycles, 2) [mm, rad]."""
    kind, params = LAWS[law]
    arm = {"model": model, "joint_friction": friction(model).tolist()}
    cell = simple_cell(
        {"arm": arm}, {"law": {"type": kind, "params": params}}, ["arm/law"],
        gate={"position": 1.0, "rotation": 3.0},
    )  # fmt: skip
    cell.start()
    cell.simulation.model.dof_solimp[:, :2] = 0.9999  # joints creep with the default
    rng = np.random.default_rng(seed)
    directions = rng.normal(size=(2, 3))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    start, _ = cell.records()
    cell.step(BEFORE)
    here = cell.pose("arm")
    goal = Pose(
        here.position + STEP * directions[0], pin.exp3(ROTATION * directions[1]) @ here.rotation
    )
    cell.set_target("arm", goal)
    found = []
    for _ in range((BEFORE + AFTER) // 1000):
        start, rows = cell.records(start)
        found.append(rows["arms"][:, 0])
        if sum(map(len, found)) < BEFORE + AFTER:
            cell.step(1000)
    arms = np.concatenate(found)
    fault = cell.state("arm").fault
    cell.close()
    if fault:
        raise SystemExit(f"{model}, {law}, seed {seed}: {fault}")
    position_errors = np.linalg.norm(arms["position_ee_in_base"] - goal.position, axis=1)
    rotation_errors = [
        np.linalg.norm(pin.log3(goal.rotation @ r.T)) for r in arms["rotation_ee_in_base"]
    ]
    return np.stack([1e3 * position_errors, np.array(rotation_errors)], axis=1)


def steady(found: np.ndarray) -> np.ndarray:
    """Return the mean error over the last ``STEADY`` cycles, (2,) [mm, rad]."""
    return np.array(found[-STEADY:].mean(axis=0))


def table(runs: dict[tuple[str, str], list[np.ndarray]]) -> str:
    """Return the table in Markdown."""
    lines = [
        "| arm | controllet | steady error, median [mm] | max [mm] | median [rad] | max [rad] |"
        " CRISP on an FR3 [mm, rad] |",
        "|---|---|---|---|---|---|---|",
    ]
    for (model, law), found in runs.items():
        ends = np.array([steady(run) for run in found])
        (mm, rad), (maximum_mm, maximum_rad) = np.median(ends, axis=0), ends.max(axis=0)
        published = "{:g}, {:g}".format(*PUBLISHED[law]) if model == "fr3" else ""
        lines.append(
            f"| {model} | {law} | {mm:.2f} | {maximum_mm:.2f} | {rad:.4f} | {maximum_rad:.4f} | "
            f"{published} |"
        )
    return "\n".join(lines)


def draw(runs: dict[tuple[str, str], list[np.ndarray]], path: Path) -> None:
    """Plot the errors of the first step."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        2, len(ROBOTS), figsize=(11, 5.5), sharex=True, sharey="row", squeeze=False
    )
    for (model, law), found in runs.items():
        column = ROBOTS.index(model)
        time = 1e-3 * np.arange(len(found[0]))
        for row in range(2):
            (line,) = axes[row, column].plot(time, found[0][:, row], label=law)
            if column == 0:
                axes[row, 0].axhline(PUBLISHED[law][row], color=line.get_color(), ls=":", lw=1)
    for column, model in enumerate(ROBOTS):
        axes[0, column].set_title(model)
        axes[1, column].set_xlabel("time [s]")
    axes[0, 0].set_ylabel("position error [mm]")
    axes[1, 0].set_ylabel("rotation error [rad]")
    axes[0, 0].legend(title="dotted: CRISP's steady error")
    figure.tight_layout()
    figure.savefig(path, dpi=110)


PAGE = """<!-- SPDX-License-Identifier: Apache-2.0 -->
# Steady errors after a pose step, compared with CRISP

Friction in the joints stops an arm before its target. This page compares three control laws in
simulation with the results of the CRISP controllers. Use it to choose a law if you need
accurate poses: `operational_space` has the smallest position error on all three arms.

```
.venv/bin/python benchmarks/crisp_step.py            # prints the table
.venv/bin/python benchmarks/crisp_step.py --write    # writes this page
```

The target steps by 10 cm and 0.3 rad. The steady error is the mean of the last half second of
{seconds} s. The laws have CRISP's gains and the default features of this package.

| name | controllet (control law) | gains |
|---|---|---|
| OSC | `operational_space` | stiffness 1000 1/s^2, damping 100 1/s |
| CI | `cartesian_impedance` | 600 N/m, 30 Nm/rad |
| CI-clipped | `cartesian_impedance` | 2500 N/m, 200 Nm/rad, error clipped at 1 cm and 0.08 rad |

Median and maximum (max) are over {steps} random steps. The last column has CRISP's errors on a
real FR3.

{table}

- Dry friction in the joints causes the steady errors. That of the simulated FR3 was identified
  on a Panda; that of the other arms is 1 % of the torque limit. Friction compensation is off.
- CRISP's errors are those of its paper (Fig. 2), for one step. Compare only their order of
  magnitude, because friction and step differ.

The plot shows the errors over time, for the first step of each arm. Dotted lines are CRISP's
steady errors.

![Errors over time.](images/crisp_step.png)
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Simulate the steps and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--steps", type=count, default=3, help="random steps of each case, default 3"
    )
    parser.add_argument("--write", action="store_true", help="write the page and its plot")
    options = parser.parse_args(arguments)
    runs = {
        (model, law): [errors(model, law, seed) for seed in range(options.steps)]
        for model in ROBOTS
        for law in LAWS
    }
    text = table(runs)
    print(text)
    if options.write:
        seconds = AFTER // 1000
        page = PAGE.format(table=text, steps=options.steps, seconds=seconds)
        (DOC / "crisp_step.md").write_text(page, encoding="utf-8")
        draw(runs, DOC / "images" / "crisp_step.png")


if __name__ == "__main__":
    main()
