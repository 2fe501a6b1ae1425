# SPDX-License-Identifier: Apache-2.0
"""Base class of backends with one driver process per arm."""

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
from multipanda_py.hardware.driver.driver_process import MODEL_DIFFERS, NOT_USABLE, Fault
from multipanda_py.hardware.driver.loop_side import STOP_TIMEOUT, LoopSide
from multipanda_py.hardware.driver.memory import DriverWord
from multipanda_py.parameters import Settings
from multipanda_py.realtime.system.scheduling import other_cpus, pinned_loops, running_tasks
from multipanda_py.robots import ArmDescription
from multipanda_py.state import ArmState, Vector

MAX_START_ATTEMPTS = 4
"""Maximum number of attempts to start an arm."""
START_STATES = 1000
"""Number of consecutive states with executed commands, after which the start of an arm is over.

If loops and drivers fill the cores, the kernel interrupts them for 50 ms of each second (real-time
throttling). These states span one such gap.
"""


class StartUp:
    """Attempts to start the arms of a backend, repeated after transient faults.

    Thread: control.
    """

    def __init__(self, arms: Iterable[int]) -> None:
        self._attempts = dict.fromkeys(arms, 1)
        self._executed = dict.fromkeys(self._attempts, 0)

    @property
    def is_over(self) -> bool:
        """True if the start of every arm has ended: with success, or after all attempts."""
        return not self._attempts

    def note_state(self, arm: int, is_executing: bool) -> None:
        """End the start of an arm after :data:`START_STATES` consecutive executed commands."""
        if arm in self._attempts:
            self._executed[arm] = self._executed[arm] + 1 if is_executing else 0
            if self._executed[arm] >= START_STATES:
                del self._attempts[arm]

    def tries_again(self, arm: int, fault: Fault) -> int:
        """Decide whether an arm must be started again after a fault, and count the attempts.

        Returns:
            Number of attempts before this fault if the arm must be started again, otherwise 0.
        """
        attempt = self._attempts.get(arm, 0)
        if not attempt:
            return 0
        self._executed[arm] = 0
        if fault.is_transient and attempt < MAX_START_ATTEMPTS:
            self._attempts[arm] += 1
            return attempt
        return 0

    def give_up(self, arm: int) -> int:
        """End the start of an arm.

        Returns:
            Number of attempts to start the arm; 0 if its start has already ended.
        """
        return self._attempts.pop(arm, 0)


SettingsT = TypeVar("SettingsT", bound=Settings)


class DrivenArm(Protocol[SettingsT]):
    """Interface of one real arm for its backend: connection, faults, recovery and settings.

    Attributes:
        link: Connection to the driver process of the arm.
        settings: Settings of the robot.
    """

    link: LoopSide
    settings: SettingsT

    def poll(self) -> list[Fault]:
        """Return the faults of the arm since the last call."""
        ...

    def recover(self) -> None:
        """Clear the fault of the arm, or start a new driver if the last one has ended."""
        ...

    def configure(self, settings: SettingsT) -> None:
        """Start to change the robot's settings; :meth:`settings_answer` returns the result."""
        ...

    def settings_answer(self) -> str | None:
        """Return the result of :meth:`configure`, once.

        Returns:
            Empty string if the robot has accepted the settings, otherwise the reason of the
            rejection. None while the change is not completed, and after its result was returned.
        """
        ...


class DrivenBackend(Backend[SettingsT]):
    """Backend that exchanges states and torques with its arms through one driver process each.

    :meth:`enable_commands` lets the arms execute torques. During the start, the backend restarts
    an arm with a transient fault and adds a message to ``notices``. After the start, an arm with a
    fault executes no torques until :meth:`recover`.

    Attributes:
        warnings: Warnings for the user, such as a denied real-time priority.
        real_arms: Arms with their drivers, by the index of the arm.
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
        """Create the interface of one arm to its driver.

        Args:
            index: Index of the arm in the cell.
            state: Live state of the arm.
            description: Description of the arm.
            cpus: Cores that its driver may use.
        """

    def connect(self) -> None:
        """Start all drivers together and wait until they are connected to their arms.

        An arm that is not ready (switched off, user stop, in use) starts with a fault and the
        position ``q_start`` of the cell file, until it is recovered.

        Raises:
            BackendError: If the cell file or this computer prevents the use of an arm. The message
                names every such arm and the reason.
        """
        self._start = StartUp(self.arms)
        # The loop would delay a driver on its core, so the driver gets the other cores.
        cpus = other_cpus(self.config.realtime)
        shares_core = not set(cpus).isdisjoint(pinned_loops(running_tasks()))
        # If every other core has the loop of another cell, the driver has priority over that loop.
        # All cores are then allowed, so that the kernel can move the driver.
        if shares_core:
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
        unknown = "its position is unknown until then; other arms assume that it is at q_start"
        self._faults_at_start = [
            (index, f"{self._final_fault_text(index, fault)} ({unknown})")
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
                    if self._must_restart(index, fault):
                        real.link.spawn()
                    else:
                        faults[index] = fault
                if not real.link.starting:
                    del waiting[index]
        return faults

    def _name(self, arm: int) -> str:
        return self.descriptions[self.arms.index(arm)].name

    def _must_restart(self, arm: int, fault: Fault) -> bool:
        attempt = self._start.tries_again(arm, fault)
        if attempt:
            self.notices.append(
                f"{self._name(arm)}: start, attempt {attempt} of {MAX_START_ATTEMPTS} failed, "
                f"trying again: {fault.kind}: {fault.text}"
            )
        return attempt > 0

    def _final_fault_text(self, arm: int, fault: Fault) -> str:
        """End the start of an arm, and return its fault with the number of attempts."""
        attempts = self._start.give_up(arm)
        note = f" (start given up after {attempts} attempts)" if attempts > 1 else ""
        return f"{fault.kind}: {fault.text}{note}"

    def enable_commands(self) -> None:
        """Let all arms execute commands, and monitor the heartbeats of their drivers."""
        for real in self.real_arms.values():
            real.link.enable_commands()

    @property
    def commands_enabled(self) -> bool:
        """True if every arm executes commands, or has a fault after its last start attempt."""
        return self._start.is_over

    def finish_start(self) -> None:
        """End the start of all arms; after it, no arm is restarted without a recovery request."""
        self._start = StartUp(())

    @property
    def wake_fds(self) -> dict[int, int]:
        """Index of the arm by file descriptor. It is readable from a new state to :meth:`read`."""
        return {real.link.event: index for index, real in self.real_arms.items()}

    def read(self, fresh: Collection[int]) -> None:
        """Copy the newest states of arms from their drivers.

        The commanded torque ``tau`` of an arm that executes no commands becomes zero.

        Args:
            fresh: Indices of the arms to read.
        """
        for index, real in self.real_arms.items():
            if index in fresh:
                real.link.read()
                if real.link.is_new and not self._start.is_over:
                    self._start.note_state(index, real.link.executing)
                if index == self.arms[0]:
                    self.time = real.link.time

    def is_new(self, arm: int) -> bool:
        """Return True if the last :meth:`read` found a new state of an arm."""
        return self.real_arms[arm].link.is_new

    def write(self, fresh: Collection[int]) -> None:
        """Send the commands of arms to their drivers.

        Args:
            fresh: Indices of the arms that get a command.
        """
        for index, real in self.real_arms.items():
            if index in fresh:
                real.link.write()

    def faults(self) -> list[tuple[int, str]]:
        """Return new faults: index of the arm, and text ``kind: sentence``.

        During the start, an arm with a transient fault is restarted, and its fault is not
        returned.
        """
        faults, self._faults_at_start = self._faults_at_start, []
        for index, real in self.real_arms.items():
            for fault in real.poll():
                if self._must_restart(index, fault):
                    real.recover()
                else:
                    faults.append((index, self._final_fault_text(index, fault)))
        return faults

    def recover(self, arm: int) -> None:
        """Clear the fault of an arm through its driver, or start a new driver if none runs."""
        self.real_arms[arm].recover()

    def is_ready(self, arm: int) -> bool:
        """Return True if an arm executes commands of the loop."""
        return self.real_arms[arm].link.executing

    def configure(self, arm: int, settings: SettingsT) -> None:
        self.real_arms[arm].configure(settings)

    def settings_responses(self) -> list[tuple[int, str]]:
        """Return the results of completed changes of settings, and continue all other changes.

        Returns:
            Index of each arm with a completed change, and its result: an empty string if the
            settings apply, otherwise the reason of the rejection.
        """
        settings_answers = []
        for index, real in self.real_arms.items():
            reason = real.settings_answer()
            if reason is not None:
                self.settings[index] = real.settings
                settings_answers.append((index, reason))
        return settings_answers

    def close(self) -> None:
        """End motions and drivers of all arms in parallel; safe to call twice."""
        links = [real.link for real in self.real_arms.values()]
        self.real_arms = {}
        deadline = time.monotonic() + STOP_TIMEOUT
        for link in links:
            link.shut_down()
        for link in links:
            link.stop(deadline)
            link.close()
