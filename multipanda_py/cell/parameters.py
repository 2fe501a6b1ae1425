# SPDX-License-Identifier: Apache-2.0
"""Parameters of controllets and settings of robots: reading and changing them."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from multipanda_py.cell.arm_request import ArmRequest, ArmRequests, RequestKind
from multipanda_py.cell.connection import Connection, Counts, checked_timeout
from multipanda_py.cell.names import CellNames
from multipanda_py.cell.state_reader import StateReader
from multipanda_py.config.backend_section import changed
from multipanda_py.exceptions import MultipandaError, ParameterRejected, SettingsRejected
from multipanda_py.parameters import Settings
from multipanda_py.realtime.events import Event


class ParameterWriter:
    """Check controllet parameters, send them to the loop, and store those in effect.

    Args:
        names: Names of arms and controllets of the cell.
        connection: Connection to the control loop.
        reader: State reader of the cell.
        counts: Counters of rejected requests.
    """

    def __init__(
        self, names: CellNames, connection: Connection, reader: StateReader, counts: Counts
    ) -> None:
        self._names, self._connection = names, connection
        self._reader, self._counts = reader, counts
        self._values = [spec.initial_values() for spec in names.specs]

    def values(self, name: str) -> dict[str, Any]:
        """Return all parameters of a controllet, by name."""
        return dict(self._values[self._names.spec(name).index])

    def change(self, name: str, values: Mapping[str, object]) -> None:
        """Change parameters of a controllet, all of them between the same two cycles.

        Args:
            name: Name of the controllet.
            values: New values by parameter name.

        Raises:
            ParameterRejected: If a value is invalid. The message lists all errors, and no
                parameter changes.
        """
        spec = self._names.spec(name)
        try:
            accepted = spec.checked(values)
            if reason := self._reader.stall_reason():
                raise ParameterRejected(f"{name}: {reason}")
        except MultipandaError:
            self._counts.rejected["parameter"] += 1
            raise
        with self._connection.lock:
            changed = self._values[spec.index] | accepted
            if spec.parameter_width:
                slot = self._connection.mailbox.parameters[spec.index]
                self._connection.post(slot, spec.encode(changed))
            self._values[spec.index] = changed


SETTINGS_TIMEOUT = 15.0
"""Default timeout for new settings [s], longer than a robot and its driver need together."""
_SETTINGS_KIND = RequestKind(
    "settings",
    SettingsRejected,
    (Event.SETTINGS_APPLIED, Event.SETTINGS_REFUSED),
    lambda box: (box.settings, box.settings_answers),
)


class RobotSettings:
    """Change the settings of robots and report those in effect.

    Args:
        names: Names of arms and controllets of the cell.
        connection: Connection to the control loop.
        counts: Counters of rejected and cancelled requests.
    """

    def __init__(self, names: CellNames, connection: Connection, counts: Counts) -> None:
        self._names, self._connection, self._counts = names, connection, counts
        self._requests = ArmRequests(_SETTINGS_KIND, names, connection, counts)
        self._lock = threading.Lock()

    def current(self, arm: str) -> Settings:
        """Return the settings in effect of the robot of an arm.

        These are the settings of the cell file until they are changed.

        Raises:
            UnknownName: If there is no such arm.
        """
        settings = self._names.arm_config(arm).settings
        if not self._connection.is_open:
            return settings
        answer = self._requests.newest(arm)
        return settings if answer is None else settings.decode(answer)

    def change(self, arm: str, *, timeout: float = SETTINGS_TIMEOUT, **settings: object) -> None:
        """Change settings of a robot, all or none, and wait for its answer.

        While a real robot applies settings, it interrupts control: its torques go to zero and its
        motion ends. After some tenths of a second the arm holds again where it is then. Other arms
        continue. A simulated arm applies settings immediately.

        Args:
            arm: Name of the arm. Its ``hold`` must own it.
            timeout: Maximum time to wait [s].
            settings: Thresholds, impedances, load and stiffness frame by name, as in the cell file
                (the ``Settings`` of the backend of the arm). Settings without a new value stay.

        Raises:
            SettingsRejected: If a value is not allowed, a controllet other than ``hold`` owns the
                arm, or the robot refuses. No setting changes then.
            LoopTimeout: If no answer came in time. The message states if the request is withdrawn,
                or pending because the loop has started to execute it.
        """
        with self._lock:
            wait = checked_timeout(timeout, SettingsRejected)
            self._requests.wait(self.request(arm, **settings), wait)

    def request(self, arm: str, **settings: object) -> ArmRequest:
        """Request new settings without waiting for the answer. See :meth:`answer`.

        Raises:
            SettingsRejected: If a value is not allowed.
        """
        try:
            section = self._names.arm_config(arm).section
            settings_new = changed(self.current(arm), settings, arm, section)
        except SettingsRejected:
            self._counts.rejected[f"{arm} settings"] += 1
            raise
        return self._requests.request(arm, settings_new.encode())

    def answer(self, request: ArmRequest) -> bool:
        """Return True if the settings are applied, and False while there is no answer.

        Raises:
            SettingsRejected: If the loop or the robot refused them. The message contains the
                reason.
        """
        return self._requests.answer(request) is not None

    def cancel(self, request: ArmRequest) -> str:
        """Cancel a request; return a text stating whether it may still be executed."""
        return self._requests.cancel(request)
