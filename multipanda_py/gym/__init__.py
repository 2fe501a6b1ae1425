# SPDX-License-Identifier: Apache-2.0
"""Gymnasium environments: cells that policies act on.

After ``import multipanda_py.gym``, ``gymnasium.make("multipanda/lift_box-v0")`` makes a
:class:`.CellEnv`; its arguments are those of the class. Needs gymnasium, of the extra ``gym``.
"""

from multipanda_py.extras import require

require("gymnasium")

from multipanda_py.gym.env import CellEnv  # noqa: E402
from multipanda_py.gym.registration import register  # noqa: E402
from multipanda_py.gym.task import GymTask  # noqa: E402

__all__ = ["CellEnv", "GymTask", "register"]

register()
