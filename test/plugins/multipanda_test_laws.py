# SPDX-License-Identifier: Apache-2.0
"""Third-party controllets: some with selectable faults, one with channels of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from multipanda_py.context import BumplessTransfer
from multipanda_py.controllet import Controllet
from multipanda_py.exceptions import TargetRejected
from multipanda_py.parameters import NoParams, choice, number
from multipanda_py.state import ArmState, Vector
from multipanda_py.targets import ArmTargetRequest, Channel, Report, Target, finite_numbers


class Mute(RuntimeError):
    """Error whose text raises another error."""

    def __str__(self) -> str:
        raise ValueError("no words")


class Lines(RuntimeError):
    """Error with a text of several lines."""

    def __str__(self) -> str:
        return "this law broke\n  because of\n\tthat\n"


RAISED = {"lines": Lines, "raise": RuntimeError, "exit": SystemExit,
          "generator_exit": GeneratorExit, "interrupt": KeyboardInterrupt,
          "mute": Mute}  # fmt: skip
FAULTS = ("none", *RAISED, "nan", "inf", "huge", "activate", "deactivate", "notify",
          "notify_number", "replace", "sense", "item", "narrow", "report", "words",
          "init")  # fmt: skip


@dataclass(frozen=True)
class MisbehavingParams:
    """Parameters of a controllet with a selectable fault."""

    fault: str = choice("none", options=FAULTS)
    torque: float = number(0.0, unit="Nm", low=-1e6, high=1e6)


class Misbehaving(Controllet[Target, MisbehavingParams]):
    """Command a constant torque, with the selected fault."""

    Params = MisbehavingParams

    def on_parameters(self) -> None:
        if self.params.fault == "init":
            raise RuntimeError("this law cannot be made")

    def on_transfer(
        self, states: Sequence[ArmState], target: Target, transfers: Sequence[BumplessTransfer]
    ) -> str:
        words = super().on_transfer(states, target, transfers)
        return 5 if self.params.fault == "words" else words  # type: ignore[return-value]

    def on_activate(self, states: Sequence[ArmState], target: Target) -> None:
        if self.params.fault == "activate":
            raise RuntimeError("this law does not start")

    def update(self, states: Sequence[ArmState], target: Target, period: float) -> None:
        fault = self.params.fault
        if fault in RAISED:
            raise RAISED[fault]("this law broke")
        if fault == "notify_number":
            self.context.notify(5)  # type: ignore[arg-type]
        if fault == "notify":
            for _ in range(10):
                self.context.notify("this law is at its limit")
        if fault == "replace":
            self.tau = [np.full(state.n_joints, self.params.torque) for state in states]
        if fault == "sense":
            states[0].q[:] = 0.0
        if fault == "narrow":
            self.tau[0] = np.zeros(6)
        if fault == "report":
            self.report = np.zeros(1)
        if fault == "item":
            self.tau[0] = [self.params.torque] * states[0].n_joints
            return
        for tau in self.tau:
            tau[:] = {"nan": float("nan"), "inf": float("-inf"), "huge": -1e5}.get(
                fault, self.params.torque
            )

    def on_deactivate(self) -> None:
        if self.params.fault == "deactivate":
            raise RuntimeError("this law does not let go")


@dataclass(frozen=True)
class UnsteadyParams:
    """Parameters of a motion command with a selectable fault."""

    fault: str = choice("none", options=("none", "nan", "jump", "raise", "list", "item"))
    rate: float = number(0.0, unit="rad/s", low=-10, high=10, doc="of all joints")


class UnsteadyPosition(Controllet[Target, UnsteadyParams]):
    """Command positions that move at a constant rate, with the selected fault."""

    Params = UnsteadyParams
    command_interface = "position"

    def on_activate(self, states: Sequence[ArmState], target: Target) -> None:
        for command, state in zip(self.command, states):
            command[:] = state.joint_command[0]

    def break_down(self, fault: str) -> None:
        """Violate the contract of controllets if the fault requests it."""
        if fault == "raise":
            raise RuntimeError("this law broke")
        if fault == "list":
            self.command = [command + 0.1 for command in self.command]

    def update(self, states: Sequence[ArmState], target: Target, period: float) -> None:
        fault = self.params.fault
        self.break_down(fault)
        if fault == "item":
            self.command[0] = self.command[0] + self.params.rate * period
            return
        for command in self.command:
            command += self.params.rate * period
            command += {"nan": float("nan"), "jump": 1.0}.get(fault, 0.0)


class UnsteadyVelocity(UnsteadyPosition):
    """Command velocities, with the selected fault."""

    command_interface = "velocity"

    def on_activate(self, states: Sequence[ArmState], target: Target) -> None:
        for command in self.command:
            command[:] = 0.0

    def update(self, states: Sequence[ArmState], target: Target, period: float) -> None:
        fault = self.params.fault
        self.break_down(fault)
        for command in self.command:
            command[:] = {"nan": float("nan"), "jump": 50.0}.get(fault, self.params.rate)


TUG = Channel("tug", 3, "force along the axes of the base", unit="N", low=-20.0, high=20.0)


def _turned(force: Sequence[float], requested: ArmTargetRequest) -> Vector:
    force = finite_numbers(f"{requested.owner}: tip_force", force, 3)
    if np.linalg.norm(force) > 10.0:
        raise TargetRejected(f"{requested.owner}: tip_force: got {force.tolist()}, allowed 10 N")
    return requested.frame.rotation @ force


TIP_FORCE = Channel(
    "tip_force",
    3,
    "force along the axes of a frame",
    unit="N",
    check=_turned,
    message="geometry_msgs/msg/Vector3Stamped",
    read=lambda message: [message.vector.x, message.vector.y, message.vector.z],
)
FORCE = Report("force", "N", "with which the tool is pulled")


class TuggedTarget(Target):
    """Forces on the tool."""

    channels = (TUG, TIP_FORCE)


class Tugged(Controllet[TuggedTarget, NoParams]):
    """Pull the tool with the requested forces."""

    Target = TuggedTarget
    report_names = (FORCE,)

    def on_activate(self, states: Sequence[ArmState], target: TuggedTarget) -> None:
        pass

    def update(self, states: Sequence[ArmState], target: TuggedTarget, period: float) -> None:
        for tau, state, tug, tip in zip(
            self.tau, states, target.data["tug"], target.data["tip_force"]
        ):
            self.report[0] = np.linalg.norm(tug + tip)
            tau[:] = (tug + tip) @ state.jacobian[:3]
