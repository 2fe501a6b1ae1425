# SPDX-License-Identifier: Apache-2.0
"""Program that runs under callgrind: some cycles of each condition, with a dump for each.

Start-up runs without instrumentation, which is several times faster.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable

import numpy as np
import pinocchio as pin
from parts.conditions import conditions, laws_of
from parts.hot import CONFIG
from parts.moving import MOVING, moving, name_of

from multipanda_py import Cell

CYCLES = 48
"""Cycles per condition at rest, a multiple of the period of coupled controllets."""
CYCLES_MOVING = 33
"""Cycles per condition with moving arms, one period of the governor's bound update."""
CALIBRATION = "calibration"


def calibration() -> Callable[[], None]:
    """Return a fixed mix of the operations of controllets: bytecode, numpy and pinocchio."""
    model = pin.buildSampleModelManipulator()
    data, q, v = model.createData(), pin.neutral(model), np.zeros(model.nv)
    a, x, y = np.ones((6, 7)), np.ones(7), np.ones(6)
    out, product = np.zeros(6), np.zeros((6, 6))

    def half(value: float) -> float:
        return min(1.0, max(0.0, 0.5 * value))

    def kernel() -> None:
        for n in range(40):
            np.dot(a, x, out)
            np.multiply(out, y, out)
            out[n % 6] = half(float(out[0]))
        for _ in range(10):
            np.dot(a, a.T, product)
            pin.crba(model, data, q, pin.Convention.WORLD)
            pin.nonLinearEffects(model, data, q, v)

    return kernel


def inline_cycle() -> Callable[[], None]:
    """Return a whole inline cycle of the dual-arm cell, with physics and recording."""
    cell = Cell.from_yaml(CONFIG, placement="inline")
    cell.start()
    cell.step(300)

    def cycle() -> None:
        cell.loop.cycle(1, 1)

    return cycle


def main(library: str, only: str) -> None:
    """Count each condition with ``only`` in its name, with the library of ``callgrind.c``."""
    blocks = {CALIBRATION: calibration()}
    blocks |= {name: laws_of(cell) for name, cell in conditions().items() if only in name}
    if only in "inline cycle":
        blocks["inline cycle"] = inline_cycle()
    cells = conditions()
    in_motion = {name_of(n): moving(cells[n]) for n in MOVING if only in name_of(n)}
    counters = ctypes.CDLL(library)
    gc.collect(), gc.freeze(), gc.disable()
    counters.begin()
    for name, block in blocks.items():
        for _ in range(CYCLES // 4):  # Python specialises the bytecode first.
            block()
        counters.zero()
        for _ in range(CYCLES):
            block()
        counters.dump(name.encode())
    for name, (send, cycle) in in_motion.items():
        count_moving(counters, name, send, cycle)


def count_moving(
    counters: ctypes.CDLL, name: str, send: Callable[[], None], cycle: Callable[[], None]
) -> None:
    """Count whole cycles without the code that sends their targets."""
    for _ in range(CYCLES // 4):
        send(), cycle()
    counters.zero()
    for _ in range(CYCLES_MOVING):
        counters.toggle()
        send()
        counters.toggle()
        cycle()
    counters.dump(name.encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
