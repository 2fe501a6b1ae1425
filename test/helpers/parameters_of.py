# SPDX-License-Identifier: Apache-2.0
"""Parameters of a node, read and set by a client of the tests."""

from __future__ import annotations

from rcl_interfaces.srv import GetParameters, SetParametersAtomically
from rclpy.parameter import Parameter


def get(client, *names, node):
    return client.call(GetParameters, f"{node}/get_parameters", names=list(names)).values


def put(client, node, **values):
    parameters = [
        Parameter(name, value=value).to_parameter_msg() for name, value in values.items()
    ]
    return client.call(
        SetParametersAtomically, f"{node}/set_parameters_atomically", parameters=parameters
    ).result
