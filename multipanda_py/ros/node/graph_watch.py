# SPDX-License-Identifier: Apache-2.0
"""What goes wrong between nodes, and would do so in silence: looked for twice a second."""

from __future__ import annotations

import time

from multipanda_py.cell import Cell
from multipanda_py.ros.node.controller_manager import DISCOVERY, managers, taken
from multipanda_py.ros.node.guard import GuardedNode, SaidOnce
from multipanda_py.ros.node.qos import Mismatch, full_name, is_known, opposite, others, sentence
from multipanda_py.ros.node.running import every
from multipanda_py.ros.topics.targets import Targets

PERIOD = 0.5
PATIENCE = 10
"""So many looks later a node whose name is not known is said to be unknown."""


class GraphWatch:
    """Say once who sends targets beside somebody else, in another type, or hears nothing.

    Of several who publish one target the newest message counts, whoever sent it: the middleware
    does not tell who that was. Messages of another type never arrive, nor do those of
    publishers and subscribers whose quality of service does not match.

    Args:
        node: Says it.
        cell: The cell.
        targets: Whose topics are looked at; learns of the publishers.

    Thread: executor.
    """

    def __init__(self, node: GuardedNode, cell: Cell, targets: Targets) -> None:
        self._node, self._targets, self._arms = node, targets, cell.arms
        self._begun = time.monotonic()
        self._seen: dict[str, frozenset[bytes]] = {}
        self._waited = dict.fromkeys(targets.topics, 0)
        self._said = SaidOnce()
        self._unsaid: list[tuple[Mismatch, int]] = []
        self._unheard: dict[str, tuple[Mismatch, bool]] = {}
        every(node, PERIOD, self.check)

    def check(self) -> None:
        """Check quality of service, publishers and names once."""
        self._look_at_mismatches()
        for topic in self._targets.topics:
            self._look_at_publishers(topic)
        self._look_at_names()

    def _look_at_mismatches(self) -> None:
        """Say who does not hear whom, and forget it when they are gone."""
        guard = self._node.guard
        for topic, (mismatch, is_named) in list(self._unheard.items()):
            if others(mismatch) if is_named else opposite(mismatch):
                guard.unheard[topic] = sentence(mismatch)
            else:
                del self._unheard[topic], guard.unheard[topic]
        self._unsaid += [(mismatch, 0) for mismatch in guard.mismatches]
        guard.mismatches.clear()
        waiting, self._unsaid = self._unsaid, []
        for mismatch, looks in waiting:  # names come later than the middleware's word
            is_named = bool(others(mismatch))
            if looks < PATIENCE and not is_named:
                self._unsaid.append((mismatch, looks + 1))
                continue
            self._unheard[mismatch.topic] = mismatch, is_named
            guard.unheard[mismatch.topic] = sentence(mismatch)
            self._warn(guard.unheard[mismatch.topic])

    def _look_at_publishers(self, topic: str) -> None:
        """Look who publishes a target, if they are not who they were at the last look."""
        if not self._node.count_publishers(topic) and not self._seen.get(topic):
            return
        endpoints = self._node.get_publishers_info_by_topic(topic)
        seen = frozenset(bytes(one.endpoint_gid) for one in endpoints)
        if seen == self._seen.get(topic):
            return
        self._waited[topic] += 1
        if self._waited[topic] < PATIENCE and not all(map(is_known, endpoints)):
            return
        self._waited[topic], self._seen[topic] = 0, seen
        who, name, kind = self._targets.topics[topic]
        senders = sorted(full_name(one) for one in endpoints if one.topic_type == kind)
        self._targets.senders[who, name] = senders
        if len(senders) > 1:
            self._warn(
                f"{topic} is published by {', '.join(senders)}: of them the newest message "
                "counts, whoever sent it, and two streams pull to and fro"
            )
        for other in endpoints:
            if other.topic_type != kind:
                self._warn(
                    f"{topic}: {full_name(other)} publishes {other.topic_type}, taken is {kind}: "
                    "nothing of it arrives"
                )

    def _look_at_names(self) -> None:
        """Say that a second controller manager has come; if it was there before, end.

        Who begins asks for the names first, but may not have found everybody by then.
        """
        now = managers(self._node, self._arms)
        more = sorted(name for name, count in now.items() if count > 1)
        guard = self._node.guard
        guard.taken_twice = ", ".join(more)
        if more and time.monotonic() - self._begun < DISCOVERY:
            guard.failure = guard.failure or taken(self._node, more)
        elif more:
            self._warn(
                f"{', '.join(more)}: there is another node by this name; whoever asks for it "
                "reaches two robots. Give one of them a namespace or a domain of its own"
            )

    def _warn(self, text: str) -> None:
        if news := self._said.news(text):
            self._node.get_logger().warning(news)
