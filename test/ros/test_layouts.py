# SPDX-License-Identifier: Apache-2.0
"""Topics of the RViz and Foxglove layouts exist."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.node

LAYOUTS = Path(__file__).resolve().parents[2] / "config" / "layouts"


def topics_of_rviz():
    manager = yaml.safe_load((LAYOUTS / "cell.rviz").read_text())["Visualization Manager"]
    assert manager["Global Options"]["Fixed Frame"] == "world"
    for display in manager["Displays"]:
        for key in ("Topic", "Description Topic"):
            if key in display:
                yield "/" + display[key]["Value"]


def topics_of_foxglove():
    layout = json.loads((LAYOUTS / "foxglove.json").read_text())
    panels = layout["configById"]
    shown, parts = set(), [layout["layout"]]
    while parts:
        part = parts.pop()
        if isinstance(part, str):
            shown.add(part)
        else:
            parts += [part["first"], part["second"]]
    assert shown == set(panels)
    for panel in panels.values():
        if "topicToRender" in panel:
            yield panel["topicToRender"]
        for path in panel.get("paths", []):
            yield path["value"].split(".")[0]
        for layer in panel.get("layers", {}).values():
            if "topic" in layer:
                yield layer["topic"]


@pytest.mark.parametrize("topics", [topics_of_rviz, topics_of_foxglove])
def test_layout_topics_exist(cell, client, topics):
    expected = set(topics())
    assert len(expected) > 2
    client.until(
        lambda: expected <= set(dict(client.node.get_topic_names_and_types())),
        10.0,
        f"all of {sorted(expected)}",
    )
