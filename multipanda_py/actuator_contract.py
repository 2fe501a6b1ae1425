# SPDX-License-Identifier: Apache-2.0
"""The contract that every actuator keeps, to be checked on one of your own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from multipanda_py import registry
from multipanda_py.actuator import Actuator, ElasticTorque
from multipanda_py.exceptions import ContractBroken
from multipanda_py.parameters import specs_of
from multipanda_py.state import Matrix, Vector

JOINTS, ROWS = 4, 50
_STEP = 1e-6
"""Of finite differences, as a share of the range [rad, or what the preset is in]."""
_CLOSE = 1e-4
"""How near slopes are to differences, relative to the largest."""


def check_actuator(
    kind: str | type[Actuator[Any]], params: Mapping[str, ArrayLike] | None = None, seed: int = 0
) -> None:
    r"""Check an actuator at random deflections and presets.

    Arrays have the shapes they should, and depend on values alone: nothing is written to, nothing
    remembered, no joint feels another. Torques are slopes of one energy, so that a round trip of
    joint and motors takes no work: :math:`\partial\tau_i/\partial q = -\partial\tau_{link}/
    \partial\theta_i`; the link's stiffness is that slope. A motor that goes on does not pull less,
    up to the largest deflection, where the torque ends. Equilibrium and preset come back from the
    motors' positions, and what is no number comes out as none.

    Args:
        kind: Name as in a cell file, or the class.
        params: Parameters, if not the defaults.
        seed: Of the random places.

    Raises:
        ContractBroken: With the part of the contract that is broken.
    """
    found = registry.find("actuators", kind) if isinstance(kind, str) else kind
    for spec in specs_of(found.Params):
        require_kept(bool(spec.doc), f"parameter {spec.name} has no doc")
        has = spec.name in found.identified
        require_kept(not has or spec.kind == "number", f"identified: {spec.name} is no number")
    names = {spec.name for spec in specs_of(found.Params)}
    require_kept(
        set(found.identified) <= names, f"identified: got {found.identified}, known {names}"
    )
    presets = "preset_high" in names
    require_kept(
        presets == bool(found.preset_unit), "preset_unit: a unit if there are presets, else ''"
    )
    springs, rng = found(JOINTS, params), np.random.default_rng(seed)
    places = _places(springs, rng)
    _check_arrays(springs, places)
    _check_slopes(springs, places)
    _check_presets(springs, rng)


def _places(springs: Actuator[Any], rng: np.random.Generator) -> Matrix:
    """Return angles of joints and motors whose springs are within their limits, (3, rows, n)."""
    shape = (ROWS, springs.n_joints)
    q = rng.uniform(-2.0, 2.0, shape)
    reach = 0.99 * springs.of["max_deflection"]
    first = q + reach * rng.uniform(-1.0, 1.0, shape)
    if springs.is_antagonistic:
        return np.array([q, first, q + reach * rng.uniform(-1.0, 1.0, shape)])
    share = rng.uniform(0.02, 0.98, shape)
    return np.array([q, first, springs.preset_low * share + springs.preset_high * (1.0 - share)])


def _check_arrays(springs: Actuator[Any], places: Matrix) -> None:
    """Check shapes, and that results are of values alone."""
    for at in (places, places[:, 0]):
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
        require_kept(same, "results of one call are changed by the next one")
        again = (*springs.elastic_torque(*at.copy()), springs.link_stiffness(*at.copy()))
        same = all(np.array_equal(a, b) for a, b in zip(before, again))
        require_kept(same, "equal values give other results: something is remembered")
    for other in range(springs.n_joints):
        at = places.copy()
        at[..., other] = np.nan
        for result in springs.elastic_torque(*at)[:2]:
            bad = np.isnan(result)
            require_kept(bool(bad[:, other].all()), "what is no number comes out as one")
            require_kept(int(bad.sum()) == len(bad), "a joint feels the deflection of another")


def _check_slopes(springs: Actuator[Any], places: Matrix) -> None:
    """Check stiffness and work against finite differences."""
    reach = springs.of["max_deflection"]
    ranges = [reach, reach, reach]
    if not springs.is_antagonistic:
        ranges[2] = np.maximum(springs.preset_high - springs.preset_low, 0.0)
    slopes = np.zeros((3, 3, *places.shape[1:]))
    for i, width in enumerate(ranges):
        step = np.zeros_like(places)
        step[i] = _STEP * width
        if not step[i].any():
            continue
        up, down = (springs.elastic_torque(*(places + sign * step)) for sign in (1.0, -1.0))
        for j, (a, b) in enumerate(zip(up, down)):
            slopes[i, j] = (a - b) / (2.0 * step[i]) * (-1.0 if j == 0 else 1.0)
    stiffness = springs.link_stiffness(*places)
    scale = np.abs(slopes[0, 0]).max()
    _close("link_stiffness is not the slope of the torque", stiffness, slopes[0, 0], scale)
    for i, j, what in ((0, 1, "motor_1"), (0, 2, "motor_2"), (1, 2, "both motors")):
        scale = max(np.abs(slopes[i, j]).max(), np.abs(slopes[j, i]).max())
        _close(
            f"torques of link and {what} are of no one energy", slopes[i, j], slopes[j, i], scale
        )


def _check_presets(springs: Actuator[Any], rng: np.random.Generator) -> None:
    """Check references, that they pull where they should, and where the torque ends."""
    low, high, reach = springs.preset_low, springs.preset_high, springs.of["max_deflection"]
    for _ in range(ROWS):
        preset = low + (high - low) * rng.uniform(0.02, 1.0, springs.n_joints)
        equilibrium = rng.uniform(-2.0, 2.0, springs.n_joints)
        theta = springs.references(equilibrium, preset)
        _close("equilibrium_of is no inverse", springs.equilibrium_of(*theta), equilibrium, 1.0)
        _close("preset_of is no inverse", springs.preset_of(*theta), preset, 1.0)
    preset = low + 0.5 * (high - low)
    ends = reach + np.abs(preset) * springs.is_antagonistic
    q = np.zeros(springs.n_joints)
    torques = np.array([
        springs.elastic_torque(q, *springs.references(share * ends, preset)).link
        for share in np.linspace(-1.0, 1.0, 41)
    ])  # fmt: skip
    falls = np.diff(torques, axis=0).min() < -1e-12 * np.abs(torques).max()
    require_kept(not falls, "the torque falls while the equilibrium goes on")
    require_kept(bool((torques[-1] > torques[0]).all()), "the springs exert nothing")
    beyond = springs.elastic_torque(q, *springs.references(10.0 * ends, preset)).link
    _close("the torque grows beyond max_deflection", beyond, torques[-1], np.abs(beyond).max())
    wanted = 0.5 * (0.7 * torques[-1] + 0.3 * torques[0])
    held = springs.references(springs.equilibrium_for(q, wanted, preset), preset)
    _close("equilibrium_for does not hold", springs.elastic_torque(q, *held).link, wanted, 1.0)


def _close(what: str, got: Vector, wanted: Vector, scale: float) -> None:
    worst = float(np.abs(got - wanted).max(initial=0.0))
    require_kept(worst <= _CLOSE * max(scale, 1e-9), f"{what}: off by {worst:.3g} of {scale:.3g}")


def require_kept(kept: bool, what: str) -> None:
    """Raise :class:`.ContractBroken` with a broken part of a contract, unless it is kept."""
    if not kept:
        raise ContractBroken(what)
