# SPDX-License-Identifier: Apache-2.0
"""Arms that have come near something by themselves, and a law with features to be linearised."""

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
    """Return a feature; what is not given is the default."""
    found = registry.find("features", name)
    parameters = ParameterSet(found.Params)
    default = {spec.name: spec.default for spec in parameters.specs}
    return found(context, parameters.decode(parameters.encode(default | values)))


class Approach:
    """Find postures of arms at a distance from what is nearest, on a way from a free one."""

    def __init__(self, n_arms):
        self.maker = StateMaker(n_arms)
        context = self.maker.context
        self._avoidance = make_feature("collision_avoidance", context, fixed_objects="all")
        self._tau = [np.zeros(7) for _ in range(n_arms)]
        self._far = np.tile(READY, n_arms)

    def nearest(self, q):
        """Return the least distance that avoidance sees at joint positions, (7 n,); 1 if none."""
        self._avoidance.add(self.maker.states_at(list(q.reshape(-1, 7))), None, self._tau, PERIOD)
        return min((pair.distance for pair in self._avoidance.pairs), default=1.0)

    def posture(self, rng, distance):
        """Return joint positions (7 n,) with the nearest pair at a distance [m]."""
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
    """Return postures with pairs that are near, every second with two joints at barriers too."""
    approach, rng, found = Approach(n_arms), np.random.default_rng(seed), []
    limits = approach.maker.states[0].limits
    for index in range(count):
        q = approach.posture(rng, rng.uniform(0.001, 0.028))
        row = q.reshape(-1, 7)[rng.integers(n_arms)]
        for joint in rng.choice(7, 2 * (index % 2), replace=False):
            into = rng.uniform(0.01, 0.09)
            row[joint] = (limits.lower[joint] + into, limits.upper[joint] - into)[rng.integers(2)]
        found.append(q)
    return found


def arrived(law_class, maker, values, features):
    """Return a law at work where its arms have come: features let nothing be that is near.

    Args:
        law_class: The law.
        maker: Of the states.
        values: The law's parameters.
        features: Parameters of its features by name, as far as they are not the default.
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
