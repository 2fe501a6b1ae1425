# SPDX-License-Identifier: Apache-2.0
"""The way from a commanded torque to a simulated joint, and from its motion back to the laws."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from multipanda_py.state import ArmState, Vector


class Stage:
    """Something between the command and the joint: a lag, the robot's own control, a gear.

    A stage overrides what it has to do with; what it leaves alone costs nothing.

    Thread: control.
    """

    def execute(self, tau: Vector) -> None:
        """Change torques (7,) [Nm] on their way to the joints, in place."""

    def measure(self, state: ArmState) -> None:
        """Change what was measured on its way to the laws, in place."""


class Drive:
    """All stages of one arm, in the order that a torque passes them.

    What is measured passes them the other way round: the stage nearest to the joint comes
    first, the one that the loop talks to last.

    Args:
        stages: From the command to the joint.

    Thread: control.
    """

    def __init__(self, stages: Sequence[Stage]) -> None:
        self._executing: list[Callable[[Vector], None]] = [
            stage.execute for stage in stages if type(stage).execute is not Stage.execute
        ]
        self._measuring: list[Callable[[ArmState], None]] = [
            stage.measure for stage in reversed(stages) if type(stage).measure is not Stage.measure
        ]

    def execute(self, tau: Vector) -> None:
        """Turn commanded torques (7,) [Nm] into those of the motors, in place."""
        for step in self._executing:
            step(tau)

    def measure(self, state: ArmState) -> None:
        """Turn the true state of the joints into what the laws see, in place."""
        for step in self._measuring:
            step(state)
