# SPDX-License-Identifier: Apache-2.0
"""Robot of franka-sim, a third-party simulation, in a separate environment."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from processes import wait_until

from multipanda_py.robots import ArmDescription
from multipanda_py.simulation.scene_mjcf import build_scene

sys.path.append(str(Path(__file__).parents[2] / "tools"))
from franka_sim_env import MAKE, interpreter

N_JOINTS = 7
SERVER = """
import logging, sys
logging.basicConfig(level=logging.INFO, format="%(relativeCreated)d %(name)s: %(message)s")
from franka_sim import FrankaSimServer
from franka_sim.comm_constraints import CommConstraintTracker

tick = CommConstraintTracker.tick

def tick_and_log(self, published_id):
    outcome = tick(self, published_id)
    if outcome.lost:
        logging.info("lost command")
    return outcome

CommConstraintTracker.tick = tick_and_log
checks = {"enforce_motion_limits": False, "enforce_comm_constraints": False}
FrankaSimServer(host=sys.argv[1], **checks).start()
"""


def python_of_franka_sim():
    """Return the interpreter that has franka-sim; skip the test if there is none."""
    given = os.environ.get("MULTIPANDA_FRANKA_SIM")
    python = Path(given) if given else interpreter()
    if python is None or not python.exists():
        pytest.skip(f"franka-sim is not installed: `{MAKE}` installs it from the package index")
    return python


def model_file(folder):
    """Write the FR3 of this package as MJCF without shapes, and with names of franka-sim."""
    model = build_scene([ArmDescription("robot", "fr3", hand=False)]).compile()
    root = ElementTree.Element("mujoco", model="fr3")
    ElementTree.SubElement(root, "compiler", angle="radian", autolimits="true")
    parent = ElementTree.SubElement(root, "worldbody")
    parent = ElementTree.SubElement(parent, "body", name="fr3_link0")
    for i in range(N_JOINTS):
        joint = next(j for j in range(model.njnt) if model.joint(j).name.endswith(f"joint{i + 1}"))
        body = int(model.jnt_bodyid[joint])
        parent = ElementTree.SubElement(
            parent, "body", name=f"fr3_link{i + 1}",
            pos=text(model.body_pos[body]), quat=text(model.body_quat[body]),
        )  # fmt: skip
        ElementTree.SubElement(
            parent, "inertial", mass=text([model.body_mass[body]]),
            pos=text(model.body_ipos[body]), quat=text(model.body_iquat[body]),
            diaginertia=text(model.body_inertia[body]),
        )  # fmt: skip
        dof = int(model.jnt_dofadr[joint])
        ElementTree.SubElement(
            parent, "joint", name=f"fr3_joint{i + 1}", axis=text(model.jnt_axis[joint]),
            range=text(model.jnt_range[joint]), armature=text([model.dof_armature[dof]]),
            damping="0.5", frictionloss="0.8",
        )  # fmt: skip
    file = folder / "fr3.xml"
    ElementTree.ElementTree(root).write(file)
    return file


def text(numbers):
    """Return numbers as text for MJCF."""
    return " ".join(repr(float(number)) for number in numbers)


class FrankaSim:
    """Simulated robot with a check of commanded motions."""

    def __init__(self, address, folder):
        self.address, self.log_file = address, folder / "franka_sim.log"
        self._command = [python_of_franka_sim(), "-c", SERVER, address]
        self._environment = {**os.environ, "FR3_MJCF": str(model_file(folder)), "PYTHONPATH": ""}
        self._process = None

    def start(self):
        """Start the robot and wait until its ports are open."""
        with open(self.log_file, "ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=self._environment, preexec_fn=_before_others,
            )  # fmt: skip
        wait_until(self._is_open, 30.0, self.log)

    def _is_open(self):
        assert self._process.poll() is None, self.log()
        try:
            socket.create_connection((self.address, 1338), timeout=1.0).close()
        except OSError:
            return False
        return True

    def log(self):
        """Return the log of the robot."""
        return self.log_file.read_text(errors="replace")

    def violations(self):
        """Return violated limits of commanded motions: quantity, value and limit."""
        return re.findall(r"limit violated: (.*?) = (\S+) \S+, limit (\S+)", self.log())

    def lost(self):
        """Return the number of late commands."""
        return self.log().count("root: lost command")

    def kill(self):
        """Kill the robot, as by a power failure."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def _before_others():
    if os.geteuid() == 0:  # a real robot has a separate computer
        os.nice(-15)
