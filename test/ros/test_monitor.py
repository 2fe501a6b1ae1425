# SPDX-License-Identifier: Apache-2.0
"""Digital-twin monitor of a running cell: no effect on the loop, warnings in ``/diagnostics``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from diagnostic_msgs.msg import DiagnosticStatus
from sensor_msgs.msg import JointState

from multipanda_py import Cell
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import MultipandaError
from multipanda_py.identification.monitor.cell_monitor import CellMonitor, LiveRows

pytestmark = [pytest.mark.sim, pytest.mark.clock, pytest.mark.node]


@pytest.fixture
def cell():
    data = CellConfig.from_yaml("config/dual_sim.yaml").model_dump()
    data["cell"]["name"] = f"shadowed_{os.getpid()}"
    with Cell(CellConfig.from_dict(data)) as cell:
        yield cell


def band_of_rest(cell, path, quantity_low=None):
    """Write a band that contains an arm at rest, except for ``quantity_low`` of the left arm."""
    lines = ["arms:"]
    for name, arm in cell.config.arms.items():
        joints = [joint.name for joint in arm.robot.joints]
        lines += [f"  {name}:", f"    joints: {joints}"]
        for what, width in (("q", 7), ("external", 7), ("correction", 7)):
            low = [-50.0] * width
            high = [50.0] * width
            if quantity_low is not None and (name, what) == ("left", "q"):
                low = [quantity_low] * width
            lines.append(f"    {what}: {{low: {low}, high: {high}}}")
    path.write_text("\n".join(lines))
    return path


@pytest.mark.long
def test_monitor_reports_running_cell_in_diagnostics(cell, client, tmp_path):
    band = band_of_rest(cell, tmp_path / "band.yaml", quantity_low=20.0)  # left violates it
    name = cell.config.cell.name
    line = ["monitor", "--node", name, "--band", str(band), "--ros", "--namespace", "twins"]
    line += ["-o", str(tmp_path / "a.png")]
    process = subprocess.Popen(
        [sys.executable, "-m", "multipanda_py.apps.cli", *line],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        status, values = client.diagnosis(f"{name}/right/monitor")
        client.until(lambda: client.diagnosis(f"{name}/left/monitor")[0].level
                     == DiagnosticStatus.WARN, 20.0, "a warning")  # fmt: skip
        status, values = client.diagnosis(f"{name}/left/monitor")
        assert "left: q of joint1 is" in status.message
        assert values["times outside"] == "7"
        assert client.diagnosis(f"{name}/right/monitor")[0].level == DiagnosticStatus.OK
        state = client.newest(JointState, "/twins/twin/joint_states")
        nodes = client.node.get_node_names_and_namespaces()
        assert (
            f"twin_monitor_{name}",
            "/twins",
        ) in nodes  # unique per cell
        assert next(iter(state.name)) == "left_fr3_joint1"
        assert len(state.name) == len(state.position) == len(state.effort) == 14
        for arm, first in (("left", 0), ("right", 7)):
            assert state.position[first : first + 7] == pytest.approx(cell.state(arm).q, abs=0.02)
        warned = cell.latest_record()["cycle"]  # the text output has one line per second
        cell.wait(lambda: cell.latest_record()["cycle"] > warned + 2500, 60.0, "a line of text")
    finally:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 1, err
    assert "OUTSIDE: q joint1" in out
    assert "7 times " in out
    assert "warning: left: q of joint1" in err
    assert (tmp_path / "a_left.png").exists()
    cell.check()


@pytest.mark.long
def test_monitor_tracks_states_of_cell(cell):
    """In-process monitor: the positions of the twin equal those of the arm at rest."""
    rows = LiveRows(cell.config.cell.name)
    assert rows.config.arms.keys() == cell.config.arms.keys()
    monitor = CellMonitor(rows.config)
    cell.wait(lambda: cell.latest_record()["cycle"] > 2000, 60.0, "rows")
    monitor.follow(rows.pop())
    cell.wait(lambda: cell.latest_record()["cycle"] > 3500, 60.0, "rows")
    monitor.follow(rows.pop())
    for name, found in monitor.last.items():
        assert found.evaluated[-1]
        assert found.q[-1] == pytest.approx(cell.state(name).q, abs=5e-3)
    assert [line.split()[0] for line in monitor.lines()] == list(cell.arms)


def test_missing_cell_is_reported(capsys):
    with pytest.raises(MultipandaError, match=r"no cell|does not exist"):
        LiveRows(f"nowhere_{os.getpid()}")
