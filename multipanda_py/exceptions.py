# SPDX-License-Identifier: Apache-2.0
"""Errors of the package: one base, leaves that also are the fitting builtin.

A message says what was refused, what was got, what is allowed, and where:
``joint 4 of left: 3.2 rad is outside [-3.0421, -0.1518]``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

MAX_TEXT = 4000
"""Longest message [characters]; what a client sends comes back in messages."""


def shortened(text: str) -> str:
    """Return a text without its middle if it is longer than ``MAX_TEXT``."""
    if len(text) <= MAX_TEXT:
        return text
    left, right = MAX_TEXT * 3 // 4, MAX_TEXT // 4
    cut = len(text) - left - right
    return f"{text[:left]} ... ({cut} characters left out) ... {text[-right:]}"


def in_decimals(number: float, digits: int) -> str:
    """Return a number with decimals; one that is huge as a power of ten, not as 300 digits."""
    return f"{number:.{digits}f}" if abs(number) < 1e6 else f"{number:.3g}"


class MultipandaError(Exception):
    """Base of every error that this package raises on purpose."""

    def __str__(self) -> str:
        return shortened(super().__str__())


class ConfigurationError(MultipandaError, ValueError):
    """Refuse a cell file, a description or an option; lists every fault found."""

    def __init__(self, *faults: str) -> None:
        self.faults: tuple[str, ...] = faults
        super().__init__("\n".join(faults))


class FileRefused(MultipandaError, OSError):
    """Refuse a file that is no regular file, is too large, or is no text.

    Its arguments are those of OSError: number, reason and path.
    """


class UnknownName(ConfigurationError, LookupError):
    """Refuse a name that does not exist, and list the names that do."""

    def __init__(self, what: str, got: str, known: Sequence[str]) -> None:
        self.got, self.known = got, tuple(known)
        names = ", ".join(known) if known else "none"
        super().__init__(f"{what} {got!r} does not exist; known: {names}")


class TargetRejected(MultipandaError, ValueError):
    """Refuse a target; the arm keeps the one it has."""


class SourceLost(MultipandaError, ConnectionError):
    """Report that nothing comes from a device of teleoperation; its arms hold."""


class TopicLost(MultipandaError, ConnectionError):
    """Report that nothing comes on a topic or from a service any more, or never did, in time."""


class ActionRejected(MultipandaError, ValueError):
    """Refuse an action of a policy; no arm has moved by it."""


class ReportMissing(MultipandaError, LookupError):
    """Refuse to decide by a number that a law does not report, or that is none."""


class ParameterRejected(MultipandaError, ValueError):
    """Refuse a parameter value; all parameters stay as they were."""


class SettingsRejected(MultipandaError, ValueError):
    """Refuse settings of a robot, by the loop or by the robot; it keeps those it has."""


class PlanRejected(MultipandaError, ValueError):
    """Refuse to plan: what was asked for cannot be understood, or the start is not allowed."""


class MotionFailed(MultipandaError, RuntimeError):
    """Say that a motion ended before its goal; the arm holds where it came to rest."""


class TareRejected(MultipandaError, ValueError):
    """Refuse to tare an arm, or to undo that; it feels as before."""


class HoldingRejected(MultipandaError, ValueError):
    """A hand cannot hold what it is said to."""


class SwitchRejected(MultipandaError, ValueError):
    """Refuse a switch of controllets; the active set stays as it was."""


class RecoveryFailed(MultipandaError, RuntimeError):
    """Report that arms keep their faults after a recovery was requested.

    Attributes:
        reasons: Kind and text of the fault that is latched now, by arm.
    """

    def __init__(self, text: str, reasons: Mapping[str, str] | None = None) -> None:
        super().__init__(text)
        self.reasons = dict(reasons or {})


class ActuatorRefused(MultipandaError, ValueError):
    """Refuse parameters, a preset, a mode or a command of a compliant actuator."""


class ContractBroken(MultipandaError, AssertionError):
    """A plug-in does not keep its contract; the message says which part."""


class BackendError(MultipandaError, RuntimeError):
    """Report that an arm's backend could not do what was asked."""


class LoopError(MultipandaError, RuntimeError):
    """Report that the control loop is not running, and why."""


class CellBusy(LoopError):
    """Refuse a second instance of a cell that is already running."""


class LoopTimeout(MultipandaError, TimeoutError):
    """Report that the control loop did not answer in time."""


class SimulationRefused(MultipandaError, ValueError):
    """Refuse what cannot be asked of this cell's simulation, or done to it."""


class RenderingUnavailable(MultipandaError, RuntimeError):
    """Report that no off-screen OpenGL library was found."""


class MissingExtra(MultipandaError, ModuleNotFoundError):
    """Report that a library is not installed, and the extra of pip that brings it."""

    def __init__(self, text: str, module: str) -> None:
        super().__init__(text)
        self.name = module


class BenchError(MultipandaError, RuntimeError):
    """Report what could not be measured, and why."""


class LogError(MultipandaError, ValueError):
    """Refuse a log that cannot be read, written or made sense of, in a sentence."""


class ValidationRefused(MultipandaError, ValueError):
    """Refuse to compare what cannot be compared, or a task that cannot be done, in a sentence."""


class IdentificationRefused(MultipandaError, ValueError):
    """Refuse data that cannot tell what is asked of it, and say why."""


class ShadowRefused(MultipandaError, ValueError):
    """Refuse what a twin cannot follow, or a band that is none, in a sentence."""


class TaskFailed(MultipandaError, RuntimeError):
    """Report why a subtask came to nothing, or what is wrong in what a task says."""


class PolicyFailed(MultipandaError, RuntimeError):
    """Report in a sentence why a policy's answer is none; the arms hold."""


class NodeRefused(MultipandaError, RuntimeError):
    """Report what the node of a running cell has refused."""


class DatasetRefused(MultipandaError, ValueError):
    """Refuse recorded episodes that are cut, of another robot, or not what is asked of them."""
