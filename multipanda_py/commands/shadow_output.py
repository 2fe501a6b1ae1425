# SPDX-License-Identifier: Apache-2.0
"""What ``multipanda shadow`` leaves behind: a band, a picture, the last words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from multipanda_py.commands.output import FAILED, OK, complain, say, write_whole
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import ShadowRefused
from multipanda_py.robots import ArmDescription
from multipanda_py.shadow.arm_shadow import Shadowed
from multipanda_py.shadow.band import learn
from multipanda_py.shadow.cell_shadow import CellShadow
from multipanda_py.shadow.plot import draw_shadow


def check_arms(config: CellConfig, names: tuple[str, ...]) -> None:
    """Refuse arms that a twin does not have.

    Raises:
        ShadowRefused: With those that it has.
    """
    for name in names:
        if name not in config.arms:
            raise ShadowRefused(f"the twin has no arm {name!r}; it has {', '.join(config.arms)}")


def write_band(
    path: Path,
    runs: Mapping[str, Sequence[Shadowed]],
    arms: Mapping[str, ArmDescription],
    margin: float,
    what: str,
) -> int:
    """Learn the band of good runs and write it; say from how much.

    Raises:
        ShadowRefused: If there is too little to learn from.
    """
    band = learn(runs, {name: arm.limits for name, arm in arms.items()}, margin)
    write_whole(path, f"# Band of {what}, margin {margin:g}.\n{band.to_yaml()}")
    seconds = min(sum(run.judged_for for run in of_arm) for of_arm in runs.values())
    say(f"{path}: {', '.join(band.arms)}, from {seconds:.1f} s that were judged")
    return OK


def draw(path: Path | None, shadow: CellShadow, parts: Mapping[str, Sequence[Shadowed]]) -> None:
    """Draw every arm that was followed, if there is somewhere to draw to."""
    if path is None:
        return
    for name, found in parts.items():
        if not found:
            continue
        target = path if len(parts) == 1 else path.with_name(f"{path.stem}_{name}{path.suffix}")
        watch = shadow.watches.get(name)
        band, alarms = (watch.band, watch.alarms) if watch else (None, [])
        draw_shadow(found, target, band, alarms)
        say(f"{target}: {target.stat().st_size / 1e3:.0f} kB")


def end(shadow: CellShadow) -> int:
    """Say what it came to; return the exit code."""
    for update in shadow.updates.values():
        for line in update.lines():
            say(line)
    if shadow.skipped:
        complain(f"{shadow.skipped} samples could not be followed and were left out")
    if not shadow.watches:
        return OK
    count = len(shadow.alarms)
    if not any(watch.seen for watch in shadow.watches.values()):
        complain("nothing was judged: a twin settles for a second first")
        return FAILED
    say(f"{count} times outside the band of good runs" if count else "within the band throughout")
    return FAILED if count else OK
