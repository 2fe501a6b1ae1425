# SPDX-License-Identifier: Apache-2.0
"""What a user does with a real browser, whatever the panel shows."""

from __future__ import annotations

import numpy as np
import pytest
from browser import Browser
from cell_names import CARTESIAN, JOINT

from multipanda_py.apps.panel.panel import CAMERA_POSITION, CAMERA_TARGET

WIDTH, HEIGHT = 900, 560
FIELD_OF_VIEW = 75.0  # viser's own [deg]
TIP = 0.19  # of an arrow, from the middle of its gizmo [m]


def pixel(point):
    """Return where a point of the world is in the window, by a pinhole camera."""
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
        browser.until(rig.noted("has taken the command"), "the page is in command")
        before, rest = rig.z("right"), rig.z("left")
        place, _ = rig.target("right", up=-TIP)  # the arrow points down, as the tool does
        x, y = pixel(place)
        _, top = pixel(rig.target("right", up=0.08 - TIP)[0])
        for nudge in (0, 1):  # a page without a graphics card takes its time to see what is there
            browser.call("Page.captureScreenshot")
            browser.mouse("mouseMoved", x + nudge, y)
        browser.mouse("mousePressed", x + 1, y, 1)
        for share in np.linspace(0.0, 1.0, 8):
            browser.mouse("mouseMoved", x + 1, y + share * (top - y), 1)
            browser.call("Page.captureScreenshot")
        browser.mouse("mouseReleased", x + 1, top)
        browser.until(lambda: rig.z("right") > before + 0.04, "the arm follows the mouse")
        assert rig.z("left") == pytest.approx(rest, abs=1e-3)
        browser.click(f"left/{CARTESIAN}", "input")
        browser.click(f"left/{JOINT}", "[role=option]")
        browser.until(lambda: f"left/{JOINT}" in rig.cell.active, "the law is another one")
        browser.click("STOP")
        browser.until(lambda: all(name.endswith("hold") for name in rig.cell.active), "arms hold")
        browser.until(
            lambda: "no viewer is in command" in browser.ask("document.body.innerText"), "said"
        )
    finally:
        browser.close()
