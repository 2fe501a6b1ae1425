# SPDX-License-Identifier: Apache-2.0
"""Laws whose gains may be changed while they run, without a step of torque."""

from __future__ import annotations

from typing import Protocol, TypeVar

from multipanda_py.controllet import Controllet
from multipanda_py.targets import Target


class _HasGainTime(Protocol):
    @property
    def gain_time(self) -> float: ...


_TargetT = TypeVar("_TargetT", bound=Target)
_ParamsT = TypeVar("_ParamsT", bound=_HasGainTime)


class RampedGains(Controllet[_TargetT, _ParamsT]):
    """A law that takes new gains at once at rest, and within ``gain_time`` while it runs.

    ``on_parameters`` asks :meth:`gain_cycles` how long a ramp may take, and ``on_activate``
    calls :meth:`start_gains`, so that the law starts with the gains of its parameters whatever
    was on its way when it last ended.

    Thread: control.
    """

    _runs, _strayed = False, True

    def gain_cycles(self) -> int:
        """Return over how many cycles a change of gains is spread; 0 is at once."""
        if not self._runs:
            return 0
        self._strayed = True  # a ramp, or gains that were streamed
        return round(self.params.gain_time / self.context.period)

    def start_gains(self) -> None:
        """Have the gains of the parameters at once; from now on changes are spread."""
        self._runs = False
        if self._strayed:  # else they have stayed as on_parameters() or the last start left them
            self.on_parameters()
        self._runs, self._strayed = True, False

    def on_deactivate(self) -> None:
        """Let the next parameters take effect at once."""
        self._runs = False
