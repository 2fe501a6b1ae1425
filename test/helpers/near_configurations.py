# SPDX-License-Identifier: Apache-2.0
"""Joint configurations near obstacles, and controllets with features to linearise there."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np
from configurations import READY

from multipanda_py import registry
from multipanda_py.control.delay_margin import Probe
from multipanda_py.parameters import ParameterSet
from multipanda_py.testing import PERIOD, StateMaker


def make_feature(name, context, **values):
    """Return a feature with default parameters, except the given values."""
    found = registry.find("features", name)
    parameters = ParameterSet(found.Params)
    default = {spec.name: spec.default for spec in parameters.specs}
    return found(context, parameters.decode(parameters.encode(default | values)))


class Approach:
    """Search for joint configurations of arms at a distance from the nearest obstacle."""

    def __init__(self, n_arms):
        self.maker = StateMaker(n_arms)
        context = self.maker.context
        self._avoidance = make_feature("collision_avoidance", context, fixed_objects="all")
        self._tau = [np.zeros(7) for _ in range(n_arms)]
        self._far = np.tile(READY, n_arms)

    def nearest(self, q):
        """Return the minimum distance of all avoidance pairs at joint positions, (7 n,), or 1."""
        self._avoidance.add(self.maker.states_at(list(q.reshape(-1, 7))), None, self._tau, PERIOD)
        return min((pair.distance for pair in self._avoidance.pairs), default=1.0)

    def configuration(self, rng, distance):
        """Return joint positions (7 n,) with a minimum distance [m], by bisection from READY."""
        while True:
            q = np.concatenate([s.q.copy() for s in self.maker.random(rng, margin=0.3)])
            if self.nearest(q) >= distance:
                continue
            low, high = 0.0, 1.0
            for _ in range(10):
                middle = 0.5 * (low + high)
                near = self.nearest(self._far + middle * (q - self._far)) < distance
                low, high = (low, middle) if near else (middle, high)
            return self._far + low * (q - self._far)


@functools.cache
def near_configurations(n_arms, count, seed):
    """Return configurations with near pairs; every second also has two joints near limits."""
    approach, rng, found = Approach(n_arms), np.random.default_rng(seed), []
    limits = approach.maker.states[0].limits
    for index in range(count):
        q = approach.configuration(rng, rng.uniform(0.001, 0.028))
        row = q.reshape(-1, 7)[rng.integers(n_arms)]
        for joint in rng.choice(7, 2 * (index % 2), replace=False):
            inside = rng.uniform(0.01, 0.09)
            row[joint] = (limits.lower[joint] + inside, limits.upper[joint] - inside)[
                rng.integers(2)
            ]
        found.append(q)
    return found


def arrived(law_class, maker, values, features):
    """Return a probe of a controllet that was activated at READY and then moved near obstacles.

    The activation at READY makes features act on all pairs that are near afterwards.

    Args:
        law_class: Class of the controllet.
        maker: Maker of the states.
        values: Parameters of the controllet.
        features: Non-default parameters of its features by name.
    """
    n, parameters = len(maker.states), ParameterSet(law_class.Params)
    context = replace(maker.context, leader_arms=law_class.leader_arms)
    law = law_class(context, parameters.decode(parameters.encode(values)))
    target = law_class.Target(n)
    parts = [make_feature(name, context, **own) for name, own in features.items()]
    parts.sort(key=lambda part: part.runs_last)

    def activate():
        here = [state.q.copy() for state in maker.states]
        states = maker.states_at([READY] * n)
        for part in (law, *parts):
            part.on_activate(states, target)
        for part in parts:
            part.add(states, target, [np.zeros(7) for _ in range(n)], PERIOD)
        law.on_activate(maker.states_at(here), target)

    def update():
        for part in parts:
            part.prepare(maker.states, target, PERIOD)
        law.update(maker.states, target, PERIOD)
        for part in parts:
            part.add(maker.states, target, law.tau, PERIOD)

    return Probe(maker.states, maker.models, law.tau, activate, update)
