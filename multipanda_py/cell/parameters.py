# SPDX-License-Identifier: Apache-2.0
"""Reading and changing of controllet parameters and robot settings."""

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
    """Check parameters of controllets and send them to the loop."""

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
        """Change parameters of a controllet, given by name, all in the same cycle.

        Raises:
            ParameterRejected: If a value is invalid. Then no parameter changes.
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
    """Change the settings of robots, and report the settings in effect."""

    def __init__(self, names: CellNames, connection: Connection, counts: Counts) -> None:
        self._names, self._connection, self._counts = names, connection, counts
        self._requests = ArmRequests(_SETTINGS_KIND, names, connection, counts)
        self._lock = threading.Lock()

    def current(self, arm: str) -> Settings:
        """Return the settings in effect on the robot of an arm.

        Raises:
            UnknownName: If there is no such arm.
        """
        settings = self._names.arm_config(arm).settings
        if not self._connection.is_open:
            return settings
        answer = self._requests.newest(arm)
        return settings if answer is None else settings.decode(answer)

    def change(self, arm: str, *, timeout: float = SETTINGS_TIMEOUT, **settings: object) -> None:
        """Change settings of a robot, and wait until it has accepted them.

        The torques of a real robot are zero for some tenths of a second; then it holds its present
        position. Other arms continue.

        Args:
            arm: Name of the arm, which must be on ``hold``.
            timeout: Maximum time to wait [s].
            settings: New values of thresholds, impedances, load and stiffness frame, with names
                and units of the cell file.

        Raises:
            SettingsRejected: If a value is not allowed, a controllet other than ``hold`` controls
                the arm, or the robot refuses. Then no setting changes.
            LoopTimeout: If no answer came in time. The message states whether the request was
                withdrawn.
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
        """Return True once the settings are applied, False before.

        Raises:
            SettingsRejected: If the loop or the robot refused the settings.
        """
        return self._requests.answer(request) is not None

    def cancel(self, request: ArmRequest) -> str:
        """Cancel a request, unless the loop has received it; return the outcome as text."""
        return self._requests.cancel(request)
