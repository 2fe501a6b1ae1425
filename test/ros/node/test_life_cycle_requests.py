# SPDX-License-Identifier: Apache-2.0
"""Life-cycle requests during another request or after a failed one."""

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
    """A request that the test advances."""

    def __init__(self, life, label):
        request = ChangeState.Request(transition=Transition(label=label))
        self.response = ChangeState.Response()
        self._work = life.change(request, self.response)

    def look(self):
        """Advance the request; return whether it is answered."""
        return next(self._work, self) is self

    def run(self, cell):
        """Step the cell until the response; return its success."""
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
    """Life cycle of a cell with active controllets."""
    node = GuardedNode("cell_by_hand")
    life = LifeCycle(node, wants_cell=True)
    assert not list(life.take_cell(cell))
    yield life
    life.close()
    node.destroy_node()


def until_the_last_arm(requested, cell):
    """Advance a deactivation up to its request for the last arm."""
    assert not requested.look()
    while not cell.is_inactive(ARMS[-1]):
        cell.step()
        assert not requested.look()


def active_controllets(cell):
    return {law for law in cell.active if law in LAWS}


@pytest.mark.inline
def test_second_deactivation_prevented_later_activation_of_arms(life, cell):
    one = Requested(life, "deactivate")
    until_the_last_arm(one, cell)
    other = Requested(life, "deactivate")  # as from a client without a response
    assert not other.look()
    assert one.run(cell)
    assert other.run(cell)
    assert not active_controllets(cell)
    assert Requested(life, "activate").run(cell)
    assert active_controllets(cell) == LAWS


@pytest.mark.inline
def test_controllets_of_partial_deactivation_were_not_restored(life, cell):
    one = Requested(life, "deactivate")
    until_the_last_arm(one, cell)
    wait_until(one.look)  # the loop does not respond
    assert (one.response.success, life.state) == (False, "active")
    assert Requested(life, "deactivate").run(cell)
    assert Requested(life, "activate").run(cell)
    assert (active_controllets(cell), life.state) == (LAWS, "active")


@pytest.mark.inline
def test_arm_of_inactive_cell_kept_its_controllet(life, cell):
    """The second attempt skipped inactive arms that still had their controllet."""
    one = Requested(life, "deactivate")
    until_the_last_arm(one, cell)
    wait_until(one.look)  # the loop does not respond
    assert Requested(life, "deactivate").run(cell)
    assert (active_controllets(cell), life.state) == (set(), "inactive")


@pytest.mark.inline
def test_all_arms_deactivate_in_one_cycle(life, cell):
    one = Requested(life, "deactivate")
    assert not one.look()
    assert all(map(cell.is_inactive, ARMS))
    found = set()
    while not one.look():
        found.add(frozenset(active_controllets(cell)))
        cell.step()
    assert found <= {frozenset(LAWS), frozenset()}
    assert one.response.success


@pytest.mark.inline
def test_cleanup_started_during_activation(life, cell):
    assert Requested(life, "deactivate").run(cell)
    one = Requested(life, "activate")
    assert not one.look()
    other = Requested(life, "cleanup")
    assert other.look(), "the cleanup was deferred"
    assert (other.response.success, life.wants_cell) == (False, True)
    assert one.run(cell)
    assert active_controllets(cell) == LAWS


@pytest.mark.inline
def test_shutdown_was_reverted_by_activation_that_ended_later(life, cell):
    assert Requested(life, "deactivate").run(cell)
    one = Requested(life, "activate")
    assert not one.look()
    assert Requested(life, "shutdown").run(cell)
    assert not one.run(cell)
    assert (life.state, life.ends) == ("finalized", True)


@pytest.mark.clock
@pytest.mark.node
def test_requests_during_cleanup_were_never_answered(life, client):
    """The old executor ended with the requests; each later request got an older response.

    Responses of ``get_state`` were a minute late or missing.
    """
    name = f"{life.node.get_namespace()}cell_by_hand/get_state"
    state_client = client.node.create_client(GetState, name)
    client.until(state_client.service_is_ready, what="the service")
    first, second = make_executor(), make_executor()
    try:
        first.add_node(life.node)
        futures = [state_client.call_async(GetState.Request())]

        def spin():
            first.spin_once(0.01)
            return futures[0].done()

        client.until(spin, what="a response of the first executor")
        futures += [state_client.call_async(GetState.Request()) for _ in range(5)]
        let_pass(0.2)  # the requests arrive without a spin
        first.remove_node(life.node)
        first.shutdown()
        second.add_node(life.node)
        life.node.serve_waiting()
        client.until(lambda: all(future.done() for future in futures), 3.0, "all responses")
    finally:
        second.remove_node(life.node)
        second.shutdown()
        client.node.destroy_client(state_client)
