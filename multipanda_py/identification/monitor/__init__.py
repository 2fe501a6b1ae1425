# SPDX-License-Identifier: Apache-2.0
"""A twin that follows an arm, and says when the arm is no longer as it was.

:class:`ArmShadow` follows the log of an arm, or a running one piece by piece; :class:`Band` is
what its residuals were in good runs, and :class:`BandWatch` says when they leave it.
"""

from multipanda_py.identification.monitor.arm_monitor import ArmShadow, ArmTwin, Shadowed
from multipanda_py.identification.monitor.band import Band, learn
from multipanda_py.identification.monitor.cell_monitor import Alarm, BandWatch

__all__ = ["Alarm", "ArmShadow", "ArmTwin", "Band", "BandWatch", "Shadowed", "learn"]
