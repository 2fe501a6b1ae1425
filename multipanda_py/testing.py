# SPDX-License-Identifier: Apache-2.0
"""Contract checks for plug-in authors, and random arm states for tests.

``check_contract("my_controllet")`` checks a controllet, ``check_actuator("my_springs")`` a
compliant actuator. Built-in controllets and actuators pass the same checks.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from multipanda_py import registry
from multipanda_py.actuator import Actuator, ElasticTorque
from multipanda_py.cell import Cell
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.context import Context
from multipanda_py.control.delay_margin import Probe, bandwidth
from multipanda_py.exceptions import ContractViolation
from multipanda_py.parameters import ParameterSet, Robots, specs_of
from multipanda_py.realtime.cycle_record import record_dtype
from multipanda_py.robots import ArmDescription, Robot
from multipanda_py.robots.dynamics.arm_dynamics import ArmModel
from multipanda_py.state import COMMAND_INTERFACES, ArmState, Matrix, Vector

SAMPLE_JOINTS, SAMPLE_COUNT = 4, 50
"""Number of joints and of random samples in the checks of an actuator."""
_STEP = 1e-6
"""Step of finite differences, as a fraction of the range."""
_SLOPE_TOLERANCE = 1e-4
"""Tolerance between slopes and finite differences, relative to the largest slope."""


def check_actuator(
    kind: str | type[Actuator[Any]], params: Mapping[str, ArrayLike] | None = None, seed: int = 0
) -> None:
    r"""Check an actuator at random deflections and presets.

    - Arrays have the right shapes. Results depend on the arguments of the same joint only.
    - Torques are derivatives of one elastic energy:
      :math:`\partial\tau_i/\partial q = -\partial\tau_{link}/ \partial\theta_i`. Motor i has
      the load :math:`\tau_i` and the position :math:`\theta_i`; q is the joint angle.
    - ``link_stiffness`` is :math:`-\partial\tau_{link}/\partial q`.
    - The ``link`` torque does not decrease with the equilibrium angle, and is constant beyond the
      maximum deflection.
    - ``equilibrium_of`` and ``preset_of`` invert ``references``.

    Args:
        kind: Name as in a cell file, or the class.
        params: Parameters that differ from the defaults.
        seed: Seed of the random deflections and presets.

    Raises:
        ContractViolation: If a check fails; the message names it.
    """
    result = registry.find("actuators", kind) if isinstance(kind, str) else kind
    for spec in specs_of(result.Params):
        require_kept(bool(spec.doc), f"parameter {spec.name} has no doc")
        has = spec.name in result.identified
        require_kept(
            not has or spec.kind == "number",
            f"identified: {spec.name} is not declared as a number",
        )
    names = {spec.name for spec in specs_of(result.Params)}
    require_kept(
        set(result.identified) <= names,
        f"identified: got {result.identified}, allowed names of parameters: {names}",
    )
    presets = "preset_high" in names
    require_kept(
        presets == bool(result.preset_unit),
        "preset_unit: allowed a unit if there are presets, else ''",
    )
    springs, rng = result(SAMPLE_JOINTS, params), np.random.default_rng(seed)
    configurations = _random_positions(springs, rng)
    _check_shapes_and_purity(springs, configurations)
    _check_elastic_energy(springs, configurations)
    _check_references_and_saturation(springs, rng)


def _random_positions(springs: Actuator[Any], rng: np.random.Generator) -> Matrix:
    """Return q, theta_1 and theta_2 within limits of deflections and presets, (3, k, n)."""
    shape = (SAMPLE_COUNT, springs.n_joints)
    q = rng.uniform(-2.0, 2.0, shape)
    reach = 0.99 * springs.of["max_deflection"]
    first = q + reach * rng.uniform(-1.0, 1.0, shape)
    if springs.is_antagonistic:
        return np.array([q, first, q + reach * rng.uniform(-1.0, 1.0, shape)])
    fraction = rng.uniform(0.02, 0.98, shape)
    return np.array(
        [q, first, springs.preset_low * fraction + springs.preset_high * (1.0 - fraction)]
    )


def _check_shapes_and_purity(springs: Actuator[Any], configurations: Matrix) -> None:
    for at in (configurations, configurations[:, 0]):
        at.setflags(write=False)
        results = (*springs.elastic_torque(*at), springs.link_stiffness(*at))
        for name, result in zip((*ElasticTorque._fields, "link_stiffness"), results):
            shape = at.shape[1:]
            require_kept(
                result.shape == shape, f"{name}: got shape {result.shape}, allowed {shape}"
            )
            require_kept(bool(np.isfinite(result).all()), f"{name}: not finite within the limits")
        before = [result.copy() for result in results]
        springs.elastic_torque(*(0.5 * at))
        springs.link_stiffness(*(0.5 * at))
        same = all(np.array_equal(a, b) for a, b in zip(before, results))
        require_kept(same, "results of one call are changed by the next one. Return new arrays.")
        again = (*springs.elastic_torque(*at.copy()), springs.link_stiffness(*at.copy()))
        same = all(np.array_equal(a, b) for a, b in zip(before, again))
        require_kept(same, "equal arguments give different results: the actuator keeps state")
    for other in range(springs.n_joints):
        at = configurations.copy()
        at[..., other] = np.nan
        for result in springs.elastic_torque(*at)[:2]:
            bad = np.isnan(result)
            require_kept(bool(bad[:, other].all()), "NaN of a joint does not give NaN torques")
            require_kept(
                int(bad.sum()) == len(bad),
                "a joint reacts to the deflection of another",
            )


def _check_elastic_energy(springs: Actuator[Any], configurations: Matrix) -> None:
    reach = springs.of["max_deflection"]
    ranges = [reach, reach, reach]
    if not springs.is_antagonistic:
        ranges[2] = np.maximum(springs.preset_high - springs.preset_low, 0.0)
    slopes = np.zeros((3, 3, *configurations.shape[1:]))
    for i, width in enumerate(ranges):
        step = np.zeros_like(configurations)
        step[i] = _STEP * width
        if not step[i].any():
            continue
        up, down = (
            springs.elastic_torque(*(configurations + sign * step)) for sign in (1.0, -1.0)
        )
        for j, (a, b) in enumerate(zip(up, down)):
            slopes[i, j] = (a - b) / (2.0 * step[i]) * (-1.0 if j == 0 else 1.0)
    stiffness = springs.link_stiffness(*configurations)
    scale = np.abs(slopes[0, 0]).max()
    _close("link_stiffness is not the slope of the torque", stiffness, slopes[0, 0], scale)
    for i, j, description in ((0, 1, "motor_1"), (0, 2, "motor_2"), (1, 2, "both motors")):
        scale = max(np.abs(slopes[i, j]).max(), np.abs(slopes[j, i]).max())
        _close(
            f"torques of link and {description} do not follow from one energy",
            slopes[i, j],
            slopes[j, i],
            scale,
        )


def _check_references_and_saturation(springs: Actuator[Any], rng: np.random.Generator) -> None:
    low, high, reach = springs.preset_low, springs.preset_high, springs.of["max_deflection"]
    for _ in range(SAMPLE_COUNT):
        preset = low + (high - low) * rng.uniform(0.02, 1.0, springs.n_joints)
        equilibrium = rng.uniform(-2.0, 2.0, springs.n_joints)
        theta = springs.references(equilibrium, preset)
        _close(
            "equilibrium_of does not invert references",
            springs.equilibrium_of(*theta),
            equilibrium,
            1.0,
        )
        _close("preset_of does not invert references", springs.preset_of(*theta), preset, 1.0)
    preset = low + 0.5 * (high - low)
    ends = reach + np.abs(preset) * springs.is_antagonistic
    q = np.zeros(springs.n_joints)
    torques = np.array([
        springs.elastic_torque(q, *springs.references(fraction * ends, preset)).link
        for fraction in np.linspace(-1.0, 1.0, 41)
    ])  # fmt: skip
    falls = np.diff(torques, axis=0).min() < -1e-12 * np.abs(torques).max()
    require_kept(not falls, "the torque decreases with increasing equilibrium")
    require_kept(bool((torques[-1] > torques[0]).all()), "the springs exert no torque")
    beyond = springs.elastic_torque(q, *springs.references(10.0 * ends, preset)).link
    _close("the torque grows beyond max_deflection", beyond, torques[-1], np.abs(beyond).max())
    desired = 0.5 * (0.7 * torques[-1] + 0.3 * torques[0])
    held = springs.references(springs.equilibrium_for(q, desired, preset), preset)
    _close(
        "equilibrium_for does not give the torque",
        springs.elastic_torque(q, *held).link,
        desired,
        1.0,
    )


def _close(description: str, got: Vector, desired: Vector, scale: float) -> None:
    worst = float(np.abs(got - desired).max(initial=0.0))
    require_kept(
        worst <= _SLOPE_TOLERANCE * max(scale, 1e-9),
        f"{description}: off by {worst:.3g}, values up to {scale:.3g}",
    )


def require_kept(condition: bool, message: str) -> None:
    """Raise :class:`.ContractViolation` with a message if a condition is False."""
    if not condition:
        raise ContractViolation(message)


PERIOD = 1e-3
"""Period of the control loop [s]."""
_UNITS = dict(zip(COMMAND_INTERFACES, ("Nm", "rad", "rad/s")))
_STATE_ATTRIBUTES = (
    "q", "dq", "tau_J", "tau_ext", "tau", "position_ee_in_base", "rotation_ee_in_base",
    "twist_ee_in_base", "wrench_ext_in_base", "jacobian", "jacobian_gram", "mass_matrix",
    "coriolis",
)  # fmt: skip
"""Attributes of a state that a controllet reads."""
MAX_MEMORY_GROWTH = 10_000
"""Allowed memory growth in 1000 cycles [bytes]."""


MAX_BANDWIDTH = 180.0
"""Maximum bandwidth of the velocity loop with any gains within their bounds [1/s]."""


Models: TypeAlias = str | Robot | Sequence[str | Robot]


class StateMaker:
    """Generator of live arm states at given or random joint positions and velocities.

    Args:
        n_arms: Number of arms, placed 0.6 m apart.
        model: Robot model of all arms, by name or as an object, or a sequence of models, which is
            repeated.

    Attributes:
        context: Context for a controllet on these arms.
    """

    def __init__(self, n_arms: int = 1, model: Models = "fr3") -> None:
        models = (model,) if isinstance(model, str | Robot) else tuple(model)
        arms = [
            ArmDescription(f"arm{i}", models[i % len(models)], np.array([0.0, 0.6 * i, 0.0]))
            for i in range(n_arms)
        ]
        row = np.zeros(1, record_dtype(n_arms, 0, 1, max(arm.n_joints for arm in arms)))
        self.context = Context.from_arms(PERIOD, arms)
        self.models = [ArmModel(arm) for arm in arms]
        self.states = [
            ArmState(f"arm{i}", arms[i].limits, row["arms"][0, i : i + 1].reshape(()))
            for i in range(n_arms)
        ]
        for state, arm_model in zip(self.states, self.models):
            arm_model.attach(state)

    @property
    def robots(self) -> dict[str, Robot]:
        """Robots of the arms, by name."""
        return {arm.name: arm.robot for arm in self.context.arms}

    @property
    def joints(self) -> tuple[int, ...]:
        return self.context.joints

    def states_at(self, q: Sequence[Vector], dq: Sequence[Vector] | None = None) -> list[ArmState]:
        """Set joint positions and velocities, update the dynamics models, and return all states.

        Args:
            q: Joint positions, (n,) per arm [rad].
            dq: Joint velocities, (n,) per arm [rad/s]; None for rest.
        """
        for i, (state, model) in enumerate(zip(self.states, self.models)):
            state.q[:] = state.joint_command[0] = q[i]
            state.dq[:] = 0.0 if dq is None else dq[i]
            model.update(state)
        return self.states

    def random(
        self, rng: np.random.Generator, speed: float = 0.0, margin: float = 0.05
    ) -> list[ArmState]:
        """Return random states within the joint limits.

        Args:
            rng: Random generator.
            speed: Maximum joint speed [rad/s].
            margin: Minimum distance from the joint limits [rad].
        """
        spans = [state.limits.span for state in self.states]
        q = [rng.uniform(lower + margin, upper - margin) for lower, upper in spans]
        return self.states_at(q, [rng.uniform(-speed, speed, n) for n in self.joints])


def varied_cell(file: str | Path, seed: int, relative_error: float = 0.2) -> Cell:
    """Return a cell with placement ``inline`` and random errors of masses and friction.

    Random factors multiply the masses of objects, and the friction of objects and tools.

    Args:
        file: Path of the cell file.
        seed: Seed of the factors; 0: all factors are 1.
        relative_error: Maximum deviation of a factor from 1.
    """
    data = CellConfig.from_yaml(file).model_dump()
    random = np.random.default_rng(seed)
    for obj in data["objects"].values():
        by_mass, by_friction = 1.0 + random.uniform(-relative_error, relative_error, 2) * (
            seed > 0
        )
        obj["mass"] *= by_mass
        obj["friction"] *= by_friction
    for arm in data["arms"].values():
        if arm["tool"]:
            arm["tool"]["friction"] *= 1.0 + random.uniform(-relative_error, relative_error) * (
                seed > 0
            )
    data["cell"]["placement"] = "inline"
    return Cell(CellConfig.from_dict(data))


def simple_cell(
    arms: Mapping[str, Mapping[str, Any]] | None = None,
    controllets: Mapping[str, Mapping[str, Any]] | None = None,
    active: Sequence[str] = (),
    placement: str = "inline",
    **settings: Any,
) -> Cell:
    """Return a cell for tests, by default with two arms that hold their position.

    Args:
        arms: Section ``arms`` of the cell file; by default ``left`` and ``right``, 0.6 m apart.
        controllets: Section ``controllets``; by default joint and Cartesian impedance for each
            arm.
        active: Names of the controllets that are active at the start.
        placement: Placement of the loop: ``inline``, ``thread`` or ``process``.
        settings: Further sections of the cell file, and keys of its section ``cell``.
    """
    if arms is None:
        arms = {"left": {"position": [0.0, 0.3, 0.0]}, "right": {"position": [0.0, -0.3, 0.0]}}
    if controllets is None:
        controllets = {
            "cartesian_impedance_controller": {"type": "cartesian_impedance"},
            "joint_impedance_controller": {"type": "joint_impedance"},
        }
    data: dict[str, Any] = {
        key: settings.pop(key)
        for key in ("objects", "gate", "realtime", "collisions")
        if key in settings
    }
    data["cell"] = {"name": "test", "placement": placement, **settings}
    data |= {"arms": arms, "controllets": controllets, "active": list(active)}
    return Cell(CellConfig.from_dict(data))


def check_contract(
    name: str,
    n_arms: int | None = None,
    seed: int = 0,
    model: Models = "fr3",
    configurations: int = 2,
) -> None:
    """Check a registered controllet on random states.

    - Activation at rest commands no motion.
    - Commands have the right shapes and are finite in every configuration.
    - Commands depend on states and target only, and states are not modified.
    - Memory does not grow during 1000 cycles.
    - The damping of a torque controllet passes :func:`check_bandwidth`.

    Args:
        name: Name as in ``type:`` of a cell file.
        n_arms: Number of arms; by default the minimum of the controllet.
        seed: Seed of the random states.
        model: Robot models, as for :class:`StateMaker`.
        configurations: Number of configurations for :func:`check_bandwidth`; 0 to skip it.

    Raises:
        ContractViolation: If a check fails; the message names it.
    """
    controllet_class = registry.find("controllets", name)
    n = controllet_class.min_arms if n_arms is None else n_arms
    interface = controllet_class.command_interface
    rng = np.random.default_rng(seed)
    maker, other = StateMaker(n, model), StateMaker(n, model)

    def make() -> Any:
        parameters = ParameterSet(controllet_class.Params, robots=maker.robots)
        values = {spec.name: spec.default for spec in parameters.specs}
        return controllet_class(maker.context, parameters.decode(parameters.encode(values)))

    law, twin = make(), make()
    target, twin_target = (controllet_class.Target(n, n_joints=maker.joints) for _ in range(2))
    for _ in range(20):
        states = maker.random(rng)
        law.on_activate(states, target)
        law.update(states, target, PERIOD)
        for commands in (law.tau, law.command):
            require_kept(
                [t.shape for t in commands] == [(k,) for k in maker.joints],
                "tau and command need shape (n,) per arm",
            )
        rest = [s.q if interface == COMMAND_INTERFACES[1] else 0.0 for s in states]
        largest = max(float(np.abs(t - q).max()) for t, q in zip(law.command, rest))
        require_kept(
            largest < 1e-6, f"activation at rest commands {largest:.3g} {_UNITS[interface]}"
        )
        here = [s.q.copy() for s in states]
        speeds = [rng.uniform(-1.0, 1.0, k) for k in maker.joints]
        states = maker.states_at(here, speeds)
        before = [[getattr(s, name).copy() for name in _STATE_ATTRIBUTES] for s in states]
        law.update(states, target, PERIOD)
        first = [t.copy() for t in law.command]
        require_kept(all(np.isfinite(t).all() for t in first), "commands are not finite")
        for state, copies in zip(states, before):
            wrong = [
                n
                for n, a in zip(_STATE_ATTRIBUTES, copies)
                if not np.array_equal(getattr(state, n), a)
            ]
            require_kept(not wrong, f"the controllet wrote to a state: {', '.join(wrong)}")
        twin.on_activate(other.states_at(here), twin_target)
        # Controllets may keep state, so give this one the same updates as the first one.
        twin.update(other.states_at(here), twin_target, PERIOD)
        twin.update(other.states_at(here, speeds), twin_target, PERIOD)
        same = all(np.allclose(a, b, rtol=0, atol=1e-9) for a, b in zip(first, twin.command))
        require_kept(
            same, "equal states in other arrays give different commands. Read only passed states."
        )
        law.on_deactivate()
        twin.on_deactivate()
    _check_memory(law, maker.random(rng, speed=0.5), target)
    if interface == COMMAND_INTERFACES[0] and configurations:
        check_bandwidth(name, n, configurations=configurations, seed=seed, model=model)


def check_bandwidth(
    name: str,
    n_arms: int | None = None,
    configurations: int = 5,
    seed: int = 0,
    model: Models = "fr3",
) -> None:
    """Check that the velocity loop of a controllet tolerates the delay of a robot.

    Its bandwidth is the maximum real part of the eigenvalues of :math:`M^{-1} D` [1/s], with the
    inertia matrix M and the joint damping D of controllet and default features. All gains of
    :func:`corners` are checked.

    Args:
        name: Name as in ``type:`` of a cell file.
        n_arms: Number of arms; by default the minimum of the controllet.
        configurations: Number of random configurations for each set of gains.
        seed: Seed of the random configurations.
        model: Robot models, as for :class:`StateMaker`.

    Raises:
        ContractViolation: If a bandwidth reaches ``MAX_BANDWIDTH``; the message names the gains.
    """
    controllet_class = registry.find("controllets", name)
    maker = StateMaker(controllet_class.min_arms if n_arms is None else n_arms, model)
    rng = np.random.default_rng(seed)
    for label, values in corners(controllet_class, maker.robots):
        probe = probe_of(controllet_class, maker, values)
        for _ in range(configurations):
            q = np.concatenate([state.q.copy() for state in maker.random(rng, margin=0.3)])
            result = bandwidth(probe, q)
            require_kept(
                result < MAX_BANDWIDTH,
                f"with {label} the bandwidth is {result:.0f} 1/s at q = {q.round(3).tolist()}, "
                f"allowed up to {MAX_BANDWIDTH:g}",
            )


def corners(
    controllet_class: Any, robots: Robots | None = None
) -> list[tuple[str, dict[str, Any]]]:
    """Return the sets of gains with which a controllet must be stable, each with a description.

    The sets are the defaults, each gain at its upper bound, and all gains at their upper bounds.
    Gains are the parameters with ``stiffness`` or ``damping`` in their name.

    Args:
        controllet_class: Class of the controllet.
        robots: Robots by name of the arm; None for one default robot.

    Returns:
        Description, and values of all parameters by name.
    """
    specs = ParameterSet(controllet_class.Params, robots=robots).specs
    default = {spec.name: spec.default for spec in specs}
    highest = {
        spec.name: np.array([high for _, high in spec.bounds])
        if spec.kind == "vector"
        else spec.bounds[0][1]
        for spec in specs
        if any(word in spec.name for word in ("stiffness", "damping"))
    }
    highest = {name: value for name, value in highest.items() if np.isfinite(value).all()}
    corners = [("the defaults", default)]
    corners += [(f"the highest {name}", default | {name: highest[name]}) for name in highest]
    return [*corners, ("the highest gains", default | highest)] if highest else corners


def probe_of(controllet_class: Any, maker: StateMaker, values: Mapping[str, Any]) -> Probe:
    """Return a controllet with its default features, for evaluation of its torques at any state.

    Args:
        controllet_class: Class of the controllet.
        maker: Arms of the controllet.
        values: Values of all parameters of the controllet by name.
    """
    parameters = ParameterSet(controllet_class.Params, robots=maker.robots)
    context = replace(maker.context, leader_arms=controllet_class.leader_arms)
    law = controllet_class(context, parameters.decode(parameters.encode(values)))
    target = controllet_class.Target(len(maker.states), n_joints=maker.joints)
    features = []
    for name in controllet_class.default_features:
        result = registry.find("features", name)
        own = ParameterSet(result.Params, robots=maker.robots)
        defaults = {spec.name: spec.default for spec in own.specs}
        features.append(result(context, own.decode(own.encode(defaults))))

    def activate() -> None:
        for part in (law, *features):
            part.on_activate(maker.states, target)

    def update() -> None:
        for feature in features:
            feature.prepare(maker.states, target, PERIOD)
        law.update(maker.states, target, PERIOD)
        for feature in features:
            feature.add(maker.states, target, law.tau, PERIOD)

    return Probe(maker.states, maker.models, law.tau, activate, update)


def _check_memory(controllet: Any, states: list[ArmState], target: Any) -> None:
    controllet.on_activate(states, target)
    controllet.update(states, target, PERIOD)
    # One of three runs without growth is sufficient, because other threads may allocate memory,
    # too.
    grown = next(
        (
            g
            for g in (_memory_growth(controllet, states, target) for _ in range(3))
            if g < MAX_MEMORY_GROWTH
        ),
        MAX_MEMORY_GROWTH,
    )
    require_kept(grown < MAX_MEMORY_GROWTH, f"1000 cycles leak {MAX_MEMORY_GROWTH} bytes or more")


def _memory_growth(controllet: Any, states: list[ArmState], target: Any) -> int:
    """Return the growth of allocated memory in 1000 updates of a controllet [bytes]."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(1000):
            controllet.update(states, target, PERIOD)
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
