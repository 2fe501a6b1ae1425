# SPDX-License-Identifier: Apache-2.0
"""``ros2 param``, unmodified: a dump equals the services and can be loaded again.

``test_parameter_dumps.py`` covers the use of such files.
"""

from __future__ import annotations

import parameters_of
import pytest
import yaml
from cell_names import LEFT_CARTESIAN
from outside import require_clients
from parameters_of import CELL_NODE, NODES

require_clients()

pytestmark = [pytest.mark.clock, pytest.mark.node]


def lines(verb, *words):
    return [f"param {verb} --no-daemon --timeout 20 {word}" for word in words]


@pytest.fixture(scope="module")
def dumped(shared_node, outside):
    """All parameters of the shared node's nodes: node, file."""
    reported = outside.ros2_beside(*lines("dump", *(f"/{name}" for name in NODES)))
    parts = {f"/{name}": yaml.safe_load(text) for name, text in zip(NODES, reported)}
    for name, part in parts.items():  # a partial dump would affect every test
        assert list(part) == [name], part
    return parts


def test_dump_equals_values_of_services(dumped, client):
    for name, part in dumped.items():
        assert part == parameters_of.dump(client, name)


def test_dump_can_be_loaded(dumped, cell, client, outside, tmp_path):
    """The file uses ``/**``, as the client fails on a single-node file after setting it."""
    client.switch([], [LEFT_CARTESIAN], strictness=1)  # robot settings require rest
    pairs = []
    for number, (name, part) in enumerate(dumped.items()):
        file = tmp_path / f"{number}.yaml"
        file.write_text(yaml.safe_dump({"/**": part[name]}))
        pairs.append(f"{name} {file}")
    for reported in outside.ros2_beside(*lines("load", *pairs)):
        assert reported.count("successful") == len(reported.splitlines()) > 10, reported


def test_describe_cell_parameter(cell, outside):
    [reported] = outside.ros2(*lines("describe", f"{CELL_NODE} cell.rate"))
    assert reported.startswith("Parameter name: cell.rate\n  Type: double\n")
