# SPDX-License-Identifier: Apache-2.0
"""Nodes with the names of this cell are queried, and count as dead once undiscovered."""

from __future__ import annotations

import threading

import pytest
import rclpy
from processes import wait_until
from rclpy.context import Context

from multipanda_py.exceptions import CellBusy
from multipanda_py.ros.node.graph_watch import check_name_conflicts, manager_counts

pytestmark = pytest.mark.node

SPACE = "/asked"


@pytest.fixture
def mute():
    """A controller manager of another participant that does not respond."""
    context = Context()
    rclpy.init(context=context)
    node = rclpy.create_node("controller_manager", namespace=SPACE, context=context)
    yield node
    rclpy.try_shutdown(context=context)


@pytest.fixture
def begins(ros):
    """The node of a cell before its start."""
    node = rclpy.create_node("begins", namespace=SPACE)
    yield node
    node.destroy_node()


def is_listed(node):
    return bool(manager_counts(node, ["left"]))


def test_unresponsive_live_node_was_treated_as_dead(mute, begins, monkeypatch):
    monkeypatch.setattr("multipanda_py.ros.node.graph_watch.MAX_LISTING_TIME", 1.0)
    wait_until(lambda: is_listed(begins), 10.0)
    with pytest.raises(CellBusy, match=f"{SPACE}/controller_manager: "):
        check_name_conflicts(begins, ["left"])


def test_node_removed_during_query_is_no_conflict(mute, begins):
    wait_until(lambda: is_listed(begins), 10.0)
    dies = threading.Timer(0.5, mute.destroy_node)
    dies.start()
    check_name_conflicts(begins, ["left"])
    dies.join()
    assert not is_listed(begins)


def test_no_conflict_without_other_nodes(begins):
    check_name_conflicts(begins, ["left"])
