# SPDX-License-Identifier: Apache-2.0
"""``ros2 param``, unmodified: what it dumps is what is there, and it can load that again.

What such files are good for is in ``test_parameter_dumps.py``.
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
    for name, part in parts.items():  # or every test and every try would go by half a dump
        assert list(part) == [name], part
    return parts


def test_it_dumps_what_the_services_say(dumped, client):
    for name, part in dumped.items():
        assert part == parameters_of.dump(client, name)


def test_it_loads_what_it_has_dumped(dumped, cell, client, outside, tmp_path):
    """``/**``, for the client stumbles over a file of a single node after it has set it."""
    client.switch([], [LEFT_CARTESIAN], strictness=1)  # a robot is told things at rest only
    pairs = []
    for number, (name, part) in enumerate(dumped.items()):
        file = tmp_path / f"{number}.yaml"
        file.write_text(yaml.safe_dump({"/**": part[name]}))
        pairs.append(f"{name} {file}")
    for reported in outside.ros2_beside(*lines("load", *pairs)):
        assert reported.count("successful") == len(reported.splitlines()) > 10, reported


def test_it_describes_a_parameter_of_the_cell(cell, outside):
    [reported] = outside.ros2(*lines("describe", f"{CELL_NODE} cell.rate"))
    assert reported.startswith("Parameter name: cell.rate\n  Type: double\n")
