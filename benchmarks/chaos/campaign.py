# SPDX-License-Identifier: Apache-2.0
"""What a campaign does, in which order, for how many inputs and faults."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial

import busy
import deafness
import floods
import injections
import kills
import stops
from client import Client
from large_inputs import LargeInputs
from ledger import Ledger
from request_inputs import Requests
from stage import NODE, Stage
from target_inputs import Targets
from yaml_inputs import CellFiles

ARMS = ("left", "right")
Part = Callable[[], None]
BLOCK = {"faults": 25, "inputs": 1000, "deaf nodes": 2, "busy machine": 2, "large inputs": 2}
"""How many are thrown in one part, which has a seed and a node of its own."""
SHORT = 3.0
"""Below this length of a flood there is only the worst of them [s]."""


class Campaign:
    """Throw inputs and faults at nodes of our own until there are enough, or time is up.

    Args:
        ledger: For what was thrown and what broke.
        seed: Of everything that is random here; what the machine does is not.
        minutes: After which nothing new is begun.
    """

    def __init__(self, ledger: Ledger, seed: int, minutes: float) -> None:
        self.ledger, self.seed, self.number, self.dice = ledger, seed, seed, random.Random(seed)
        self._deadline = time.monotonic() + 60.0 * minutes
        self.stage = Stage(ledger)
        self.client = Client(ledger)

    def close(self) -> None:
        """End everything."""
        self.client.close()
        self.stage.close()

    def parts(self, faults: int, inputs: int, flood: float) -> Iterator[tuple[str, Part]]:
        """Yield what there is to do, by names that are the same for the same numbers and seed.

        Args:
            faults: How many: half to real arms, the rest to processes of a simulated cell.
            inputs: How many.
            flood: Length of the floods that come with the first inputs, 0 for none [s].
        """
        robots, stops, few = faults // 2, faults // 4, faults // 50
        for what, work, count, size in (
            ("faults of robots", self.on_robots, robots, BLOCK["faults"]),
            ("stops", self.stops, stops, BLOCK["faults"]),
            ("deaf nodes", self.deaf_nodes, few, BLOCK["deaf nodes"]),
            ("busy machine", self.busy_machine, few, BLOCK["busy machine"]),
            ("large inputs", self.large_inputs, few, BLOCK["large inputs"]),
            ("inputs", self.inputs, inputs, BLOCK["inputs"]),
            ("kills", self.kills, faults - robots - stops, BLOCK["faults"]),
        ):
            for number in range(-(-count // size)):
                now = min(size, count - number * size)
                if what == "inputs":
                    work = partial(self.inputs, flood=0.0 if number else flood)
                name = f"seed {self.seed}, {what} {number}: {now}"
                yield name, partial(self._part, name, work, now)

    def _part(self, name: str, work: Callable[[int], None], count: int) -> None:
        self.dice = random.Random(name)
        self.number = self.dice.randrange(10**6)
        work(count)

    def inputs(self, count: int, flood: float = 5.0) -> None:
        """Throw inputs at a simulated cell, most of them targets and cell files."""
        files = CellFiles(self.stage, self.number)
        files.check(round(0.4 * count))
        files.start(round(0.004 * count))
        self.on_a_cell(lambda: self._on_a_cell(round(0.3 * count), flood))

    def _on_a_cell(self, count: int, flood: float) -> None:
        self._on_topics(count, flood)
        self._on_services(count)

    def _on_topics(self, count: int, flood: float) -> None:
        targets = Targets(self.stage, self.client, self.node, self.number)
        targets.refused(count // 2)
        targets.malformed(count // 2)
        if flood:
            kinds = ((5e4, True), (0.0, False), (1e3, True), (5e4, False))
            for rate, bad in kinds[: 1 if flood < SHORT else None]:
                floods.flood(self.stage, self.client, self.node, rate, bad, flood)

    def _on_services(self, count: int) -> None:
        requests = Requests(self.stage, self.client, self.node, self.number)
        requests.switches(round(0.25 * count))
        requests.lifecycle(round(0.15 * count))
        requests.parameters(round(0.3 * count), max(2, count // 20))
        requests.goals(round(0.2 * count))
        requests.triggers(round(0.1 * count))

    def stops(self, count: int) -> None:
        """Stop processes of a simulated cell for a while."""
        self.on_a_cell(lambda: self._stops(count))

    def kills(self, count: int) -> None:
        """End processes of simulated cells."""
        for number in range(count):
            if self.late:
                break
            one = kills.during_start if number % 3 == 0 else kills.while_running
            one(self.stage, self.dice)

    def _stops(self, count: int) -> None:
        for _ in range(count):
            if not self.late:
                stops.stop_and_go(self.stage, self.client, self.node, self.dice)

    def deaf_nodes(self, count: int) -> None:
        """Deafen nodes of simulated cells, each of them once."""
        for _ in range(count):
            if not self.late:
                self.on_a_cell(
                    lambda: deafness.deafen_and_wait(self.stage, self.client, self.node),
                    "deafened_node",
                )

    def busy_machine(self, count: int) -> None:
        """Start nodes on a busy machine."""
        for _ in range(count):
            if not self.late:
                busy.start_and_serve(self.stage, self.client)

    def large_inputs(self, count: int) -> None:
        """Throw inputs at a simulated cell that are too large."""
        self.on_a_cell(
            lambda: LargeInputs(self.stage, self.client, self.node, self.number).throw(count)
        )

    def on_robots(self, count: int) -> None:
        """Let faults happen to two simulated robots, every kind about as often."""
        self.client.forget()
        robots = injections.Robots(self.stage, self.client)
        names = [*injections.FAULTS, *injections.SIGNALS]
        for number in range(count):
            if self.late or not robots.node.runs:
                break
            if number % len(names) == 0:
                self.dice.shuffle(names)
            robots.strike(names[number % len(names)], self.dice)
        if robots.node.runs:
            self.booked("end of a cell with simulated robots")
        robots.end()

    def on_a_cell(self, work: Callable[[], None], module: str = NODE) -> None:
        """Start a node, do something with it, and expect that it ends well."""
        kind = "end of a cell after all this"
        self.node = self.stage.node(module=module)
        if not self.ledger.expect(self.node.logs("is active"), kind, self.node.log[-2000:]):
            return
        loop = self.stage.processes(kills.LOOP)
        topics = {arm: f"/{arm}/joint_states" for arm in ARMS}
        sources = dict.fromkeys(ARMS, loop)
        self.stage.outsider.ask("arms", topics=topics, sources=sources)
        self.client.forget()
        try:
            work()
            if self.node.runs:
                self.booked(kind)
        finally:
            self.stage.outsider.ask("forget")
            self.node.send(signal.SIGTERM)
            code = self.node.ended()
            self.ledger.expect(code == 0, kind, f"exit code {code}: {self.node.log[-1000:]}")
            self.stage.nothing_left(kind)
            self.stage.judge(kind, self.node)

    def booked(self, kind: str) -> None:
        """Expect that the node has counted every no, by service, and nothing else."""
        reported = self.stage.outsider.status(self.stage.name)["requests answered by no"]
        requested = self.client.refused
        expected = ", ".join(
            f"{name} {requested[name]}" for name in sorted(requested) if requested[name]
        )
        self.ledger.expect(reported == expected, kind, f"refused: {expected}; counted: {reported}")

    @property
    def late(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() > self._deadline
