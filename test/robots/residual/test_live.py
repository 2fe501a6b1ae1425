# SPDX-License-Identifier: Apache-2.0
"""Trained residuals in files and in a loop: refusals, bounds and fading."""

from __future__ import annotations

import copy
import json
from dataclasses import replace

import numpy as np
import pytest
from residual_weights import arrays

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.robots.residual.bodies import BodyDifference
from multipanda_py.robots.residual.inputs import Normalisation
from multipanda_py.robots.residual.network import PRECISE, REAL_TIME
from multipanda_py.robots.residual.runtime import FADE_DISTANCE, WARM_UP_TIME, LiveResidual
from multipanda_py.robots.residual.weights import TrainedResidual, digest_of, load_residual

pytestmark = pytest.mark.inline

JOINTS = ("one", "two")
SCALE = Normalisation.of_limits(
    np.array([-1.0, -2.0]), np.array([1.0, 2.0]), np.array([3.0, 3.0]), np.array([50.0, 20.0])
)


def trained(kind=REAL_TIME, **changes):
    found = TrainedResidual(
        kind, arrays(kind, 2), SCALE, "robot", JOINTS, 100.0,
        np.full(6, 0.3), np.full(6, 0.7), np.full(6, 0.01), "digest of the data",
    )  # fmt: skip
    return replace(found, **changes)


def middle():
    """Return a state in the middle of the training range, as q, dq, tau."""
    return np.split(SCALE.state_of(np.full(6, 0.5)), 3)


@pytest.mark.parametrize("kind", [REAL_TIME, PRECISE])
def test_saved_file_is_read_back(tmp_path, kind):
    found = trained(kind)
    found.save(tmp_path / "residual.npz")
    again = load_residual(tmp_path / "residual.npz")
    rows = np.random.default_rng(0).uniform(size=(20, 6))
    assert np.array_equal(again.network().run(rows), found.network().run(rows))
    assert (again.kind, again.robot, again.joints) == (kind, "robot", JOINTS)
    assert (again.rate, again.data) == (100.0, "digest of the data")
    assert np.array_equal(again.bound, found.bound)
    assert np.array_equal(again.normalisation.high, SCALE.high)


def test_truncated_or_changed_file_is_refused(tmp_path):
    path = tmp_path / "residual.npz"
    trained().save(path)
    whole = path.read_bytes()
    for end in (0, 10, len(whole) // 2, len(whole) - 30):
        path.write_bytes(whole[:end])
        with pytest.raises(ConfigurationError, match=r"residual\.npz: "):
            load_residual(path)
    with path.open("wb") as file:
        np.save(file, np.zeros(3))  # numpy's error suggested unsafe loading
    with pytest.raises(ConfigurationError, match=r"residual\.npz: .*\bnpz\b"):
        load_residual(path)
    path.write_bytes(whole)
    with np.load(path) as data:
        parts = {name: data[name] for name in data.files}
    parts["bound"] = parts["bound"] * 100.0
    np.savez(path, **parts)
    with pytest.raises(ConfigurationError, match="was cut or changed"):
        load_residual(path)
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load_residual(tmp_path / "none.npz")


def test_non_finite_weights_are_refused():
    bad = arrays(REAL_TIME, 2)
    bad["dense.bias"][0] = np.nan
    with pytest.raises(ConfigurationError, match="not finite"):
        trained(arrays=bad)
    with pytest.raises(ConfigurationError, match=r"\b3 joints\b"):
        trained(joints=("one", "two", "three"))


@pytest.mark.parametrize(
    ("found", "period", "robot", "joints", "reported"),
    [
        (trained(PRECISE), 1e-3, "robot", JOINTS, "precise|future"),
        (trained(), 1e-3, "other", JOINTS, r"\bother\b.*\b2\b.*\brobot\b"),
        (trained(), 1e-3, "robot", ("one",), r"\brobot\b.*\b1 "),
        (trained(), 1e-3, "robot", ("two", "one"), "two, one.*one, two"),
        (trained(rate=300.0), 1e-3, "robot", JOINTS, "cycles"),
        (trained(), 0.02, "robot", JOINTS, "cycles"),
    ],
)
def test_different_robot_rate_or_network_is_refused(found, period, robot, joints, reported):
    with pytest.raises(ConfigurationError, match=reported):
        LiveResidual(found, period, robot, joints)


def test_residual_warms_up_and_holds_between_steps():
    live = LiveResidual(trained(), 1e-3, "robot", JOINTS)
    waits = round(WARM_UP_TIME * 1000)
    found = np.array([live.step(*middle()).copy() for _ in range(3 * waits)])
    assert not found[: waits - 10].any()
    assert live.confidence == 1.0
    assert np.array_equal(found[-10:], np.repeat(found[-10:-9], 10, axis=0))
    growth = np.abs(np.diff(found, axis=0)).max(axis=0)
    assert (growth <= 0.05 * SCALE.span * 0.01).all()  # bounded growth
    net = trained().network()
    state = np.full(6, 0.5)
    expected = net.run(np.tile(state, (3 * waits // 10, 1)))[-1]
    assert found[-1] == pytest.approx(np.clip(expected, -0.01, 0.01) * SCALE.span)


def test_body_torques_are_bounded_and_restored_from_saved_state():
    bodies = BodyDifference(
        np.tile(np.eye(4), (2, 1, 1)), np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]), np.zeros(2),
        np.array([0.0, 0.0, -9.81]), np.tile([0.3, 0.02, 0.0, 0.0, *[0.0] * 6], (2, 1)),
    )  # fmt: skip
    none = {name: np.zeros_like(part) for name, part in arrays(REAL_TIME, 2).items()}
    known = {"low": np.full(6, -1.0), "high": np.full(6, 2.0), "bound": np.full(6, 0.001)}
    live = LiveResidual(trained(arrays=none, bodies=bodies, **known), 0.01, "robot", JOINTS)
    rng, dq = np.random.default_rng(0), np.zeros((2, 2))
    for step in range(150):
        q, dq = rng.normal(size=2) * 0.2, np.vstack([dq[1], rng.normal(size=2) * 0.1])
        found = live.step(q, dq[1], np.zeros(2))
        torque = bodies.torques(q, dq[1], (dq[1] - dq[0]) * 100.0)
        if step > 101:
            bound = 0.001 * SCALE.span[4:]
            assert found[4:] == pytest.approx(np.clip(torque, -bound, bound), abs=1e-12)
            assert live.of_bodies == pytest.approx(found[4:]), (
                "the body torques exceeded the bound"
            )
            assert not found[:4].any()
    other = LiveResidual(trained(arrays=none, bodies=bodies, **known), 0.01, "robot", JOINTS)
    other.restore(copy.deepcopy(live.internal_state()))
    state = rng.normal(size=2) * 0.2, rng.normal(size=2) * 0.1, np.zeros(2)
    assert np.array_equal(live.step(*state), other.step(*state))


def with_memory():
    """Return a residual with joint-reversal memory and a direct term from it."""
    rng, known = np.random.default_rng(2), arrays(REAL_TIME, 2)
    known["first.of_input"] = rng.uniform(-0.5, 0.5, (24, 12))
    known["direct.weight"] = rng.normal(size=(6, 12))
    return trained(
        arrays=known, speeds=np.array([0.1]), distances=np.array([0.01, 0.1]), bound=np.ones(6)
    )


def wander(rng, steps):
    """Return states within the training range."""
    return 0.5 + 0.15 * np.sin(rng.uniform(0.01, 0.1, 6) * np.arange(steps)[:, None])


def test_live_steps_agree_with_run_over_motion(tmp_path):
    found, states = with_memory(), wander(np.random.default_rng(0), 300)
    found.save(tmp_path / "residual.npz")
    found = load_residual(tmp_path / "residual.npz")
    live = LiveResidual(found, 0.01, "robot", JOINTS)
    expected = found.run(states) * SCALE.span
    for number, row in enumerate(SCALE.state_of(states)):
        output = live.step(*np.split(row, 3)).copy()
        if number > 100:
            assert live.confidence == 1.0
            assert output == pytest.approx(expected[number], abs=1e-6)
    without_memory = replace(found, arrays={**found.arrays, "direct.weight": np.zeros((6, 12))})
    assert np.abs(without_memory.run(states) - found.run(states)).max() > 0.1


def test_reversal_memory_is_saved_and_reset():
    states = SCALE.state_of(wander(np.random.default_rng(0), 300))
    live, other = (LiveResidual(with_memory(), 0.01, "robot", JOINTS) for _ in range(2))
    for row in states[:150]:
        live.step(*np.split(row, 3))
    other.restore(copy.deepcopy(live.internal_state()))
    assert np.array_equal(*(one.step(*np.split(states[150], 3)) for one in (live, other)))
    live.step(*np.split(np.full(6, np.nan), 3))
    other.reset()
    for row in states[:120]:
        assert np.array_equal(*(one.step(*np.split(row, 3)) for one in (live, other)))
    assert live.residual.any()


def test_previous_format_is_read_and_later_one_refused(tmp_path):
    path = tmp_path / "residual.npz"
    for form, reported in ((2, ""), (4, r"format.*\b4\b.*\b2\b.*\b3\b")):
        trained().save(path)
        with np.load(path) as data:
            parts = {key: data[key] for key in data.files if key not in ("digest", "distances")}
        about = json.dumps({**json.loads(str(parts.pop("about"))), "format": form}, sort_keys=True)
        np.savez(path, about=about, digest=digest_of(about, parts), **parts)
        if reported:
            with pytest.raises(ConfigurationError, match=reported):
                load_residual(path)
        else:
            rows = np.random.default_rng(0).uniform(size=(20, 6))
            assert np.array_equal(load_residual(path).run(rows), trained().run(rows))


def test_mismatched_weights_and_inputs_are_refused():
    with pytest.raises(ConfigurationError, match=r"\b1 springs: .*\b6\b.*\b8\b"):
        trained(distances=np.array([0.1]))
    with pytest.raises(ConfigurationError, match="distances: got"):
        trained(distances=np.array([-0.1]))
    with pytest.raises(ConfigurationError, match=r"\(6, 5\).*direct"):
        trained(arrays={**arrays(REAL_TIME, 2), "direct.weight": np.zeros((6, 5))})
    with pytest.raises(ConfigurationError, match=r"\b6\b.*\b8\b"):
        trained(speeds=np.array([0.1]))


def test_networks_of_several_arms_ran_in_same_cycle():
    early, late = (LiveResidual(trained(), 1e-3, "robot", JOINTS, phase) for phase in (0, 3))
    changed = {0: [], 3: []}
    for cycle in range(1200):
        for phase, live in ((0, early), (3, late)):
            before = live.confidence
            live.step(*middle())
            if live.confidence != before:
                changed[phase].append(cycle % 10)
    assert set(changed[0]) == {0}
    assert set(changed[3]) == {3}
    assert np.array_equal(early.residual, late.residual)


def test_residual_is_bounded_and_fades_out_of_range():
    live = LiveResidual(trained(), 0.01, "robot", JOINTS)
    rng = np.random.default_rng(1)
    for _ in range(300):
        state = SCALE.state_of(rng.uniform(-0.5, 1.5, 6))
        assert (np.abs(live.step(*np.split(state, 3))) <= 0.01 * SCALE.span * 1.000001).all()
    for off, known in ((0.0, 1.0), (0.5 * FADE_DISTANCE, 0.5), (FADE_DISTANCE, 0.0), (10.0, 0.0)):
        state = np.full(6, 0.5)
        state[3] = 0.7 + off
        residual = live.step(*np.split(SCALE.state_of(state), 3))
        assert live.confidence == pytest.approx(known, abs=1e-9)
        assert known or not residual.any()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_non_finite_state_gives_no_residual_and_resets(value):
    live = LiveResidual(trained(), 0.01, "robot", JOINTS)
    for _ in range(200):
        live.step(*middle())
    assert live.residual.any()
    q, dq, tau = middle()
    dq[1] = value
    assert not live.step(q, dq, tau).any()
    assert live.confidence == 0.0
    assert not live.step(*middle()).any()  # the warm-up restarts
    for _ in range(200):
        live.step(*middle())
    assert np.isfinite(live.residual).all()
    assert live.residual.any()


@pytest.mark.parametrize("seed", range(3))
def test_huge_finite_state_left_nan_in_network_forever(seed):
    strong = {name: 20.0 * part for name, part in arrays(REAL_TIME, 2).items()}
    live = LiveResidual(trained(arrays=strong), 0.01, "robot", JOINTS)
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], 6)
    with np.errstate(over="ignore", invalid="ignore"):
        assert not live.step(*np.split(1.5e308 * signs, 3)).any()
    assert live.confidence == 0.0
    for _ in range(200):
        assert np.isfinite(live.step(*middle())).all()
    assert live.residual.any()


@pytest.mark.parametrize("rate", [0.0, -100.0, np.nan, np.inf])
def test_invalid_rate_ended_with_division_by_zero(rate):
    with pytest.raises(ConfigurationError, match=rf"^residual: .*{rate:g} "):
        trained(rate=rate)


def test_reversed_bounds_and_ranges_were_accepted():
    with pytest.raises(ConfigurationError, match=r"\bbound: .*-0\.01\b.* 0\b"):
        trained(bound=np.full(6, -0.01))
    with pytest.raises(ConfigurationError, match="range"):
        trained(low=np.full(6, 0.9))


@pytest.mark.parametrize("name", ["kind", "robot", "joints", "rate", "low", "bound", "scale_low"])
def test_intact_file_without_one_part_ended_with_key_error(tmp_path, name):
    path = tmp_path / "residual.npz"
    trained().save(path)
    with np.load(path) as data:
        parts = {key: data[key] for key in data.files if key not in (name, "digest")}
    about = json.loads(str(parts.pop("about")))
    about.pop(name, None)
    text = json.dumps(about, sort_keys=True)
    np.savez(path, about=text, digest=digest_of(text, parts), **parts)
    with pytest.raises(ConfigurationError, match=rf"residual\.npz: .*'{name}'"):
        load_residual(path)
