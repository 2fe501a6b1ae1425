# SPDX-License-Identifier: Apache-2.0
"""Gymnasium environment of a cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from pathlib import Path
from types import MappingProxyType
from typing import Any

import gymnasium
from numpy.typing import ArrayLike

from multipanda_py.cell.cell import Cell
from multipanda_py.config.perturbation import PerturbationSpec
from multipanda_py.exceptions import (
    ActionRejected,
    ConfigurationError,
    SimulationRejected,
    TargetRejected,
)
from multipanda_py.learning.gym.control import Control, control_named
from multipanda_py.learning.gym.episode import (
    RECOVER_OPTION,
    ArmFaults,
    EpisodeState,
    HomeMotion,
    MissedSteps,
    OwnershipCheck,
    StepClock,
    copy_episode,
    restore_state,
)
from multipanda_py.learning.gym.remote import (
    RemoteCell,
    Topics,
    controllets_of,
    refuse_with_remote,
    remote_cell,
    sensors_of,
)
from multipanda_py.learning.gym.spaces import (
    Action,
    ActionLayout,
    GripperControl,
    Observation,
    Observer,
)
from multipanda_py.learning.gym.task import (
    CONTROLLET_NAME,
    GymTask,
    Residual,
    cell_of_file,
    check_task_attributes,
    goal_of,
    is_success,
    lockstep_cell,
    reward_of,
    task_named,
)
from multipanda_py.learning.gym.task_scene import TaskScene, sizes_of
from multipanda_py.state import Vector

ALLOWED_RATES = (1.0, 100.0)
"""Minimum and maximum step rate [Hz]."""


class CellEnv(gymnasium.Env[Observation, Action]):
    """Gymnasium environment whose actions control the arms of a cell through its controllets.

    An action contains one block per arm, in the order of ``task.arms``. The argument ``control``
    defines its components. For an arm with a gripper, one more component opens it above 0.6 and
    closes it below 0.4. All safety features of the cell stay active.

    By default, the environment runs in lockstep: time advances only in steps, and episodes with
    equal seeds are bitwise identical. With real arms, or ``cell.placement`` process or thread, it
    runs in real time. **Arms then MOVE** to their start configuration in ``reset``.

    Args:
        task: Name known to :func:`.task_named`, or a task object.
        control: Name of the control, one of :data:`.CONTROLS`.
        rate: Steps per second [Hz].
        cameras: Names of cameras in the scene, or height and width by name [pixels]. ``free`` is
            the default view of the viewer.
        objects: True to include object poses in the observation. With real arms they are unknown.
        features: Features of the controllets; None for the default features. A list without
            ``collision_avoidance`` disables collision avoidance.
        randomise: Perturbation file, or its contents, from which every ``reset`` draws changes of
            the simulated cell; None for no changes.
        cell: Cell file that replaces the scene of the task. ``ros:/NAMESPACE`` or a
            :class:`.RosCell` selects the arms of a running node.
        topics: ROS topics by the name of their observation. Images appear in ``images``, wrenches
            in ``sensors``.
        residual: File of ``multipanda residual train``, or files by arm, that makes simulated arms
            behave like a real robot; None without.
        render_mode: Mode of :meth:`render`, ``rgb_array`` or None.

    Attributes:
        steps: Number of steps since the start of the episode.
        sensors: Subscribers of the topics, or None without topics.

    Raises:
        ConfigurationError: If an argument is invalid.
        UnknownName: If the task or control does not exist.

    Thread: one, always the same.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012 -- gymnasium's

    def __init__(
        self,
        task: str | GymTask,
        *,
        control: str = "delta_pose",
        rate: float = 20.0,
        cameras: Sequence[str] | Mapping[str, tuple[int, int]] = (),
        objects: bool = True,
        features: Sequence[str] | None = None,
        randomise: str | Path | Mapping[str, Any] | None = None,
        cell: str | Path | RemoteCell | None = None,
        topics: Topics = MappingProxyType({}),
        residual: Residual = None,
        render_mode: str | None = None,
    ) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ConfigurationError(
                f"render_mode: got {render_mode!r}, allowed rgb_array or None"
            )
        value: Any = rate  # Callers without type checks may pass other types than numbers.
        if not isinstance(value, Real) or not ALLOWED_RATES[0] <= rate <= ALLOWED_RATES[1]:
            raise ConfigurationError(
                f"rate: got {rate!r}, allowed {ALLOWED_RATES[0]:g} to {ALLOWED_RATES[1]:g} Hz"
            )
        value = task
        if not isinstance(value, (str, GymTask)):
            raise ConfigurationError(f"task: got {task!r:.60}, allowed a name or a GymTask")
        if isinstance(features, str):
            raise ConfigurationError(f"features: got {features!r}, allowed a list of names")
        self.task = task_named(task) if isinstance(task, str) else task
        check_task_attributes(self.task)
        self.render_mode, self.rate = render_mode, float(rate)
        kind = control_named(control)
        if remote := remote_cell(cell):
            refuse_with_remote(
                features=features, randomise=randomise, cameras=cameras, residual=residual,
                render_mode=render_mode,
            )  # fmt: skip
            self._config = remote.config
        elif cell is None:
            self._config = lockstep_cell(self.task, kind, features, residual)
        else:
            self._config = cell_of_file(str(cell), self.task, kind, features, residual)
        self._twins = _spec(randomise)
        if self._twins is not None and self._config.cell.placement != "inline":
            raise ConfigurationError("randomise: got a cell in real time. Use a cell in lockstep.")
        self._arguments = {
            "task": task if isinstance(task, str) else type(task).__name__,
            "control": control,
            "rate": self.rate,
            "objects": bool(objects),
            "features": None if features is None else list(features),
        }
        self._cell, self._is_remote = remote or Cell(self._config), remote is not None
        self._controllets = controllets_of(
            self._cell, [*self.task.arms], kind, 1.0 / rate, CONTROLLET_NAME
        )
        arms = {name: self._cell.descriptions[name] for name in self.task.arms}
        self._controls: dict[str, Control] = {
            name: kind(arm, 1.0 / rate) for name, arm in arms.items()
        }
        self._hands = {name: GripperControl(name) for name, arm in arms.items() if arm.gripper}
        self._actions = ActionLayout(self._controls, self._hands)
        self.action_space = self._actions.space
        self._clock = StepClock(self.rate, self._config.cell.rate)
        movable = [name for name, obj in self._config.objects.items() if obj.mass]
        sizes = sizes_of(cameras)
        sensors = self.sensors = sensors_of(topics)
        self._observer = Observer(
            arms,
            self._controls,
            movable if objects else [],
            self.task.goal_size,
            sizes,
            sensors,
        )
        self.observation_space = self._observer.space
        self._initial_state: Any = None
        self.steps, self._is_open = 0, False

    @property
    def cell(self) -> Cell:
        """Cell of the environment. The first :meth:`reset` starts it."""
        return self._cell

    @property
    def arguments(self) -> Mapping[str, Any]:
        """Arguments of this environment: task, control, rate, objects and features."""
        return MappingProxyType(self._arguments)

    @property
    def controls(self) -> Mapping[str, Control]:
        """Controls that convert actions to targets, by arm."""
        return MappingProxyType(self._controls)

    @property
    def missed_steps(self) -> MissedSteps:
        """Recorded states of missed steps, for which :meth:`step` was called too late.

        Raises:
            ActionRejected: If no episode has begun.
        """
        self._check_episode("missed_steps")
        return self._missed_steps

    @property
    def scene(self) -> TaskScene:
        """Scene with tools, objects and goal of the episode."""
        return self._scene

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode.

        Args:
            seed: Seed of the episode. None continues the current random sequence.
            options: ``{"recover": True}`` recovers arms that have stopped on a fault. **They MOVE
                afterwards.** By default, no episode starts while an arm has a fault.

        Returns:
            Observation and info, as in :meth:`step`.

        Raises:
            ConfigurationError: If ``options`` is invalid.
            TaskFailed: If the goal or the result of the task is invalid.
            MotionFailed: In real time, if an arm has stopped on a fault and is not recovered.
            MultipandaError: In real time, if the arms cannot move to their start configuration.
        """
        value: Any = options or {}
        if not isinstance(value, Mapping) or not isinstance(
            value.get(RECOVER_OPTION, False), bool
        ):
            raise ConfigurationError(
                f"options: got {options!r:.60}, allowed {{{RECOVER_OPTION!r}: True or False}}"
            )
        super().reset(seed=seed)
        if self._twins is not None:
            self._rebuild(self._twins)
        elif not self._is_open:
            self._start()
        if self._scene.is_lockstep:
            self._cell.simulation.reset(
                self._initial_state, seed=int(self.np_random.integers(2**31))
            )
        else:
            self._home_motion.go(value.get(RECOVER_OPTION, False))
        self._scene.goal = goal_of(self.task, self.task.reset(self._scene, self.np_random))
        if self._scene.is_lockstep:
            self._cell.step(1)
        for control in self._controls.values():
            control.reset(self._cell)
        for hand in self._hands.values():
            hand.reset(self._cell)
        self.steps = 0
        self._ownership.reset()
        self._clock.reset(self._cell)
        return self._observe()

    def step(self, action: ArrayLike) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Execute one step of the episode.

        The episode is terminated when the task is done, an arm has a fault, or another controllet
        such as hold owns an arm. It is truncated at the time limit of the task.

        Args:
            action: Action of all arms, see :class:`CellEnv`. It is clipped to its bounds.

        Returns:
            Observation after the step, reward from 0 to 1, terminated, truncated and info. The
            info contains ``is_success``, ``fault``, ``time`` and, with cameras, ``image_time``.
            Both times are cell times [s].

        Raises:
            ActionRejected: If the action has another shape or is not finite, no episode has begun,
                or another controllet owns an arm. No arm has moved.
            LoopError: In real time, after 1 s without an action. The arms hold.
            TaskFailed: If the reward or the result of the task is invalid.
        """
        if not self._is_open:
            raise ActionRejected("step: no episode has begun. Call reset() first.")
        numbers = self._actions.checked(action)
        states = {name: self._cell.state(name) for name in self._controls}
        # All arms are checked before one of them receives a target, so that no arm moves alone.
        # For a remote cell, ``check`` uses the messages of its node.
        if self._is_remote:
            self._cell.check()
        else:
            self._ownership.refuse()
        for name, state in states.items():
            if not state.fault:
                self._send(numbers, name)
        self._ownership.mark_sent()
        self._pass_time()
        self.steps += 1
        obs, info = self._observe()
        info["fault"] = info["fault"] or self._ownership_fault()
        reward = 1.0 if info["is_success"] else reward_of(self.task, self.task.reward(self._scene))
        is_over = self.steps >= self.task.time_limit * self.rate
        ends = bool(info["is_success"] or info["fault"])
        return obs, reward, ends, is_over and not ends, info

    def expert_action(self) -> Action:
        """Return the action with which the scripted expert of the task solves it.

        Raises:
            NotImplementedError: If the task has no expert, or the control has no poses.
            ActionRejected: If no episode has begun.
        """
        self._check_episode("expert_action")
        desired = self.task.expert(self._scene, self.steps / self.rate)
        return self._actions.toward(
            {
                name: (self._scene.in_base(name, desired[name][0]), desired[name][1])
                for name in self._controls
            }
        )

    def hold_action(self) -> Action:
        """Return the action that keeps the targets and gripper commands of all arms."""
        return self._actions.hold()

    def render(self) -> Any:
        """Return an image of the scene, (480, 640, 3), or None without ``render_mode``."""
        if self.render_mode is None:
            return None
        return self._cell.simulation.image(None, 640, 480)

    def close(self) -> None:
        """Close the cell and the subscribers of topics. Repeated calls have no effect."""
        if self.sensors is not None:
            self.sensors.close()
        self._end()
        # A remote cell is connected even without a reset, but _end() closes a cell only after one.
        if self._is_remote:
            self._cell.close()

    def save(self) -> EpisodeState:
        """Return the state of the episode: simulation, targets, task and random generator.

        This call and :meth:`restore` restart the controllets from the measured state. With equal
        actions, the episode then continues bitwise identically.

        Raises:
            SimulationRejected: If the cell is not in lockstep.
            ActionRejected: If no episode has begun.
        """
        self._check_episode("save")
        state = copy_episode(
            self._cell.simulation.save(), self.steps, self._scene.goal, self.task,
            self.np_random, self._controls, self._hands,
        )  # fmt: skip
        self.restore(state)
        return state

    def restore(self, state: EpisodeState) -> tuple[Observation, dict[str, Any]]:
        """Restore the state of an episode.

        Args:
            state: Result of :meth:`save` of this environment, valid until the cell is started
                again. With ``randomise``, each reset starts a new cell.

        Returns:
            Observation and info as in :meth:`reset`.

        Raises:
            SimulationRejected: If the state belongs to another environment, or the cell is not in
                lockstep.
            ActionRejected: If no episode has begun.
        """
        self._check_episode("restore")
        value: Any = state
        if not isinstance(value, EpisodeState):
            raise SimulationRejected(f"restore: got {state!r:.60}, allowed a result of save()")
        self._cell.simulation.reset(state.simulation)
        restore_state(state, self.task, self.np_random, self._controls)
        self._scene.goal, self.steps = state.goal.copy(), state.steps
        for name, hand in self._hands.items():
            hand.again(self._cell, state.hands[name])
        return self._observe()

    def _ownership_fault(self) -> str:
        # A remote cell checks the ownership itself.
        return "" if self._is_remote else self._ownership.ownership_fault()

    def _send(self, numbers: Vector, arm: str) -> None:
        try:
            self._actions.send(self._cell, numbers, arm)
        except TargetRejected:
            # An arm that has just stopped rejects its target. This is no error, because the result
            # of the step contains its fault.
            if not (self._cell.state(arm).fault or self._ownership_fault()):
                raise

    def _check_episode(self, description: str) -> None:
        if not self._is_open:
            raise ActionRejected(f"{description}: no episode has begun. Call reset() first.")

    def _end(self) -> None:
        if self._is_open:
            self._is_open = False
            self._scene.close()
            self._cell.close()

    def _start(self) -> None:
        self._cell.start()
        self._is_open = True
        self._scene = TaskScene(self._cell)
        keeps = not (self._is_remote or self._scene.is_lockstep)
        self._stopped = ArmFaults(self._cell, self._controls)
        self._ownership = OwnershipCheck(self._cell, self._controllets, self._scene.is_lockstep)
        self._home_motion = HomeMotion(self._cell, self._controllets, self._hands, self._stopped)
        self._missed_steps = MissedSteps(self._scene, self._observer, self._clock, keeps)
        if self._observer.sizes:
            self._scene.draw(self._observer.sizes)
        if self._scene.is_lockstep:
            self._initial_state = self._cell.simulation.save()

    def _rebuild(self, twins: PerturbationSpec) -> None:
        self._end()
        self._cell = Cell(twins.draw(self._config, int(self.np_random.integers(2**31))))
        self._start()

    def _pass_time(self) -> None:
        if self._scene.is_lockstep:
            self._clock.run(self._cell, self.steps)
        else:
            self._clock.wait(self._cell)
            self._cell.check()

    def _observe(self) -> tuple[Observation, dict[str, Any]]:
        # In real time, the state at the end of the step is taken from the history of the loop, so
        # that it is correct even if the program is late.
        instant = self._scene.observe(self._clock.deadline)
        info = {
            "is_success": is_success(self.task, self.task.is_success(self._scene)),
            "fault": self._stopped.reasons(),
            "time": instant,
        }
        obs = self._observer.see(self._scene)
        if "images" in obs:
            info["image_time"] = self._observer.oldest_image_time(instant)
        return obs, info


def _spec(randomise: str | Path | Mapping[str, Any] | None) -> PerturbationSpec | None:
    if randomise is None:
        return None
    value: Any = randomise
    if not isinstance(value, (str, Path, Mapping)):
        raise ConfigurationError(
            f"randomise: got {randomise!r:.60}, allowed a file or its contents"
        )
    if isinstance(randomise, Mapping):
        return PerturbationSpec.from_dict(dict(randomise), "randomise")
    return PerturbationSpec.from_yaml(randomise)
