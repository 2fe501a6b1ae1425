# SPDX-License-Identifier: Apache-2.0
"""Errors of the package. All have one base class; most also derive from a builtin error.

A message has the place, the value and the allowed range: ``joint 4 of left: 3.2 rad is outside
[-3.0421, -0.1518]``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

MAX_MESSAGE_LENGTH = 4000
"""Maximum length of a message [characters], because a message may repeat input of a client."""


def shortened(text: str) -> str:
    """Return a text, without its middle if it is longer than ``MAX_MESSAGE_LENGTH``."""
    if len(text) <= MAX_MESSAGE_LENGTH:
        return text
    left, right = MAX_MESSAGE_LENGTH * 3 // 4, MAX_MESSAGE_LENGTH // 4
    cut = len(text) - left - right
    return f"{text[:left]} ... ({cut} characters left out) ... {text[-right:]}"


def in_decimals(number: float, digits: int) -> str:
    """Return a number as text with ``digits`` decimals; from 1e6 on in scientific notation."""
    return f"{number:.{digits}f}" if abs(number) < 1e6 else f"{number:.3g}"


class MultipandaError(Exception):
    """Base of all errors that this package raises."""

    def __str__(self) -> str:
        return shortened(super().__str__())


class ConfigurationError(MultipandaError, ValueError):
    """Raised if a cell file, a description or an option is invalid. Lists all faults found."""

    def __init__(self, *faults: str) -> None:
        self.faults: tuple[str, ...] = faults
        super().__init__("\n".join(faults))


class FileRejected(MultipandaError, OSError):
    """Raised if a file is not a regular file, is too large, or is not text.

    Its arguments are those of OSError: number, reason and path.
    """


class UnknownName(ConfigurationError, LookupError):
    """Raised if a name does not exist. The message lists the known names.

    Args:
        kind: Kind of the name, such as "arm", with which the message begins.
        got: Name that does not exist.
        known: Names that exist.
    """

    def __init__(self, kind: str, got: str, known: Sequence[str]) -> None:
        self.got, self.known = got, tuple(known)
        names = ", ".join(known) if known else "none"
        super().__init__(f"{kind} {got!r} does not exist; known: {names}")


class TargetRejected(MultipandaError, ValueError):
    """Raised if a target is rejected; the arm keeps the previous one."""


class SourceLost(MultipandaError, ConnectionError):
    """Raised if a teleoperation device no longer sends data; its arms hold."""


class TopicLost(MultipandaError, ConnectionError):
    """Raised if a topic or service is not found, or sends no message or answer in time."""


class ActionRejected(MultipandaError, ValueError):
    """Raised if an action of a policy is rejected; no arm has moved."""


class ReportMissing(MultipandaError, LookupError):
    """Raised if a controllet does not report a requested value, or the value is not finite."""


class ParameterRejected(MultipandaError, ValueError):
    """Raised if a parameter value is rejected; all parameters stay unchanged."""


class SettingsRejected(MultipandaError, ValueError):
    """Raised if the loop or the robot rejects settings; the robot keeps its previous ones."""


class PlanRejected(MultipandaError, ValueError):
    """Raised if a planning request or its start configuration is invalid, or no plan is found."""


class MotionFailed(MultipandaError, RuntimeError):
    """Raised if a motion ends before its goal; the arm holds at its present position."""


class TareRejected(MultipandaError, ValueError):
    """Raised if a request to tare or untare an arm is rejected; its offsets stay unchanged."""


class AttachmentRejected(MultipandaError, ValueError):
    """Raised if an object cannot be attached to a gripper as requested."""


class SwitchRejected(MultipandaError, ValueError):
    """Raised if a switch of controllets is rejected; the active controllets stay active."""


class RecoveryFailed(MultipandaError, RuntimeError):
    """Raised if arms still have a fault after a recovery.

    Attributes:
        reasons: Kind and text of the latched fault, by arm.
    """

    def __init__(self, text: str, reasons: Mapping[str, str] | None = None) -> None:
        super().__init__(text)
        self.reasons = dict(reasons or {})


class ActuatorRejected(MultipandaError, ValueError):
    """Raised if parameters, preset, mode or command of a compliant actuator are invalid."""


class ContractViolation(MultipandaError, AssertionError):
    """Raised if a plug-in fails a check of :mod:`multipanda_py.testing`; the message names it."""


class BackendError(MultipandaError, RuntimeError):
    """Raised if the backend of an arm could not execute a request."""


class LoopError(MultipandaError, RuntimeError):
    """Raised if the control loop is not running; the message has the reason."""


class CellBusy(LoopError):
    """Raised if another process already runs a cell with the same name or ROS names."""


class LoopTimeout(MultipandaError, TimeoutError):
    """Raised if the control loop does not answer in time."""


class SimulationRejected(MultipandaError, ValueError):
    """Raised if the simulation of a cell rejects a request, or does not support it."""


class RenderingUnavailable(MultipandaError, RuntimeError):
    """Raised if no library for off-screen OpenGL is found."""


class MissingExtra(MultipandaError, ModuleNotFoundError):
    """Raised if a library is not installed; the message names the pip extra to install."""

    def __init__(self, text: str, module: str) -> None:
        super().__init__(text)
        self.name = module


class BenchError(MultipandaError, RuntimeError):
    """Raised if a benchmark could not be measured; the message has the reason."""


class LogError(MultipandaError, ValueError):
    """Raised if a log cannot be read, written or interpreted."""


class ValidationRejected(MultipandaError, ValueError):
    """Raised if data to compare do not match, or a validation task cannot be executed."""


class IdentificationRejected(MultipandaError, ValueError):
    """Raised if data do not determine the requested parameters; the message has the reason."""


class MonitorRejected(MultipandaError, ValueError):
    """Raised if a log cannot be compared with a digital twin, or a band is invalid.

    A band is a file with the range of differences between an arm and its digital twin.
    """


class TaskFailed(MultipandaError, RuntimeError):
    """Raised if a step of a task fails, or the description of a task is invalid."""


class PolicyFailed(MultipandaError, RuntimeError):
    """Raised if the output of a policy is unusable; the arms hold."""


class NodeRejected(MultipandaError, RuntimeError):
    """Raised if the node of a running cell rejects a request."""


class DatasetRejected(MultipandaError, ValueError):
    """Raised if recorded episodes are truncated, lack requested data, or are of another robot."""
