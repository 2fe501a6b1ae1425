# SPDX-License-Identifier: Apache-2.0
"""Recordings of real arms outside of the package."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from repository import ROOT

SOURCES = "MULTIPANDA_OUTSIDE_SOURCES"


def _found():
    """Return the recording next to the repository or to third-party sources, or None."""
    folders = [ROOT.parent / "shared"]
    if SOURCES in os.environ:
        folders.append(Path(os.environ[SOURCES]).parent)
    paths = [f / "data/unisa_panda_bag_30Hz/panda_exciting_trajectory.db3" for f in folders]
    return next((path for path in paths if path.exists()), None)


PANDA = _found()
"""Recording of a Panda without gripper, 24 s at 30 Hz, by the control group of UNISA."""
needs_panda = pytest.mark.skipif(
    PANDA is None,
    reason="the recording of a Panda is neither in ../shared nor next to $" + SOURCES,
)
