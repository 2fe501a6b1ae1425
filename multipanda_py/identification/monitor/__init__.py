# SPDX-License-Identifier: Apache-2.0
"""Digital-twin monitor that detects changes of an arm from the residuals of its twin.

:class:`ArmShadow` runs the twin along a log of an arm, complete or in chunks. :class:`Band` stores
the residual ranges of good runs, and :class:`BandWatch` reports residuals outside them.
"""

from multipanda_py.identification.monitor.arm_monitor import ArmShadow, ArmTwin, Shadowed
from multipanda_py.identification.monitor.band import Band, learn
from multipanda_py.identification.monitor.cell_monitor import Alarm, BandWatch

__all__ = ["Alarm", "ArmShadow", "ArmTwin", "Band", "BandWatch", "Shadowed", "learn"]
