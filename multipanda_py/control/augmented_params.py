# SPDX-License-Identifier: Apache-2.0
"""Parameters of optimization-augmented control, beside those of its plan."""

from __future__ import annotations

from dataclasses import dataclass

from multipanda_py.control.force_control import ForceGains
from multipanda_py.control.force_params import TANK_LOW
from multipanda_py.parameters import choice, number, vector
from multipanda_py.state import Vector

MODES = ("optimization", "force", "hybrid")
"""What counts: the plan, a pose and forces, or the plan and forces."""

MOST = (3000.0,) * 3 + (200.0,) * 3
"""Stiffest spring across a force: stiffer ones shake a late hand on what is hard
[N/m, Nm/rad]."""


@dataclass(frozen=True, eq=False)
class AugmentedParams:
    """Mode, integral of the plan, force part, and impedance of the pose."""

    mode: str = choice(
        "optimization", options=MODES,
        doc="optimization: the plan; hybrid: plan and forces; force: pose and forces",
    )  # fmt: skip
    blend_time: float = number(
        0.3, unit="s", low=0.05, high=5,
        doc="in which a mode goes over into another, and the plan gives up or takes back the "
        "direction of a force",
    )  # fmt: skip
    integral_rate: float = number(
        1.0, unit="1/s", low=0, high=3,
        doc="gain of the plan's integral over its stiffness; 0 leaves it as it is",
    )  # fmt: skip
    integral_share: float = number(
        0.1, low=0, high=0.3, doc="share of the torque limits that the integral may have"
    )
    # Bounds of the force part as of the other laws: stable on 1e3 to 1e5 N/m on a late arm.
    force_kp: float = number(0.2, low=0, high=0.5, doc="proportional gain on the force error")
    force_ki: float = number(10.0, unit="1/s", low=0, high=15, doc="integral gain of the force")
    force_filter_time: float = number(
        0.02, unit="s", low=0.02, high=0.03, doc="time constant of the force measurement"
    )
    force_integral_limit: float = number(
        20.0, unit="N", low=0, high=100, doc="of the integral part of the force"
    )
    touch_force: float = number(
        1.5, unit="N", low=0.05, high=50,
        doc="measured force from which a hand counts as touching; all have to before any presses",
    )  # fmt: skip
    approach_speed: float = number(
        0.01, unit="m/s", low=1e-4, high=0.03, doc="with which contact is looked for"
    )
    loss_distance: float = number(
        0.05, unit="m", low=0.001, high=0.5,
        doc="contact is looked for within twice that along the force",
    )  # fmt: skip
    release_time: float = number(
        0.01, unit="s", low=0.001, high=0.05, doc="with which forces fade when a contact is lost"
    )
    tank_gain: float = number(
        200.0, low=0, high=1e4, doc="K_p of the initial energy K_p F_d^2 / 2 of a force"
    )
    tank_max: float = number(100.0, unit="J", low=0, high=1000, doc="upper limit of that")
    tank_power: float = number(
        2.0, unit="W", low=0, high=100, doc="allowance of a force for work on friction"
    )
    position_stiffness: Vector = vector(
        600, 600, 600, 30, 30, 30, unit="N/m, Nm/rad", low=0, high=MOST,
        doc="of the pose, in mode force, along the axes of the base",
    )  # fmt: skip
    position_damping_ratio: Vector = vector(
        1, 1, 1, 1, 1, 1, low=0.5, high=5, doc="of the same; 1 is critically damped"
    )
    position_clip: Vector = vector(
        0.1, 0.1, 0.1, 0.4, 0.4, 0.4, unit="m, rad", low=1e-4, high=10,
        doc="largest error per axis that its spring acts on",
    )  # fmt: skip
    position_speed: float = number(
        0.1, unit="m/s", low=0.001, high=1, doc="with which it goes to a pose that is asked for"
    )
    turn_speed: float = number(0.5, unit="rad/s", low=0.005, high=3, doc="with which it turns")

    def gains(self) -> ForceGains:
        """Return what a force controller takes; who loses a contact here does not search on."""
        return ForceGains(
            self.force_kp, self.force_ki, 0.0, self.force_filter_time,
            self.force_integral_limit, self.touch_force, self.approach_speed,
            self.loss_distance, self.release_time, 0.0, self.tank_gain, self.tank_max,
            self.tank_power, tank_low=TANK_LOW,
        )  # fmt: skip
