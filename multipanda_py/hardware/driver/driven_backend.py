# SPDX-License-Identifier: Apache-2.0
"""What all backends with a driver process per arm have in common."""

from __future__ import annotations

import os
import select
import time
from abc import abstractmethod
from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

from typing_extensions import TypeVar

from multipanda_py.backend import Backend
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import BackendError
from multipanda_py.hardware.driver.loop_side import STOP_TIMEOUT, DriverLink
from multipanda_py.hardware.driver.memory import DriverWord
from multipanda_py.hardware.driver.watch import MODEL_DIFFERS, NOT_USABLE, Fault
from multipanda_py.parameters import Settings
from multipanda_py.realtime.system.cores import pinned_loops, running_tasks
from multipanda_py.realtime.system.priority import other_cpus
from multipanda_py.robots import ArmDescription
from multipanda_py.state import ArmState, Vector

ATTEMPTS = 4
"""Maximum number of attempts to start an arm."""
SETTLED = 1000
"""Consecutive states with executed commands, after which the start of an arm is over.

Where loops and drivers fill the cores, the kernel gives ordinary programs 50 ms of each second.
The first second includes one of these gaps.
"""


class StartUp:
    """Counter of attempts to start the arms of a backend.

    Args:
        arms: Indices of the arms.

    Thread: control.
    """

    def __init__(self, arms: Iterable[int]) -> None:
        self._attempts = dict.fromkeys(arms, 1)
        self._executed = dict.fromkeys(self._attempts, 0)

    @property
    def is_over(self) -> bool:
        """Whether every arm has started, or has used all attempts."""
        return not self._attempts

    def note_state(self, arm: int, executing: bool) -> None:
        """Count a new state of an arm, and whether it executes commands."""
        if arm in self._attempts:
            self._executed[arm] = self._executed[arm] + 1 if executing else 0
            if self._executed[arm] >= SETTLED:
                del self._attempts[arm]

    def tries_again(self, arm: int, fault: Fault) -> int:
        """Return the number of the attempt that a fault has ended, if there is another attempt.

        Returns:
            Number of the attempt, from 1. It is 0 if the fault is final: the start is over, the
            fault is not transient, or this was the last attempt.
        """
        attempt = self._attempts.get(arm, 0)
        if not attempt:
            return 0
        self._executed[arm] = 0
        if fault.is_transient and attempt < ATTEMPTS:
            self._attempts[arm] += 1
            return attempt
        return 0

    def give_up(self, arm: int) -> int:
        """End the start of an arm; return the number of attempts, 0 if it was over already."""
        return self._attempts.pop(arm, 0)


SettingsT = TypeVar("SettingsT", bound=Settings)


class DrivenArm(Protocol[SettingsT]):
    """What a backend keeps of one arm.

    Attributes:
        link: To its driver.
        settings: What the other side has been told.
    """

    link: DriverLink
    settings: SettingsT

    def poll(self) -> list[Fault]:
        """Return kinds and sentences of faults since the last call."""
        ...

    def recover(self) -> None:
        """Have it made ready again, or start a new driver if that is gone."""
        ...

    def configure(self, settings: SettingsT) -> None:
        """Begin to tell other settings."""
        ...

    def settings_answer(self) -> str | None:
        """Return None while there is no answer, then an empty string or why not."""
        ...


class DrivenBackend(Backend[SettingsT]):
    """Exchange states and torques with arms through a driver process each.

    A state is answered in the cycle of the arm that it belongs to. An arm starts to execute
    torques after :meth:`begin`, and again after :meth:`recover`. During the start, an arm with a
    transient fault is started again and the fault is reported. Later, an arm never recovers by
    itself.

    Attributes:
        warnings: What the machine refused and what is odd about an arm, as sentences.
        real_arms: What is kept of each arm, by the arm's index.
    """

    def __init__(
        self,
        config: CellConfig,
        arms: Sequence[int],
        states: Sequence[ArmState],
        objects: Vector,
        descriptions: Sequence[ArmDescription],
    ) -> None:
        super().__init__(config, arms, states, objects, descriptions)
        self.real_arms: dict[int, DrivenArm[SettingsT]] = {}
        self._faults_at_start: list[tuple[int, str]] = []
        self._start = StartUp(())

    @abstractmethod
    def make_arm(
        self, index: int, state: ArmState, description: ArmDescription, cpus: Sequence[int]
    ) -> DrivenArm[SettingsT]:
        """Return what is kept of one arm.

        Args:
            index: Of the arm in the cell.
            state: Its live state.
            description: What it is.
            cpus: Cores that its driver may use.
        """

    def connect(self) -> None:
        """Start all drivers at once and wait until they have their arms.

        An arm that is not ready (switched off, user stop, in use) has a fault from the start, is
        taken to be where the cell file says, and can be recovered later.

        Raises:
            BackendError: If the cell file or this computer keeps an arm from being used; names
                every arm that cannot be used, and why.
        """
        self._start = StartUp(self.arms)
        cpus = other_cpus(self.config.realtime)  # a core shared with the loop is a detour
        shares_core = not set(cpus).isdisjoint(pinned_loops(running_tasks()))
        if shares_core:  # the kernel moves a driver whose core is full; it runs before loops
            cpus = sorted(os.sched_getaffinity(0))
        for index, state, description in zip(self.arms, self.states, self.descriptions):
            state.q[:] = self.config.arms[description.name].q_start
            real = self.real_arms[index] = self.make_arm(index, state, description, cpus)
            real.link.words[DriverWord.SHARES_CORE] = shares_core
        try:
            for real in self.real_arms.values():
                real.link.spawn()
            faults = self._await_drivers()
            if any(fault.kind in (NOT_USABLE, MODEL_DIFFERS) for fault in faults.values()):
                lines = [f"arm {self._name(i)}: {faults[i].text}" for i in sorted(faults)]
                raise BackendError("\n".join(lines))
        except BaseException:
            self.close()
            raise
        for real in self.real_arms.values():
            self.warnings.extend(real.link.watch.warnings)
        unknown = "where the arm is, is unknown until then; others take it to be at its q_start"
        self._faults_at_start = [
            (index, f"{self._given_up(index, fault)} ({unknown})")
            for index, fault in faults.items()
        ]
        self.read(self.arms)

    def _warn(self, text: str) -> None:
        self.warnings.append(text)

    def _await_drivers(self) -> dict[int, Fault]:
        waiting = dict(self.real_arms)
        faults: dict[int, Fault] = {}
        while waiting:
            select.select([real.link.watch.output for real in waiting.values()], [], [], 0.1)
            for index, real in list(waiting.items()):
                for fault in real.poll():
                    if self._tries_again(index, fault):
                        real.link.spawn()
                    else:
                        faults[index] = fault
                if not real.link.starting:
                    del waiting[index]
        return faults

    def _name(self, arm: int) -> str:
        return self.descriptions[self.arms.index(arm)].name

    def _tries_again(self, arm: int, fault: Fault) -> bool:
        """Return whether the start is tried again after a fault; report the fault if so."""
        attempt = self._start.tries_again(arm, fault)
        if attempt:
            self.notices.append(
                f"{self._name(arm)}: start, attempt {attempt} of {ATTEMPTS} failed, "
                f"trying again: {fault.kind}: {fault.text}"
            )
        return attempt > 0

    def _given_up(self, arm: int, fault: Fault) -> str:
        """Return the report of a final fault."""
        attempts = self._start.give_up(arm)
        tried = f" (start given up after {attempts} attempts)" if attempts > 1 else ""
        return f"{fault.kind}: {fault.text}{tried}"

    def begin(self) -> None:
        """Let all arms execute torques, and monitor the heartbeats of their drivers."""
        for real in self.real_arms.values():
            real.link.begin()

    @property
    def has_begun(self) -> bool:
        """Whether the start of every arm is over."""
        return self._start.is_over

    def finish_start(self) -> None:
        """End the start: from now on every fault is final."""
        self._start = StartUp(())

    @property
    def wake_fds(self) -> dict[int, int]:
        """Of each arm's states; :meth:`read` makes them unreadable again."""
        return {real.link.event: index for index, real in self.real_arms.items()}

    def read(self, fresh: Collection[int]) -> None:
        """Copy the newest states; what does not execute torques is at zero torque."""
        for index, real in self.real_arms.items():
            if index in fresh:
                real.link.read()
                if real.link.is_new and not self._start.is_over:
                    self._start.note_state(index, real.link.executing)
                if index == self.arms[0]:
                    self.time = real.link.time

    def is_new(self, arm: int) -> bool:
        """Return whether the last read found a new state: a driver also wakes to say a word."""
        return self.real_arms[arm].link.is_new

    def write(self, fresh: Collection[int]) -> None:
        """Answer the states that were read last, and wake the drivers."""
        for index, real in self.real_arms.items():
            if index in fresh:
                real.link.write()

    def faults(self) -> list[tuple[int, str]]:
        """Return what drivers and arms have reported since, as ``kind: sentence``."""
        found, self._faults_at_start = self._faults_at_start, []
        for index, real in self.real_arms.items():
            for fault in real.poll():
                if self._tries_again(index, fault):
                    real.recover()
                else:
                    found.append((index, self._given_up(index, fault)))
        return found

    def recover(self, arm: int) -> None:
        """Have an arm's driver make it ready, or start a new driver if it is gone."""
        self.real_arms[arm].recover()

    def is_ready(self, arm: int) -> bool:
        """Return whether an arm executes torques."""
        return self.real_arms[arm].link.executing

    def configure(self, arm: int, settings: SettingsT) -> None:
        """Begin to tell an arm other settings."""
        self.real_arms[arm].configure(settings)

    def settings_answers(self) -> list[tuple[int, str]]:
        """Go on with what :meth:`configure` has begun; return what has come to its end."""
        found = []
        for index, real in self.real_arms.items():
            reason = real.settings_answer()
            if reason is not None:
                self.settings[index] = real.settings
                found.append((index, reason))
        return found

    def close(self) -> None:
        """End motions and drivers, all at once; safe to call twice."""
        links = [real.link for real in self.real_arms.values()]
        self.real_arms = {}
        deadline = time.monotonic() + STOP_TIMEOUT
        for link in links:
            link.shut_down()
        for link in links:
            link.stop(deadline)
            link.close()
