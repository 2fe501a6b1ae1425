# SPDX-License-Identifier: Apache-2.0
"""What is said of an energy tank that limits a law."""

from __future__ import annotations

from collections.abc import Callable

from multipanda_py.control.energy_tank import EnergyTank


class EnergyNotice:
    """Say once that a tank limits, until it has recovered half of what it was granted.

    Args:
        notify: Takes the words.

    Thread: control.
    """

    def __init__(self, notify: Callable[[str], None]) -> None:
        self._notify = notify
        self._is_said = False

    def forget(self) -> None:
        """Begin anew, at activation: nothing was said."""
        self._is_said = False

    def look(self, limits: bool, tank: EnergyTank, name: str, words: Callable[[], str]) -> None:
        """Say it in the first cycle in which the tank limits.

        Args:
            limits: Whether it does in this cycle.
            tank: The one whose recovery counts.
            name: Of who has it.
            words: Returns what is left; it is called when something is said.
        """
        if not limits:
            if self._is_said:
                self._is_said = not tank.missing < 0.5 * tank.granted  # nor one granted nothing
        elif not self._is_said:
            self._is_said = True
            self._notify(f"{name}: out of energy: {words()}")
