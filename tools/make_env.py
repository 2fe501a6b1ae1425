# SPDX-License-Identifier: Apache-2.0
"""Make the Python environment of this repository in ``.venv``.

Needs only the standard library. Each step leaves a stamp with the hash of what it was made
from, so a second run does nothing and an interrupted one continues.
Background: tools/README.md.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, NoReturn

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ROOT / "tools"
VENV = ROOT / ".venv"
VENV_PYTHON = VENV / "bin" / "python"
STAMPS = VENV / "stamps"
MADE_WITH = VENV / "made_with.json"
LOG = VENV / "make_env.log"
INTERFACES_LOG = VENV / "interfaces.log"
BUILD = VENV / "build"
NAME = "multipanda_py"
SUPPORTED = ((3, 10), (3, 11), (3, 12))
PROGRAMS = ("multimode_controller", "multipanda")
INTERFACES = (
    "btcpp_ros2_interfaces", "controller_manager_msgs", "control_msgs", "franka_msgs",
    "pal_statistics_msgs", "simulation_interfaces", "tf2_msgs",
)  # fmt: skip
OF_ANY_ROS = ("requirements", "requirements-logs", "requirements-test")
# What brings a pinocchio from PyPI along; beside an apt ROS 2 it would be a second one.
OF_WHEELS = ("requirements-wheels",)
# Absent from the PyPI set because rosdep installs them: import name, apt package suffix.
FROM_APT = {
    "pinocchio": "pinocchio",
    "controller_manager_msgs": "controller-manager-msgs",
    "control_msgs": "control-msgs",
    "diagnostic_msgs": "diagnostic-msgs",
    "pal_statistics_msgs": "pal-statistics-msgs",
    "simulation_interfaces": "simulation-interfaces",
    "tf2_msgs": "tf2-msgs",
    "trajectory_msgs": "trajectory-msgs",
}
PROBE = """
import importlib.util as u, json, os, sys, sysconfig
from importlib import metadata
try:
    numpy_version = metadata.version("numpy")
except metadata.PackageNotFoundError:
    numpy_version = ""
base = getattr(sys, "_base_executable", sys.executable)
print(json.dumps({
    "version": list(sys.version_info[:3]),
    "executable": os.path.realpath(base if sys.prefix != sys.base_prefix else sys.executable),
    "in_venv": sys.prefix != sys.base_prefix,
    "venv": bool(u.find_spec("venv") and u.find_spec("ensurepip")),
    "header": os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")),
    "rclpy": bool(u.find_spec("rclpy")),
    "numpy": numpy_version,
}))
"""
# Seconds between signs of life of a long step.
TIMEOUT_SCALE = 15
START = time.monotonic()


def report(text: str) -> None:
    """Print one line of progress with the seconds since the start."""
    sys.stdout.write(f"[{time.monotonic() - START:6.1f} s] {text}\n")
    sys.stdout.flush()


def fail(text: str) -> NoReturn:
    """Stop with one line on what is wrong and what to do."""
    sys.stderr.write(f"make_env: {text}\n")
    sys.exit(1)


def clean_environment(system_ros: bool) -> dict[str, str]:
    """Return the environment for child processes.

    Without a system ROS 2, settings of another ROS installation or venv would leak into the
    build; the wheels' own start-up hook does nothing while its guard variable is inherited.
    """
    env = dict(os.environ)
    drop = ["PYTHONHOME", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__"]
    if not system_ros:
        drop += ["PYTHONPATH", "AMENT_PREFIX_PATH", "CMAKE_PREFIX_PATH", "COLCON_PREFIX_PATH"]
        if env.pop("_ROS_WHEELS_BOOTSTRAP_COMPLETE", ""):
            drop.append("LD_LIBRARY_PATH")
    for name in drop:
        env.pop(name, None)
    env["PATH"] = f"{VENV / 'bin'}{os.pathsep}{env.get('PATH', os.defpath)}"
    env.setdefault("PIP_DISABLE_PIP_VERSION_CHECK", "1")
    return env


def probe(python: str) -> dict[str, Any] | None:
    """Ask an interpreter what it is; None if it does not run."""
    path = shutil.which(python)
    if path is None:
        return None
    done = subprocess.run([path, "-c", PROBE], capture_output=True, text=True)
    # A version manager's shim exists on PATH even for versions it will not start.
    if done.returncode:
        return None
    found = json.loads(done.stdout)
    # From an activated environment, perhaps our own: use what it was made from.
    return probe(found["executable"]) if found["in_venv"] else found


def find_python() -> dict[str, Any]:
    """Return the facts of the interpreter to use."""
    expected = os.environ.get("PYTHON", "")
    distro = os.environ.get("ROS_DISTRO", "")
    made_with = json.loads(MADE_WITH.read_text()) if MADE_WITH.exists() else {}
    if made_with.get("distro") and not distro:
        fail(
            f".venv uses ROS 2 {made_with['distro']}, which is not sourced: "
            f"source it, or remove .venv to use the wheels from PyPI"
        )
    names = [expected] if expected else ["python3", "python3.12", "python3.11", "python3.10"]
    if made_with and not expected and not distro:
        # Who once chose a Python keeps it without naming it every time.
        names.insert(0, made_with["executable"])
    for name in names:
        found = probe(name)
        if found and tuple(found["version"][:2]) in SUPPORTED:
            return found
    versions = ", ".join(f"{a}.{b}" for a, b in SUPPORTED)
    if expected:
        fail(f"PYTHON={expected} does not run or is not one of {versions}")
    fail(f"no Python {versions} on PATH; install one or set PYTHON=/path/to/python3")


def check_tools(python: dict[str, Any], system_ros: bool) -> None:
    """Report everything that is missing, one line each, before any work is done."""
    minor = ".".join(map(str, python["version"][:2]))
    missing = []
    if not python["venv"]:
        missing.append(f"module venv of Python {minor}: apt install python{minor}-venv")
    if not system_ros:
        for program, package in (
            ("gcc", "gcc"), ("g++", "g++"), ("cmake", "cmake"), ("make", "make"),
        ):  # fmt: skip
            if shutil.which(program) is None:
                missing.append(f"{program}: apt install {package}")
        if not python["header"]:
            missing.append(f"Python.h of Python {minor}: apt install python{minor}-dev")
    for line in missing:
        sys.stderr.write(f"make_env: missing {line}\n")
    if missing:
        sys.exit(1)


class Running:
    """A command that runs.

    Args:
        command: Its words.
        env: Its environment.
        log: Takes all that it says, after what is there.
    """

    def __init__(self, command: list[str | Path], env: dict[str, str], log: Path) -> None:
        self._words = [str(word) for word in command]
        self._log = log
        with log.open("ab") as output:
            output.write(f"\n$ {' '.join(self._words)}\n".encode())
            output.flush()
            self._begin = output.tell()
            self._child = subprocess.Popen(
                self._words, cwd=ROOT, env=env, stdin=subprocess.DEVNULL,
                stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip

    def finish(self) -> None:
        """Wait for its end; if it failed, show the end of what it said and stop."""
        try:
            waited = 0
            while (code := self._ended()) is None:
                waited += TIMEOUT_SCALE
                report(f"  ... {waited} s")
        except BaseException:
            self.stop()
            raise
        if code:
            with self._log.open("rb") as log:
                log.seek(self._begin)
                lines = log.read().decode(errors="replace").splitlines()
            sys.stderr.write("\n".join(lines[-25:]) + "\n")
            fail(f"'{' '.join(self._words[:4])} ...' failed ({code}); whole log: {self._log}")

    def stop(self) -> None:
        """End it, and what it has started."""
        if self._child.poll() is None:
            os.killpg(self._child.pid, signal.SIGTERM)
            self._child.wait()

    def _ended(self) -> int | None:
        """Return its exit code, or None if it still runs after a while."""
        try:
            return self._child.wait(timeout=TIMEOUT_SCALE)
        except subprocess.TimeoutExpired:
            return None


def run(command: list[str | Path], env: dict[str, str]) -> None:
    """Run a command into the log; on failure show the end of what it said and stop."""
    Running(command, env, LOG).finish()


def digest(paths: list[Path], *facts: object) -> str:
    """Hash files (their place and content) and facts."""
    total = hashlib.sha256(repr(facts).encode())
    for path in sorted(paths):
        total.update(str(path.relative_to(ROOT)).encode())
        total.update(path.read_bytes())
    return total.hexdigest()


def files_below(folder: Path) -> list[Path]:
    """List the files of a folder, without editor and build leftovers."""
    return [p for p in folder.rglob("*") if p.is_file() and not p.name.startswith(".")]


def make_venv(python: dict[str, Any], system_ros: bool, env: dict[str, str]) -> None:
    """Create the empty environment, in place of a broken or outdated one."""
    if VENV.exists() and any(VENV.iterdir()) and not (VENV / "pyvenv.cfg").exists():
        fail(f"{VENV} exists and is not a virtual environment; move it away")
    # Not `venv --clear`: what an interrupted removal leaves must still look like a venv.
    if VENV.exists():
        for item in sorted(VENV.iterdir(), key=lambda p: p.name == "pyvenv.cfg"):
            if item.is_dir() and not item.is_symlink():
                shutil.rmtree(item)
            else:
                item.unlink()
    VENV.mkdir(exist_ok=True)
    (VENV / "pyvenv.cfg").touch()
    options = ["--system-site-packages"] if system_ros else []
    run([python["executable"], "-m", "venv", *options, VENV], env)
    distro = os.environ["ROS_DISTRO"] if system_ros else ""
    MADE_WITH.write_text(json.dumps({"executable": python["executable"], "distro": distro}))
    STAMPS.mkdir()


def install_packages(
    python: dict[str, Any], system_ros: bool, env: dict[str, str]
) -> Running | None:
    """Install the pinned packages; return the build of the interfaces, which goes on beside."""
    if system_ros:
        # The distribution's messages are compiled against its numpy: it must stay.
        BUILD.mkdir(exist_ok=True)
        hold = BUILD / "hold.txt"
        hold.write_text(f"numpy=={python['numpy']}\n")
        pip_install(hold, OF_ANY_ROS, env)
        return None
    constraints = TOOLS / "constraints.txt"
    pip_install(constraints, ("requirements-ros",), env)
    building = start_interfaces(env)
    try:
        pip_install(constraints, (*OF_ANY_ROS, *OF_WHEELS), env)
    except BaseException:
        building.stop()
        raise
    return building


def pip_install(constraints: Path, parts: tuple[str, ...], env: dict[str, str]) -> None:
    """Install what some files of requirements name."""
    command: list[str | Path] = [VENV_PYTHON, "-m", "pip", "install", "--progress-bar=off"]
    command += ["-c", constraints]
    for part in parts:
        command += ["-r", TOOLS / f"{part}.txt"]
    run(command, env)


def site_packages() -> Path:
    """Return the folder of the environment's modules."""
    return next(VENV.glob("lib/python3.*/site-packages"))


def correct_exports(env: dict[str, str]) -> None:
    """Point the wheels' CMake files at this interpreter.

    They name the include folders of the machine that built the wheels, which CMake refuses.
    """
    code = (
        "import sysconfig, numpy\n"
        "print(sysconfig.get_path('include'), numpy.get_include(), sep='\\n')"
    )
    done = subprocess.run(
        [VENV_PYTHON, "-c", code], capture_output=True, text=True, check=True, env=env
    )
    python_include, numpy_include = done.stdout.split("\n")[:2]
    for path in (VENV / "share").glob("*/cmake/*generator_pyExport.cmake"):
        text = path.read_text()
        fixed = re.sub(r'/opt/python/[^";]*/numpy/(_core|core)/include', numpy_include, text)
        fixed = re.sub(r'/opt/python/[^";]*/include/python3\.\d+', python_include, fixed)
        if fixed != text:
            path.write_text(fixed)


def start_interfaces(env: dict[str, str]) -> Running:
    """Begin to build tools/interfaces into the environment, where the wheels' libraries are."""
    correct_exports(env)
    env = {**env, "CMAKE_PREFIX_PATH": str(VENV), "AMENT_PREFIX_PATH": str(VENV)}
    build = BUILD / "interfaces"
    shutil.rmtree(build, ignore_errors=True)
    run(
        [
            "cmake", "-S", TOOLS / "build_interfaces", "-B", build, "-G", "Unix Makefiles",
            f"-DNAMES={';'.join(INTERFACES)}", f"-DCMAKE_INSTALL_PREFIX={VENV}",
            f"-DPython3_EXECUTABLE={VENV_PYTHON}",
            f"-DPYTHON_INSTALL_DIR={site_packages().relative_to(VENV)}",
        ],
        env,
    )  # fmt: skip
    jobs = str(os.cpu_count() or 1)
    return Running(["cmake", "--build", build, "--parallel", jobs], env, INTERFACES_LOG)


def finish_interfaces(building: Running, env: dict[str, str]) -> None:
    """Wait until the interfaces are built, and let them be found."""
    building.finish()
    shutil.rmtree(BUILD / "interfaces")
    # The environment is an ament prefix: index look-ups then need no sourced file.
    (site_packages() / "ament_prefix.pth").write_text(
        "import os, sys; _k = 'AMENT_PREFIX_PATH'; "
        "_p = [p for p in os.environ.get(_k, '').split(os.pathsep) if p]; "
        "sys.prefix in _p or os.environ.update({_k: os.pathsep.join([*_p, sys.prefix])})\n"
    )
    modules = ", ".join(f"{name}.{kind}" for name, kind in (
        ("btcpp_ros2_interfaces", "action"), ("controller_manager_msgs", "srv"),
        ("control_msgs", "action"), ("franka_msgs", "action"), ("pal_statistics_msgs", "msg"),
        ("simulation_interfaces", "srv"), ("tf2_msgs", "msg"),
    ))  # fmt: skip
    run([VENV_PYTHON, "-c", f"import {modules}"], env)


def install_package(env: dict[str, str]) -> None:
    """Install this package editable, with its shared files in the ament index."""
    run(
        [VENV_PYTHON, "-m", "pip", "install", "--no-build-isolation", "--no-deps", "-e", ROOT],
        env,
    )
    for script in PROGRAMS:
        if not (VENV / "bin" / script).exists():
            fail(f"{VENV / 'bin' / script} was not installed; see setup.py")
    link_into(VENV)


def link_into(prefix: Path) -> None:
    """Make an ament prefix know this package: an editable install copies no data files.

    Files are linked, not folders: ``ros2 launch`` does not look into a folder that is a link.
    """
    marker = prefix / "share/ament_index/resource_index/packages" / NAME
    marker.parent.mkdir(parents=True, exist_ok=True)
    marker.touch()
    share, programs = prefix / "share" / NAME, prefix / "lib" / NAME
    for old in share.glob("*"):
        if old.is_dir() and not old.is_symlink():
            shutil.rmtree(old)
        else:
            old.unlink()
    links = {share / path.relative_to(ROOT): path for path in shared_files()}
    links.update({programs / script: VENV / "bin" / script for script in PROGRAMS})
    for link, path in links.items():
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.is_symlink():
            link.symlink_to(path)


def shared_files() -> list[Path]:
    """Return the files that launch and the ros2 tools look for in the share of this package."""
    folders = [ROOT / name for name in ("config", "launch", "urdf")]
    found = [path for folder in folders for path in files_below(folder)]
    kept = sorted(path for path in found if "__pycache__" not in path.parts)
    return [ROOT / "package.xml", *kept]


def report_missing_apt_packages(env: dict[str, str]) -> None:
    """Name what the installed ROS 2 lacks; the environment is useful without it."""
    for module, package in FROM_APT.items():
        code = f"import importlib.util as u; raise SystemExit(not u.find_spec('{module}'))"
        if subprocess.run([VENV_PYTHON, "-c", code], env=env).returncode:
            distro = os.environ.get("ROS_DISTRO", "$ROS_DISTRO")
            report(f"missing {module}: apt install ros-{distro}-{package}")


def main() -> None:
    """Bring the environment up to date."""
    # On the folder, so that no lock file is left; released when the process ends.
    lock = os.open(TOOLS, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        report("waiting for another run to finish")
        fcntl.flock(lock, fcntl.LOCK_EX)

    python = find_python()
    system_ros = bool(os.environ.get("ROS_DISTRO")) and python["rclpy"]
    env = clean_environment(system_ros)
    requirements = [*TOOLS.glob("requirements*.txt"), TOOLS / "constraints.txt"]
    facts = (python["version"], python["executable"], system_ros, str(ROOT))
    building: list[Running | None] = [None]  # begun with the packages, if those are to do
    steps: list[tuple[str, str, str, Callable[[], None]]] = [
        (
            "venv",
            "empty environment",
            digest([], *facts, python["numpy"] if system_ros else ""),
            lambda: make_venv(python, system_ros, env),
        ),
        (
            "packages",
            "pinned packages",
            digest(requirements),
            lambda: building.append(install_packages(python, system_ros, env)),
        ),
    ]
    if not system_ros:
        steps.append(
            (
                "interfaces",
                "ROS interfaces not on PyPI",
                digest(files_below(TOOLS / "interfaces")),
                lambda: finish_interfaces(building.pop() or start_interfaces(env), env),
            )
        )
    steps.append(
        (
            "package",
            f"{NAME}, editable",
            digest(
                [ROOT / "setup.py", ROOT / "setup.cfg", ROOT / "package.xml"],
                [str(path.relative_to(ROOT)) for path in shared_files()],
            ),
            lambda: install_package(env),
        )
    )

    def current(name: str, key: str) -> bool:
        stamp = STAMPS / name
        return stamp.exists() and stamp.read_text() == key

    # A step depends on all before it.
    keys: list[str] = []
    for _, _, own, _ in steps:
        keys.append(digest([], own, *keys[-1:]))
    unfinished = STAMPS / "unfinished"
    if unfinished.exists() and unfinished.read_text() == "packages":
        # A half-copied package looks installed to pip.
        report("the last run was interrupted while installing: starting over")
        for stamp in STAMPS.iterdir():
            stamp.unlink()
    todo = [i for i, step in enumerate(steps) if not current(step[0], keys[i])]
    if not todo:
        report("environment .venv is up to date")
        return
    if VENV.is_symlink():  # it would be emptied, and whoever works with it have none
        fail(f"{VENV} is a link to {VENV.resolve()} and not up to date: remove the link")
    check_tools(python, system_ros)
    version = ".".join(map(str, python["version"]))
    source = (
        f"ROS 2 {os.environ['ROS_DISTRO']} of this system, numpy held at {python['numpy']}"
        if system_ros
        else "ROS 2 Kilted from PyPI"
    )
    report(f"making .venv: Python {version} ({python['executable']}), {source}")
    for i in todo:
        name, title, _, action = steps[i]
        report(f"{i + 1}/{len(steps)} {title}")
        if STAMPS.exists():
            unfinished.write_text(name)
        action()
        (STAMPS / name).write_text(keys[i])
        unfinished.unlink(missing_ok=True)
    if system_ros:
        report_missing_apt_packages(env)
    report("done")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        main()
    except KeyboardInterrupt:
        fail("interrupted; run again to continue")
