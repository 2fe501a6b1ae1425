# SPDX-License-Identifier: Apache-2.0
"""Response of Cartesian impedance control to steps and streams, compared with two textbook laws.

One FR3 is simulated without friction, with a torque rate of 1 Nm/ms. Steps are 1, 5 and 10 cm
along x, y and -z. Streams are samples of a circle of 10 cm at 0.25 Hz, sent at 1 kHz or 20 Hz. The
laws of CRISP and of libfranka's example are implemented with MuJoCo alone (``parts/textbook.py``).

    .venv/bin/python benchmarks/response.py            # prints the table
    .venv/bin/python benchmarks/response.py --write    # also writes it into doc/crisp.md
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from parts.textbook import Textbook

from multipanda_py.pose import Pose
from multipanda_py.testing import simple_cell

RADIUS, FREQUENCY = 0.1, 0.25
"""Radius [m] and frequency [Hz] of the circle."""
STEPS = (0.01, 0.05, 0.1)
"""Sizes of the steps [m]."""
AXES = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, -1.0]])
STEP_CYCLES, CIRCLE_CYCLES = 1500, 6000
DIRECT: dict[str, Any] = {"governor": {"response": "direct"}}
OPENED = {
    "linear_acceleration": 50.0, "linear_speed": 3.0, "smoothing": 0.001, "limit_scale": 1.0,
    "angular_acceleration": 100.0, "angular_speed": 10.0,
}  # fmt: skip
"""Governor parameters at the ends of their ranges."""
OURS: dict[str, dict[str, Any]] = {
    "default": {},
    "opened governor": {"governor": OPENED},
    "`response: direct`": DIRECT,
}
LAWS = (*OURS, "CRISP's law", "libfranka's example")
WIDE = {"position": 1.0, "rotation": 3.0}
MARK = "<!-- table of benchmarks/response.py -->"
PAGE = Path(__file__).parent.parent / "doc" / "crisp.md"


class Ours:
    """Cell with one arm and the interface of a textbook law."""

    def __init__(self, stiffness: float, params: dict[str, Any]) -> None:
        gains = {"stiffness": [stiffness] * 3 + [stiffness / 20.0] * 3, **params}
        law = {"type": "cartesian_impedance", "params": gains}
        self.cell = simple_cell({"arm": {}}, {"law": law}, ["arm/law"], gate=WIDE)
        self.cell.start()
        self.cell.step(5)
        here = self.cell.pose("arm")
        self.position, self.rotation = here.position.copy(), here.rotation

    def pose(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the measured pose of the tool in the base."""
        here = self.cell.pose("arm")
        return here.position, here.rotation

    def step(self) -> None:
        """Run one cycle."""
        self.cell.step()

    def aim(self, position: np.ndarray) -> None:
        """Set the target position [m]."""
        self.cell.set_target("arm", Pose(position, self.rotation))


class Theirs(Textbook):
    """Textbook law in the same simulation."""

    def __init__(self, stiffness: float, follow: float | None) -> None:
        self.cell = Ours(stiffness, {}).cell
        super().__init__(
            self.cell, "arm_fr3_", "arm_fr3_hand_tcp", (stiffness, stiffness / 20.0), follow
        )

    def aim(self, position: np.ndarray) -> None:
        """Set the target position [m]."""
        self.position = position.copy()


def arm_with_law(law: str, stiffness: float) -> Ours | Theirs:
    """Return an arm with a law and a translational stiffness [N/m]."""
    if law in OURS:
        return Ours(stiffness, OURS[law])
    return Theirs(stiffness, None if law.startswith("CRISP") else 0.005)


def step_response(
    law: str, stiffness: float, axis: np.ndarray, size: float
) -> tuple[float, float, float]:
    """Return time to 95 % [ms], overshoot [%] and settling time to within 5 % [ms]."""
    arm, path = arm_with_law(law, stiffness), []
    start = arm.pose()[0].copy()
    arm.aim(start + size * axis)
    for _ in range(STEP_CYCLES):
        arm.step()
        path.append((arm.pose()[0] - start) @ axis / size)
    arm.cell.close()
    observed = np.array(path)
    outside = np.flatnonzero(np.abs(observed - 1.0) > 0.05)
    first = np.flatnonzero(observed >= 0.95)
    arrival = float(first[0] + 1) if len(first) else np.inf
    return arrival, 100.0 * max(0.0, float(observed.max()) - 1.0), float(outside[-1] + 1)


def stream_lag(law: str, stiffness: float, every: int) -> float:
    """Return the lag behind a circle with a sample every ``every`` cycles [ms]."""
    arm, positions = arm_with_law(law, stiffness), []
    rate = 2e-3 * np.pi * FREQUENCY
    centre = arm.pose()[0] - [0.0, RADIUS, 0.0]
    for k in range(CIRCLE_CYCLES):
        if k % every == 0:
            direction = np.array([0.0, np.cos(rate * k), np.sin(rate * k)])
            arm.aim(centre + RADIUS * direction)
        arm.step()
        positions.append(arm.pose()[0] - centre)
    arm.cell.close()
    last = round(1e3 / FREQUENCY)
    observed = np.array(positions)[-last:]
    rotations = np.exp(-1j * rate * np.arange(CIRCLE_CYCLES - last + 1, CIRCLE_CYCLES + 1))
    return float(-np.angle(((observed[:, 1] + 1j * observed[:, 2]) * rotations).mean()) / rate)


def row(law: str, stiffness: float) -> str:
    """Return a row of the table in Markdown."""
    found = np.array(
        [[step_response(law, stiffness, axis, size) for axis in AXES] for size in STEPS]
    )
    arrivals = " | ".join(" / ".join(f"{ms:.0f}" for ms in row[:, 0]) for row in found)
    lags = " | ".join(f"{stream_lag(law, stiffness, every):.0f}" for every in (1, 50))
    over, settled = found[1, :, 1].max(), found[1, :, 2].max()
    return f"| {stiffness:.0f} | {law} | {arrivals} | {over:.0f} | {settled:.0f} | {lags} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure all laws and print the table."""
    parser = argparse.ArgumentParser(
        description="Compare responses to steps and streams with those of textbook laws."
    )
    parser.add_argument("--write", action="store_true", help="write the table of doc/crisp.md")
    options = parser.parse_args(arguments)
    lines = [
        "| K [N/m] | law | 1 cm [ms] | 5 cm [ms] | 10 cm [ms] | overshoot [%] | settled [ms] "
        "| lag at 1 kHz [ms] | lag at 20 Hz [ms] |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    print("\n".join(lines))
    for stiffness in (400.0, 1000.0, 2000.0):
        for law in LAWS:
            lines.append(row(law, stiffness))
            print(lines[-1], flush=True)
    if options.write:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(MARK)
        _, _, after = rest.partition(MARK)
        text = "\n".join([MARK, *lines, MARK])
        PAGE.write_text(f"{before}{text}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
