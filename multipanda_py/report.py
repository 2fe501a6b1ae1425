# SPDX-License-Identifier: Apache-2.0
"""Numbers that a law reports of itself every cycle, declared once and read by declaration."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from multipanda_py.exceptions import ConfigurationError, ReportMissing
from multipanda_py.state import REPORT


@dataclass(frozen=True)
class Report:
    """One number: ``Report("distance", "m", "of the tool from the line")``.

    As text it is ``distance [m]``, the key under which :meth:`.Cell.report` has it.

    Attributes:
        name: What it is.
        unit: Its unit, empty for none.
        doc: A line for the documentation.
    """

    name: str
    unit: str = ""
    doc: str = ""

    def __str__(self) -> str:
        return f"{self.name} [{self.unit}]" if self.unit else self.name


class Reports(dict[str, float]):
    """What a law has reported of its last cycle, by ``name [unit]``."""

    def value(self, report: Report) -> float:
        """Return one number, to decide something by it.

        Raises:
            ReportMissing: If the law does not report it, or what it says is not finite.
        """
        found = self.get(str(report))
        if found is None:
            raise ReportMissing(
                f"{report}: is not reported; reported: {', '.join(self) or 'none'}"
            )
        if not math.isfinite(found):
            raise ReportMissing(f"{report}: got {found}, allowed a finite number")
        return found


def report_titles(declared: Iterable[Report | str]) -> tuple[str, ...]:
    """Return the texts of a law's reports, in order.

    Raises:
        ConfigurationError: If they are something else, too many, or two have one name.
    """
    odd = [declared] if isinstance(declared, str) else declared
    odd = [part for part in odd if part is declared or not isinstance(part, (Report, str))]
    if odd:
        raise ConfigurationError(
            f"report_names: got {odd[0]!r}, allowed a tuple of texts and Reports"
        )
    titles = tuple(str(report) for report in declared)
    if len(titles) > REPORT:
        raise ConfigurationError(f"report_names: got {len(titles)}, allowed up to {REPORT}")
    twice = sorted({title for title in titles if titles.count(title) > 1})
    if twice:
        raise ConfigurationError(f"report_names: got {', '.join(twice)} twice, allowed once each")
    return titles
