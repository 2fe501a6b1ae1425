# SPDX-License-Identifier: Apache-2.0
"""Causes of fields of the map that are not stable."""

from __future__ import annotations

from cases import Condition, Law

WHY: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("CRISP Cartesian impedance", (),
     "The target is not governed: the spring gets the whole step, up to the clip of 0.1 m."),
    ("CRISP operational space", ("step of 0.9 gates, 5",),
     "Damping of 100 1/s in every direction is at the stability limit for 7 ms of latency."),
    ("CRISP operational space", ("step of 0.9 gates",),
     "The target is not governed: 1000 1/s^2 times the step exceeds the speed limits."),
    ("CRISP operational space", ("noise", "all:"),
     "Damping of 100 1/s in every direction turns velocity noise into torque steps."),
    ("CRISP operational space", ("elastic",),
     "Damping of 100 1/s on link velocities is too high for the gears of an FR3, see below."),
    ("CRISP operational space", (),
     "Damping of 100 1/s in every direction is at the stability limit for 7 ms of latency."),
    ("gravity_compensation, holding a pose, kinova_gen3", ("bias",),
     "Only the tool pose is controlled: damping of 1 Nm s/rad limits the circles of the elbow."),
    ("gravity_compensation, holding a pose, kinova_gen3", (),
     "Only the tool pose is controlled: the elbow falls, as the model of its weight is 20 % off."),
    ("teleoperation, kinova_gen3", ("5 + 2 ms, inertia x 0.8",),
     "The follower exceeds its speed limit near a singular configuration, due to 7 ms latency."),
)  # fmt: skip
"""Controllet, prefixes of condition names (empty: all) and cause. The first match counts."""

GEARS = """\
## Soft gears
The stiffness of the gears limits how strongly a controllet may damp the link velocities. The
damping rate b [1/s], the damping of a joint per inertia, must be below this limit.

```
b < c (1/J + 1/j)
```

Here c is the damping of the gear [Nm s/rad], J the inertia of the rotor and j that of the link
[kg m^2]. This is Routh's criterion for two masses and a spring of stiffness k, if b c is far
below k.

The map assumes c = k 1 ms, with k of 14000 and 9000 Nm/rad for a Gen3. One public controller of a
Gen3 (EmPRISE lab, gen3_compliant_controllers) assumes softer gears: 4000 and 3500 Nm/rad, with
rotors of 0.3 and 0.18 kg m^2. They permit a rate of 13 and 19 1/s, and more for a light link.
*hold* brakes with 75 1/s. The table shows condition 16 with such gears.

| c / k | behaviour |
|---|---|
| 1 ms | all but *force_impedance* oscillate at 0.45 to 0.65 rad/s, *hold* even without a push; \
*cartesian_impedance* rests with springs of 100 N/m and 5 Nm/rad |
| 2 ms | *joint_impedance* and *cartesian_impedance* rest; *hold*, *operational_space* and \
*admittance* oscillate |
| 4 ms: 16 and 14 Nm s/rad | all controllets rest in their default configuration |

Joint friction, which no condition has, adds to c. On a Gen3 test *hold* first, with a hand on the
user stop, and start with a low stiffness.
"""


def reason(law: Law, condition: Condition) -> str:
    """Return the cause of a field that is not stable, or an empty string if it is unknown."""
    for name, conditions, text in WHY:
        if law.name == name and (not conditions or condition.name.startswith(conditions)):
            return text
    return ""
