# SPDX-License-Identifier: Apache-2.0
"""Viewer window of a running cell, in a separate process that does not disturb the loop.

It is started as ``python -m multipanda_py.simulation.viewer FD``. The cell configuration comes as
JSON on the first line of standard input. ``FD`` is the file descriptor of the shared memory with
recorded cycles, which the viewer only reads. The window closes at the end of standard input, when
the owner of the cell closes it or dies. Closing the window ends only this process.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.sections import RealtimeConfig
from multipanda_py.exceptions import MultipandaError, RenderingUnavailable
from multipanda_py.realtime.running_cell import RecordFollower
from multipanda_py.realtime.system.child_process import (
    end_of_input,
    ended,
    leave,
    module_command,
    read_data,
)
from multipanda_py.realtime.system.scheduling import loop_cpu
from multipanda_py.registry import missing

MAX_FRAME_RATE = 60.0
"""Maximum frame rate of the window [Hz]."""
CAMERA_DISTANCE_FACTOR = 1.3
"""Initial camera distance relative to MuJoCo's default."""
NICENESS = 10
"""Niceness of the process, so that it does not delay control."""


def start_viewer(config: CellConfig, realtime: RealtimeConfig, fd: int) -> subprocess.Popen[bytes]:
    """Open a viewer window on a started cell, and return its process.

    :func:`stop_viewer` closes the window. Without a display, the process ends with exit code 1.

    Args:
        config: Configuration of the cell.
        realtime: Real-time settings of the started loop.
        fd: Descriptor of the memory shared with the loop.
    """
    config = config.model_copy(update={"realtime": realtime})
    process = subprocess.Popen(
        module_command("multipanda_py.simulation.viewer", str(fd)),
        stdin=subprocess.PIPE,
        pass_fds=(fd,),
        start_new_session=True,  # Ctrl-C must not reach the new process.
    )
    if process.stdin is not None:
        # If the viewer has ended already, it has written the reason to standard error itself.
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(config.model_dump_json().encode() + b"\n")
            process.stdin.flush()
    return process


def stop_viewer(process: subprocess.Popen[bytes], timeout: float = 3.0) -> int:
    """Close the window and return the exit code of its process; safe to call twice.

    Args:
        process: Process of the viewer.
        timeout: Time after which the process is killed [s].
    """
    if process.stdin is not None:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
    return ended(process, timeout)


def view(config: CellConfig, follower: RecordFollower, ended: threading.Event) -> None:
    """Show the newest cycle in a window, until the user closes the window or ``ended`` is set.

    Args:
        config: Configuration of the cell.
        follower: Reader of the recorded cycles in shared memory.
        ended: Event that ends the display.
    """
    import mujoco.viewer

    from multipanda_py.simulation.scene_view import SceneView

    scene = SceneView(config)
    handle = mujoco.viewer.launch_passive(
        scene.model, scene.data, show_left_ui=False, show_right_ui=False
    )
    with handle:
        with handle.lock():
            mujoco.mjv_defaultFreeCamera(scene.model, handle.cam)
            handle.cam.distance *= CAMERA_DISTANCE_FACTOR
        shown = 0
        while handle.is_running() and not ended.wait(1.0 / MAX_FRAME_RATE):
            if (row := follower.newest()) is not None and row["cycle"] != shown:
                with handle.lock():
                    scene.show(row)
                handle.sync(state_only=True)
                shown = int(row["cycle"])
            else:
                handle.sync()


def require_display() -> None:
    """Check that a window with OpenGL can be opened.

    Raises:
        RenderingUnavailable: If there is no display, or no OpenGL on it.
    """
    if not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        raise RenderingUnavailable("no display: set DISPLAY or WAYLAND_DISPLAY")
    try:
        import glfw
    except ImportError as error:
        raise RenderingUnavailable(f"no window can be opened: {missing('glfw')}") from error
    # By default glfw prints its errors. The exceptions raised below replace this output.
    glfw.set_error_callback(lambda code, text: None)
    if not glfw.init():
        display = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
        raise RenderingUnavailable(f"no window can be opened on display {display!r}")
    glfw.window_hint(glfw.VISIBLE, glfw.FALSE)
    window = glfw.create_window(64, 64, "", None, None)
    glfw.default_window_hints()
    if not window:  # Without this check, MuJoCo's window thread would wait for OpenGL forever.
        raise RenderingUnavailable("the display has no OpenGL, so no window can be opened")
    glfw.destroy_window(window)


def main() -> int:
    """Show the cell whose configuration is on standard input; return the exit code."""
    # Ctrl-C reaches the parent process, which then ends this one in order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        config = CellConfig.from_dict(read_data())
        require_display()
        # Rendering must not delay the loop, so it has a low priority. It is set only after the
        # check of the display, because an error must be reported promptly.
        os.nice(NICENESS)
        _leave_core_of_loop(config)
        follower = RecordFollower(config, int(sys.argv[1]))
        view(config, follower, end_of_input())
    except (MultipandaError, ImportError) as error:
        sys.stderr.write(f"multipanda viewer: {error}\n")
        return 1
    except Exception as error:
        sys.stderr.write(f"multipanda viewer: {type(error).__name__}: {error}\n")
        return 1
    return 0


def _leave_core_of_loop(config: CellConfig) -> None:
    cpu = loop_cpu(config.realtime)
    others = os.sched_getaffinity(0) - {cpu}
    if cpu is not None and others:
        os.sched_setaffinity(0, others)


if __name__ == "__main__":
    leave(main())  # MuJoCo's window thread can outlive the window and block a normal exit.
