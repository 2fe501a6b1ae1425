# SPDX-License-Identifier: Apache-2.0
"""Contract of a backend, the interface between the control loop and robots of one kind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar, Generic, cast

import numpy as np
from typing_extensions import TypeVar

from multipanda_py.exceptions import BackendError
from multipanda_py.parameters import Settings
from multipanda_py.robots.gripper import Action, Outcome
from multipanda_py.state import COMMAND_INTERFACES, ArmState, Vector

if TYPE_CHECKING:
    from multipanda_py.config.arm_section import ArmConfig
    from multipanda_py.config.cell_file import CellConfig
    from multipanda_py.robots import ArmDescription
    from multipanda_py.robots.gripper import Gripper

SettingsT = TypeVar("SettingsT", bound=Settings, default=Settings)


class Backend(ABC, Generic[SettingsT]):
    """Base class of backends, which read the states of arms and apply torques to them.

    A backend fills ``q``, ``dq``, ``tau_J``, ``tau_ext`` and ``finger_positions`` of each arm
    state. It applies the torque ``tau + tau_gravity`` of this state. ``tau_gravity`` is zero for
    arms that compensate gravity themselves, as a real Franka does.

    Args:
        config: Configuration of the whole cell.
        arms: Indices of the arms of this backend in the cell.
        states: Live states of these arms, in the same order.
        objects: Array that receives the poses of movable objects, (n, 7): position [m], quaternion
            w x y z in the world.
        descriptions: Descriptions of these arms, in the same order.

    Attributes:
        Settings: Class of the settings of an arm.
        settings_section: Name of the settings section of an arm in the cell file, and of its ROS
            node with settings. By default the name of the backend.
        settings: Settings of the cell file, by index of the arm.
        present: 1 for each movable object in the scene, 0 for each absent one, (n,). The loop sets
            it.
        time: Time of the simulated world [s], if ``provides_time``.
        warnings: Messages to the user from :meth:`connect` and recoveries. The loop reports and
            clears them.
        notices: Messages to the user at any other time. The loop reports and clears them.

    Thread: control; any thread for class methods.
    """

    Settings: ClassVar[type[Settings]] = Settings
    settings_section: ClassVar[str] = ""
    interfaces: ClassVar[tuple[str, ...]] = COMMAND_INTERFACES[:1]
    """Command interfaces of its arms, of :data:`.COMMAND_INTERFACES`; by default torques only."""
    measures_objects: ClassVar[bool] = False
    """True if the backend fills ``objects`` with measured poses. Otherwise objects are at their
    declared poses, or attached to the gripper that holds them."""
    provides_time: ClassVar[bool] = False
    """True if its world is simulated, so that :attr:`time` can serve as the clock of the cell."""
    simulates_actuators: ClassVar[bool] = False
    """True if its arms may have compliant actuators; see :mod:`.actuator_section`."""
    torques_include_rotors: ClassVar[bool] = True
    """True if measured torques include the inertial torque of the rotors. False for joint torque
    sensors on the link side of the gears."""
    response_cycles: ClassVar[int] = 0
    """Delay between a state and the torque computed from it [periods]. Above 0 if the robot
    applies the latest command only at the start of its next period."""
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
        """Return the faults in the configuration of all arms with this backend.

        Args:
            config: Configuration of the cell, in which each section alone has been checked.
            arms: Names of the arms with this backend.

        Returns:
            Messages that begin with a key of the cell file: ``arms.left.robot_ip: missing; ...``.
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
        """Return an object that executes the gripper commands of an arm instead of the loop.

        By default return None: the loop passes gripper commands to :meth:`command_gripper`.

        Args:
            arm: Name of the arm.
            config: Section of the arm in the cell file.
            publish: Function that publishes a measurement, callable from any thread. Its arguments
                are the width [m], and True if an object is grasped.
            check: Function that raises :class:`.LoopError` unless the cell runs.
        """
        return None

    @classmethod
    def describe_stall(cls, arms: Sequence[str]) -> str:
        """Return a text about the behaviour of arms while the loop is blocked, or empty."""
        return ""

    @abstractmethod
    def connect(self) -> None:
        """Connect to the arms, for reading and commanding.

        Raises:
            BackendError: If an arm cannot be reached.
        """

    def enable_commands(self) -> None:
        """Let the arms execute commands from now on.

        Called once. With real arms, the loop runs without commands until its cycles are on time.
        """

    @property
    def commands_enabled(self) -> bool:
        """True if every arm executes its commands, or has a fault."""
        return True

    def finish_start(self) -> None:
        """End the start phase of the cell, in which the backend restarts arms after a fault.

        From then on, an arm with a fault needs :meth:`recover`.
        """

    @property
    def wake_fds(self) -> dict[int, int]:
        """Indices of arms by file descriptor, which is readable when its arm has a new state.

        :meth:`read` resets the descriptors of its arms. Empty for simulated arms, which the loop
        reads once per period.
        """
        return {}

    @abstractmethod
    def read(self, fresh: Collection[int]) -> None:
        """Copy the newest states of arms into :attr:`states`.

        Args:
            fresh: Indices in the cell of the arms to read: all arms, or those with new states.
        """

    def is_new(self, arm: int) -> bool:
        """Return True if the last :meth:`read` found a new state of an arm."""
        return True

    @abstractmethod
    def write(self, fresh: Collection[int]) -> None:
        """Apply the torques of arms. A simulated world also advances by one period.

        Args:
            fresh: Indices in the cell of the arms with new torques, as for :meth:`read`.
        """

    def command_gripper(self, arm: int, number: int, record: Vector) -> None:
        """Start a gripper command, or store a measurement of the object from :meth:`make_gripper`.

        By default, measurements are stored in the state of the arm, and commands fail.

        Args:
            arm: Index of the arm in the cell.
            number: Number of the command or measurement, for ``state.gripper[0]``.
            record: Command as in :attr:`.GripperCommand.record`, or measurement:
                :attr:`.Action.MEASURED`, width [m], and 1 if an object is grasped.
        """
        state = self.states[self.arms.index(arm)]
        if record[0] == Action.MEASURED:
            state.finger_positions[:] = record[1] / 2.0
            state.gripper[:] = number, Outcome.SUCCEEDED, record[2]
        else:
            state.gripper[:2] = number, Outcome.FAILED

    def grasped_object(self, arm: int) -> int:
        """Return the number of the object that a gripper has just grasped; 0 if it is unknown.

        Objects are numbered from 1, in the order of ``objects``.
        """
        return 0

    def faults(self) -> Sequence[tuple[int, str]]:
        """Return index and reason for each arm that has stopped since the last call."""
        return ()

    def recover(self, arm: int) -> None:
        """Start the recovery of an arm; returns at once."""

    def is_ready(self, arm: int) -> bool:
        """Return True if an arm executes its commands now."""
        return True

    def configure(self, arm: int, settings: SettingsT) -> None:
        """Start to replace all settings of an arm, and return immediately.

        :meth:`settings_responses` returns the result later. By default, settings are accepted and
        not used.

        Raises:
            BackendError: If the change cannot be started.
        """
        self._configured.append((arm, ""))

    def responds_to_configure(self, arm: int) -> bool:
        """Return True if :meth:`settings_responses` will return a result for an arm."""
        own = getattr(self.settings_responses, "__func__", None) is not Backend.settings_responses
        return own or any(index == arm for index, _ in self._configured)

    def settings_responses(self) -> Sequence[tuple[int, str]]:
        """Return the results of :meth:`configure` that have arrived since the last call.

        Called in every cycle, until each :meth:`configure` has a result.

        Returns:
            Index of each arm with a result, and the reason of a rejection; empty if accepted.
        """
        answers, self._configured = self._configured, []
        return answers

    def set_object_pose(self, record: Vector) -> None:
        """Set the pose and velocity of a movable object. Called only if :attr:`provides_time`.

        Args:
            record: Index of the object, pose and velocity, (14,). The pose is position [m] and
                quaternion x y z w in the world. The velocity is linear in the world [m/s], then
                angular in object axes [rad/s].
        """
        raise BackendError(f"backend {type(self).__name__} cannot move objects")

    def find_penetration(self, record: Vector) -> tuple[str, float] | None:
        """Return the arm that an object at a given pose would penetrate.

        Args:
            record: Index and pose of the object, as in :meth:`set_object_pose`.

        Returns:
            Name of the arm, and penetration depth [m]. None without a penetration deeper than a
            resting contact, or if the backend cannot compute it.
        """
        return None

    def spawn_object(self, record: Vector) -> tuple[str, float] | None:
        """Add an absent object to the scene, unless its pose is occupied.

        Args:
            record: Index and pose of the object, as in :meth:`set_object_pose`.

        Returns:
            None on success. Otherwise the name of the obstacle (arm, object or ``floor``), and the
            penetration depth [m].
        """
        raise BackendError(f"backend {type(self).__name__} cannot spawn objects")

    def delete_object(self, object_index: int) -> None:
        """Remove an object from the scene, by its index as in :meth:`set_object_pose`."""
        raise BackendError(f"backend {type(self).__name__} cannot remove objects")

    def save(self) -> object | None:
        """Return the complete state of arms and world for :meth:`load`; None if unsupported.

        Called between two cycles.
        """
        return None

    def load(self, saved: object, seed: int | None = None) -> None:
        """Restore a state from :meth:`save`, without reading or commanding the arms.

        Args:
            saved: State from this backend object, which is not modified.
            seed: New seed of the random generators; None restores their saved state.

        Raises:
            BackendError: If states cannot be restored, as on real arms.
        """
        raise BackendError(f"backend {type(self).__name__} cannot restore a saved state")

    def switch_interface(self, arm: int, interface: str) -> None:
        """Start to change the command interface of an arm at rest; returns at once.

        Afterwards, the arm executes ``tau`` with ``effort``, and ``joint_command`` with
        ``position`` or ``velocity``. Until then, :meth:`is_ready` is False, ``tau`` is zero, and
        the first row of ``joint_command`` has the measured positions.

        Args:
            arm: Index of the arm in the cell.
            interface: New command interface, one of :attr:`interfaces`.

        Raises:
            BackendError: If the change cannot be started.
        """

    @classmethod
    def interfaces_with(cls, settings: SettingsT) -> tuple[str, ...]:
        """Return the :attr:`interfaces` that an arm with these settings offers."""
        return cls.interfaces

    @abstractmethod
    def close(self) -> None:
        """Stop the arms and disconnect from them; safe to call twice."""
