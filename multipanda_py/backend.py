# SPDX-License-Identifier: Apache-2.0
"""The contract of a backend."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar, Generic, cast

import numpy as np
from typing_extensions import TypeVar

from multipanda_py.exceptions import BackendError
from multipanda_py.parameters import Settings
from multipanda_py.robots.gripper import Action, Outcome
from multipanda_py.state import INTERFACES, ArmState, Vector

if TYPE_CHECKING:
    from multipanda_py.config.cell_file import CellConfig
    from multipanda_py.config.sections import ArmConfig
    from multipanda_py.robots import ArmDescription
    from multipanda_py.robots.gripper import Gripper

SettingsT = TypeVar("SettingsT", bound=Settings, default=Settings)


class Backend(ABC, Generic[SettingsT]):
    """Moves states and torques of all arms of one kind.

    One object serves every arm of a cell that names it, because simulated arms share one
    world. It fills ``q``, ``dq``, ``tau_J``, ``tau_ext`` and ``fingers`` of its states and
    applies their ``tau + tau_gravity``: the first excludes gravity, the second is zero for arms
    that compensate it themselves, as a real Franka does.

    Args:
        config: The whole cell.
        arms: Indices of its arms in the cell.
        states: Their live states, in the same order.
        objects: Where to put the poses of movable things, (n, 7).
        descriptions: What the arms are, in the same order.

    Attributes:
        Settings: Class of what it can be told about an arm; :class:`.Settings` for nothing.
        settings_section: Name of the arm's section in the cell file, and of the node with the
            same as ROS parameters; the name of the backend if empty.
        settings: What the cell file says, by the arm's index.
        present: Which movable things are in the scene, 1 or 0, (n,): the loop's own, as it is in
            rows; see :meth:`spawn`.
        time: Time of its world [s].
        warnings: What its user should know after :meth:`connect` or a recovery, in sentences;
            whoever reads clears it.
        notices: The same while it runs; said as events, so each of them once.
    """

    Settings: ClassVar[type[Settings]] = Settings
    settings_section: ClassVar[str] = ""
    interfaces: ClassVar[tuple[str, ...]] = INTERFACES[:1]
    """What its arms can be commanded, of :data:`.INTERFACES`: torques if nothing else is said."""
    measures_objects: ClassVar[bool] = False
    """Whether it fills ``objects`` with what is; else they are where they were declared, or where
    hands that hold them are."""
    keeps_time: ClassVar[bool] = False
    """Whether its world is simulated, so that :attr:`time` is a time that others may live by."""
    simulates_actuators: ClassVar[bool] = False
    """Whether its arms may have compliant actuators; :mod:`.actuator_section` says which."""
    rotors_in_torques: ClassVar[bool] = True
    """Whether measured torques have in them what turns the rotors; not of sensors behind gears."""
    answer_periods: ClassVar[int] = 0
    """Periods from a state to the torque that answers it, where the other side takes what has come
    when its next one begins."""
    time: float = 0.0

    def __init__(
        self,
        config: CellConfig,
        arms: Sequence[int],
        states: Sequence[ArmState],
        objects: Vector,
        descriptions: Sequence[ArmDescription],
    ) -> None:
        self.config = config
        self.descriptions = tuple(descriptions)
        self.arms = tuple(arms)
        self.states = tuple(states)
        self.objects = objects
        self.present = np.array([t.present for t in config.objects.values() if t.mass > 0.0], int)
        every = list(config.arms.values())
        self.settings = {index: cast(SettingsT, every[index].settings) for index in self.arms}
        self.period = 1.0 / config.cell.rate
        self.warnings: list[str] = []
        self.notices: list[str] = []
        self._configured: list[tuple[int, str]] = []

    @classmethod
    def check_arms(cls, config: CellConfig, arms: Sequence[str]) -> Iterable[str]:
        """Return what is wrong with the arms that name this backend, each and all together.

        Args:
            config: The cell, whose parts are well formed.
            arms: Names of the arms.

        Returns:
            Sentences that begin with the path: ``arms.left.robot_ip: missing; ...``.
        """
        return ()

    @classmethod
    def make_gripper(
        cls,
        arm: str,
        config: ArmConfig,
        publish: Callable[[float, bool], None],
        check: Callable[[], None],
    ) -> Gripper | None:
        """Return a handle on the gripper of an arm, or None if :meth:`grip` moves it.

        Args:
            arm: Name of the arm; it has a hand.
            config: Its part of the cell file.
            publish: To be told width [m] and whether an object is held; from any thread.
            check: Raises :class:`.LoopError` unless the cell runs.

        Thread: of the cell's owner.
        """
        return None

    @classmethod
    def describe_silence(cls, arms: Sequence[str]) -> str:
        """Say in a clause what arms do while the loop stands still; empty if nobody knows."""
        return ""

    @abstractmethod
    def connect(self) -> None:
        """Make the arms ready to be read and commanded.

        Raises:
            BackendError: If one cannot be reached.
        """

    def begin(self) -> None:
        """Let arms execute their commands, after the warm-up of the loop. Thread: control."""

    @property
    def has_begun(self) -> bool:
        """Whether every arm executes its commands after :meth:`begin`, or has a fault."""
        return True

    def finish_start(self) -> None:
        """End the start: from now on every fault is final. Thread: control."""

    @property
    def wake_fds(self) -> dict[int, int]:
        """File descriptors that become readable with a new state, and their arm's index.

        :meth:`read` of that arm makes one unreadable again.
        Simulated arms have none: they are read on the loop's clock.
        """
        return {}

    @abstractmethod
    def read(self, fresh: Collection[int]) -> None:
        """Fill the states of the arms in ``fresh`` (indices in the cell). Thread: control."""

    def is_new(self, arm: int) -> bool:
        """Return whether the last :meth:`read` of a fresh arm found a new state."""
        return True

    @abstractmethod
    def write(self, fresh: Collection[int]) -> None:
        """Apply the torques of ``fresh`` arms; a simulated world moves on by one period.

        Thread: control.
        """

    def grip(self, arm: int, number: int, record: Vector) -> None:
        """Begin a gripper command, or take in what a gripper outside of the loop measures.

        Args:
            arm: Index in the cell.
            number: Of the command: where ``state.gripper`` begins from now on.
            record: As :attr:`.GripperCommand.record`; for a measurement
                action, width [m], whether an object is held.

        Thread: control.
        """
        state = self.states[self.arms.index(arm)]
        if record[0] == Action.MEASURED:
            state.fingers[:] = record[1] / 2.0
            state.gripper[:] = number, Outcome.SUCCEEDED, record[2]
        else:
            state.gripper[:2] = number, Outcome.FAILED

    def thing_in_hand(self, arm: int) -> int:
        """Return the number of the movable thing that a grasp has found, from 1; 0: unknown.

        Thread: control, when a gripper has begun to hold something.
        """
        return 0

    def faults(self) -> Sequence[tuple[int, str]]:
        """Return arms that have stopped by themselves since the last call, and why.

        Thread: control.
        """
        return ()

    def recover(self, arm: int) -> None:
        """Ask for an arm to be made ready again; returns at once. Thread: control."""

    def is_ready(self, arm: int) -> bool:
        """Return whether an arm executes its commands now. Thread: control."""
        return True

    def configure(self, arm: int, settings: SettingsT) -> None:
        """Begin to give an arm other settings, as a whole; returns at once.

        The answer comes from :meth:`settings_answers`, when the arm executes torques again as
        it did before. This one takes everything, for arms that have no use for it.

        Raises:
            BackendError: If it cannot even begin.

        Thread: control.
        """
        self._configured.append((arm, ""))

    def answers_configure(self, arm: int) -> bool:
        """Return whether an answer is to come for an arm that :meth:`configure` was called for."""
        own = getattr(self.settings_answers, "__func__", None) is not Backend.settings_answers
        return own or any(index == arm for index, _ in self._configured)

    def settings_answers(self) -> Sequence[tuple[int, str]]:
        """Return arms that have been configured since, and why not if they refuse.

        Called in every cycle while an answer is due. Thread: control.
        """
        answers, self._configured = self._configured, []
        return answers

    def place(self, record: Vector) -> None:
        """Put a movable thing elsewhere, where :attr:`keeps_time`; else nobody asks.

        Args:
            record: Number of the thing, position and quaternion x y z w in the world, linear
                velocity and angular velocity in its own axes, (14,) [m, m/s, rad/s].

        Thread: control.
        """
        raise BackendError(f"{type(self).__name__}: moves no things")

    def inside(self, record: Vector) -> tuple[str, float] | None:
        """Return which arm a thing would be inside of, more than it is when it touches; or None.

        Args:
            record: As that of :meth:`place`.

        Returns:
            Name of the arm and how deep [m]; None also if nobody knows.

        Thread: control.
        """
        return None

    def spawn(self, record: Vector) -> tuple[str, float] | None:
        """Put an absent thing into the scene, unless something is there; see :meth:`place`.

        Args:
            record: As that of :meth:`place`.

        Returns:
            What it would be inside of, an arm, a thing or ``floor``, and how deep [m]; None if it
            is there now.

        Thread: control.
        """
        raise BackendError(f"{type(self).__name__}: spawns no things")

    def remove(self, thing: int) -> None:
        """Take a thing out of the scene, by its number; see :meth:`place`. Thread: control."""
        raise BackendError(f"{type(self).__name__}: removes no things")

    def save(self) -> object | None:
        """Return its whole state for :meth:`load`, between two cycles; None if that cannot be.

        Thread: control.
        """
        return None

    def load(self, saved: object, seed: int | None = None) -> None:
        """Go back to what :meth:`save` has returned, without reading or writing.

        Args:
            saved: From this very backend; it stays as it is.
            seed: What is random is drawn anew from this; None goes on as it did then.

        Raises:
            BackendError: If it cannot go back, as real arms cannot.

        Thread: control.
        """
        raise BackendError(f"backend {type(self).__name__} cannot go back to a saved state")

    def engage(self, arm: int, interface: str) -> None:
        """Begin to execute another command of an arm at rest, from where it is; returns at once.

        With ``effort`` that is ``tau`` of its state, else ``joint_command``, whose first row is
        where the arm is now. As long as the arm does not execute it, :meth:`is_ready` is false,
        and the backend keeps ``tau`` at zero and ``joint_command`` at the measured positions.

        Args:
            arm: Index in the cell.
            interface: One of :attr:`interfaces`.

        Raises:
            BackendError: If it cannot even begin.

        Thread: control.
        """

    @classmethod
    def interfaces_with(cls, settings: SettingsT) -> tuple[str, ...]:
        """Return what an arm with these settings can be commanded, of :attr:`interfaces`."""
        return cls.interfaces

    @abstractmethod
    def close(self) -> None:
        """Leave the arms at rest and let go of them; safe to call twice."""
