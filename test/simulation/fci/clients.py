# SPDX-License-Identifier: Apache-2.0
"""Cases of pylibfranka clients; each case runs in a separate process.

When a robot disappears, libfranka may wait without end and hold the interpreter, so only a kill of
the process helps. ``python clients.py CASE ARGUMENTS`` prints one line of JSON.
"""

from __future__ import annotations

import json
import sys

import client_control
import client_faults
from client_tools import report

if __name__ == "__main__":
    name, arguments = sys.argv[1:]
    module = client_control if hasattr(client_control, name) else client_faults
    report(getattr(module, name)(**json.loads(arguments)))
