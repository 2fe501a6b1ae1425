# SPDX-License-Identifier: Apache-2.0
"""Requests to the life cycle that come while another is under way, or after one that failed."""

from __future__ import annotations

import pytest
from cell_names import ARMS
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState, GetState
from processes import let_pass, wait_until

from multipanda_py.ros.node.guard import GuardedNode
from multipanda_py.ros.node.life_cycle import LifeCycle
from multipanda_py.ros.node.running import make_executor
from multipanda_py.testing import simple_cell

LAWS = {f"{arm}/cartesian_impedance_controller" for arm in ARMS}


class Requested:
    """A request that is gone on with by hand."""

    def __init__(self, life, label):
        request = ChangeState.Request(transition=Transition(label=label))
        self.response = ChangeState.Response()
        self._work = life.change(request, self.response)

    def look(self):
        """Go on with it; return whether it is answered."""
        return next(self._work, self) is self

    def run(self, cell):
        """Let the loop run until it is answered; return what it says."""
        for _ in range(1000):
            if self.look():
                return self.response.success
            cell.step()
        raise TimeoutError


@pytest.fixture
def cell():
    with simple_cell(active=sorted(LAWS)) as cell:
        cell.step(10)
        yield cell


@pytest.fixture
def life(ros, cell):
    """That of a cell whose arms follow laws."""
    node = GuardedNode("cell_by_hand")
    life = LifeCycle(node, wants_cell=True)
    assert not list(life.has(cell))
    yield life
    life.close()
    node.destroy_node()


def until_the_last_arm(requested, cell):
    """Go on with a deactivation until the loop has been asked for the last arm, and not longer."""
    assert not requested.look()
    while not cell.is_inactive(ARMS[-1]):
        cell.step()
        assert not requested.look()


def at_work(cell):
    return {law for law in cell.active if law in LAWS}


@pytest.mark.inline
def test_a_second_request_to_deactivate_made_activate_wake_no_arm(life, cell):
    one = Requested(life, "deactivate")
    until_the_last_arm(one, cell)
    other = Requested(life, "deactivate")  # as from a client that got no answer
    assert not other.look()
    assert one.run(cell)
    assert other.run(cell)
    assert not at_work(cell)
    assert Requested(life, "activate").run(cell)
    assert at_work(cell) == LAWS


@pytest.mark.inline
def test_what_half_a_deactivation_had_taken_did_not_come_back(life, cell):
    one = Requested(life, "deactivate")
    until_the_last_arm(one, cell)
    wait_until(one.look)  # the loop does not answer
    assert (one.response.success, life.state) == (False, "active")
    assert Requested(life, "deactivate").run(cell)
    assert Requested(life, "activate").run(cell)
    assert (at_work(cell), life.state) == (LAWS, "active")


@pytest.mark.inline
def test_an_arm_of_an_inactive_cell_went_on_after_its_law(life, cell):
    """The second attempt left out whoever took no laws, though the first had left it its own."""
    one = Requested(life, "deactivate")
    until_the_last_arm(one, cell)
    wait_until(one.look)  # the loop does not answer
    assert Requested(life, "deactivate").run(cell)
    assert (at_work(cell), life.state) == (set(), "inactive")


@pytest.mark.inline
def test_arms_rest_from_one_cycle_on(life, cell):
    one = Requested(life, "deactivate")
    assert not one.look()
    assert all(map(cell.is_inactive, ARMS))
    found = set()
    while not one.look():
        found.add(frozenset(at_work(cell)))
        cell.step()
    assert found <= {frozenset(LAWS), frozenset()}
    assert one.response.success


@pytest.mark.inline
def test_cleanup_was_begun_while_an_activation_was_under_way(life, cell):
    assert Requested(life, "deactivate").run(cell)
    one = Requested(life, "activate")
    assert not one.look()
    other = Requested(life, "cleanup")
    assert other.look(), "it was waited with"
    assert (other.response.success, life.wants_cell) == (False, True)
    assert one.run(cell)
    assert at_work(cell) == LAWS


@pytest.mark.inline
def test_a_shutdown_was_taken_back_by_an_activation_that_ended_after_it(life, cell):
    assert Requested(life, "deactivate").run(cell)
    one = Requested(life, "activate")
    assert not one.look()
    assert Requested(life, "shutdown").run(cell)
    assert not one.run(cell)
    assert (life.state, life.ends) == ("finalized", True)


@pytest.mark.clock
@pytest.mark.node
def test_requests_that_came_while_a_cell_was_cleaned_up_were_never_answered(life, client):
    """The executor that had learned of them ended with the cell; each later one answered an older.

    So ``get_state`` was a minute late, or did not come.
    """
    name = f"{life.node.get_namespace()}cell_by_hand/get_state"
    asks = client.node.create_client(GetState, name)
    client.until(asks.service_is_ready, what="the service")
    first, second = make_executor(), make_executor()
    try:
        first.add_node(life.node)
        futures = [asks.call_async(GetState.Request())]

        def turn():
            first.spin_once(0.01)
            return futures[0].done()

        client.until(turn, what="an answer of the first executor")
        futures += [asks.call_async(GetState.Request()) for _ in range(5)]
        let_pass(0.2)  # they come, and nobody looks
        first.remove_node(life.node)
        first.shutdown()
        second.add_node(life.node)
        life.node.serve_waiting()
        client.until(lambda: all(future.done() for future in futures), 3.0, "all answers")
    finally:
        second.remove_node(life.node)
        second.shutdown()
        client.node.destroy_client(asks)
