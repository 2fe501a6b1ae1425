# SPDX-License-Identifier: Apache-2.0
"""Logs of arms: recorded by the cell or by others, read as arrays, drawn.

:func:`read` takes a log of any kind, or several of one experiment; :class:`ArmLog` is what
identification, validation and plots work on.
"""

from multipanda_py.logs.arm_log import ArmLog
from multipanda_py.logs.log import Log, Mark
from multipanda_py.logs.read import read

__all__ = ["ArmLog", "Log", "Mark", "read"]
