# SPDX-License-Identifier: Apache-2.0
"""Off-screen rendering of images and videos (PNG, MP4, GIF, WebP) of a MuJoCo scene."""

from __future__ import annotations

import ctypes.util
import os
import struct
import sys
import zlib
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import ConfigurationError, RenderingUnavailable, UnknownName
from multipanda_py.realtime.system.child_process import Closeable
from multipanda_py.registry import extras_named, missing

with extras_named():
    import mujoco


Image: TypeAlias = NDArray[np.uint8]
Camera: TypeAlias = "str | int | mujoco.MjvCamera | None"

_ADVICE = "install libegl1 and libgl1-mesa-dri, or libosmesa6 (names of Debian and Ubuntu)"
_LIBRARIES = {"egl": "EGL", "osmesa": "OSMesa"}
MAX_GEOMS = 10_000
"""Maximum number of rendered geoms."""
GIF_COLORS = 160
"""Colours of a GIF; its file size grows with them."""
WEBP_QUALITY = 70
"""Quality of WebP images from 0 to 100."""

_VIDEO_OPTIONS: dict[str, dict[str, object]] = {
    ".mp4": {"format": "FFMPEG", "codec": "libx264", "quality": 8, "macro_block_size": 2},
    ".gif": {"format": "GIF", "loop": 0},
}


class _GLContext(Protocol):
    """Interface of MuJoCo's OpenGL contexts."""

    def make_current(self) -> None:
        """Make the context current in this thread."""

    def free(self) -> None:
        """Release the context."""


def choose_backend() -> str:
    """Return the rendering backend; without a display, set an unset MUJOCO_GL to it.

    Without a display it is ``egl``, which works without a GPU, or else ``osmesa``. With a display
    it is ``glfw``.

    Raises:
        RenderingUnavailable: If there is neither a display nor an off-screen library.
    """
    chosen = os.environ.get("MUJOCO_GL", "").strip().lower()
    if chosen in ("egl", "osmesa", "glfw", "glx"):
        return "glfw" if chosen == "glx" else chosen
    if chosen in ("disable", "disabled", "off", "false", "0"):
        raise RenderingUnavailable(
            f"MUJOCO_GL is {chosen!r}: rendering is switched off. Unset it to render"
        )
    if sys.platform != "linux" or os.environ.get("DISPLAY"):
        return "glfw"
    for backend, library in _LIBRARIES.items():
        if ctypes.util.find_library(library) is not None:
            os.environ["MUJOCO_GL"] = backend
            return backend
    raise RenderingUnavailable(f"no display and no off-screen OpenGL library: {_ADVICE}")


def _make_context(width: int, height: int) -> _GLContext:
    backend = choose_backend()
    try:
        context: _GLContext = import_module(f"mujoco.{backend}").GLContext(width, height)
        context.make_current()
    except Exception as error:  # Each OpenGL library raises its own errors.
        raise RenderingUnavailable(
            f"OpenGL with {backend} does not work ({error}): {_ADVICE}"
        ) from error
    return context


def _make_buffers(
    model: mujoco.MjModel, width: int, height: int, plain: bool
) -> mujoco.MjrContext:
    # MuJoCo reads quality and size from the model only when it creates buffers. Buffers larger
    # than the image take more time without a GPU.
    quality, visual = model.vis.quality, model.vis.global_
    before = quality.offsamples, visual.offwidth, visual.offheight
    try:
        quality.offsamples = 0 if plain else quality.offsamples
        visual.offwidth, visual.offheight = width, height
        return mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_150.value)
    finally:
        quality.offsamples, visual.offwidth, visual.offheight = before


class Renderer(Closeable):
    """Renderer of a scene into images; a context manager.

    Without a GPU, ``plain=True`` reduces the time of an image to 1/16.

    Attributes:
        width: Width of the images [pixels].
        height: Height of the images [pixels].

    Thread: any, but always the one that created it.
    """

    def __init__(
        self, model: mujoco.MjModel, width: int = 1280, height: int = 720, *, plain: bool = False
    ) -> None:
        """Open an OpenGL context.

        Args:
            model: Compiled scene.
            width: Width of the images [pixels].
            height: Height of the images [pixels].
            plain: True to render without shadows and antialiasing.

        Raises:
            ConfigurationError: If the images are larger than the scene's off-screen buffer.
            RenderingUnavailable: If rendering is impossible; the message names what to install.
        """
        visual = model.vis.global_
        if not (0 < width <= visual.offwidth and 0 < height <= visual.offheight):
            raise ConfigurationError(
                f"image: got {width}x{height} pixels, allowed 1x1 to "
                f"{visual.offwidth}x{visual.offheight} (visual.global offwidth, offheight)"
            )
        self.width, self.height = width, height
        self._model = model
        self._context: _GLContext | None = _make_context(width, height)
        self._buffers = _make_buffers(model, width, height, plain)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, self._buffers)
        self._scene = mujoco.MjvScene(model, maxgeom=MAX_GEOMS)
        self._scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW.value] = not plain
        self._option = mujoco.MjvOption()
        self._rect = mujoco.MjrRect(0, 0, width, height)

    def frame(self, data: mujoco.MjData, camera: Camera = None) -> Image:
        """Render a state whose kinematics are up to date.

        Args:
            data: State, after ``mj_forward`` or ``mj_step``.
            camera: Name or index of a camera of the scene, a free camera, or None for the
                scene's default view.

        Returns:
            Image with red, green and blue, (height, width, 3).

        Raises:
            UnknownName: If the scene has no such camera.
            RenderingUnavailable: If the renderer was closed.
        """
        if self._context is None:
            raise RenderingUnavailable("the renderer was closed. Create a new one")
        self._context.make_current()
        mujoco.mjv_updateScene(
            self._model,
            data,
            self._option,
            None,
            self._camera_of_scene(camera),
            mujoco.mjtCatBit.mjCAT_ALL.value,
            self._scene,
        )
        image = np.empty((self.height, self.width, 3), dtype=np.uint8)
        mujoco.mjr_render(self._rect, self._scene, self._buffers)
        mujoco.mjr_readPixels(image, None, self._rect, self._buffers)
        return np.ascontiguousarray(image[::-1])

    def _camera_of_scene(self, camera: Camera) -> mujoco.MjvCamera:
        if isinstance(camera, mujoco.MjvCamera):
            return camera
        view = mujoco.MjvCamera()
        if camera is None:
            mujoco.mjv_defaultFreeCamera(self._model, view)
            return view
        known = tuple(self._model.camera(i).name for i in range(self._model.ncam))
        if camera not in known and camera not in range(len(known)):
            raise UnknownName("camera", str(camera), known)
        view.type = mujoco.mjtCamera.mjCAMERA_FIXED
        view.fixedcamid = known.index(camera) if isinstance(camera, str) else camera
        return view

    def close(self) -> None:
        """Release the OpenGL context; safe to call twice."""
        if self._context is not None:
            self._context.make_current()
            self._buffers.free()
            self._context.free()
            self._context = None


def render_png(
    model: mujoco.MjModel,
    data: mujoco.MjData,
    path: str | Path,
    width: int = 1280,
    height: int = 720,
    camera: Camera = None,
) -> None:
    """Write an image of a state as a PNG file.

    Args:
        model: Compiled scene.
        data: State, after ``mj_forward`` or ``mj_step``.
        path: Path of the PNG file.
        width: Width of the image [pixels].
        height: Height of the image [pixels].
        camera: Camera as in :meth:`Renderer.frame`.

    Raises:
        ConfigurationError: If the image is larger than the scene's off-screen buffer.
        RenderingUnavailable: If rendering is impossible; the message names what to install.
        UnknownName: If the scene has no such camera.
    """
    with Renderer(model, width, height) as renderer:
        write_png(path, renderer.frame(data, camera))


def write_png(path: str | Path, image: Image) -> None:
    """Write an image (height, width, 3) as a PNG file, by the PNG specification (RFC 2083)."""
    height, width, _ = image.shape
    # A PNG row starts with the number of its filter; 0 means that the row is not filtered.
    rows = np.zeros((height, 1 + 3 * width), dtype=np.uint8)
    rows[:, 1:] = image.reshape(height, -1)
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows.tobytes(), 6)),
        (b"IEND", b""),
    )
    with Path(path).open("wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n")
        for name, content in chunks:
            file.write(struct.pack(">I", len(content)) + name + content)
            file.write(struct.pack(">I", zlib.crc32(name + content)))


class VideoWriter(Closeable):
    """Writer of images to a video file, complete after :meth:`close`; a context manager."""

    def __init__(self, path: str | Path, fps: float = 30.0) -> None:
        """Open the video file.

        Args:
            path: File name with suffix ``.mp4`` or ``.gif``.
            fps: Frame rate, for a GIF up to 50 [Hz].

        Raises:
            ConfigurationError: If the suffix is another one, or fps is not positive.
            RenderingUnavailable: If the packages that write such files are missing.
        """
        suffix = Path(path).suffix.lower()
        if suffix not in _VIDEO_OPTIONS:
            raise ConfigurationError(f"video {path}: the suffix must be .mp4 or .gif")
        if not fps > 0.0:
            raise ConfigurationError(f"video {path}: fps: got {fps}, allowed more than 0")
        pace = {"fps": fps} if suffix == ".mp4" else {"duration": 1000.0 / fps}
        try:
            imageio = import_module("imageio.v2")
            self._writer = imageio.get_writer(
                str(path), mode="I", **_VIDEO_OPTIONS[suffix], **pace
            )
        except (ImportError, ValueError) as error:
            raise RenderingUnavailable(
                f"cannot write {suffix} files ({error}). Install the required packages: pip "
                "install 'multipanda_py[sim]'"
            ) from error
        self._is_open = True

    def append(self, image: Image) -> None:
        """Add an image, (height, width, 3); all images must have the same size."""
        self._writer.append_data(image)

    def close(self) -> None:
        """Finish the file; safe to call twice."""
        if self._is_open:
            self._is_open = False
            self._writer.close()


class AnimationWriter:
    """Writer that collects images and writes them as one GIF or WebP; a context manager.

    Args:
        path: File name with suffix ``.gif`` or ``.webp``.
        fps: Images per second; a GIF rounds the time of an image to 10 ms.

    Raises:
        RenderingUnavailable: Pillow is not installed.
    """

    def __init__(self, path: Path, fps: float) -> None:
        try:
            self._pillow: Any = import_module("PIL.Image")
        except ImportError as error:
            raise RenderingUnavailable(f"cannot write {path}: {missing('PIL')}") from error
        self._path, self._duration = path, round(1000.0 / fps)
        self._is_gif = path.suffix.lower() == ".gif"
        self._images: list[Any] = []
        self._palette: Any = None

    def append(self, image: Image) -> None:
        """Add an image, (height, width, 3)."""
        frame = self._pillow.fromarray(image)
        if self._is_gif:
            if self._palette is None:
                self._palette = frame.quantize(GIF_COLORS)
            # All images use the first palette without dithering: parts at rest need no space.
            frame = frame.quantize(palette=self._palette, dither=self._pillow.Dither.NONE)
        self._images.append(frame)

    def __enter__(self) -> AnimationWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Write the file, unless the block raised an exception."""
        if kind is None and self._images:
            first, *others = self._images
            extra = {} if self._is_gif else {"quality": WEBP_QUALITY, "method": 4}
            first.save(self._path, save_all=True, append_images=others, loop=0,
                       duration=self._duration, **extra)  # fmt: skip


def open_video(path: Path, fps: float) -> VideoWriter | AnimationWriter:
    """Return a writer for the suffix of ``path``: MP4, GIF or WebP."""
    return VideoWriter(path, fps) if path.suffix.lower() == ".mp4" else AnimationWriter(path, fps)
