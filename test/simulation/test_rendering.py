# SPDX-License-Identifier: Apache-2.0
"""Images and videos; skipped without a renderer."""

from __future__ import annotations

import os

import mujoco
import numpy as np
import pytest

from multipanda_py.exceptions import ConfigurationError, RenderingUnavailable, UnknownName
from multipanda_py.robots import ArmDescription
from multipanda_py.simulation import rendering
from multipanda_py.simulation.scene_mjcf import build_scene

pytestmark = pytest.mark.inline


@pytest.fixture(scope="module")
def scene():
    """Scene with one arm in its ready configuration."""
    model = build_scene([ArmDescription("arm")]).compile()
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_forward(model, data)
    return model, data


@pytest.fixture(scope="module")
def renderer(scene):
    """Small renderer."""
    try:
        with rendering.Renderer(scene[0], 160, 120) as renderer:
            yield renderer
    except RenderingUnavailable as error:
        pytest.skip(str(error))


def test_cameras_show_bright_arm(scene, renderer):
    views = [renderer.frame(scene[1], camera) for camera in (None, "overview", 0)]
    for view in views:
        assert view.shape == (120, 160, 3)
        assert view.dtype == np.uint8
        assert view.std() > 10.0
    assert (views[1] == views[2]).all()
    assert (views[0] != views[1]).any()
    with pytest.raises(UnknownName, match="overview"):
        renderer.frame(scene[1], "nowhere")
    with pytest.raises(UnknownName):
        renderer.frame(scene[1], 3)


def test_png_equals_frame(scene, renderer, tmp_path):
    image = pytest.importorskip("PIL.Image")
    rendering.render_png(*scene, tmp_path / "arm.png", 160, 120, "overview")
    read = np.asarray(image.open(tmp_path / "arm.png"))
    assert (read == renderer.frame(scene[1], "overview")).all()


@pytest.mark.parametrize("suffix", [".mp4", ".gif"])
def test_video_file_is_written(suffix, tmp_path):
    pytest.importorskip("imageio_ffmpeg" if suffix == ".mp4" else "imageio")
    path = tmp_path / f"film{suffix}"
    with rendering.VideoWriter(path, fps=25) as video:
        for shade in range(0, 250, 25):
            video.append(np.full((64, 96, 3), shade, dtype=np.uint8))
    video.close()
    assert path.stat().st_size > 500


def test_video_options_are_checked(tmp_path):
    with pytest.raises(ConfigurationError, match=r"\.mp4 or \.gif"):
        rendering.VideoWriter(tmp_path / "film.avi")
    with pytest.raises(ConfigurationError, match="fps"):
        rendering.VideoWriter(tmp_path / "film.gif", fps=0)


def test_too_large_images_are_rejected(scene):
    with pytest.raises(ConfigurationError, match="1920x1200"):
        rendering.Renderer(scene[0], 4000, 100)


def test_backend_follows_available_libraries(monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    assert rendering.choose_backend() == "osmesa"
    monkeypatch.setenv("MUJOCO_GL", "off")
    with pytest.raises(RenderingUnavailable, match="switched off"):
        rendering.choose_backend()

    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.setenv("MUJOCO_GL", "")
    monkeypatch.setattr("ctypes.util.find_library", {"OSMesa": "libOSMesa.so"}.get)
    assert rendering.choose_backend() == "osmesa"
    assert os.environ["MUJOCO_GL"] == "osmesa"

    monkeypatch.setenv("MUJOCO_GL", "")
    monkeypatch.setattr("ctypes.util.find_library", {}.get)
    with pytest.raises(RenderingUnavailable, match="libegl1"):
        rendering.choose_backend()
    monkeypatch.setenv("DISPLAY", ":0")
    assert rendering.choose_backend() == "glfw"
