# SPDX-License-Identifier: Apache-2.0
"""Results of validation experiments, and a page that compares them with Mengacci et al. (2021)."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from multipanda_py.files import replacing
from multipanda_py.identification.validation.report import STYLE, image, png, table
from multipanda_py.realtime.recording.plots import COLORS
from multipanda_py.registry import pyplot
from multipanda_py.state import Vector


class Curve(NamedTuple):
    """Curve in a panel.

    Attributes:
        label: Label in the legend.
        x: Horizontal values, (k,).
        y: Vertical values, (k,).
        style: Line style of matplotlib.
    """

    label: str
    x: Vector
    y: Vector
    style: str = "-"


class Panel(NamedTuple):
    """Panel of a figure: axes with their curves."""

    title: str
    y_label: str
    curves: tuple[Curve, ...]
    x_label: str = "time [s]"


class Check(NamedTuple):
    """Statement of Mengacci et al. (2021), compared with the results of an experiment.

    Attributes:
        statement: Expected observation.
        found: Observed values as text.
        holds: True if the observed values agree with the statement.
    """

    statement: str
    found: str
    holds: bool


@dataclass(frozen=True, eq=False)
class ExperimentResult:
    """Result of one validation experiment.

    Attributes:
        name: Name on the command line.
        title: Heading.
        setting: Setup of the experiment.
        paper: Observation of Mengacci et al. (2021) in the same experiment.
        checks: Comparisons of expected and observed values.
        panels: Panels to plot.
        figures: Resulting numbers by name. Each name ends with the unit.
    """

    name: str
    title: str
    setting: str
    paper: str
    checks: tuple[Check, ...]
    panels: tuple[Panel, ...]
    figures: Mapping[str, float]

    @property
    def holds(self) -> bool:
        """True if all checks hold."""
        return all(check.holds for check in self.checks)

    def as_dict(self) -> dict[str, Any]:
        """Return the result as plain types for the JSON file, without panels."""
        return {
            "name": self.name, "title": self.title, "setting": self.setting,
            "paper": self.paper,
            "checks": [{**check._asdict(), "holds": bool(check.holds)} for check in self.checks],
            "figures": {name: float(value) for name, value in self.figures.items()},
        }  # fmt: skip


_POINTS = 4000  # Approximate number of plotted points of a curve.
_LEGEND = {
    "loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "fontsize": 7, "frameon": False,
    "handlelength": 1.6, "columnspacing": 1.2, "borderaxespad": 0.1,
}  # fmt: skip
"""Legend above the axes, where it covers no curves."""
SOURCE = (
    "Mengacci et al., An open-source ROS-Gazebo toolbox for simulating robots with compliant "
    "actuators, Frontiers in Robotics and AI 8, 2021"
)


def visual(result: ExperimentResult) -> str:
    """Return all panels of an experiment as a base64 PNG.

    Raises:
        MissingExtra: If matplotlib is missing.
    """
    plots = pyplot()
    return png(drawn(result, plots), plots)


def drawn(result: ExperimentResult, plots: Any) -> Any:
    """Return a figure with all panels of an experiment.

    Args:
        result: Result of the experiment.
        plots: Module ``matplotlib.pyplot``.
    """
    rows = (len(result.panels) + 1) // 2
    figure, axes = plots.subplots(rows, 2, figsize=(11.0, 3.1 * rows), squeeze=False)
    for axis, panel in zip(axes.flat, result.panels):
        colors = iter(COLORS)
        for curve in panel.curves:
            every = max(1, len(curve.x) // _POINTS)
            color = {} if curve.style.startswith("k") else {"color": next(colors)}
            axis.plot(
                curve.x[::every], curve.y[::every], curve.style, lw=1.1, ms=4, label=curve.label,
                **color,
            )  # fmt: skip
        axis.set_title(panel.title, size=9, pad=18)
        axis.set_xlabel(panel.x_label, size=8)
        axis.set_ylabel(panel.y_label, size=8)
        axis.tick_params(labelsize=7)
        axis.grid(alpha=0.3)
        axis.ticklabel_format(useOffset=False)
        axis.legend(ncol=len(panel.curves), **_LEGEND)
    for axis in axes.flat[len(result.panels) :]:
        axis.set_visible(False)
    return figure


def page(results: Sequence[ExperimentResult], quick: bool) -> str:
    """Return the results of experiments as a self-contained HTML page.

    Args:
        results: Results of the experiments.
        quick: True to note on the page that the simulated runs were shortened.
    """
    title = "Compliant actuators compared with their paper"
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'>",
        f"<title>{title}</title><style>{STYLE}td{{text-align:left}}</style><h1>{title}</h1>",
        f"<p>Experiments and statements: {html.escape(SOURCE)}.</p>",
    ]
    if quick:
        parts.append("<p>Shortened: the runs are shorter than in the paper.</p>")
    for one in results:
        parts += [
            f"<h2>{html.escape(one.title)}</h2><p>{html.escape(one.setting)}</p>",
            f"<p><b>The paper:</b> {html.escape(one.paper)}</p>",
            table(("here", "found", ""), [
                (check.statement, check.found, "\0<span class='{}'>{}</span>".format(
                    *(("under", "holds") if check.holds else ("over", "does not hold"))))
                for check in one.checks
            ]),
            image(visual(one)),
        ]  # fmt: skip
    return "\n".join(parts) + "</html>\n"


def write_page(results: Sequence[ExperimentResult], target: Path, quick: bool) -> Path:
    """Write the results of experiments as an HTML page, and as a JSON file next to it.

    Args:
        results: Results of the experiments.
        target: Path of the page.
        quick: True to note in both files that the simulated runs were shortened.

    Returns:
        Path of the JSON file.

    Raises:
        ConfigurationError: If a file cannot be written. No file is changed then.
        MissingExtra: If matplotlib is missing.
    """
    text, beside = page(results, quick), target.with_suffix(".json")
    numbers = {
        "source": SOURCE, "quick": quick, "experiments": [one.as_dict() for one in results]
    }  # fmt: skip
    with replacing(target) as page_file, replacing(beside) as number_file:
        page_file.write_text(text, encoding="utf-8")
        number_file.write_text(json.dumps(numbers, indent=1), encoding="utf-8")
    return beside
