# SPDX-License-Identifier: Apache-2.0
"""Displayed scene agrees with the cycle records, for every kind of arm."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import mujoco
import numpy as np
import pytest
from processes import TIMEOUT_SCALE

from multipanda_py.cell import Cell
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import bases_in_world
from multipanda_py.exceptions import LoopError, RenderingUnavailable
from multipanda_py.simulation.scene_view import SceneView
from multipanda_py.simulation.viewer import require_display, start_viewer, stop_viewer

pytestmark = pytest.mark.inline

ARMS: dict[str, Any] = {
    "left": {"position": [0.0, 0.4, 0.0], "rpy": [0.0, 0.0, 0.5]},
    "right": {"position": [0.0, -0.4, 0.1], "backend": "mock"},
    "bare": {"position": [-1.0, 0.0, 0.0], "gripper": False, "model": "fer"},
}
OBJECTS: dict[str, Any] = {
    "ball": {"shape": "sphere", "size": [0.05], "position": [1.0, 0.0, 1.0], "mass": 0.1},
    "table": {"shape": "box", "size": [0.1, 0.1, 0.1], "position": [1.0, 1.0, 0.1]},
}
ASK_NICENESS = """
import os
from multipanda_py.simulation.viewer import main
os.environ.pop("WAYLAND_DISPLAY", None)
main()
print(os.nice(0))
"""


def newest(cell: Cell) -> Any:
    return cell.records()[1][-1]


def check_tools(view: SceneView, cell: Cell) -> None:
    """Compare the tools of the scene with the kinematics of the loop."""
    sites = {view.model.site(i).name: i for i in range(view.model.nsite)}
    for name, base in bases_in_world(cell.config).items():
        tool = base @ cell.pose(name)
        frame = [site for site in sites if site.startswith(f"{name}_")][-1]
        np.testing.assert_allclose(
            view.data.site_xpos[sites[frame]], tool.position, atol=1e-6, err_msg=name
        )


@pytest.mark.sim
def test_scene_agrees_with_loop_for_every_backend(
    make_cell: Callable[..., Cell],
) -> None:
    cell = make_cell(ARMS, active=["left/joint_impedance_controller"], objects=OBJECTS)
    view = SceneView(cell.config)
    cell.step(1)
    cell.set_target("left", q=cell.state("left").q + 0.2)
    cell.step(300)
    view.show(newest(cell))
    assert np.abs(cell.state("left").dq).max() > 1e-3
    check_tools(view, cell)
    fallen = cell.objects()["ball"].position
    assert fallen[2] < 0.9
    np.testing.assert_allclose(view.data.body("ball").xpos, fallen, atol=1e-9)
    np.testing.assert_allclose(view.data.body("table").xpos, [1.0, 1.0, 0.1])


@pytest.mark.sim
def test_arms_with_different_joint_counts_are_shown(make_cell: Callable[..., Cell]) -> None:
    """Windows and videos failed with an arm of six joints beside one of seven."""
    arms = {"left": {"position": [0.0, 0.4, 0.0]}, "six": {"model": "ur5e", "gripper": False}}
    cell = make_cell(arms)
    view = SceneView(cell.config)
    cell.step(5)
    view.show(newest(cell))
    check_tools(view, cell)


@pytest.mark.sim
def test_displayed_fingers_follow_records(make_cell: Callable[..., Cell]) -> None:
    cell = make_cell(objects=OBJECTS)
    view = SceneView(cell.config)
    cell.step(2)
    row = newest(cell)
    row["arms"]["finger_positions"][0] = 0.013, 0.014
    view.show(row)
    qpos = view.data.qpos
    joints = [view.model.joint(i) for i in range(view.model.njnt)]
    fingers = [j for j in joints if j.name.startswith("left") and "finger" in j.name]
    assert [float(qpos[j.qposadr[0]]) for j in fingers] == pytest.approx([0.013, 0.014])


def test_scene_starts_at_start_configuration() -> None:
    q = [0.1, -0.5, 0.0, -2.0, 0.0, 1.5, 0.7]
    config = CellConfig.from_dict({"arms": {"arm": {"q_start": q}}, "objects": OBJECTS})
    view = SceneView(config)
    first = int(view.model.joint("arm_fr3_joint1").qposadr[0])
    np.testing.assert_allclose(view.data.qpos[first : first + 7], q)
    np.testing.assert_allclose(view.data.body("ball").xpos, [1.0, 0.0, 1.0])


@pytest.mark.sim
def test_viewer_does_not_change_simulation(make_cell: Callable[..., Cell]) -> None:
    looked_at, alone = (
        make_cell(active=["left/cartesian_impedance_controller"], objects=OBJECTS)
        for _ in range(2)
    )
    view = SceneView(looked_at.config)
    for _ in range(20):
        for cell in (looked_at, alone):
            cell.step(5)
        view.show(newest(looked_at))
    assert view.data.time == pytest.approx(newest(looked_at)["time"])
    for field in ("arms", "object_poses"):
        np.testing.assert_array_equal(newest(looked_at)[field], newest(alone)[field])
    assert mujoco.mj_stateSize(view.model, mujoco.mjtState.mjSTATE_FULLPHYSICS.value) > 0


def test_missing_display_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    with pytest.raises(RenderingUnavailable, match="no display"):
        require_display()


@pytest.mark.sim
def test_viewer_without_display_ends_in_one_line(
    make_cell: Callable[..., Cell],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    cell = make_cell()
    process = start_viewer(cell.config, cell.realtime, cell.shared_memory_fd)
    assert process.wait(20 * TIMEOUT_SCALE) == 1
    assert stop_viewer(process) == stop_viewer(process) == 1
    cell.step(10)
    error = capfd.readouterr().err
    assert error.startswith("multipanda viewer: no display")
    assert error.count("\n") == 1


@pytest.mark.sim
def test_missing_display_was_reported_after_lower_priority(
    make_cell: Callable[..., Cell],
) -> None:
    """The viewer lowered its priority first: the error took 20 s on a busy machine."""
    cell = make_cell()
    reported = subprocess.run(
        [sys.executable, "-c", ASK_NICENESS, str(cell.shared_memory_fd)],
        input=cell.config.model_dump_json() + "\n", env={**os.environ, "DISPLAY": ""},
        capture_output=True, text=True, pass_fds=(cell.shared_memory_fd,), timeout=80, check=True,
    )  # fmt: skip
    assert "no display" in reported.stderr
    assert int(reported.stdout) == os.nice(0)


def test_cell_must_be_started_for_viewer() -> None:
    cell = Cell(CellConfig.from_dict({"arms": {"arm": {}}}))
    with pytest.raises(LoopError, match="not started"):
        start_viewer(cell.config, cell.realtime, cell.shared_memory_fd)


def test_viewer_requires_cell_on_standard_input() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "multipanda_py.simulation.viewer", "0"],
        input=b"{}\n", capture_output=True, timeout=30, env={**os.environ, "DISPLAY": ""},
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith(b"multipanda viewer: cell: arms: missing")
    assert b"Traceback" not in done.stderr
