# SPDX-License-Identifier: Apache-2.0
"""Why fields of the map are not stable, as far as it has been looked into."""

from __future__ import annotations

from cases import Condition, Law

WHY: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("CRISP Cartesian impedance", (),
     "The target is not governed: the whole step pulls at once, up to the clip of 0.1 m."),
    ("CRISP operational space", ("step of 0.9 gates, 5",),
     "A damper of 100 1/s on every direction is at the end of what 7 ms of latency leave."),
    ("CRISP operational space", ("step of 0.9 gates",),
     "The target is not governed: 1000 1/s^2 times a step asks for more than the speed limits."),
    ("CRISP operational space", ("noise", "all:"),
     "A damper of 100 1/s on every direction makes torque steps of the noise of speeds."),
    ("CRISP operational space", ("elastic",),
     "A damper of 100 1/s on speeds of links is more than gears of an FR3 stand, see below."),
    ("CRISP operational space", (),
     "A damper of 100 1/s on every direction is at the end of what 7 ms of latency leave."),
    ("gravity_compensation, holding a pose, kinova_gen3", ("bias",),
     "The tool is held and the elbow is not: it circles as fast as 1 Nm s/rad let it."),
    ("gravity_compensation, holding a pose, kinova_gen3", (),
     "The tool is held and the elbow is not: it falls under a weight that is wrong by a fifth."),
    ("teleoperation, kinova_gen3", ("5 + 2 ms, inertia x 0.8",),
     "The follower is led past a singular posture, where 7 ms are too late for its speed limit."),
)  # fmt: skip
"""Law, how its conditions begin (none: all), and the reason; the first that fits."""

GEARS = """\
## Soft gears
A damper on the speeds of links, of the rate b, stands a rotor J that drives a link j through a
gear of stiffness k and damping c while b < c (1/J + 1/j): Routh's criterion for two masses and a
spring, where b c is far below k. The map takes c = k 1 ms. One public controller of a Gen3
(EmPRISE lab, gen3_compliant_controllers) reckons with gears of 4000 and 3500 Nm/rad, where the map
gives it 14000 and 9000, and rotors of 0.3 and 0.18 kg m^2. That leaves 13 and 19 1/s, and what a
light link adds; *hold* brakes with 75. With such gears, in condition 16:

| c / k | what happens |
|---|---|
| 1 ms | all but *force_impedance* swing at 0.45 to 0.65 rad/s, *hold* without any push; \
*cartesian_impedance* rests with springs of 100 N/m and 5 Nm/rad |
| 2 ms | *joint_impedance* and *cartesian_impedance* rest; *hold*, *operational_space* and \
*admittance* swing |
| 4 ms: 16 and 14 Nm s/rad | all laws rest in their usual posture |

Friction in the joints, which no condition has, adds to c. On a Gen3 try *hold* first, with a hand
at the stop, and begin with soft springs.
"""


def reason(law: Law, condition: Condition) -> str:
    """Return why a field is not stable, or nothing if nobody has found out."""
    for name, conditions, text in WHY:
        if law.name == name and (not conditions or condition.name.startswith(conditions)):
            return text
    return ""
