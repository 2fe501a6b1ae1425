# SPDX-License-Identifier: Apache-2.0
"""Digital-twin monitor that detects changes of an arm from the residuals of its twin.

:class:`ArmMonitor` runs the twin along a log of an arm. :class:`Band` stores the ranges of the
residuals in good runs, and :class:`BandMonitor` reports residuals outside these ranges.
"""

from multipanda_py.identification.monitor.arm_monitor import ArmMonitor, ArmTwin, MonitoredLog
from multipanda_py.identification.monitor.band import Band, learn
from multipanda_py.identification.monitor.cell_monitor import Alarm, BandMonitor

__all__ = ["Alarm", "ArmMonitor", "ArmTwin", "Band", "BandMonitor", "MonitoredLog", "learn"]
