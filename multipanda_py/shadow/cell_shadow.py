# SPDX-License-Identifier: Apache-2.0
"""The twins of all arms of a cell, and what they say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arm, describe_known
from multipanda_py.exceptions import ShadowRefused
from multipanda_py.logs.arm_log import ArmLog
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.load import load_of
from multipanda_py.shadow.arm_shadow import ArmShadow, Shadowed
from multipanda_py.shadow.band import Band
from multipanda_py.shadow.load_and_friction import LoadAndFriction
from multipanda_py.shadow.quantities import QUANTITIES, places
from multipanda_py.shadow.watch import Alarm, BandWatch


class CellShadow:
    """Follow the arms of a cell, and hold them against a band if there is one.

    Args:
        config: The cell as it is described; loads are those of its file, and arms with
            ``identified`` are as they were.
        band: Of good runs.
        arms: Names of those that are followed; all if empty.
        update: Whether load and friction are found meanwhile.

    Attributes:
        arms: Descriptions by name.
        watches: By name; none without a band.
        updates: What load and friction seem to be, by name; none unless asked for.
        last: What was shadowed last, by name.

    Raises:
        ShadowRefused: If the band is not of these arms.

    Thread: one at a time.
    """

    def __init__(
        self,
        config: CellConfig,
        band: Band | None = None,
        arms: tuple[str, ...] = (),
        update: bool = False,
    ) -> None:
        self.arms: dict[str, ArmDescription] = {}
        self.watches: dict[str, BandWatch] = {}
        self.updates: dict[str, LoadAndFriction] = {}
        self.last: dict[str, Shadowed] = {}
        self._shadows: dict[str, ArmShadow] = {}
        for name in arms or tuple(config.arms):
            settings = config.arms[name]
            arm = describe_known(name, settings)
            believed = describe_arm(name, settings) if settings.identified else None
            self.arms[name] = arm
            load = load_of(settings.settings)
            self._shadows[name] = ArmShadow(arm, load, believed)
            if update:
                self.updates[name] = LoadAndFriction(arm, load)
            if band is not None:
                joints = [joint.name for joint in arm.robot.joints]
                self.watches[name] = BandWatch(name, band.of(name, joints))

    @property
    def skipped(self) -> int:
        """Samples of all arms that could not be followed."""
        return sum(shadow.skipped for shadow in self._shadows.values())

    @property
    def alarms(self) -> list[Alarm]:
        """All that were raised, in their order."""
        found = [alarm for watch in self.watches.values() for alarm in watch.alarms]
        return sorted(found, key=lambda alarm: alarm.time)

    def follow(self, logs: Mapping[str, ArmLog]) -> list[Alarm]:
        """Follow what was measured next; return what has left its band.

        Args:
            logs: By the names of arms; each goes on behind what it was before.

        Raises:
            ShadowRefused: If an arm cannot be followed, with the reason.
        """
        if lacking := [name for name in self._shadows if name not in logs]:
            raise ShadowRefused(
                f"got a log of {', '.join(logs)}, allowed one that has {', '.join(lacking)}"
            )
        raised: list[Alarm] = []
        for name, shadow in self._shadows.items():
            found = shadow.follow(logs[name])
            if found is None:
                continue
            self.last[name] = found
            if name in self.updates:
                self.updates[name].add(found)
            if name in self.watches:
                raised += self.watches[name].look(found)
        return raised

    def strangeness(self) -> list[str]:
        """Return what can hardly be of the arms as they are described, a sentence each."""
        found = (
            last.strangeness(self.arms[name].limits.torque) for name, last in self.last.items()
        )
        return [sentence for sentence in found if sentence]

    def lines(self) -> Iterator[str]:
        """Say how each arm is, a line each, since :meth:`forget`."""
        for name, shadowed in self.last.items():
            begin = f"{name} {shadowed.time[-1]:9.1f} s"
            watch = self.watches.get(name)
            if watch is None:
                yield f"{begin}  {largest(shadowed)}"
                continue
            used = ", ".join(f"{what} {share:4.0%}" for what, share in watch.use.items())
            state = "OUTSIDE: " + ", ".join(watch.now) if watch.now else "within"
            yield f"{begin}  of its band: {used or 'not judged yet'}  {state}"

    def forget(self) -> None:
        """Let :meth:`lines` begin anew."""
        for watch in self.watches.values():
            watch.forget()


def largest(shadowed: Shadowed) -> str:
    """Return the largest residual of every quantity, in words."""
    joints = shadowed.log.joints
    at = places(len(joints))
    rows = shadowed.residuals[shadowed.judged]
    found = []
    for quantity in QUANTITIES:
        values = rows[:, at[quantity.name]]
        if not np.isfinite(values).any():
            continue
        most = np.nanmax(np.abs(values), axis=0)
        axis = int(np.argmax(most))
        unit = quantity.unit.partition(",")[0]
        if quantity.axes:
            axis = int(np.argmax(most[:3]))
        label = quantity.labels(joints)[axis]
        found.append(f"{quantity.name} {most[axis]:.2g} {unit} ({label})")
    return ", ".join(found) or "not judged yet"
