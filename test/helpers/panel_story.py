# SPDX-License-Identifier: Apache-2.0
"""Actions of a user in a real browser, for any panel."""

from __future__ import annotations

import numpy as np
import pytest
from browser import Browser
from cell_names import CARTESIAN, JOINT

from multipanda_py.apps.panel.panel import CAMERA_POSITION, CAMERA_TARGET

WIDTH, HEIGHT = 900, 560
FIELD_OF_VIEW = 75.0  # default of viser [deg]
TIP = 0.19  # distance of an arrow tip from the centre of its gizmo [m]


def pixel(point):
    """Return the pixel of a point in the world, by a pinhole camera."""
    ahead = np.subtract(CAMERA_TARGET, CAMERA_POSITION)
    ahead = ahead / np.linalg.norm(ahead)
    right = np.cross(ahead, [0.0, 0.0, 1.0])
    right = right / np.linalg.norm(right)
    observed = np.subtract(point, CAMERA_POSITION)
    scale = HEIGHT / 2.0 / np.tan(np.radians(FIELD_OF_VIEW) / 2.0) / (observed @ ahead)
    return WIDTH / 2.0 + scale * (observed @ right), HEIGHT / 2.0 - scale * (
        observed @ np.cross(right, ahead)
    )


def drags_switches_and_stops(rig, folder):
    browser = Browser(folder, rig.panel.address, (WIDTH, HEIGHT), rig.round)
    try:
        browser.click("Take command")
        browser.until(rig.noted("has taken the command"), "page in command")
        before, rest = rig.z("right"), rig.z("left")
        arrow_position, _ = rig.target("right", up=-TIP)  # the arrow and the tool point down
        x, y = pixel(arrow_position)
        _, top = pixel(rig.target("right", up=0.08 - TIP)[0])
        for nudge in (0, 1):  # without a graphics card, selection needs a second event
            browser.call("Page.captureScreenshot")
            browser.mouse("mouseMoved", x + nudge, y)
        browser.mouse("mousePressed", x + 1, y, 1)
        for fraction in np.linspace(0.0, 1.0, 8):
            browser.mouse("mouseMoved", x + 1, y + fraction * (top - y), 1)
            browser.call("Page.captureScreenshot")
        browser.mouse("mouseReleased", x + 1, top)
        browser.until(lambda: rig.z("right") > before + 0.04, "motion of the arm with the mouse")
        assert rig.z("left") == pytest.approx(rest, abs=1e-3)
        browser.click(f"left/{CARTESIAN}", "input")
        browser.click(f"left/{JOINT}", "[role=option]")
        browser.until(lambda: f"left/{JOINT}" in rig.cell.active, "switched controllet")
        browser.click("STOP")
        browser.until(
            lambda: all(name.endswith("hold") for name in rig.cell.active), "hold of all arms"
        )
        browser.until(
            lambda: "no viewer is in command" in browser.ask("document.body.innerText"),
            "note on command",
        )
    finally:
        browser.close()
