# SPDX-License-Identifier: Apache-2.0
"""Hand what twins say to a ROS node in a process of its own."""

from __future__ import annotations

import json
import time

from multipanda_py.exceptions import ShadowRefused
from multipanda_py.extras import require
from multipanda_py.machine.line_process import LineProcess
from multipanda_py.shadow.cell_shadow import CellShadow
from multipanda_py.shadow.quantities import QUANTITIES, places


class ToldOverRos:
    """A node that says in ``/diagnostics`` how twins and arms agree.

    Args:
        cell: Name of the cell, and in that of the node: ``shadow_CELL``.
        namespace: Of the node.

    Raises:
        MissingExtra: If there is no ROS 2.
    """

    def __init__(self, cell: str, namespace: str = "") -> None:
        require("rclpy", "diagnostic_msgs")
        self._cell = cell
        self._node = LineProcess("multipanda_py.ros.shadow_node", cell, namespace, is_heard=False)

    def say(self, shadow: CellShadow) -> None:
        """Say how it is now.

        Raises:
            ShadowRefused: If the node has ended.
        """
        line = json.dumps({"cell": self._cell, "time": time.time(), "arms": _arms(shadow)})
        try:
            self._node.tell(line)
        except OSError:
            raise ShadowRefused("nobody is told over ROS: its node has ended") from None

    def close(self) -> None:
        """End the node."""
        self._node.close()


def _arms(shadow: CellShadow) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    for name, last in shadow.last.items():
        watch = shadow.watches.get(name)
        at = places(len(last.log.joints))
        values = {}
        for quantity in QUANTITIES:
            row = last.residuals[-1, at[quantity.name]]
            values[f"{quantity.name} [{quantity.unit}]"] = [float(f"{v:.4g}") for v in row]
        found.append({
            "name": name,
            "joints": list(shadow.arms[name].joint_names),
            "q": last.q[-1].tolist(), "dq": last.dq[-1].tolist(), "tau": last.tau[-1].tolist(),
            "outside": [str(alarm) for alarm in watch.now.values()] if watch else [],
            "has_band": watch is not None,
            "raised": len(watch.alarms) if watch else 0,
            "used": {k: round(v, 3) for k, v in watch.use.items()} if watch else {},
            "residuals": values,
            "beyond": list(shadow.updates[name].lines()) if name in shadow.updates else [],
        })  # fmt: skip
    return found
