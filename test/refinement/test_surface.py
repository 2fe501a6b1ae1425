# SPDX-License-Identifier: Apache-2.0
"""The table that a plant has is found from what its arm did on it."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.refinement.put_back import with_surface
from multipanda_py.refinement.surface import SurfaceFit

pytestmark = [pytest.mark.sim, pytest.mark.inline, pytest.mark.timeout(600)]


def test_friction_and_contact_of_another_table_are_found():
    twin = CellConfig.from_yaml("config/dual_sim.yaml")
    there = {"friction": 0.15, "contact_time": 0.015, "contact_damping": 0.75}
    said = []
    found = SurfaceFit(with_surface(twin, "table", there), 1.5, 0).fit(twin, said.append)
    for name, value in there.items():
        own = getattr(twin.objects["table"], name)
        assert abs(np.log(found[name] / value)) < 0.3 * abs(np.log(own / value)), (name, found)
    assert said
