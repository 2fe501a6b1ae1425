# SPDX-License-Identifier: Apache-2.0
"""A running node in a separate process and a client on loopback."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from cell_names import IMPEDANCE
from crisp import crisp, run_crisp  # noqa: F401 -- fixtures
from outside import outside  # noqa: F401 -- a fixture
from processes import TIMEOUT_SCALE, children, is_running, runs_module, wait_until
from repository import DUAL_SIM, ROOT

from multipanda_py.realtime.system.child_process import end_with_parent

if find_spec("rclpy") is None or find_spec("controller_manager_msgs") is None:
    collect_ignore_glob = ["test_*.py"]
else:
    import rclpy
    from controller_manager_msgs.srv import SwitchController
    from diagnostic_msgs.msg import DiagnosticArray
    from rclpy.context import Context
    from rclpy.executors import SingleThreadedExecutor
    from rclpy.qos import QoSProfile

_numbers = itertools.count()


class NodeProcess:
    """``multimode_controller`` as users start it, with its output in a log file."""

    def __init__(self, folder, *overrides, file=DUAL_SIM, name=None, remap=(), domain=None,
                 environment=None, program=("-m", "multipanda_py.ros.node.node")):  # fmt: skip
        number = next(_numbers)
        self.name = name or f"test_{os.getpid()}_{number}"
        self._log = folder / f"{number}.log"
        parameters = [f"cell.name:={self.name}", *overrides]
        options = [part for text in parameters for part in ("-p", text)]
        options += [part for text in remap for part in ("-r", text)]
        with self._log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, *program, "--ros-args",
                 "--params-file", str(file), *options],
                cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {}),
                     **({} if domain is None else {"ROS_DOMAIN_ID": str(domain)})},
                preexec_fn=end_with_parent,
            )  # fmt: skip

    @property
    def log(self):
        return self._log.read_text(encoding="utf-8", errors="replace")

    def wait_for(self, text, timeout=20.0):
        """Wait until the log holds ``text``."""
        wait_until(
            lambda: text in self.log,
            timeout,
            lambda: f"{text!r} in the log of {self.name}:\n{self.log}",
        )
        return self

    def wait_for_end_of(self, pid, timeout=10.0):
        """Wait until a process is gone."""
        wait_until(lambda: not is_running(pid), timeout, lambda: f"end of {pid}:\n{self.log}")

    def loop_pid(self):
        """Return the process id of the loop."""
        found = children(self.process.pid)
        return next(pid for pid in found if runs_module(pid, "multipanda_py.realtime.process"))

    def end(self, number=signal.SIGINT, timeout=15.0):
        """Send a signal to a live process and return the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(TIMEOUT_SCALE * timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise


class Client:
    """Another node on the network; every wait is for a condition, not for a duration.

    Fast DDS occasionally withholds some endpoints from a process. A client that does not discover
    a service or a subscriber restarts once with a new participant.
    """

    def __init__(self, name="test_client"):
        self._name, self._received = name, {}
        self._latest, self._statuses = {}, None
        self._begin()

    def _begin(self):
        self._context = Context()
        rclpy.init(context=self._context)
        self.node = rclpy.create_node(self._name, context=self._context)
        self.executor = SingleThreadedExecutor(context=self._context)
        self.executor.add_node(self.node)
        self._clients, self._publishers = {}, {}
        for topic, received in self._received.items():
            self.subscribe(topic, *received)

    def close(self):
        self.executor.shutdown()
        self.node.destroy_node()
        rclpy.try_shutdown(context=self._context)

    def subscribe(self, topic, kind, keep, qos):
        self._received[topic] = kind, keep, qos
        self.node.create_subscription(kind, topic, keep, qos)

    def _find(self, make, is_found, what):
        """Create an endpoint and wait for its discovery; retry once with a new participant."""
        one = make()
        try:
            self.until(lambda: is_found(one), 4.0, what)
        except AssertionError:
            self.close()
            self._begin()
            one = make()
            self.until(lambda: is_found(one), 10.0, f"{what}, also with a new participant")
        return one

    def until(self, condition, timeout=10.0, what="condition"):
        """Serve callbacks until ``condition()`` holds."""
        wait_until(
            condition, timeout, lambda: what, lambda: self.executor.spin_once(timeout_sec=0.02)
        )

    def call(self, kind, name, /, **fields):
        """Call a service; repeat the first request, as a server may drop the first response.

        A server drops it before it has discovered the client, as on a busy machine.
        """
        client, is_new = self._clients.get(name), name not in self._clients
        if is_new:
            client = self._clients[name] = self._find(
                lambda: self.node.create_client(kind, name),
                lambda one: one.service_is_ready(),
                f"service {name}",
            )
        future = client.call_async(kind.Request(**fields))
        if is_new:
            deadline = time.monotonic() + 3.0
            self.until(lambda: future.done() or time.monotonic() > deadline)
            if not future.done():
                future = client.call_async(kind.Request(**fields))
        self.until(future.done, 10.0, f"response of {name}")
        return future.result()

    def publish(self, topic, message, listeners=1):
        """Publish; before the first message, wait for ``listeners`` subscribers."""
        if topic not in self._publishers:
            self._publishers[topic] = self._find(
                lambda: self.node.create_publisher(type(message), topic, 1),
                lambda one: one.get_subscription_count() >= listeners,
                f"{listeners} subscribers of {topic}",
            )
        self._publishers[topic].publish(message)

    def stream(self, topic, message, condition, what, timeout=15.0):
        """Publish at 20 Hz until ``condition()`` holds, as single targets may be lost."""
        due = 0.0

        def publish_when_due():
            nonlocal due
            if time.monotonic() >= due:
                self.publish(topic, message)
                due = time.monotonic() + 0.05
            return condition()

        self.until(publish_when_due, timeout, what)

    def listen(self, kind, topic, qos=None):
        """Subscribe and return a getter of the newest message, or of None before the first."""
        if topic not in self._latest:
            box = self._latest[topic] = []

            def keep(message):
                box[:] = [message]

            self.subscribe(topic, kind, keep, qos or QoSProfile(depth=1))
        return lambda: self._latest[topic][0] if self._latest[topic] else None

    def newest(self, kind, topic, timeout=10.0, qos=None):
        """Return the next message of a topic."""
        get = self.listen(kind, topic, qos)
        self._latest[topic].clear()
        self.until(lambda: get() is not None, timeout, f"a message on {topic}")
        return get()

    def diagnosis(self, hardware):
        """Return the newest status of a cell, or of ``<cell>/<arm>``, and its values."""
        if self._statuses is None:
            self._statuses = {}

            def keep(message):
                self._statuses.update({item.hardware_id: item for item in message.status})

            self.subscribe("/diagnostics", DiagnosticArray, keep, 10)
        self.until(lambda: hardware in self._statuses, 10.0, f"diagnostics of {hardware}")
        status = self._statuses[hardware]
        return status, {item.key: item.value for item in status.values}

    def forget_statuses(self):
        """Drop stored statuses, so that the next diagnosis waits for a new message."""
        if self._statuses:
            self._statuses.clear()

    def switch(self, activate=(), deactivate=(), strictness=2, namespace=""):
        return self.call(
            SwitchController,
            f"{namespace}/controller_manager/switch_controller",
            activate_controllers=list(activate),
            deactivate_controllers=list(deactivate),
            strictness=strictness,
        )


@pytest.fixture(scope="session")
def ros():
    rclpy.init()
    yield
    rclpy.try_shutdown()


@pytest.fixture(scope="module")
def client(ros):
    """A client per module, whose subscriptions end with the module.

    With one client for all modules, hundreds of topics delayed service responses by minutes.
    """
    client = Client()
    yield client
    client.close()


_SHARED = []
"""Node shared by the tests of this folder, started on first use."""


@pytest.fixture(scope="module")
def shared_node(tmp_path_factory):
    if not _SHARED:
        _SHARED.append(NodeProcess(tmp_path_factory.mktemp("node")))
        _SHARED[0].wait_for("is active")
    return _SHARED[0]


@pytest.fixture
def fresh_node(shared_node, tmp_path_factory):
    """The shared node after a restart, with the arms at the configuration of the cell file."""
    _end_shared_node()
    _SHARED.append(NodeProcess(tmp_path_factory.mktemp("node")))
    return _SHARED[0].wait_for("is active")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item, nextitem):
    """End the shared node with the last test of this folder; idle, it uses over 0.3 cores."""
    try:
        return (yield)
    finally:
        if nextitem is None or Path(__file__).parent not in nextitem.path.parents:
            _end_shared_node()


def _end_shared_node():
    while _SHARED:
        node = _SHARED.pop()
        code = node.end()
        assert code == 0, node.log
        assert "Traceback" not in node.log, node.log


@pytest.fixture
def cell(shared_node, client):
    """The shared node with both arms under Cartesian impedance, freshly activated."""
    answer = client.switch(IMPEDANCE, IMPEDANCE, strictness=4)
    assert answer.ok, answer.message
    return shared_node


@pytest.fixture
def start(tmp_path):
    """A function that starts nodes for one test and ends them afterwards.

    The default is a separate namespace, as the shared node uses the root namespace.
    """
    started = []

    def start_one(*overrides, remap=(), **options):
        if not any("__ns:=" in text for text in remap):
            remap = (*remap, f"__ns:=/own_{len(started)}")
        started.append(NodeProcess(tmp_path, *overrides, remap=remap, **options))
        return started[-1]

    with contextlib.ExitStack() as ends:  # ends all nodes even if one has to be killed
        yield start_one
        for node in started:
            ends.callback(node.end)


@pytest.fixture(scope="session")
def node_process():
    """``NodeProcess``, for nodes shared by a module."""
    return NodeProcess


@pytest.fixture(scope="session")
def dual_real():
    """The cell file for two real arms."""
    return ROOT / "config" / "dual_real.yaml"
