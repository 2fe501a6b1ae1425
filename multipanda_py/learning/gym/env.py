# SPDX-License-Identifier: Apache-2.0
"""A cell as a Gymnasium environment."""

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
    SimulationRefused,
    TargetRejected,
)
from multipanda_py.learning.gym.control import Control, control_named
from multipanda_py.learning.gym.episode import (
    EpisodeState,
    Past,
    StartPose,
    StepClock,
    put_back,
    saved,
)
from multipanda_py.learning.gym.ownership import RECOVER, OwnLaws, StoppedArms
from multipanda_py.learning.gym.remote import (
    RemoteCell,
    Topics,
    laws_of,
    refuse_with_remote,
    remote_cell,
    sensors_of,
)
from multipanda_py.learning.gym.spaces import (
    Action,
    ActionLayout,
    HandControl,
    Observation,
    Observer,
)
from multipanda_py.learning.gym.task import (
    LAW,
    GymTask,
    Residual,
    cell_of_file,
    goal_of,
    is_done,
    lockstep_cell,
    refuse_mistaken,
    reward_of,
    task_named,
)
from multipanda_py.learning.gym.task_scene import TaskScene, sizes_of
from multipanda_py.state import Vector

RATES = (1.0, 100.0)
"""Least and largest number of steps a second."""


class CellEnv(gymnasium.Env[Observation, Action]):
    """Let a policy act on the arms of a cell, with the laws and guards of every cell in force.

    An action has, arm by arm in the task's order, the numbers of the control and, where there is a
    hand, one more: open above 0.6, closed below 0.4.

    In lockstep, which is the default, a step takes as long as the machine needs, and a seed is an
    episode to the last bit. With a cell file that has a loop of its own (``cell.placement``
    process or thread; real arms) the same class acts in real time: a step waits for its instant,
    and ``reset`` has the arms go to where they start.

    Args:
        task: A name that :func:`.task_named` knows, or a task of one's own.
        control: Name in :data:`.CONTROLS`.
        rate: Steps a second [Hz].
        cameras: Names of cameras of the scene, ``free`` for a viewer's, or by name height and
            width [pixels].
        things: Whether poses of things are seen; a real cell does not know them.
        features: Of the laws, instead of their own: ``["nullspace", "coriolis"]`` takes half the
            time, and keeps arms off nothing.
        randomise: A perturbation file, or what one holds: every episode has a twin drawn anew from
            it. ``reset`` takes longer then, as another world is built.
        cell: A cell file instead of the task's scene; ``ros:/NAMESPACE``, or a
            :class:`.RosCell`, for arms that a running node moves.
        topics: Topics of ROS by the name of what they show: pictures, which are among ``images``,
            and wrenches, which are ``sensors``.
        residual: What a network has learned of a robot, which simulated arms then show: a file of
            ``multipanda residual train``, or files by arm.
        render_mode: ``rgb_array`` or None.

    Attributes:
        steps: Number of steps in this episode.
        sensors: Sensors that topics show; None without any.

    Raises:
        ConfigurationError: If an argument means nothing here.
        UnknownName: If there is no such task or control.

    Thread: one, always the same.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012 -- gymnasium's

    def __init__(
        self,
        task: str | GymTask,
        *,
        control: str = "pose_step",
        rate: float = 20.0,
        cameras: Sequence[str] | Mapping[str, tuple[int, int]] = (),
        things: bool = True,
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
        given: Any = rate  # what callers without types hand over
        if not isinstance(given, Real) or not RATES[0] <= rate <= RATES[1]:
            raise ConfigurationError(
                f"rate: got {rate!r}, allowed {RATES[0]:g} to {RATES[1]:g} Hz"
            )
        given = task
        if not isinstance(given, (str, GymTask)):
            raise ConfigurationError(f"task: got {task!r:.60}, allowed a name or a GymTask")
        if isinstance(features, str):
            raise ConfigurationError(f"features: got {features!r}, allowed a list of names")
        self.task = task_named(task) if isinstance(task, str) else task
        refuse_mistaken(self.task)
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
            raise ConfigurationError(
                "randomise: got a cell whose loop runs by itself, allowed one in lockstep"
            )
        self._arguments = {
            "task": task if isinstance(task, str) else type(task).__name__,
            "control": control,
            "rate": self.rate,
            "things": bool(things),
            "features": None if features is None else list(features),
        }
        self._cell, self._is_remote = remote or Cell(self._config), remote is not None
        self._laws = laws_of(self._cell, [*self.task.arms], kind, 1.0 / rate, LAW)
        arms = {name: self._cell.descriptions[name] for name in self.task.arms}
        self._controls: dict[str, Control] = {
            name: kind(arm, 1.0 / rate) for name, arm in arms.items()
        }
        self._hands = {name: HandControl(name) for name, arm in arms.items() if arm.gripper}
        self._actions = ActionLayout(self._controls, self._hands)
        self.action_space = self._actions.space
        self._clock = StepClock(self.rate, self._config.cell.rate)
        movable = [name for name, thing in self._config.objects.items() if thing.mass]
        sizes = sizes_of(cameras)
        sensors = self.sensors = sensors_of(topics)
        self._observer = Observer(
            arms,
            self._controls,
            movable if things else [],
            self.task.goal_size,
            sizes,
            sensors,
        )
        self.observation_space = self._observer.space
        self._home: Any = None
        self.steps, self._is_open = 0, False

    @property
    def cell(self) -> Cell:
        """The cell, for what there is no action for; started by the first ``reset``."""
        return self._cell

    @property
    def arguments(self) -> Mapping[str, Any]:
        """What makes such an environment again: task, control, rate, things and features."""
        return MappingProxyType(self._arguments)

    @property
    def controls(self) -> Mapping[str, Control]:
        """What actions mean, by arm."""
        return MappingProxyType(self._controls)

    @property
    def past(self) -> Past:
        """What there was to be seen while this program was late.

        Raises:
            ActionRejected: If no episode has begun.
        """
        self._begun("past")
        return self._past

    @property
    def scene(self) -> TaskScene:
        """What the task sees."""
        return self._scene

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode.

        Args:
            seed: The same for the same episode; None goes on from the last one.
            options: ``recover``, in real time: whether arms that have stopped are brought back
                first. **They MOVE afterwards**; else they are refused.

        Raises:
            TaskFailed: If the task draws no goal, or does not say whether it is done.
            MotionFailed: In real time, if an arm has stopped; says why.
            MultipandaError: In real time, if the arms cannot go to where they start.
        """
        given: Any = options or {}
        if not isinstance(given, Mapping) or not isinstance(given.get(RECOVER, False), bool):
            raise ConfigurationError(
                f"options: got {options!r:.60}, allowed {{{RECOVER!r}: True or False}}"
            )
        super().reset(seed=seed)
        if self._twins is not None:
            self._rebuild(self._twins)
        elif not self._is_open:
            self._start()
        if self._scene.is_lockstep:
            self._cell.simulation.reset(self._home, seed=int(self.np_random.integers(2**31)))
        else:
            self._start_pose.go(given.get(RECOVER, False))
        self._scene.goal = goal_of(self.task, self.task.begin(self._scene, self.np_random))
        if self._scene.is_lockstep:
            self._cell.step(1)
        for control in self._controls.values():
            control.begin(self._cell)
        for hand in self._hands.values():
            hand.begin(self._cell)
        self.steps = 0
        self._own.begin()
        self._clock.begin(self._cell)
        return self._look()

    def step(self, action: ArrayLike) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Act for one step.

        Returns:
            What is seen after it; the reward, 0 to 1; whether the task is done, or an arm has a
            fault or holds for another reason; whether its time is over; and ``is_success``,
            ``fault``, ``time`` and, with cameras, ``picture_time``, both on the cell's clock [s].

        Raises:
            ActionRejected: If the action is of another shape or not finite, no episode has begun,
                or another law has an arm than the environment's; nothing has moved.
            LoopError: In real time, after a second without an action: the arms hold.
            TaskFailed: If the task's reward is no number, or it does not say whether it is done.
        """
        if not self._is_open:
            raise ActionRejected("step: got an action before an episode, allowed after reset()")
        numbers = self._actions.checked(action)
        states = {name: self._cell.state(name) for name in self._controls}
        if self._is_remote:  # all arms, before one is told anything
            self._cell.check()  # it hears who has them later, and gives diagnostics their time
        else:
            self._own.refuse()
        for name, state in states.items():
            if not state.fault:
                self._send(numbers, name)
        self._own.told()
        self._pass_time()
        self.steps += 1
        seen, info = self._look()
        info["fault"] = info["fault"] or self._taken()
        reward = 1.0 if info["is_success"] else reward_of(self.task, self.task.reward(self._scene))
        is_over = self.steps >= self.task.seconds * self.rate
        ends = bool(info["is_success"] or info["fault"])
        return seen, reward, ends, is_over and not ends, info

    def expert_action(self) -> Action:
        """Return what the task's expert would do now.

        Raises:
            NotImplementedError: If the task has none, or the control goes to no poses.
            ActionRejected: If no episode has begun.
        """
        self._begun("expert_action")
        wanted = self.task.expert(self._scene, self.steps / self.rate)
        return self._actions.toward(
            {
                name: (self._scene.in_base(name, wanted[name][0]), wanted[name][1])
                for name in self._controls
            }
        )

    def hold_action(self) -> Action:
        """Return the action that leaves all targets and hands where they are."""
        return self._actions.hold()

    def render(self) -> Any:
        """Return a picture of the scene, (480, 640, 3), if that was asked for."""
        if self.render_mode is None:
            return None
        return self._cell.simulation.image(None, 640, 480)

    def close(self) -> None:
        """End the cell; safe to call twice."""
        if self.sensors is not None:
            self.sensors.close()
        self._end()
        if self._is_remote:  # which is connected to before the first episode
            self._cell.close()

    def save(self) -> EpisodeState:
        """Return the episode as it stands: world, targets, task and random numbers.

        Laws start anew from what they measure, here as after every :meth:`restore`, so that what
        follows is the same to the last bit.

        Raises:
            SimulationRefused: If the cell is not in lockstep.
            ActionRejected: If no episode has begun.
        """
        self._begun("save")
        state = saved(
            self._cell.simulation.save(), self.steps, self._scene.goal, self.task,
            self.np_random, self._controls, self._hands,
        )  # fmt: skip
        self.restore(state)
        return state

    def restore(self, state: EpisodeState) -> tuple[Observation, dict[str, Any]]:
        """Go back to a state, of this environment and the same start, and go on from there.

        Returns:
            As :meth:`reset`.

        Raises:
            SimulationRefused: If the state is another environment's, or the cell not in lockstep.
            ActionRejected: If no episode has begun.
        """
        self._begun("restore")
        given: Any = state
        if not isinstance(given, EpisodeState):
            raise SimulationRefused(f"restore: got {state!r:.60}, allowed what save() returned")
        self._cell.simulation.reset(state.simulation)
        put_back(state, self.task, self.np_random, self._controls)
        self._scene.goal, self.steps = state.goal.copy(), state.steps
        for name, hand in self._hands.items():
            hand.again(self._cell, state.hands[name])
        return self._look()

    def _taken(self) -> str:
        """Say which arm is another law's; of one that runs elsewhere its check() does so."""
        return "" if self._is_remote else self._own.taken()

    def _send(self, numbers: Vector, arm: str) -> None:
        try:
            self._actions.send(self._cell, numbers, arm)
        except TargetRejected:
            if not (self._cell.state(arm).fault or self._taken()):  # it has just stopped
                raise

    def _begun(self, what: str) -> None:
        if not self._is_open:
            raise ActionRejected(f"{what}: got no episode, allowed after reset()")

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
        self._stopped = StoppedArms(self._cell, self._controls)
        self._own = OwnLaws(self._cell, self._laws, self._scene.is_lockstep)
        self._start_pose = StartPose(self._cell, self._laws, self._hands, self._stopped)
        self._past = Past(self._scene, self._observer, self._clock, keeps)
        if self._observer.sizes:
            self._scene.draw(self._observer.sizes)
        if self._scene.is_lockstep:
            self._home = self._cell.simulation.save()

    def _rebuild(self, twins: PerturbationSpec) -> None:
        """Have another twin, drawn from this episode's numbers."""
        self._end()
        self._cell = Cell(twins.draw(self._config, int(self.np_random.integers(2**31))))
        self._start()

    def _pass_time(self) -> None:
        if self._scene.is_lockstep:
            self._clock.run(self._cell, self.steps)
        else:
            self._clock.wait(self._cell)
            self._cell.check()

    def _look(self) -> tuple[Observation, dict[str, Any]]:
        """Return what is seen at the step's instant, and what else there is to say.

        In real time this process may wake up late: the loop has kept what was at the instant.
        """
        instant = self._scene.look(self._clock.due)
        info = {
            "is_success": is_done(self.task, self.task.is_done(self._scene)),
            "fault": self._stopped.reasons(),
            "time": instant,
        }
        seen = self._observer.see(self._scene)
        if "images" in seen:
            info["picture_time"] = self._observer.oldest_picture(instant)
        return seen, info


def _spec(randomise: str | Path | Mapping[str, Any] | None) -> PerturbationSpec | None:
    if randomise is None:
        return None
    given: Any = randomise
    if not isinstance(given, (str, Path, Mapping)):
        raise ConfigurationError(
            f"randomise: got {randomise!r:.60}, allowed a file or what one holds"
        )
    if isinstance(randomise, Mapping):
        return PerturbationSpec.from_dict(dict(randomise), "randomise")
    return PerturbationSpec.from_yaml(randomise)
