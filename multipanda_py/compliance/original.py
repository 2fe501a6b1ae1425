# SPDX-License-Identifier: Apache-2.0
"""One explicit step in the order of the ROS-Gazebo toolbox."""

from __future__ import annotations

from multipanda_py.compliance.flow import Flow
from multipanda_py.state import Vector


def original_step(flow: Flow, duration: float) -> Vector:
    r"""Move motors on by one step while links stand still, and return torques on links, (n,) [Nm].

    Controllers and springs see the old positions of motors; then

    .. math::
        \dot\theta \leftarrow \dot\theta + h \ddot\theta, \qquad
        \theta \leftarrow \theta + h \dot\theta

    and links get the torque of springs at the new positions (Mengacci et al., 2021). Unlike there,
    the largest velocity is kept to. It is first order: a 1 ms step gains or loses energy
    where springs are stiff, and is there to compare with.

    Args:
        flow: With the state of links and motors.
        duration: h [s].
    """
    n = len(flow.impulse)
    flow.begin()
    flow.change[:] = 0.0
    flow.change[4 * n : 6 * n] = duration * flow.rates[4 * n : 6 * n]
    flow.v[1:] += flow.change[4 * n : 6 * n].reshape(2, n)
    flow.change[n : 3 * n] = duration * flow.v[1:].ravel()
    flow.x[1:] += flow.change[n : 3 * n].reshape(2, n)
    flow.keep_limits(duration)
    torque: Vector = flow.look()[6 * n :].copy()
    return torque
