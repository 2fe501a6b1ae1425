# SPDX-License-Identifier: Apache-2.0
"""Hold and lift a box with two arms on springs, with a soft and a stiff preset.

Run: .venv/bin/python examples/11_lift_a_box_on_springs.py

The controllet commands link torques, and the drive computes the motor positions for them. The
internal force is therefore the requested one, with any stiffness preset.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from multipanda_py import Cell, Pose
from multipanda_py.config.cell_file import CellConfig

FILE = Path(__file__).parent.parent / "config" / "elastic_sim.yaml"
GRASP_FORCE, HEIGHT = 25.0, 0.05  # Internal force [N], height [m].
PRESETS = {"soft": 0.0, "stiff": 0.4}


def with_preset(preset: float) -> CellConfig:
    """Return the cell with another stiffness preset, and placement inline."""
    config = CellConfig.from_yaml(FILE).model_dump()
    config["cell"]["placement"] = "inline"
    for arm in config["arms"].values():
        for group in arm["actuators"].values():
            group["preset"] = preset
    return CellConfig.from_dict(config)


def forces(cell: Cell) -> list[float]:
    """Return the simulated contact forces of both tools [N]."""
    tools = [f"{arm}_fr3_tool" for arm in cell.arms]
    return [abs(float(cell.simulation.contact_force(tool, "box")[1])) for tool in tools]


def lift(cell: Cell) -> str:
    """Press on the box and lift it; return a description of the result."""
    cell.switch(["lifting"], strictness="force_auto")
    cell.step(10)
    report = cell.report("lifting")
    start = np.array([report[f"object_{axis} [m]"] for axis in "xyz"])
    on_table = cell.objects()["box"].position[2]
    cell.set_object_target("lifting", internal_force=GRASP_FORCE)
    for _ in range(30):
        cell.step(50)
        if min(forces(cell)) > 0.95 * GRASP_FORCE:
            break
    for k in range(60):
        fraction = 0.5 * (1.0 - math.cos(math.pi * (k + 1) / 60))
        cell.set_object_target("lifting", Pose(start + [0, 0, fraction * HEIGHT], np.eye(3)))
        cell.step(10)
    cell.step(400)
    left, right = forces(cell)
    lifted = cell.objects()["box"].position[2] - on_table
    return f"lifted {lifted:.3f} m, pressed with {left:.1f} and {right:.1f} N"


def main() -> None:
    """Lift the box with both presets."""
    for name, preset in PRESETS.items():
        with Cell(with_preset(preset)) as cell:
            print(f"{name} springs (preset {preset:.1f}): {lift(cell)}")


if __name__ == "__main__":
    main()
