# SPDX-License-Identifier: Apache-2.0
"""Errors of the package: one base class, and subclasses that also derive from a builtin error.

A message names the object, the value and the allowed range: ``joint 4 of left: 3.2 rad is outside
[-3.0421, -0.1518]``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

MAX_TEXT = 4000
"""Maximum length of a message [characters], because a message may repeat input of a client."""


def shortened(text: str) -> str:
    """Return a text, without its middle if it is longer than ``MAX_TEXT``."""
    if len(text) <= MAX_TEXT:
        return text
    left, right = MAX_TEXT * 3 // 4, MAX_TEXT // 4
    cut = len(text) - left - right
    return f"{text[:left]} ... ({cut} characters left out) ... {text[-right:]}"


def in_decimals(number: float, digits: int) -> str:
    """Return a number with fixed decimals, or in scientific notation from 1e6 on."""
    return f"{number:.{digits}f}" if abs(number) < 1e6 else f"{number:.3g}"


class MultipandaError(Exception):
    """Base of all errors that this package raises."""

    def __str__(self) -> str:
        return shortened(super().__str__())


class ConfigurationError(MultipandaError, ValueError):
    """Invalid cell file, description or option. Lists all faults found."""

    def __init__(self, *faults: str) -> None:
        self.faults: tuple[str, ...] = faults
        super().__init__("\n".join(faults))


class FileRefused(MultipandaError, OSError):
    """File that is not regular, is too large, or is not text.

    Its arguments are those of OSError: number, reason and path.
    """


class UnknownName(ConfigurationError, LookupError):
    """Name that does not exist. Lists the known names."""

    def __init__(self, what: str, got: str, known: Sequence[str]) -> None:
        self.got, self.known = got, tuple(known)
        names = ", ".join(known) if known else "none"
        super().__init__(f"{what} {got!r} does not exist; known: {names}")


class TargetRejected(MultipandaError, ValueError):
    """Rejected target; the arm keeps the previous one."""


class SourceLost(MultipandaError, ConnectionError):
    """Timeout of a teleoperation device; its arms hold."""


class TopicLost(MultipandaError, ConnectionError):
    """Timeout of a topic or service, also at the first use."""


class ActionRejected(MultipandaError, ValueError):
    """Rejected action of a policy; no arm has moved."""


class ReportMissing(MultipandaError, LookupError):
    """Report value that a controllet does not provide, or that is not finite."""


class ParameterRejected(MultipandaError, ValueError):
    """Rejected parameter value; all parameters stay unchanged."""


class SettingsRejected(MultipandaError, ValueError):
    """Settings that the loop or the robot rejects; the robot keeps its previous settings."""


class PlanRejected(MultipandaError, ValueError):
    """Invalid planning request, or start configuration that is not allowed."""


class MotionFailed(MultipandaError, RuntimeError):
    """Motion that ended before its goal; the arm holds at its present position."""


class TareRejected(MultipandaError, ValueError):
    """Rejected request to tare an arm or to undo a tare; the offsets stay unchanged."""


class HoldingRejected(MultipandaError, ValueError):
    """Object that cannot be attached to the gripper as requested."""


class SwitchRejected(MultipandaError, ValueError):
    """Rejected switch of controllets; the active set stays unchanged."""


class RecoveryFailed(MultipandaError, RuntimeError):
    """Recovery after which arms still have a fault.

    Attributes:
        reasons: Kind and text of the fault that is latched now, by arm.
    """

    def __init__(self, text: str, reasons: Mapping[str, str] | None = None) -> None:
        super().__init__(text)
        self.reasons = dict(reasons or {})


class ActuatorRefused(MultipandaError, ValueError):
    """Invalid parameters, preset, mode or command of a compliant actuator."""


class ContractBroken(MultipandaError, AssertionError):
    """Plug-in that violates its contract; the message names the violated part."""


class BackendError(MultipandaError, RuntimeError):
    """Request that the backend of an arm could not carry out."""


class LoopError(MultipandaError, RuntimeError):
    """Control loop that is not running; the message has the reason."""


class CellBusy(LoopError):
    """Second instance of a cell that is already running."""


class LoopTimeout(MultipandaError, TimeoutError):
    """Control loop that did not answer in time."""


class SimulationRefused(MultipandaError, ValueError):
    """Request that the simulation of this cell does not support or rejects."""


class RenderingUnavailable(MultipandaError, RuntimeError):
    """Missing library for off-screen OpenGL."""


class MissingExtra(MultipandaError, ModuleNotFoundError):
    """Missing library; the message names the pip extra to install."""

    def __init__(self, text: str, module: str) -> None:
        super().__init__(text)
        self.name = module


class BenchError(MultipandaError, RuntimeError):
    """Benchmark that could not be measured; the message has the reason."""


class LogError(MultipandaError, ValueError):
    """Log that cannot be read, written or interpreted."""


class ValidationRefused(MultipandaError, ValueError):
    """Comparison of data that do not match, or validation task that cannot be executed."""


class IdentificationRefused(MultipandaError, ValueError):
    """Data that do not determine the requested parameters."""


class ShadowRefused(MultipandaError, ValueError):
    """Log or arm that the digital twin cannot follow, or invalid tolerance band."""


class TaskFailed(MultipandaError, RuntimeError):
    """Failed subtask, or invalid description of a task."""


class PolicyFailed(MultipandaError, RuntimeError):
    """Unusable output of a policy; the arms hold."""


class NodeRefused(MultipandaError, RuntimeError):
    """Request that the node of a running cell has rejected."""


class DatasetRefused(MultipandaError, ValueError):
    """Recorded episodes that are truncated, of another robot, or without the requested data."""
