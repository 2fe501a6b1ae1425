# SPDX-License-Identifier: Apache-2.0
"""Panel of a running ROS node.

``multipanda panel --node`` runs ``python -m multipanda_py.apps.panel.node_panel OPTIONS``, with
namespace, file, host, port and duration as a JSON object.
"""

from __future__ import annotations

if __name__ == "__main__":  # The imports below take a second, so signals are set up first.
    from multipanda_py.realtime.system.signals import end_at_once

    end_at_once("multipanda panel")

import contextlib
import json
import os
import sys

from multipanda_py.apps.panel import CellPanel
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import MultipandaError
from multipanda_py.realtime.events import LoopEvent
from multipanda_py.realtime.system.scheduling import other_cpus
from multipanda_py.realtime.system.signals import end_in_order
from multipanda_py.ros.client.panel_cell import NodeCell
from multipanda_py.ros.node.participants import SWITCH_INTERVAL


def main() -> int:
    """Serve the page until Ctrl-C is pressed, the duration is over or the node ends."""
    options = json.loads(sys.argv[1])
    sys.setswitchinterval(SWITCH_INTERVAL)  # Other threads must not delay a stop request.
    try:
        end_in_order()
        config = CellConfig.from_yaml(options["file"]) if options["file"] else None
        with NodeCell(options["namespace"], config) as cell:
            with contextlib.suppress(OSError):  # The node may run on a machine with more cores.
                os.sched_setaffinity(0, other_cpus(cell.config.realtime))
            address = options["host"], options["port"]
            with CellPanel(cell, *address, torque="measured torque", report=_print_event) as panel:
                _print_line(f"the panel is at {panel.address}")
                panel.serve(options["duration"] or float("inf"))
    except KeyboardInterrupt:
        _print_line("ended")
    except (MultipandaError, OSError) as error:
        sys.stderr.write(f"multipanda panel: {error}\n")
        return 1
    return 0


def _print_event(event: LoopEvent) -> None:
    _print_line(f"event: {event}")


def _print_line(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
