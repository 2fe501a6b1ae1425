# SPDX-License-Identifier: Apache-2.0
"""Validation experiments of the ROS-Gazebo toolbox for compliant actuators.

:data:`EXPERIMENTS` lists them by name. Each returns an :class:`ExperimentResult` with curves,
figures and checks of the paper's statements. :func:`learn` is iterative learning control for any
robot.
"""

from collections.abc import Callable

from multipanda_py.identification.actuators.finding import Check, Curve, ExperimentResult, Panel
from multipanda_py.identification.actuators.joint_experiments import (
    chirp,
    horizontal,
    steps,
    vertical,
)
from multipanda_py.identification.actuators.learning_control import (
    Learned,
    learn,
    learn_and_transfer,
)
from multipanda_py.identification.actuators.pushing import push_a_box

EXPERIMENTS: dict[str, Callable[[bool], ExperimentResult]] = {
    "steps": steps, "chirp": chirp, "horizontal": horizontal, "vertical": vertical,
    "pushing": push_a_box, "learning": learn_and_transfer,
}  # fmt: skip
"""Experiments by name. The argument is True to shorten the experiment."""

__all__ = ["EXPERIMENTS", "Check", "Curve", "ExperimentResult", "Learned", "Panel", "learn"]
