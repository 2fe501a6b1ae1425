# SPDX-License-Identifier: Apache-2.0
"""Why a driver does not come up."""

from __future__ import annotations


class Refused(Exception):
    """Report that an arm cannot be used, and what to do.

    Attributes:
        final: Whether trying again is of no use: what has to change is on this computer.
    """

    def __init__(self, text: str, *, final: bool = False) -> None:
        super().__init__(text)
        self.final = final
