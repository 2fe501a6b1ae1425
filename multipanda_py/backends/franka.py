# SPDX-License-Identifier: Apache-2.0
"""Real arms: one driver process each, woken by their states."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any

from multipanda_py.backend import Backend
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.sections import ArmConfig
from multipanda_py.exceptions import BackendError
from multipanda_py.franka.configure import changed_settings, driver_settings
from multipanda_py.franka.driver_settings import DriverSettings
from multipanda_py.franka.gripper import FrankaGripper
from multipanda_py.franka.link import MODEL_DIFFERS, NOT_USABLE, STOP_TIMEOUT, Fault, Link
from multipanda_py.franka.model_check import Difference, ModelCheck, complaint
from multipanda_py.franka.reconfiguration import Reconfiguration
from multipanda_py.franka.requirements import check_real_arms
from multipanda_py.franka.settings import FrankaSettings
from multipanda_py.machine.realtime import other_cpus
from multipanda_py.robots import ArmDescription
from multipanda_py.state import ArmState, Vector


class Franka(Backend[FrankaSettings]):
    """Exchange states and torques with real FR3 arms through their drivers.

    A state is answered in the cycle of the robot that it belongs to. An arm starts to execute
    torques when the loop has begun to write, and again after :meth:`recover`, never by itself
    after a fault.

    Attributes:
        warnings: What the machine refused, and where a robot's model differs, as sentences.
        differences: Of our model from each arm's own, by the arm's index.
        links: The drivers, by the arm's index.
    """

    Settings = FrankaSettings

    def __init__(
        self,
        config: CellConfig,
        arms: Sequence[int],
        states: Sequence[ArmState],
        objects: Vector,
        descriptions: Sequence[ArmDescription],
    ) -> None:
        super().__init__(config, arms, states, objects, descriptions)
        self._names = list(config.arms)
        self._configs = list(config.arms.values())
        self.differences: dict[int, list[Difference]] = {}
        self.links: dict[int, Link] = {}
        self._faults_at_start: list[tuple[int, str]] = []
        self._asked: dict[int, FrankaSettings] = {}
        self._told: dict[int, DriverSettings] = {}
        self._descriptions: dict[int, ArmDescription] = {}
        self._model_checks: dict[int, ModelCheck] = {}
        self._changes: dict[int, Reconfiguration] = {}

    @classmethod
    def check_arms(cls, config: CellConfig, arms: Sequence[str]) -> Iterator[str]:
        """Check that arms have an address each, and are FR3s that set the pace."""
        return check_real_arms(config, arms)

    @classmethod
    def make_gripper(
        cls,
        arm: str,
        config: ArmConfig,
        publish: Callable[[float, bool], None],
        check: Callable[[], None],
    ) -> FrankaGripper:
        """Start the process that speaks with an arm's hand; the cell must run."""
        check()
        return FrankaGripper(arm, config.robot_ip, publish, check)

    @classmethod
    def describe_silence(cls, arms: Sequence[str]) -> str:
        """Say what drivers have done."""
        return (
            f"the drivers of {', '.join(arms)} have brought their torques to zero and ended the "
            "motions; the robots keep their posture, recover them when the loop runs"
        )

    def connect(self) -> None:
        """Start all drivers at once and wait until they have their robots.

        An arm whose robot is not ready (switched off, user stop, in use) has a fault from the
        start, is taken to be where the cell file says, and can be recovered later.

        Raises:
            BackendError: If the cell file or this computer keeps an arm from being used; names
                every arm that cannot be used, and why.
        """
        cpus = other_cpus(self.config.realtime)  # a core shared with the loop is a detour
        for index, state, description in zip(self.arms, self.states, self.descriptions):
            arm = self._configs[index]
            settings = driver_settings(arm.robot_ip, self.settings[index], description, cpus)
            self._told[index], self._descriptions[index] = settings, description
            state.q[:] = arm.q_start
            self._model_checks[index] = ModelCheck(description)
            self.links[index] = Link(state, settings, partial(self._check, index))
        try:
            for link in self.links.values():
                link.spawn()
            faults = self._await_drivers()
            if any(kind in (NOT_USABLE, MODEL_DIFFERS) for kind, _ in faults.values()):
                lines = [f"arm {self._names[i]}: {faults[i][1]}" for i in sorted(faults)]
                raise BackendError("\n".join(lines))
        except BaseException:
            self.close()
            raise
        for link in self.links.values():
            self.warnings.extend(link.warnings)
        unknown = "where the arm is, is unknown until then; others take it to be at its q_start"
        self._faults_at_start = [
            (index, f"{kind}: {text} ({unknown})") for index, (kind, text) in faults.items()
        ]
        self.read(self.arms)

    def _await_drivers(self) -> dict[int, Fault]:
        waiting = dict(self.links)
        faults: dict[int, Fault] = {}
        while waiting:
            select.select([link.output for link in waiting.values()], [], [], 0.1)
            for index, link in list(waiting.items()):
                for fault in link.poll():
                    faults[index] = fault
                if not link.starting:
                    del waiting[index]
        return faults

    def _check(self, index: int, found: dict[str, Any]) -> str:
        """Compare models; return why an arm must not be used, or nothing."""
        name, arm = self._names[index], self._configs[index]
        differences = self._model_checks[index].compare(self.settings[index], found)
        self.differences[index] = differences
        text = complaint(differences)
        model_check = self.settings[index].model_check
        if not text or model_check == "off":
            return ""
        text = f"robot {arm.robot_ip}: {text}"
        if model_check == "refuse":
            return text
        self.warnings.append(f"arm {name}: {text}")
        return ""

    @property
    def wake_fds(self) -> dict[int, int]:
        """Of each arm's states; :meth:`read` makes them unreadable again."""
        return {link.event: index for index, link in self.links.items()}

    def read(self, fresh: Collection[int]) -> None:
        """Copy the newest states; what does not execute torques is at zero torque."""
        for index, link in self.links.items():
            if index in fresh:
                link.read()
                if index == self.arms[0]:
                    self.time = link.time

    def is_new(self, arm: int) -> bool:
        """Return whether the last read found a new state: a driver also wakes to say a word."""
        return self.links[arm].is_new

    def write(self, fresh: Collection[int]) -> None:
        """Answer the states that were read last, and wake the drivers."""
        for index, link in self.links.items():
            if index in fresh:
                link.write()

    def faults(self) -> list[tuple[int, str]]:
        """Return what drivers and robots have reported since, as ``kind: sentence``."""
        found, self._faults_at_start = self._faults_at_start, []
        for index, link in self.links.items():
            for kind, text in link.poll():
                found.append((index, f"{kind}: {text}"))
                if index in self._changes:
                    self._changes[index].note_fault()
        return found

    def recover(self, arm: int) -> None:
        """Have an arm's driver recover its robot, or start a new driver if it is gone."""
        if arm in self._changes:
            self._changes[arm].recovers = True
        else:
            self.links[arm].recover()

    def is_ready(self, arm: int) -> bool:
        """Return whether an arm executes torques."""
        return self.links[arm].executing

    def configure(self, arm: int, settings: FrankaSettings) -> None:
        """Begin to tell a robot other settings; its motion ends for that, and starts again.

        What is the driver's or the loop's own (``answer_budget``, ``priority``, the model check)
        stays as it is.
        """
        told = changed_settings(self._told[arm], settings, self._descriptions[arm])
        dq = self.states[self.arms.index(arm)].dq
        self._asked[arm] = settings
        self._changes[arm] = Reconfiguration(self.links[arm], dq, told)

    def settings_answers(self) -> list[tuple[int, str]]:
        """Go on with what :meth:`configure` has begun; return what has come to its end."""
        found = []
        for index, change in list(self._changes.items()):
            reason = change.progress()
            if reason is None:
                continue
            del self._changes[index]
            asked = self._asked.pop(index)
            if not reason:
                self.settings[index] = asked
            if change.recovers:
                self.links[index].recover()
            name, ip = self._names[index], self._configs[index].robot_ip
            found.append((index, f"{name}: robot {ip}: {reason}" if reason else ""))
        return found

    def close(self) -> None:
        """End motions and drivers, all at once; safe to call twice."""
        links, self.links = list(self.links.values()), {}
        deadline = time.monotonic() + STOP_TIMEOUT
        for link in links:
            link.shut_down()
        for link in links:
            link.stop(deadline)
            link.close()
