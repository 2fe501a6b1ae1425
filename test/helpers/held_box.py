# SPDX-License-Identifier: Apache-2.0
"""Box that two arms grasp and lift."""

from __future__ import annotations

import mujoco
import numpy as np

from multipanda_py.pose import Pose

ROD = {
    "mass": 0.2,
    "com": [0.0, 0.0, 0.03],
    "inertia": [1e-3, 1e-3, 1e-3, 0.0, 0.0, 0.0],
    "position": [0.0, 0.0, 0.06],
}
BASES = {"left": np.array([0.0, 0.3, 0.0]), "right": np.array([0.0, -0.3, 0.0])}
AT_BOX = {
    "left": [0.4451, 0.02959, -0.5255, -2.25892, -1.61219, 1.64112, 0.71578],
    "right": [-0.73593, 0.03744, 0.82009, -2.25883, 1.60509, 1.65203, -0.71612],
}
BESIDE = {
    "ur5e": {
        "position": [0.3, -0.6, 0.2],
        "q_start": [-2.4464, -1.3473, 2.1323, -0.785, 0.6952, -1.5708],
    },
    "kinova_gen3": {
        "position": [0.2, -0.6, 0.2],
        "q_start": [-1.0395, 1.0494, -2.7085, -1.9875, 0.7031, 1.7119, -1.9457],
    },
    "iiwa14": {
        "position": [0.2, -0.7, 0.0],
        "q_start": [-1.3539, -1.2176, 1.7772, -1.791, -0.2914, -1.4978, -0.2671],
    },
}
"""Bases and start configurations of other robots, with the rod tip at that of the FR3."""
OTHER = {
    "stiffness": [1500.0] * 3 + [150.0] * 3,
    "relative_stiffness": [900.0] * 3 + [40.0] * 3,
}
# Two arms that grasp an object of length L with a force F buckle below a stiffness of 2 F / L:
# 370 N/m for 35 N.
SPRINGS = {"stiffness": [800.0] * 3 + [40.0] * 3}
BOTH = ["left", "right"]
LAWS = {
    "pair": {"type": "coupled_impedance", "arms": BOTH},
    "other_pair": {"type": "coupled_impedance", "arms": BOTH, "params": OTHER},
    "force_pair": {"type": "coupled_force_impedance", "arms": BOTH},
    "other_force_pair": {"type": "coupled_force_impedance", "arms": BOTH, "params": OTHER},
    "cartesian": {"type": "cartesian_impedance", "params": SPRINGS},
    "force": {"type": "force_impedance", "params": SPRINGS},
    "space": {"type": "operational_space"},
    "joint": {"type": "joint_impedance"},
    "soft": {"type": "admittance"},
}

AUGMENTED = {"augmented": {"type": "optimization_augmented", "arms": BOTH}}
TABLE = {"shape": "box", "size": [0.2, 0.3, 0.02], "position": [0.5, 0, 0.28]}


def arms_at_box(right=None):
    """Return the cell-file sections of both arms, with rods next to the box.

    Args:
        right: Robot model of the right arm, one of ``BESIDE``; None for another FR3.
    """
    arms = {
        name: {"position": list(base), "gripper": False, "tool": ROD, "q_start": AT_BOX[name]}
        for name, base in BASES.items()
    }
    if right is not None:
        arms["right"] |= {"model": right, **BESIDE[right]}
    return arms


class HeldBox:
    """Two arms with rods, and the box between them.

    Args:
        make_cell: Fixture ``make_cell``.
        mass: Mass of the box [kg].
        first: Name of the active controllet.
        right: Robot model of the right arm, one of ``BESIDE``; None for another FR3.
        laws: Controllets of the cell.
        half: Half of the width of the box [m]; the rods start 0.1 m from its centre.
        arm: Settings of both arms.
    """

    def __init__(
        self, make_cell, mass, first="force_pair", right=None, laws=LAWS, half=0.095, **arm
    ):
        arms = arms_at_box(right)
        self.bases = {name: np.array(settings["position"]) for name, settings in arms.items()}
        self.tools = {name: f"{name}_{s.get('model', 'fr3')}_tool" for name, s in arms.items()}
        objects = {
            "table": TABLE,
            "box": {"shape": "box", "size": [0.06, half, 0.1], "position": [0.5, 0, 0.4],
                    "mass": mass},
        }  # fmt: skip
        arms = {name: {**settings, **arm} for name, settings in arms.items()}
        self.cell = make_cell(arms, laws, [first], objects=objects)
        sim = self.cell.simulation
        self.model, self.data = sim.model, sim.data
        self.model.opt.impratio = 1000.0  # with the default, objects slip by 0.4 mm/s
        self.cell.step(10)
        self.mass, self.last = mass, first

    def lift(self, grasp_force, height=0.1):
        """Grasp the box with an internal force [N] and lift it by a height [m]."""
        report = self.cell.report(self.last)
        start = np.array([report[f"object_{axis} [m]"] for axis in "xyz"])
        self.cell.set_object_target(self.last, internal_force=grasp_force)
        for _ in range(50):
            self.cell.step(100)
            if min(self.force(arm) for arm in BOTH) > 0.95 * grasp_force:
                break
        self.cell.step(300)
        top = height + self.mass * 9.81 / 600.0
        for k in range(81):
            fraction = 0.5 * (1.0 - np.cos(np.pi * k / 80))
            goal = Pose(start + [0.0, 0.0, fraction * top], np.eye(3))
            self.cell.set_object_target(self.last, goal)
            self.cell.step(10)
        self.cell.step(1000)

    def in_hands(self):
        """Return the position of the box in the frames of the end effectors, (2, 3) [m]."""
        box, found = self.cell.objects()["box"], []
        for name, base in self.bases.items():
            tool = self.cell.pose(name)
            found.append(tool.rotation.T @ (box.position - tool.position - base))
        return np.array(found)

    def force(self, arm):
        """Return the normal force between a rod and the box, from the simulation [N]."""
        box, wrench, total = self.model.geom("box_geom").id, np.zeros(6), 0.0
        for number in range(self.data.ncon):
            pair = self.data.contact[number].geom1, self.data.contact[number].geom2
            bodies = [self.model.body(self.model.geom_bodyid[g]).name for g in pair]
            if box in pair and self.tools[arm] in bodies:
                mujoco.mj_contactForce(self.model, self.data, number, wrench)
                total += wrench[0]
        return total

    def switch(self, name):
        """Switch the arms to a controllet or to hold. An active controllet is restarted."""
        if name == "hold":
            result = self.cell.hold()
        else:
            names = [name] if "pair" in name else [f"left/{name}", f"right/{name}"]
            again = names if name == self.last else []
            result = self.cell.switch(names, again, strictness="force_auto")
        self.last = name
        return result

    def fail(self, rng):
        """Make a random controllet raise, check the faults of its arms, recover, and hold."""
        active = [i for i in self.cell.loop.owners.active if not i.spec.is_hold]
        if active:
            broken = active[int(rng.integers(len(active)))]
            broken.law.update, update = None, broken.law.update
            self.cell.step(1)
            broken.law.update = update
            assert all(self.cell.state(arm).fault for arm in broken.spec.config.arms)
            self.cell.step(int(rng.integers(1, 300)))
            self.cell.recover()
            self.cell.step(5)
        return self.switch("hold")
