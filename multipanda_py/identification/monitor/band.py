# SPDX-License-Identifier: Apache-2.0
"""Bands: ranges of the residuals between an arm and its twin in good runs, stored in a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from multipanda_py.exceptions import ConfigurationError, MonitorRejected
from multipanda_py.files import read_plain
from multipanda_py.identification.monitor.arm_monitor import (
    QUANTITIES,
    MonitoredLog,
    min_half_widths,
    residual_slices,
)
from multipanda_py.state import ArmLimits, Vector

TAIL_FRACTION = 0.001
"""Fraction of the samples of good runs below the lower bound of a band without its margin, and
above its upper bound."""
BAND_MARGIN = 0.3
"""Margin added on either side of a band, relative to its width."""
MIN_DURATION = 2.0
"""Minimum duration of the evaluated samples that a band is learnt from [s]."""


@dataclass(frozen=True, eq=False)
class ArmBand:
    """Residual ranges of one arm in good runs.

    Attributes:
        joints: Names of the joints, without prefix.
        low: Lower bounds of the residuals, (m,), in the order of :func:`.residual_slices`. A bound
            is nan if the residual was not measured.
        high: Upper bounds in the same order, (m,).
    """

    joints: tuple[str, ...]
    low: Vector
    high: Vector


@dataclass(frozen=True, eq=False)
class Band:
    """Residual ranges of all arms of a cell in good runs.

    Attributes:
        arms: Bands of the arms by name.
        source: File that the band was read from, for messages.
    """

    arms: Mapping[str, ArmBand]
    source: str = "band"

    def of(self, arm: str, joints: Sequence[str]) -> ArmBand:
        """Return the residual ranges of an arm.

        Raises:
            MonitorRejected: If the arm is missing, or its ranges were learnt with other joints.
        """
        if arm not in self.arms:
            raise MonitorRejected(
                f"{self.source}: no band for arm {arm!r}; known: {', '.join(self.arms)}"
            )
        result = self.arms[arm]
        if result.joints != tuple(joints):
            raise MonitorRejected(
                f"{self.source}: {arm}: learnt from joints {', '.join(result.joints)}, but "
                f"this arm has {', '.join(joints)}. Use the band of this arm."
            )
        return result

    def to_yaml(self) -> str:
        """Return the residual ranges as text of a YAML file."""
        return yaml.safe_dump(
            {"arms": {name: _plain(band) for name, band in self.arms.items()}},
            sort_keys=False, default_flow_style=None, width=110,
        )  # fmt: skip

    @classmethod
    def from_yaml(cls, path: str | Path) -> Band:
        """Read a file written by :meth:`to_yaml`.

        Raises:
            MonitorRejected: If the file is invalid. The message names the first error.
        """
        try:
            data = read_plain(path)
        except ConfigurationError as error:
            raise MonitorRejected(f"cannot be read as a band: {error}") from error
        arms = data.get("arms") if isinstance(data, dict) else None
        if not isinstance(arms, dict) or not arms:
            raise MonitorRejected(
                f"{path}: contains no arms. Use a file written by `multipanda monitor --learn`."
            )
        return cls(
            {str(name): _read(arm, f"{path}: {name}") for name, arm in arms.items()}, f"{path}"
        )


def learn(
    runs: Mapping[str, Sequence[MonitoredLog]],
    limits: Mapping[str, ArmLimits],
    margin: float = BAND_MARGIN,
) -> Band:
    r"""Compute the range of every residual (its band) from good runs.

    .. math::
        [\,a - \mu (b - a) - \epsilon,\; b + \mu (b - a) + \epsilon\,].

    Symbols: quantiles a (0.1 %) and b (99.9 %) of a residual, margin :math:`\mu`, and minimum half
    width :math:`\epsilon` from :func:`.min_half_widths`.

    Args:
        runs: Good runs of every arm with their twin, by name.
        limits: Limits of every arm, by name.
        margin: Margin :math:`\mu`, relative to the width :math:`b - a`.

    Raises:
        MonitorRejected: If the evaluated samples of an arm cover too little time.
    """
    arms = {}
    for name, monitored in runs.items():
        rows = np.vstack([run.residuals[run.evaluated] for run in monitored])
        seconds = sum(run.evaluated_duration for run in monitored)
        if seconds < MIN_DURATION:
            raise MonitorRejected(
                f"{name}: got {seconds:.1f} s of good runs without the first second, in which the "
                f"twin settles; allowed {MIN_DURATION:g} s or more"
            )
        low, high = np.full((2, rows.shape[1]), np.nan)
        there = np.isfinite(rows).any(axis=0)
        low[there], high[there] = np.nanquantile(
            rows[:, there], [TAIL_FRACTION, 1.0 - TAIL_FRACTION], axis=0
        )
        wider = margin * (high - low) + min_half_widths(limits[name])
        arms[name] = ArmBand(monitored[0].log.joints, low - wider, high + wider)
    return Band(arms)


def _plain(band: ArmBand) -> dict[str, Any]:
    result: dict[str, Any] = {"joints": list(band.joints)}
    at = residual_slices(len(band.joints))
    for quantity in QUANTITIES:
        low, high = band.low[at[quantity.name]], band.high[at[quantity.name]]
        if np.isfinite(low).all():
            result[quantity.name] = {
                "low": [float(f"{value:.5g}") for value in low],
                "high": [float(f"{value:.5g}") for value in high],
            }
    return result


def _read(data: Any, path: str) -> ArmBand:
    joints = data.get("joints") if isinstance(data, dict) else None
    if not isinstance(joints, list) or not joints:
        raise MonitorRejected(f"{path}: joints: got {joints!r:.60}, allowed a list of joint names")
    at = residual_slices(len(joints))
    width = max(columns.stop for columns in at.values())
    low, high = np.full((2, width), np.nan)
    known = {"joints", *at}
    for key, value in data.items():
        if key not in known:
            raise MonitorRejected(f"{path}: {key}: unknown key; known: {', '.join(sorted(known))}")
        if key == "joints":
            continue
        ends = []
        for end in ("low", "high"):
            numbers = value.get(end) if isinstance(value, dict) else None
            try:
                ends.append(np.array(numbers, dtype=np.float64))
            except (TypeError, ValueError):
                ends.append(np.zeros(0))
            count = at[key].stop - at[key].start
            if ends[-1].shape != (count,) or not np.isfinite(ends[-1]).all():
                raise MonitorRejected(
                    f"{path}: {key}: {end}: got {numbers!r:.60}, allowed {count} finite numbers"
                )
        if (ends[0] >= ends[1]).any():
            raise MonitorRejected(
                f"{path}: {key}: low is not below high. Correct the bounds of every axis."
            )
        low[at[key]], high[at[key]] = ends
    return ArmBand(tuple(map(str, joints)), low, high)
