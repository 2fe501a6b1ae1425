# SPDX-License-Identifier: Apache-2.0
"""Parameters of force control, as laws declare them."""

from __future__ import annotations

from dataclasses import dataclass

from multipanda_py.control.force_control import ForceGains
from multipanda_py.parameters import number

TANK_LOW = 0.05
"""Energy below which a tank lets out less and less [J]."""


@dataclass(frozen=True, eq=False)
class ForceParams:
    """Gains of the force part; shared by the laws that control a force."""

    # Bounds: stable on contacts of 1e3 to 1e5 N/m on an arm that is late.
    kp: float = number(0.2, low=0, high=0.5, doc="proportional gain on the force error")
    ki: float = number(10.0, unit="1/s", low=0, high=15, doc="integral gain")
    kd: float = number(0.0, unit="s", low=0, high=5e-4, doc="derivative gain")
    filter_time: float = number(
        0.02, unit="s", low=0.02, high=0.03, doc="time constant of the force measurement"
    )
    integral_limit: float = number(20.0, unit="N", low=0, high=100, doc="of the integral part")
    contact_force: float = number(
        1.0, unit="N", low=0.01, high=50, doc="measured force from which contact counts as made"
    )
    approach_speed: float = number(
        0.01, unit="m/s", low=1e-4, high=0.03, doc="with which contact is looked for; bounds the "
        "peak of the impact, about F + v sqrt(k m); beyond 0.01 at most F / (4 sqrt(k m)) "
        "with k = 1e5 N/m",
    )  # fmt: skip
    loss_distance: float = number(
        0.05, unit="m", low=0.001, high=0.5, doc="d_max of the contact-loss shaping"
    )
    release_time: float = number(
        0.03, unit="s", low=0.001, high=0.05, doc="with which force fades when contact is lost"
    )
    search_force: float = number(
        1.5, unit="N", low=0, high=20, doc="that stays after contact was lost, to find it again"
    )
    tank_gain: float = number(
        200.0, low=0, high=1e4, doc="K_p of the initial tank energy K_p F_d^2 / 2"
    )
    tank_max: float = number(100.0, unit="J", low=0, high=1000, doc="upper limit of each tank")
    tank_power: float = number(
        2.0, unit="W", low=0, high=100,
        doc="allowance of each tank that holds less than it was granted, for work on friction",
    )  # fmt: skip

    def gains(self) -> ForceGains:
        """Return what a force controller takes."""
        return ForceGains(
            self.kp, self.ki, self.kd, self.filter_time, self.integral_limit,
            self.contact_force, self.approach_speed, self.loss_distance, self.release_time,
            self.search_force, self.tank_gain, self.tank_max, self.tank_power,
            tank_low=TANK_LOW,
        )  # fmt: skip
