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
    """Base class of backends: reads the states of all arms of one kind, and applies their torques.

    One object serves all arms of a cell with this backend. It fills ``q``, ``dq``, ``tau_J``,
    ``tau_ext`` and ``fingers`` of its states and applies their ``tau + tau_gravity``. ``tau``
    excludes gravity. ``tau_gravity`` is zero for arms that compensate gravity themselves, as a
    real Franka does.

    Args:
        config: Configuration of the whole cell.
        arms: Indices of the arms of this backend in the cell.
        states: Live states of these arms, in the same order.
        objects: Array that receives the poses of movable objects, (n, 7): position [m], quaternion
            w x y z in the world.
        descriptions: Descriptions of these arms, in the same order.

    Attributes:
        Settings: Class of the settings of an arm; :class:`.Settings` without settings.
        settings_section: Name of the settings section of an arm in the cell file, and of the ROS
            node with these settings as parameters. If empty, both have the name of the backend.
        settings: Settings of the cell file, by index of the arm.
        present: Presence of the movable objects in the scene, 1 or 0, (n,). The loop owns this
            array and records it; see :meth:`spawn_object`.
        time: Time of the simulated world [s], if ``provides_time``.
        warnings: Messages for the user after :meth:`connect` or a recovery. The reader clears the
            list.
        notices: Messages for the user at run time. The loop reports each as an event.

    Thread: control, except class methods, which the owner of the cell calls.
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
        """Check the configuration of the arms that name this backend, and return its faults.

        Args:
            config: Cell whose sections are well formed.
            arms: Names of the arms.

        Returns:
            Messages that begin with the path: ``arms.left.robot_ip: missing; ...``.
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
        """Return a handle on the gripper of an arm; None to use :meth:`command_gripper`.

        Args:
            arm: Name of the arm, which has a gripper.
            config: Section of the arm in the cell file.
            publish: Callback that receives the width [m] and whether an object is grasped; may be
                called from any thread.
            check: Callback that raises :class:`.LoopError` unless the cell runs.
        """
        return None

    @classmethod
    def describe_stall(cls, arms: Sequence[str]) -> str:
        """Return a text on what arms do while the loop is stalled, or "" if this is unknown."""
        return ""

    @abstractmethod
    def connect(self) -> None:
        """Connect to the arms, so that they can be read and commanded.

        Raises:
            BackendError: If an arm cannot be reached.
        """

    def enable_commands(self) -> None:
        """Start the execution of commands, after the warm-up of the loop."""

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
        """File descriptors that become readable with a new state, by index of the arm.

        :meth:`read` of an arm clears its descriptor. Simulated arms have none, because the loop
        reads them on its own clock.
        """
        return {}

    @abstractmethod
    def read(self, fresh: Collection[int]) -> None:
        """Copy the newest states of arms into :attr:`states`.

        Args:
            fresh: Indices in the cell of the arms that the loop updates in this cycle.
        """

    def is_new(self, arm: int) -> bool:
        """Return True if the last :meth:`read` found a new state of an arm."""
        return True

    @abstractmethod
    def write(self, fresh: Collection[int]) -> None:
        """Apply the torques of arms, and advance a simulated world by one period.

        Args:
            fresh: Indices in the cell of the arms that the loop updates in this cycle.
        """

    def command_gripper(self, arm: int, number: int, record: Vector) -> None:
        """Start a gripper command, or store a measurement of a gripper that has its own driver.

        Args:
            arm: Index in the cell.
            number: Number of the command, which becomes the first element of ``state.gripper``.
            record: :attr:`.GripperCommand.record`. The record of a measurement has
                :attr:`.Action.MEASURED`, the width [m], and 1 if an object is grasped.
        """
        state = self.states[self.arms.index(arm)]
        if record[0] == Action.MEASURED:
            state.finger_positions[:] = record[1] / 2.0
            state.gripper[:] = number, Outcome.SUCCEEDED, record[2]
        else:
            state.gripper[:2] = number, Outcome.FAILED

    def grasped_object(self, arm: int) -> int:
        """Return the number of the movable object in a gripper, from 1; 0 if it is unknown.

        Called when the gripper of an arm has started to hold an object.
        """
        return 0

    def faults(self) -> Sequence[tuple[int, str]]:
        """Return arms that have stopped since the last call, each with the reason."""
        return ()

    def recover(self, arm: int) -> None:
        """Start the recovery of an arm; returns at once."""

    def is_ready(self, arm: int) -> bool:
        """Return True if an arm executes its commands now."""
        return True

    def configure(self, arm: int, settings: SettingsT) -> None:
        """Start to replace all settings of an arm, and return immediately.

        :meth:`settings_responses` returns the result when the arm executes torques again. This
        default implementation accepts all settings and does not use them.

        Args:
            arm: Index of the arm in the cell.
            settings: New settings.

        Raises:
            BackendError: If the change cannot be started.
        """
        self._configured.append((arm, ""))

    def responds_to_configure(self, arm: int) -> bool:
        """Return True if :meth:`settings_responses` will answer a :meth:`configure` of an arm."""
        own = getattr(self.settings_responses, "__func__", None) is not Backend.settings_responses
        return own or any(index == arm for index, _ in self._configured)

    def settings_responses(self) -> Sequence[tuple[int, str]]:
        """Return the answers to :meth:`configure` since the last call.

        Called in every cycle while an answer is due.

        Returns:
            Index of each arm that has answered, and the reason of a rejection or "".
        """
        answers, self._configured = self._configured, []
        return answers

    def set_object_pose(self, record: Vector) -> None:
        """Set the pose and velocity of a movable object. Called only if :attr:`provides_time`.

        Args:
            record: Index of the object, pose and velocity, (14,). The pose is position [m] and
                quaternion x y z w in the world. The velocity is the linear velocity in the world
                [m/s] and the angular velocity in the axes of the object [rad/s].
        """
        raise BackendError(f"backend {type(self).__name__} cannot move objects")

    def find_penetration(self, record: Vector) -> tuple[str, float] | None:
        """Return the arm that an object at a given pose would penetrate, or None.

        Args:
            record: Pose of the object, as in :meth:`set_object_pose`.

        Returns:
            Name of the arm, and depth beyond that of a resting contact [m]. None without
            penetration, or if it is unknown.
        """
        return None

    def spawn_object(self, record: Vector) -> tuple[str, float] | None:
        """Add an absent object to the scene, unless its pose is occupied.

        Args:
            record: Pose of the object, as in :meth:`set_object_pose`.

        Returns:
            Name of the obstacle at this pose (an arm, an object or ``floor``) and penetration
            depth [m]. None on success.
        """
        raise BackendError(f"backend {type(self).__name__} cannot spawn objects")

    def delete_object(self, object_index: int) -> None:
        """Remove an object from the scene, by its index as in :meth:`set_object_pose`."""
        raise BackendError(f"backend {type(self).__name__} cannot remove objects")

    def save(self) -> object | None:
        """Return the complete state for :meth:`load`, or None if it cannot be saved.

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

        With ``effort``, the arm executes ``tau`` of its state. With ``position`` or ``velocity``
        it executes ``joint_command``, whose first row starts at the present position. Until it
        executes the new command, :meth:`is_ready` is false, ``tau`` is zero and ``joint_command``
        has the measured positions.

        Args:
            arm: Index in the cell.
            interface: One of :attr:`interfaces`.

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
