# SPDX-License-Identifier: Apache-2.0
"""Parameters of a node, read and set by a test client."""

from __future__ import annotations

from cell_names import DUAL, LEFT_CARTESIAN
from rcl_interfaces.srv import GetParameters, ListParameters, SetParametersAtomically
from rclpy.parameter import Parameter, parameter_value_to_python

CELL_NODE = "/multimode_controller"
NODES = ("multimode_controller", LEFT_CARTESIAN, "right/joint_impedance_controller", "left/franka",
         DUAL)  # fmt: skip
"""Selected nodes of the shared cell."""


def get(client, *names, node):
    return client.call(GetParameters, f"{node}/get_parameters", names=list(names)).values


def put(client, node, **values):
    parameters = [
        Parameter(name, value=value).to_parameter_msg() for name, value in values.items()
    ]
    return client.call(
        SetParametersAtomically, f"{node}/set_parameters_atomically", parameters=parameters
    ).result


def dump(client, node):
    """Return all parameters of a node as a section of a parameter file."""
    names = client.call(ListParameters, f"{node}/list_parameters").result.names
    section = {}
    for name, value in zip(names, get(client, *names, node=node), strict=True):
        *groups, leaf = name.split(".")
        branch = section
        for group in groups:
            branch = branch.setdefault(group, {})
        plain = parameter_value_to_python(value)
        branch[leaf] = plain if isinstance(plain, (bool, int, float, str)) else list(plain)
    return {node: {"ros__parameters": section}}
