# SPDX-License-Identifier: Apache-2.0
"""Parts of a campaign, their order, and the number of faults and inputs in each."""

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
"""Maximum number of faults or inputs in a part. Each part has its own seed and node."""
SHORT = 3.0
"""Minimum length of a flood for which all four kinds are run, not only the first [s]."""


class Campaign:
    """Injection of faults and inputs into nodes that the campaign starts.

    Args:
        ledger: Ledger of injections and failures.
        seed: Seed of all random choices. Timing depends on the machine and is not reproducible.
        minutes: Time after which no further part starts [min].
    """

    def __init__(self, ledger: Ledger, seed: int, minutes: float) -> None:
        self.ledger, self.seed, self.number, self.rng = ledger, seed, seed, random.Random(seed)
        self._deadline = time.monotonic() + 60.0 * minutes
        self.stage = Stage(ledger)
        self.client = Client(ledger)

    def close(self) -> None:
        """End all processes of the campaign."""
        self.client.close()
        self.stage.close()

    def parts(self, faults: int, inputs: int, flood: float) -> Iterator[tuple[str, Part]]:
        """Yield name and function of each part. Equal arguments and seeds give equal names.

        Args:
            faults: Number of faults: half on real arms, half on processes of simulated cells.
            inputs: Number of inputs.
            flood: Length of the floods in the first part with inputs, 0 for none [s].
        """
        robots, stops, few = faults // 2, faults // 4, faults // 50
        for kind, work, count, size in (
            ("faults of robots", self.on_robots, robots, BLOCK["faults"]),
            ("stops", self.stops, stops, BLOCK["faults"]),
            ("deaf nodes", self.deaf_nodes, few, BLOCK["deaf nodes"]),
            ("busy machine", self.busy_machine, few, BLOCK["busy machine"]),
            ("large inputs", self.large_inputs, few, BLOCK["large inputs"]),
            ("inputs", self.inputs, inputs, BLOCK["inputs"]),
            ("kills", self.kills, faults - robots - stops, BLOCK["faults"]),
        ):
            for number in range(-(-count // size)):
                part_size = min(size, count - number * size)
                if kind == "inputs":
                    work = partial(self.inputs, flood=0.0 if number else flood)
                name = f"seed {self.seed}, {kind} {number}: {part_size}"
                yield name, partial(self._part, name, work, part_size)

    def _part(self, name: str, work: Callable[[int], None], count: int) -> None:
        self.rng = random.Random(name)
        self.number = self.rng.randrange(10**6)
        work(count)

    def inputs(self, count: int, flood: float = 5.0) -> None:
        """Send inputs to a simulated cell, mostly targets and cell files."""
        files = CellFiles(self.stage, self.number)
        files.check(round(0.4 * count))
        files.start(round(0.004 * count))
        self.on_a_cell(lambda: self._on_a_cell(round(0.3 * count), flood))

    def _on_a_cell(self, count: int, flood: float) -> None:
        self._on_topics(count, flood)
        self._on_services(count)

    def _on_topics(self, count: int, flood: float) -> None:
        targets = Targets(self.stage, self.client, self.node, self.number)
        targets.invalid(count // 2)
        targets.malformed(count // 2)
        if flood:
            kinds = ((5e4, True), (0.0, False), (1e3, True), (5e4, False))
            for rate, invalid in kinds[: 1 if flood < SHORT else None]:
                floods.flood(self.stage, self.client, self.node, rate, invalid, flood)

    def _on_services(self, count: int) -> None:
        requests = Requests(self.stage, self.client, self.node, self.number)
        requests.switches(round(0.25 * count))
        requests.lifecycle(round(0.15 * count))
        requests.parameters(round(0.3 * count), max(2, count // 20))
        requests.goals(round(0.2 * count))
        requests.triggers(round(0.1 * count))

    def stops(self, count: int) -> None:
        """Pause processes of a simulated cell with SIGSTOP and SIGCONT."""
        self.on_a_cell(lambda: self._stops(count))

    def kills(self, count: int) -> None:
        """End processes of simulated cells."""
        for number in range(count):
            if self.out_of_time:
                break
            kill = kills.during_start if number % 3 == 0 else kills.while_running
            kill(self.stage, self.rng)

    def _stops(self, count: int) -> None:
        for _ in range(count):
            if not self.out_of_time:
                stops.stop_and_go(self.stage, self.client, self.node, self.rng)

    def deaf_nodes(self, count: int) -> None:
        """Block the receiving threads of nodes, each node once."""
        for _ in range(count):
            if not self.out_of_time:
                self.on_a_cell(
                    lambda: deafness.deafen_and_wait(self.stage, self.client, self.node),
                    "deafened_node",
                )

    def busy_machine(self, count: int) -> None:
        """Start nodes on a busy machine."""
        for _ in range(count):
            if not self.out_of_time:
                busy.start_and_serve(self.stage, self.client)

    def large_inputs(self, count: int) -> None:
        """Send large inputs to a simulated cell."""
        self.on_a_cell(
            lambda: LargeInputs(self.stage, self.client, self.node, self.number).send(count)
        )

    def on_robots(self, count: int) -> None:
        """Inject faults into two simulated robots, each kind about equally often."""
        self.client.forget()
        robots = injections.Robots(self.stage, self.client)
        names = [*injections.FAULTS, *injections.SIGNALS]
        for number in range(count):
            if self.out_of_time or not robots.node.runs:
                break
            if number % len(names) == 0:
                self.rng.shuffle(names)
            robots.run_fault(names[number % len(names)], self.rng)
        if robots.node.runs:
            self.expect_counted("end of a cell with simulated robots")
        robots.end()

    def on_a_cell(self, work: Callable[[], None], module: str = NODE) -> None:
        """Start a node, run a test on it, and check that it ends without failures."""
        kind = "end of a simulated cell"
        self.node = self.stage.node(module=module)
        if not self.ledger.expect(self.node.logs("is active"), kind, self.node.log[-2000:]):
            return
        loop = self.stage.processes(kills.LOOP)
        topics = {arm: f"/{arm}/joint_states" for arm in ARMS}
        sources = dict.fromkeys(ARMS, loop)
        self.stage.watcher.request("arms", topics=topics, sources=sources)
        self.client.forget()
        try:
            work()
            if self.node.runs:
                self.expect_counted(kind)
        finally:
            self.stage.watcher.request("forget")
            self.node.send(signal.SIGTERM)
            code = self.node.ended()
            self.ledger.expect(code == 0, kind, f"exit code {code}: {self.node.log[-1000:]}")
            self.stage.nothing_left(kind)
            self.stage.judge(kind, self.node)

    def expect_counted(self, kind: str) -> None:
        """Check that the node counted each rejected request, by service, and no others."""
        reported = self.stage.watcher.status(self.stage.name)["requests answered by no"]
        counts = self.client.refused
        expected = ", ".join(f"{name} {counts[name]}" for name in sorted(counts) if counts[name])
        self.ledger.expect(
            reported == expected, kind, f"rejected: {expected}; counted: {reported}"
        )

    @property
    def out_of_time(self) -> bool:
        """True after the time limit of the campaign."""
        return time.monotonic() > self._deadline
