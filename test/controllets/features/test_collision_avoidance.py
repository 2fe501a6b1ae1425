# SPDX-License-Identifier: Apache-2.0
"""Collision avoidance against independently computed distances; arms stop before contact."""

from __future__ import annotations

import dataclasses

import numpy as np
import pinocchio as pin
import pytest
from configurations import READY
from long_form import every_nth, long_form

from multipanda_py.control.safety.collision_forces import (
    MAX_REPULSION_DAMPING_RATE,
    MAX_REPULSION_STIFFNESS,
)
from multipanda_py.controllets.features.collision_avoidance import (
    CollisionAvoidance,
    CollisionAvoidanceParams,
)
from multipanda_py.pose import Pose
from multipanda_py.realtime.events import Event
from multipanda_py.robots import SceneObject
from multipanda_py.robots.dynamics.arm_dynamics import build_pinocchio
from multipanda_py.targets import JointTarget
from multipanda_py.testing import PERIOD, StateMaker

pytestmark = pytest.mark.inline

MODELS: dict = {}
TABLE = SceneObject(
    "table", "box", (0.2, 0.3, 0.05), np.array([0.6, 0.3, 0.3]), pin.rpy.rpyToMatrix(0.1, 0.2, 0.3)
)
BALL = SceneObject("ball", "sphere", (0.1,), np.array([0.4, 0.1, 0.6]), mass=1.0)
POST = SceneObject("post", "capsule", (0.05, 0.2), np.array([0.5, 0.5, 0.4]), mass=1.0)


def segments(arm, q):
    """Return capsules of an arm in the world: joint, ends, radius, whether of the gripper."""
    if id(arm) not in MODELS:
        model = build_pinocchio(arm, base_in_world=True)
        MODELS[id(arm)] = (arm, model, model.createData())
    _, model, data = MODELS[id(arm)]
    pin.framesForwardKinematics(model, data, q)
    found = []
    for link, capsules in arm.capsules.items():
        frame = model.getFrameId(link)
        link_pose = data.oMf[frame]
        found += [
            (model.frames[frame].parentJoint, link_pose.act(np.array(c.start)),
             link_pose.act(np.array(c.end)), c.radius, link.endswith("hand"))
            for c in capsules
        ]  # fmt: skip
    return found


def between_segments(p, q, r, s):
    """Return distances of segments (n, 3): the minimum over inside and edges of the square."""
    u, v, w = q - p, s - r, p - r

    def dot(a, b):
        return (a * b).sum(axis=-1)

    uu, uv, vv, uw, vw = dot(u, u), dot(u, v), dot(v, v), dot(u, w), dot(v, w)
    determinant = uu * vv - uv * uv
    regular = determinant > 1e-12
    safe = np.where(regular, determinant, 1.0)
    x, y = (uv * vw - vv * uw) / safe, (uu * vw - uv * uw) / safe
    inside = regular & (x >= 0) & (x <= 1) & (y >= 0) & (y <= 1)
    found = [np.where(inside, np.linalg.norm(w + x[:, None] * u - y[:, None] * v, axis=1), np.inf)]
    for edge in (0.0, 1.0):
        y = np.clip((vw + edge * uv) / vv, 0, 1)[:, None]
        x = np.clip((edge * uv - uw) / uu, 0, 1)[:, None]
        found.append(np.linalg.norm(w + edge * u - y * v, axis=1))
        found.append(np.linalg.norm(w + x * u - edge * v, axis=1))
    return np.min(found, axis=0)


def between(pairs):
    """Return distances of pairs of capsules."""
    p, q, r, s = (np.array([pair[k][e] for pair in pairs]) for k in (0, 1) for e in (1, 2))
    return between_segments(p, q, r, s) - [a[3] + b[3] for a, b in pairs]


def to_box(p, q, half):
    """Return the distance of a segment and a box at the origin, by golden-section search."""

    def at(t):
        x = p + t * (q - p)
        return np.linalg.norm(np.maximum(np.abs(x) - half, 0.0))

    low, high, ratio = 0.0, 1.0, (np.sqrt(5) - 1) / 2
    for _ in range(80):
        a, b = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, b) if at(a) < at(b) else (a, high)
    return at((low + high) / 2)


def distances(context, poses, arm, qs, params):
    """Return all distances of own arm number ``arm``, computed without the feature."""
    arms = (*context.arms, *context.other_arms)
    mine, found = segments(arms[arm], qs[arm]), []
    if params.arms:
        theirs = [b for o, other in enumerate(arms) if o != arm for b in segments(other, qs[o])]
        found += list(between([(a, b) for a in mine for b in theirs]))
    if params.self_collision:
        found += list(
            between(
                [(a, b) for i, a in enumerate(mine) for b in mine[:i] if abs(a[0] - b[0]) >= 3]
            )
        )
    if params.floor:
        found += [end[2] - a[3] for a in mine if a[0] > 1 for end in a[1:3]]
    poses = iter(poses)
    for scene_object in context.objects:
        parts = params.movable_objects if scene_object.mass else params.fixed_objects
        position, rotation = scene_object.position, scene_object.rotation
        if scene_object.mass:
            pose = next(poses)
            position, rotation = pose[:3], pin.Quaternion(*pose[3:]).matrix()
        for a in mine:
            if a[0] < 2 or parts == "ignore" or (parts == "without_gripper" and a[4]):
                continue
            p, q = ((rotation.T @ (x - position)) for x in a[1:3])
            if scene_object.shape == "box":
                # The whole capsule, and both ends: one point would jump between them.
                found += [to_box(x, y, np.array(scene_object.size)) - a[3]
                          for x, y in ((p, q), (p, p), (q, q))]  # fmt: skip
            else:
                up = np.array(
                    [[0, 0, scene_object.size[-1] if scene_object.shape == "capsule" else 1e-9]]
                )
                distance = between_segments(p[None], q[None], -up, up)[0]
                found.append(distance - a[3] - scene_object.size[0])
    return np.array(found)


def every_distance(context, qs, params):
    """Return all distances of own arms, each once."""
    found = []
    for arm in range(context.n_arms):
        hidden = dataclasses.replace(params, arms=False)
        found += list(distances(context, context.object_poses, arm, qs, hidden))
        if params.arms:
            arms = (*context.arms, *context.other_arms)
            mine = segments(arms[arm], qs[arm])
            found += list(
                between(
                    [(a, b) for a in mine for other in range(arm + 1, len(arms))
                     for b in segments(arms[other], qs[other])]
                ) if arm + 1 < len(arms) else []
            )  # fmt: skip
    return np.array(found)


def pair_forces(found, gradients, states, params):
    """Return the force of each pair: that of its potential, divided among pairs on one motion."""
    inverses = [np.linalg.inv(state.mass_matrix) for state in states]
    coupling = sum(
        gradients[:, arm] @ inverse @ gradients[:, arm].T for arm, inverse in enumerate(inverses)
    )
    slope, depths = params.max_force / params.distance**2, np.maximum(params.distance - found, 0)
    stiffest = MAX_REPULSION_STIFFNESS / np.maximum(coupling.diagonal(), 1e-12)
    soft = np.minimum(depths, stiffest / (2 * slope))
    forces = slope * soft**2 + stiffest * (depths - soft)
    shared = np.zeros(len(found))
    near = np.flatnonzero(forces)
    for j in near:
        parts = sum(
            max(coupling[j, k], 0) / np.sqrt(coupling[j, j] * coupling[k, k])
            * min(1.0, forces[k] / forces[j])
            for k in near
        )  # fmt: skip
        shared[j] = forces[j] / parts
    return shared


def potential(found, params):
    depth = np.maximum(params.distance - found, 0.0)
    return params.max_force / (3 * params.distance**2) * (depth**3).sum()


def cell_of(n_own, n_other, objects=()):
    """Return states of arms 0.6 m apart; the first ``n_own`` belong to the feature."""
    maker = StateMaker(n_own + n_other)
    poses = np.array([[*o.position, 1.0, 0, 0, 0] for o in objects if o.mass]).reshape(-1, 7)
    context = dataclasses.replace(
        maker.context,
        arms=maker.context.arms[:n_own],
        other_arms=maker.context.arms[n_own:],
        other_states=tuple(maker.states[n_own:]),
        objects=tuple(objects),
        object_poses=poses,
    )
    return maker, context


def added(feature, states):
    own = states[: feature.context.n_arms]
    tau = [np.zeros(7) for _ in own]
    feature.add(own, JointTarget(len(own)), tau, PERIOD)
    return np.array(tau)


ONLY = {
    "arms": False,
    "self_collision": False,
    "fixed_objects": "ignore",
    "movable_objects": "ignore",
}


CHOSEN = [
    (2, 0, {"arms": True}),
    (1, 1, {"arms": True}),
    (1, 2, {"arms": True, "self_collision": True}),
    (1, 0, {"self_collision": True}),
    (1, 0, {"floor": True}),
    (1, 0, {"fixed_objects": "all"}),
    (1, 0, {"fixed_objects": "without_gripper"}),
    (1, 0, {"movable_objects": "all"}),
    (2, 1, {"arms": True, "self_collision": True, "fixed_objects": "all",
            "movable_objects": "without_gripper", "floor": True}),
]  # fmt: skip
"""Own arms, other arms, and monitored pairs."""


@pytest.mark.long
@pytest.mark.parametrize(("n_own", "n_other", "chosen"), long_form(CHOSEN, keep=CHOSEN[2::3]))
def test_torque_at_rest_is_sum_of_pair_forces_along_gradients(n_own, n_other, chosen):
    params = CollisionAvoidanceParams(distance=0.2, **(ONLY | chosen))
    maker, context = cell_of(n_own, n_other, (TABLE, BALL, POST))
    feature = CollisionAvoidance(context, params)
    rng, h, checked = np.random.default_rng(1), 1e-6, 0
    limits = maker.states[0].limits
    n = n_own + n_other
    while checked < 2:
        qs = rng.uniform(limits.lower, limits.upper, (n, 7))
        qs[:, 0] = rng.uniform(-1.5, 1.5, n)
        context.object_poses[:, :3] = [[0.4, 0.1, 0.6], [0.5, 0.5, 0.4]] + rng.normal(size=3) * 0.1
        quaternions = rng.normal(size=(2, 4))
        context.object_poses[:, 3:] = quaternions / np.linalg.norm(quaternions, axis=1)[:, None]
        nearest = np.concatenate(
            [distances(context, context.object_poses, a, qs, params) for a in range(n_own)]
        )
        if not 0.02 < nearest.min() < 0.17:
            continue
        checked += 1
        states = maker.states_at(list(qs))
        tau = added(feature, states)
        found = every_distance(context, qs, params)
        gradients = np.zeros((len(found), n, 7))
        for arm in range(n):
            for k in range(7):
                for sign in (1, -1):
                    moved = qs.copy()
                    moved[arm, k] += sign * h
                    change = every_distance(context, moved, params)
                    gradients[:, arm, k] += sign * change / (2 * h)
        expected = np.einsum("j,jak->ak", pair_forces(found, gradients, states, params), gradients)
        assert np.abs(tau - expected[:n_own]).max() < 1e-4 * max(np.abs(tau).max(), 0.1)
        if np.count_nonzero(found < params.distance) == 1:  # one pair: a potential's gradient
            gradient = np.gradient([potential(found + x, params) for x in (-h, 0, h)], h)[1]
            assert np.allclose(tau, (-gradient * gradients[found.argmin()])[:n_own], atol=1e-3)


def two_grippers(gap):
    """Return configurations with the grippers of two arms about ``gap`` apart, one pair near."""
    q = np.array([0.4, -0.785, 0, -2.356, 0, 1.571, 0.785])
    return [q + [gap, 0, 0, 0, 0, 0, 0], q * [-1, 1, 1, 1, 1, 1, 1] - [gap, 0, 0, 0, 0, 0, 0]]


def only_pair_near(params):
    """Return joint configurations of two arms with exactly one pair of capsules near."""
    maker, context = cell_of(2, 0)
    qs = np.array(two_grippers(0.30)) + np.random.default_rng(3).normal(size=(2, 7)) * 1e-3
    found = np.sort(distances(context, [], 0, qs, params))
    assert 0 < found[0] < params.distance < found[1]
    return maker, context, qs


def test_approach_is_damped_by_both_inertias_and_separation_is_free():
    params = CollisionAvoidanceParams(0.05, bandwidth=0.0, **(ONLY | {"arms": True}))
    maker, context, qs = only_pair_near(params)
    feature, h = CollisionAvoidance(context, params), 1e-6
    rest = added(feature, maker.states_at(list(qs)))
    gradient = np.zeros((2, 7))
    for arm in range(2):
        for k in range(7):
            for sign in (1, -1):
                moved = qs.copy()
                moved[arm, k] += sign * h
                near = distances(context, [], 0, moved, params).min()
                gradient[arm, k] += sign * near / (2 * h)
    distance = distances(context, [], 0, qs, params).min()
    depth = params.distance - distance
    assert np.allclose(
        rest, params.max_force * (depth / params.distance) ** 2 * gradient, atol=1e-4
    )
    rng = np.random.default_rng(4)
    for _ in range(10):
        dq = rng.normal(size=(2, 7)) * 0.3
        states = maker.states_at(list(qs), list(dq))
        rate = (gradient * dq).sum()
        inverse = sum(g @ np.linalg.solve(s.mass_matrix, g) for g, s in zip(gradient, states))
        stiffness = 2 * params.max_force * depth / params.distance**2
        damping = min(
            2 * params.damping_ratio * np.sqrt(stiffness / inverse),
            MAX_REPULSION_DAMPING_RATE / inverse,
        )
        force = params.max_force * (depth / params.distance) ** 2 - damping * rate
        expected = max(force, 0.0) * gradient  # it never pulls bodies together
        assert np.allclose(added(feature, states), expected, atol=1e-3)


def test_force_is_continuous_at_onset_and_finite_in_penetration():
    params = CollisionAvoidanceParams(**(ONLY | {"arms": True}))
    maker, context = cell_of(2, 0)
    feature = CollisionAvoidance(context, params)
    dq = [np.full(7, 0.1), np.full(7, -0.1)]
    taus, nearest = [], []
    for angle in np.linspace(0.25, 0.6, 1401):
        qs = two_grippers(angle)
        taus.append(added(feature, maker.states_at(qs, dq)))
        nearest.append(min(r.min_distance for g in feature.near.groups for r in g.results))
    taus = np.array(taus)
    assert np.isfinite(taus).all()
    assert not taus[0].any()
    assert min(nearest) < -0.04
    assert np.abs(taus).max() < 1000.0
    first = np.flatnonzero(np.abs(taus).max(axis=(1, 2)))[0]
    assert np.abs(taus[first]).max() < 0.2
    assert np.abs(np.diff(taus[: first + 50], axis=0)).max() < 0.5


@pytest.mark.parametrize("n_own", [1, 2])
def test_distant_group_is_never_missed(n_own):
    """Measuring only groups that may be near gives the same torques as measuring all."""
    params = CollisionAvoidanceParams(movable_objects="all", floor=True)
    maker, context = cell_of(n_own, 3 - n_own, (TABLE, BALL))
    feature, fresh = (CollisionAvoidance(context, params) for _ in range(2))
    rng = np.random.default_rng(5)
    phase, near = rng.uniform(0, 6, (3, 7)), 0
    for cycle in range(0, 4000, 8):
        swing = 0.4 * np.sin(2e-3 * cycle * np.linspace(0.6, 1.4, 7) + phase)
        qs = [READY + s for s in swing]
        context.object_poses[0, :3] = [0.45, 0.3 + 0.6 * np.sin(3e-3 * cycle), 0.5]
        states = maker.states_at(qs)
        tau = added(feature, states)
        near += bool(tau.any())
        fresh.on_parameters()
        assert np.allclose(tau, added(fresh, states), atol=1e-10)
    assert 50 < near < 450


def test_distant_bodies_are_measured_again_only_after_motion(monkeypatch):
    maker, context = cell_of(2, 0, (BALL,))
    feature = CollisionAvoidance(context, CollisionAvoidanceParams())
    context.object_poses[0, :3] = [0.4, 0.1, 1.8]
    measured = []
    for group in feature.near.groups:
        original = group.measure
        monkeypatch.setattr(
            group, "measure", lambda *a, f=original, g=group: measured.append(g.kind) or f(*a)
        )
    states = maker.states_at([READY, READY])
    added(feature, states)
    assert len(measured) == len(feature.near.groups)
    measured.clear()
    for _ in range(100):
        added(feature, states)
    assert measured == []
    context.object_poses[0, :3] += [0.0, 0.0, -1.0]
    added(feature, states)
    assert set(measured) == {"movable"}


@pytest.mark.slow
def test_activation_reuses_cached_distances(monkeypatch):
    """Cached distances give the same activation as new ones, with fewer measurements."""
    params = CollisionAvoidanceParams(movable_objects="all", floor=True, distance=0.15)
    maker, context = cell_of(2, 0, (TABLE, BALL))
    feature, measured, near = CollisionAvoidance(context, params), [], 0
    for group in feature.near.groups:
        original = group.measure
        monkeypatch.setattr(group, "measure", lambda *a, f=original: measured.append(1) or f(*a))
    rng = np.random.default_rng(3)
    qs = [READY, READY]
    for cycle in range(80):
        step = 0.6 if cycle % 8 == 0 else 0.01
        qs = [READY + np.clip(q + rng.uniform(-step, step, 7) - READY, -0.8, 0.8) for q in qs]
        context.object_poses[0, :3] = [0.45, 0.3 * np.sin(cycle), 0.4]
        states = maker.states_at(qs)
        feature.on_activate(states, None)
        fresh = CollisionAvoidance(context, params)
        fresh.on_activate(states, None)
        begins = [begin for group in feature.near.groups for begin in group.near_distances]
        desired = [begin for group in fresh.near.groups for begin in group.near_distances]
        assert begins == pytest.approx(desired, abs=1e-12)
        assert np.allclose(added(feature, states), added(fresh, states), atol=1e-10)
        near += min(begins) < params.distance
    assert near > 5
    measured.clear()
    feature.on_activate(states, None)
    far = [group for group in feature.near.groups if min(group.near_distances) >= params.distance]
    assert far
    assert len(measured) <= len(feature.near.groups) - len(far)


def touching(cell, first, second):
    """Return whether geometry of two names touches in the simulation."""
    sim = cell.simulation
    model, data = sim.model, sim.data
    for contact in data.contact[: data.ncon]:
        names = sorted(model.body(model.geom_bodyid[g]).name for g in contact.geom)
        pair = sorted((first, second))
        if all(name.startswith(start) for name, start in zip(names, pair)):
            return True
    return False


def smallest(cell):
    """Return the smallest distance between the capsules of the arms, without the feature."""
    arms = [segments(a, cell.state(a.name).q) for a in _arms_of(cell)]
    return between([(a, b) for a in arms[0] for b in arms[1]]).min()


def _arms_of(cell):
    return cell.loop.backends[0].descriptions


def drive_together(make_cell, features, arms):
    laws = {"cart": {"type": "cartesian_impedance", "features": features,
                     **({} if arms is None else {"arms": arms})}}  # fmt: skip
    active = ["left/cart", "right/cart"] if arms is None else ["cart"]
    cell = make_cell(controllets=laws, active=active, gate={"position": 1.0})
    for arm, side in (("left", -1.0), ("right", 1.0)):
        pose = cell.pose(arm)
        cell.set_target(arm, Pose(pose.position + [0.1, side * 0.35, 0.0], pose.rotation))
    touched, nearest = False, np.inf
    for step in range(400):
        cell.step(10)
        touched |= touching(cell, "left", "right")
        if touched:
            break
        if step % 10 == 0:
            nearest = min(nearest, smallest(cell))
    return touched, nearest, [cell.state(a).owner for a in ("left", "right")], cell


@pytest.mark.slow
@pytest.mark.parametrize("arms", [None, ["left", "right"]])
def test_converging_arms_stop_before_contact(make_cell, arms):
    base = ["nullspace", "coriolis"]
    touched, *_ = drive_together(make_cell, base, arms)
    assert touched
    touched, nearest, owners, cell = drive_together(
        make_cell, [*base, "collision_avoidance"], arms
    )
    assert not touched
    assert nearest > 0.01
    assert "hold" not in "".join(owners)
    assert {event.event for event in cell.events()} <= {Event.NOTICE}, "stopped references only"
    cell.step(1000)  # governed targets arrive later than requested
    assert np.abs(cell.state("left").dq).max() < 0.05


@pytest.mark.slow
def test_gripper_driven_into_table_stops_above_it(make_cell):
    table = {"table": {"shape": "box", "size": [0.3, 0.3, 0.05], "position": [0.5, 0.3, 0.2]}}

    def press(avoid):
        # By default the controllet may touch objects that its gripper works on.
        away = {"collision_avoidance": {"fixed_objects": "all"}} if avoid else {}
        features = ["nullspace", "coriolis", *away]
        laws = {"cart": {"type": "cartesian_impedance", "features": features, "params": away}}
        cell = make_cell(controllets=laws, active=["left/cart"], objects=table,
                         gate={"position": 1.0})  # fmt: skip
        pose = cell.pose("left")
        cell.set_target("left", Pose(pose.position + [0.1, 0.0, -0.35], pose.rotation))
        touched, lowest = False, np.inf
        for _ in range(200):
            cell.step(10)
            touched |= touching(cell, "left", "table")
            lowest = min(lowest, cell.pose("left").position[2] - 0.25)
        return touched, lowest

    touched, _ = press(avoid=False)
    assert touched
    touched, lowest = press(avoid=True)
    assert not touched
    assert lowest > 0.0


def test_leader_was_pushed_by_follower():
    """The follower's proximity gives the leader no energy; the follower yields."""
    maker = StateMaker(2)
    feature = CollisionAvoidance(
        dataclasses.replace(maker.context, leader_arms=(0,)),
        CollisionAvoidanceParams(self_collision=False, floor=False),
    )
    far, rng = [READY, READY], np.random.default_rng(5)
    feature.on_activate(maker.states_at(far), JointTarget(2))
    yielded = braked = 0
    for _ in range(150):
        q = [s.q.copy() for s in maker.random(rng, margin=0.3)]
        states = maker.states_at(q, list(rng.uniform(-0.3, 0.3, (2, 7))))
        tau = [np.zeros(7), np.zeros(7)]
        feature.add(states, None, tau, PERIOD)
        power = float(tau[0] @ states[0].dq)
        assert power <= 1e-9, [row.tolist() for row in q]
        braked += power < -1e-6
        yielded += bool(tau[1].any())
    assert yielded > 5
    assert braked > 2


def avoidance_torques(angle, rate, external_force):
    """Return torques of two grippers that are driven at each other with 80 N, and their distance.

    Args:
        angle: Of the first joints; sets the distance [rad].
        rate: Speed of approach [m/s].
        external_force: Estimated external force that holds them apart [N].
    """
    maker, context = cell_of(2, 0)
    feature = CollisionAvoidance(context, CollisionAvoidanceParams(**(ONLY | {"arms": True})))
    feature.on_activate(maker.states_at(two_grippers(0.1)), JointTarget(2))
    states = maker.states_at(two_grippers(angle))
    pair = min(feature.measure(states, 0.3), key=lambda one: one.distance)
    directions = [
        np.linalg.solve(state.mass_matrix, g) for state, g in zip(states, pair.gradients)
    ]
    speed = sum(float(g @ direction) for g, direction in zip(pair.gradients, directions))
    states = maker.states_at(
        two_grippers(angle), [-rate / speed * direction for direction in directions]
    )
    for state, g in zip(states, pair.gradients):
        state.tau_ext[:] = external_force * g
    tau = [-80.0 * g + state.coriolis for state, g in zip(states, pair.gradients)]
    requested = np.concatenate(tau)
    feature.add(states, JointTarget(2), tau, PERIOD)
    return np.concatenate(tau) - requested, pair.distance


ANGLES = np.linspace(0.22, 0.42, 21)


@pytest.mark.parametrize("rate", every_nth(3, [0.1, 0.3, 1.0]))
def test_wrong_external_torque_estimate_removed_braking_of_approach(rate):
    braked = 0
    for angle in ANGLES:
        right, distance = avoidance_torques(angle, rate, 0.0)
        wrong, _ = avoidance_torques(angle, rate, 80.0)
        assert np.abs(wrong - right).max() < 0.01 * np.abs(right).max() + 1e-9, distance
        braked += bool(np.abs(right).max() > 1.0)
    assert braked > 5


def test_wrong_external_torque_estimate_released_arms_at_rest():
    near = 0
    for angle in ANGLES:
        right, distance = avoidance_torques(angle, 0.0, 0.0)
        if distance < 0.015:
            near += 1
            wrong, _ = avoidance_torques(angle, 0.0, 80.0)
            assert np.abs(wrong - right).max() < 0.01 * np.abs(right).max(), distance
    assert near > 2


def test_contact_force_at_rest_is_left_to_controllet():
    left = 0
    for angle in ANGLES:
        free, distance = avoidance_torques(angle, 0.0, 0.0)
        if distance > 0.03 and np.abs(free).max() > 1.0:
            left += 1
            assert np.abs(avoidance_torques(angle, 0.0, 80.0)[0]).max() < 1e-9, distance
    assert left > 2
