# SPDX-License-Identifier: Apache-2.0
"""Inputs of the C++ reference, and the torques that Python computes from them.

The cells are those of ``parts/conditions.py``. Case 0 of a condition is the timed state: arms at
rest at the start of the cell. The other cases have random states and targets, which are written to
the same cells. All cases contain the internal states of the controllets.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import coal
import numpy as np
import pinocchio as pin

from multipanda_py import Cell
from multipanda_py.control.impedance.modal_damping import BANDWIDTH
from multipanda_py.controllets.coupled_impedance import SHARED_BANDWIDTH
from multipanda_py.controllets.features.collision_avoidance import CollisionAvoidance
from multipanda_py.controllets.features.nullspace import Nullspace
from multipanda_py.controllets.features.singularity import Manipulability

SIDES = ("left", "right")
CLEAR = 0.002
"""Distance of bodies below which their closest points can jump [m]."""
COUPLED, FORCE, CARTESIAN = "coupled_impedance", "force_impedance", "cartesian_impedance"


class Scenario:
    """Named inputs of all conditions, and the torques that Python computes from them.

    Attributes:
        torques: Torques of each condition, one (14,) array per case [Nm].
        active: Number of updates of each condition in which bodies are near each other.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        self.torques: dict[str, list[np.ndarray]] = {}
        self.active: dict[str, int] = {}

    def put(self, name: str, *values: Any) -> None:
        """Add an entry of numbers and arrays, which are flattened row by row."""
        flat = np.concatenate([np.ravel(np.asarray(value, float)) for value in values])
        self._lines.append(f"{name} {' '.join(map(repr, flat.tolist()))}")

    def write(self, path: Path) -> None:
        """Write the input file of the reference."""
        path.write_text("\n".join(self._lines) + "\n")

    def add_arms(self, cell: Cell) -> None:
        """Add the models of both arms and the cycle period."""
        self.put("period", cell.loop.backends[0].period)
        for side, arm in zip(SIDES, cell.loop.arms):
            own, limits = arm.model, arm.state.limits
            model = own._model
            tool = model.frames[own._frame]
            placements = [model.jointPlacements[joint] for joint in range(1, 8)]
            self.put(
                f"{side}.placements", *[placement.homogeneous[:3] for placement in placements]
            )
            for joint in model.joints[1:]:
                if joint.shortname() != "JointModelRZ":
                    raise SystemExit(f"{side}: joint {joint.shortname()} does not rotate about z")
            links = [model.inertias[joint] for joint in range(1, 8)]
            self.put(
                f"{side}.inertias",
                *[part for link in links for part in (link.mass, link.lever, link.inertia)],
            )
            self.put(f"{side}.armature", model.armature)
            self.put(f"{side}.tool", tool.placement.homogeneous[:3])
            self.put(f"{side}.torque_limit", limits.torque)
            self.put(f"{side}.velocity_limit", limits.velocity)
            self.put(f"{side}.base_position", own.arm.position_base_in_world)

    def add(self, name: str, cell: Cell, cases: int, rng: np.random.Generator) -> None:
        """Add gains, cases and torques of a condition."""
        instances = cell.loop.owners.active
        self.torques[name], self.active[name] = [], 0
        self._add_gains(_without_spaces(name), instances)
        self._add_case(name, cell, instances)
        while len(self.torques[name]) < cases:
            if self._draw(cell, instances, rng):
                self._add_case(name, cell, instances)

    def _add_gains(self, name: str, instances: Sequence[Any]) -> None:
        kind, params = instances[0].spec.config.type, instances[0].law.params
        ratio = np.unique(params.damping_ratio)
        if len(ratio) > 1:
            raise SystemExit(
                f"{name}: damping ratios {ratio} differ; the reference supports one for all axes"
            )
        for key in ("stiffness", "relative_stiffness", "error_clip"):
            if hasattr(params, key):
                self.put(f"{name}.{kind}.{key}", getattr(params, key))
        self.put(f"{name}.{kind}.damping_ratio", ratio)
        self.put(f"{name}.{kind}.bandwidth", SHARED_BANDWIDTH if kind == COUPLED else BANDWIDTH)
        for side, instance in zip(SIDES, instances):
            for feature in instance.features.adding:
                if isinstance(feature, Nullspace):
                    spring = feature._springs[0]
                    self.put(f"{name}.nullspace.stiffness", spring._gains[:, :7].diagonal())
                    self.put(f"{name}.nullspace.damping", spring._gains[:, 7:].diagonal())
                    self.put(f"{name}.nullspace.max_torque", spring._high)
                elif isinstance(feature, Manipulability):
                    self.put(f"{name}.manipulability.gain", feature.params.gain)
                    self.put(f"{name}.manipulability.threshold", feature.params.threshold)
                elif isinstance(feature, CollisionAvoidance):
                    self._add_solids(f"{name}.{side}.collision_avoidance", feature)

    def _add_solids(self, name: str, feature: CollisionAvoidance) -> None:
        """Add parameters and bodies of a collision avoidance."""
        p = feature.params
        for key in ("distance", "max_force", "damping_ratio", "stop_distance", "deceleration"):
            self.put(f"{name}.{key}", getattr(p, key))
        self.put(f"{name}.bandwidth", p.bandwidth)
        self.put(f"{name}.weights", feature.near._sums[:7, 0])
        solids: list[np.ndarray] = []
        pairs: list[int] = []
        for group in feature.near.groups:
            geometry, first = group._geometry, len(solids)
            solids += [_solid(body) for body in geometry.geometryObjects]
            for pair in geometry.collisionPairs:
                pairs += [first + pair.first, first + pair.second]
            if {*group.near_distances} != {p.distance}:
                raise SystemExit(f"{name}: bodies are near each other at the start of the cell")
        self.put(f"{name}.solids", *solids)
        self.put(f"{name}.pairs", pairs)

    def _draw(self, cell: Cell, instances: Sequence[Any], rng: np.random.Generator) -> bool:
        """Set random states and targets; return True if the reference supports them."""
        arms, law = cell.loop.arms, instances[0].law
        spans = [arm.state.limits.span for arm in arms]
        configurations = [rng.uniform(low + 0.05, high - 0.05) for low, high in spans]
        if instances[0].spec.config.type == COUPLED:
            _set_states(arms, configurations, rng, 0.0)
            law.on_activate(instances[0].states, instances[0].target)
            law._update_all = True
            configurations = [q + rng.uniform(-0.05, 0.05, 7) for q in configurations]
        _set_states(arms, configurations, rng, rng.choice([0.0, 0.5, 2.5]))
        if any(arm.state.operational_space().damping > 0.0 for arm in arms):
            return False
        for instance in instances:
            _set_targets(instance, rng)
        if not (feature := _avoidance(instances[0])):
            return True
        near = []
        for instance in instances:
            feature = _avoidance(instance)
            near += feature.near.find()
        # The cases contain both states with and without near pairs.
        return (not near and rng.random() < 0.1) or (
            bool(near) and min(pair.distance for pair in near) > CLEAR
        )

    def _add_case(self, name: str, cell: Cell, instances: Sequence[Any]) -> None:
        """Add a case with the present states, and compute its torques."""
        at, torques = f"{_without_spaces(name)}.{len(self.torques[name])}", []
        for side, arm in zip(SIDES, cell.loop.arms):
            for key in ("q", "dq", "tau_ext"):
                self.put(f"{at}.{side}.{key}", getattr(arm.state, key))
        for instance in instances:
            target, law, kind = instance.target, instance.law, instance.spec.config.type
            for index, number in enumerate(instance.spec.arms):
                own = f"{at}.{SIDES[number]}"
                self.put(f"{own}.nullspace_configuration", target.nullspace_configuration[index])
                if kind != COUPLED:
                    self.put(f"{own}.target_position", target.position_ee_in_base[index])
                    self.put(f"{own}.target_rotation", target.rotation_ee_in_base[index])
                if kind == FORCE:
                    self._add_tanks(own, law.arms[index])
            if kind == COUPLED:
                self.put(f"{at}.grasps", law.held._grasps)
                self.put(f"{at}.grasp_backs", *law.held._grasp_backs)
                self.put(f"{at}.object_position", target.position_object_in_world)
                self.put(f"{at}.object_rotation", target.rotation_object_in_world)
            instance.update()
            torques += [np.array(tau) for tau in instance.tau]
            if feature := _avoidance(instance):
                self.active[name] += bool(feature.pairs)
        self.torques[name].append(np.concatenate(torques))

    def _add_tanks(self, name: str, arm: Any) -> None:
        for key, tank in (("impedance_tank", arm.tank), ("force_tank", arm.force.tank)):
            self.put(f"{name}.{key}", tank.energy, tank.granted, tank.limit, tank.power)
        self.put(f"{name}.held", arm.tank.held)
        self.put(f"{name}.last_dq", arm._dq)
        self.put(f"{name}.last_torques", arm._torques)


def _without_spaces(name: str) -> str:
    return name.replace(" ", "_")


def _avoidance(instance: Any) -> CollisionAvoidance | None:
    found = [f for f in instance.features.adding if isinstance(f, CollisionAvoidance)]
    return found[0] if found else None


def _solid(body: Any) -> np.ndarray:
    """Return arm, joint, kind, two sizes and placement of a body, (17,). Arm 2 is the world."""
    joint, shape = body.parentJoint, body.geometry
    if isinstance(shape, coal.Capsule):
        shape_values = (0, shape.radius, 2.0 * shape.halfLength)
    elif isinstance(shape, coal.Sphere):
        shape_values = (1, shape.radius, 0.0)
    else:
        shape_values = (2, shape.d, 0.0)
    link = ((joint - 1) // 7, (joint - 1) % 7 + 1) if joint else (2, 0)
    return np.array([*link, *shape_values, *body.placement.homogeneous[:3].ravel()])


def _set_states(
    arms: Sequence[Any],
    configurations: Sequence[np.ndarray],
    rng: np.random.Generator,
    speed: float,
) -> None:
    for arm, q in zip(arms, configurations):
        arm.state.q[:] = q
        arm.state.dq[:] = rng.uniform(-speed, speed, 7)
        arm.state.tau_ext[:] = rng.uniform(-5.0, 5.0, 7)
        arm.model.update(arm.state)


def _set_targets(instance: Any, rng: np.random.Generator) -> None:
    """Set targets near the present poses, and random tank energies."""
    target, law, kind = instance.target, instance.law, instance.spec.config.type

    def random_rotation(rotation: np.ndarray) -> np.ndarray:
        return pin.exp3(rng.uniform(-0.3, 0.3, 3)) @ rotation

    for index, state in enumerate(instance.states):
        target.nullspace_configuration[index][:] = state.q + rng.uniform(-0.5, 0.5, 7)
        if kind == COUPLED:
            continue
        moved = state.position_ee_in_base + rng.uniform(-0.1, 0.1, 3)
        target.position_ee_in_base[index][:] = moved
        target.rotation_ee_in_base[index][:] = random_rotation(state.rotation_ee_in_base)
        if kind == FORCE:
            law.arms[index].tank.energy = rng.uniform(0.0, 12.0)
            law.arms[index].force.tank.energy = rng.uniform(-0.1, 0.1)
    if kind == COUPLED:
        target.position_object_in_world[:] = law.held.position + rng.uniform(-0.1, 0.1, 3)
        target.rotation_object_in_world[:] = random_rotation(law.held.rotation)
