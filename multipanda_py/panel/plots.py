# SPDX-License-Identifier: Apache-2.0
"""Running plots of one arm: the force that the world exerts on it, and its torques."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from multipanda_py.panel.desk import Desk

RATE = 10.0
"""Samples per second."""
SECONDS = 10.0
"""How much of the past is shown [s]."""
_COLORS = ("#d62728", "#2ca02c", "#1f77b4", "#ff7f0e", "#9467bd", "#8c564b", "#17becf")


class Plots:
    """Draw what one arm feels and exerts, by choice of any viewer.

    Args:
        desk: Of the panel.
        torque: What the states' ``tau`` is.

    Thread: the panel's.
    """

    def __init__(self, desk: Desk, torque: str) -> None:
        self._desk = desk
        gui, arms = desk.server.gui, desk.cell.arms
        with gui.add_folder("Plots"):
            self._choice = gui.add_dropdown("arm", arms)
            joints = max(desk.cell.state(arm).q.size for arm in arms)
            self._force = _plot(gui, "force on the tool [N]", ("x", "y", "z"))
            self._torque = _plot(gui, f"{torque} [Nm]", tuple(str(n + 1) for n in range(joints)))
        self._joints = joints
        self._shown = arms[0]
        self._samples: deque[list[float]] = deque(maxlen=round(RATE * SECONDS))

    def sample(self) -> None:
        """Take what is measured now, and draw."""
        arm = self._choice.value
        if arm not in self._desk.cell.arms:  # a page may send any word
            self._choice.value = arm = self._shown
        if arm != self._shown:
            self._shown = arm
            self._samples.clear()
        state = self._desk.cell.state(arm)
        torques = np.zeros(self._joints)
        torques[: state.tau.size] = state.tau
        self._samples.append([state.time, *state.wrench_ext_in_base[:3], *torques])
        columns = np.nan_to_num(np.array(self._samples)).T
        self._force.data = (columns[0], *columns[1:4])
        self._torque.data = (columns[0], *columns[4:])


def _plot(gui: Any, title: str, names: tuple[str, ...]) -> Any:
    from viser import uplot

    lines = [uplot.Series(label=name, stroke=color) for name, color in zip(names, _COLORS * 2)]
    empty = tuple(np.zeros(1) for _ in range(len(names) + 1))
    return gui.add_uplot(
        empty, (uplot.Series(label="t [s]"), *lines), title=title, height=180,
        scales={"x": uplot.Scale(time=False)},
    )  # fmt: skip
