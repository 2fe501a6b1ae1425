# SPDX-License-Identifier: Apache-2.0
"""Arm with ROS topics in a separate process, and its cell."""

from __future__ import annotations

import itertools
import os
from importlib.util import find_spec

import pytest
from effort_arm import EffortArm
from processes import descendants, recovers, runs_module, wait_until

from multipanda_py.testing import simple_cell

if find_spec("rclpy") is None:
    collect_ignore_glob = ["test_cell.py", "test_positions.py"]

_numbers = itertools.count()
Q = [0.4, -1.2, 1.4, -1.3, -1.4, 0.3]
LAWS = {
    "joint": {"type": "joint_impedance"},
    "cartesian": {"type": "cartesian_impedance"},
    "bad": {"type": "misbehaving"},
}


class Rig:
    """The arm ``ur`` with topics and a simulated arm ``sim``."""

    def __init__(self, settings=None, laws=None, **options):
        name = f"t{os.getpid()}_{next(_numbers)}"
        self.arm = EffortArm(f"/{name}", **options)
        self.cell = simple_cell(
            {
                "ur": {
                    "backend": "ros2_control", "model": "ur5e", "compensates_gravity": False,
                    "position": [0.0, 1.0, 0.0],
                    "ros2_control": {**self.arm.settings, "priority": 60, **(settings or {})},
                },
                "sim": {"model": "ur5e", "position": [0.0, -1.0, 0.0], "q_start": Q},
            },
            laws or LAWS,
            name=name, placement="process", rate=500, heartbeat_timeout=60,
            realtime={"priority": 50, "cpu": -2, "lock_memory": False},
        )  # fmt: skip

    def start(self):
        self.cell.start()
        if self.fault():  # the process of the arm has no real-time priority and may be late
            self.recover()
        return self

    def driver(self):
        """Return the process id of the driver."""
        module = "multipanda_py.hardware.ros2_control.driver"
        return next(pid for pid in descendants(os.getpid()) if runs_module(pid, module))

    def fault(self):
        return self.cell.state("ur").fault

    def until(self, condition):
        """Wait until a condition holds; a fault of the arm ends the wait."""
        wait_until(lambda: condition() or self.fault(), what=lambda: str(self.texts()))
        assert condition(), self.texts()

    def recover(self):
        """Recover the arm, and retry while the cause persists."""
        wait_until(
            lambda: recovers(self.cell, ["ur"]), what=lambda: f"{self.texts()} {self.arm.send()}"
        )

    def texts(self):
        return [event.text for event in self.cell.events() if event.event.is_fault]

    def close(self):
        self.cell.close()
        self.arm.close()


@pytest.fixture
def make_rig():
    made = []

    def make(settings=None, laws=None, **options):
        made.append(Rig(settings, laws, **options))
        return made[-1]

    yield make
    for rig in made:
        rig.close()


@pytest.fixture(scope="module")
def shared_rig():
    made = Rig()
    yield made.start()
    made.close()


@pytest.fixture
def rig(shared_rig):
    """Return the shared rig without fault and in hold."""
    shared_rig.arm.send(spoil="", push=[0.0] * 6)
    if shared_rig.fault():
        shared_rig.recover()
    shared_rig.cell.hold()
    shared_rig.cell.events()
    return shared_rig


@pytest.fixture(scope="session")
def rig_of():
    """Return the class for rigs that a module shares."""
    return Rig
