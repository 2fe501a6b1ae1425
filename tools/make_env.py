# SPDX-License-Identifier: Apache-2.0
"""Make the Python environment of this repository in ``.venv``.

Requires only the standard library. Each step writes a stamp, the hash of its inputs. A second run
therefore does nothing, and an interrupted run continues. tools/README.md has the reasons.
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
COMMON_REQUIREMENTS = ("requirements", "requirements-logs", "requirements-test")
# Packages that require pinocchio from PyPI, in conflict with the pinocchio of an apt ROS 2.
WHEEL_REQUIREMENTS = ("requirements-wheels",)
# Packages that rosdep installs with an apt ROS 2: import name, apt package suffix.
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
# Interval of progress reports of a long step [s].
REPORT_INTERVAL = 15
START = time.monotonic()


def report(text: str) -> None:
    """Print one line of progress with the seconds since the start."""
    sys.stdout.write(f"[{time.monotonic() - START:6.1f} s] {text}\n")
    sys.stdout.flush()


def fail(text: str) -> NoReturn:
    """Print an error message and exit."""
    sys.stderr.write(f"make_env: {text}\n")
    sys.exit(1)


def clean_environment(system_ros: bool) -> dict[str, str]:
    """Return the environment for child processes.

    Without a system ROS 2, variables of another ROS installation or venv are removed. The start-up
    hook of the wheels does nothing if it inherits its guard variable.
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
    """Return the properties of an interpreter; None if it does not run."""
    path = shutil.which(python)
    if path is None:
        return None
    done = subprocess.run([path, "-c", PROBE], capture_output=True, text=True)
    # Shims of version managers are on PATH, but start only the selected versions.
    if done.returncode:
        return None
    found = json.loads(done.stdout)
    # Use the base interpreter of an activated environment, which may be .venv.
    return probe(found["executable"]) if found["in_venv"] else found


def find_python() -> dict[str, Any]:
    """Return the properties of the interpreter to use."""
    expected = os.environ.get("PYTHON", "")
    distro = os.environ.get("ROS_DISTRO", "")
    base = json.loads(MADE_WITH.read_text()) if MADE_WITH.exists() else {}
    if base.get("distro") and not distro:
        fail(
            f".venv uses ROS 2 {base['distro']}, which is not sourced: "
            f"source it, or remove .venv to use the wheels from PyPI"
        )
    names = [expected] if expected else ["python3", "python3.12", "python3.11", "python3.10"]
    if base and not expected and not distro:
        # Later runs use the selected Python again.
        names.insert(0, base["executable"])
    for name in names:
        found = probe(name)
        if found and tuple(found["version"][:2]) in SUPPORTED:
            return found
    versions = ", ".join(f"{a}.{b}" for a, b in SUPPORTED)
    if expected:
        fail(f"PYTHON={expected} does not run or is not one of {versions}")
    fail(f"no Python {versions} on PATH; install one or set PYTHON=/path/to/python3")


def check_tools(python: dict[str, Any], system_ros: bool) -> None:
    """Exit with a list of all missing programs, before the first step."""
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
    """Running command.

    Args:
        command: Program and arguments.
        env: Environment variables.
        log: File to which the output is appended.
    """

    def __init__(self, command: list[str | Path], env: dict[str, str], log: Path) -> None:
        self._command = [str(word) for word in command]
        self._log = log
        with log.open("ab") as output:
            output.write(f"\n$ {' '.join(self._command)}\n".encode())
            output.flush()
            self._output_start = output.tell()
            self._child = subprocess.Popen(
                self._command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL,
                stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip

    def finish(self) -> None:
        """Wait for the end; after a failure, print the end of the output and exit."""
        try:
            waited = 0
            while (code := self._poll()) is None:
                waited += REPORT_INTERVAL
                report(f"  ... {waited} s")
        except BaseException:
            self.stop()
            raise
        if code:
            with self._log.open("rb") as log:
                log.seek(self._output_start)
                lines = log.read().decode(errors="replace").splitlines()
            sys.stderr.write("\n".join(lines[-25:]) + "\n")
            fail(f"'{' '.join(self._command[:4])} ...' failed ({code}); whole log: {self._log}")

    def stop(self) -> None:
        """Terminate the command and its children."""
        if self._child.poll() is None:
            os.killpg(self._child.pid, signal.SIGTERM)
            self._child.wait()

    def _poll(self) -> int | None:
        """Return the exit code, or None if the command still runs after a while."""
        try:
            return self._child.wait(timeout=REPORT_INTERVAL)
        except subprocess.TimeoutExpired:
            return None


def run(command: list[str | Path], env: dict[str, str]) -> None:
    """Run a command with output to the log; after a failure, print its end and exit."""
    Running(command, env, LOG).finish()


def digest(paths: list[Path], *facts: object) -> str:
    """Return a hash of paths, file contents and facts."""
    total = hashlib.sha256(repr(facts).encode())
    for path in sorted(paths):
        total.update(str(path.relative_to(ROOT)).encode())
        total.update(path.read_bytes())
    return total.hexdigest()


def files_below(folder: Path) -> list[Path]:
    """Return the files of a folder, without hidden ones."""
    return [p for p in folder.rglob("*") if p.is_file() and not p.name.startswith(".")]


def make_venv(python: dict[str, Any], system_ros: bool, env: dict[str, str]) -> None:
    """Create an empty environment, and replace a broken or outdated one."""
    if VENV.exists() and any(VENV.iterdir()) and not (VENV / "pyvenv.cfg").exists():
        fail(f"{VENV} exists and is not a virtual environment; move it away")
    # `venv --clear` may be interrupted and then leave a folder without pyvenv.cfg.
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
    """Install the pinned packages; return the running build of the interfaces, or None."""
    if system_ros:
        # The messages of the distribution are compiled for its version of numpy.
        BUILD.mkdir(exist_ok=True)
        hold = BUILD / "hold.txt"
        hold.write_text(f"numpy=={python['numpy']}\n")
        pip_install(hold, COMMON_REQUIREMENTS, env)
        return None
    constraints = TOOLS / "constraints.txt"
    pip_install(constraints, ("requirements-ros",), env)
    building = start_interfaces(env)
    try:
        pip_install(constraints, (*COMMON_REQUIREMENTS, *WHEEL_REQUIREMENTS), env)
    except BaseException:
        building.stop()
        raise
    return building


def pip_install(constraints: Path, parts: tuple[str, ...], env: dict[str, str]) -> None:
    """Install the packages of some requirement files."""
    command: list[str | Path] = [VENV_PYTHON, "-m", "pip", "install", "--progress-bar=off"]
    command += ["-c", constraints]
    for part in parts:
        command += ["-r", TOOLS / f"{part}.txt"]
    run(command, env)


def site_packages() -> Path:
    """Return the folder of the environment's modules."""
    return next(VENV.glob("lib/python3.*/site-packages"))


def correct_exports(env: dict[str, str]) -> None:
    """Set the include folders of this interpreter in the CMake files of the wheels.

    The wheels have the folders of their build machine, which CMake rejects.
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
    """Start to build tools/interfaces into the environment, with the libraries of the wheels."""
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
    """Wait for the build of the interfaces, and make them importable."""
    building.finish()
    shutil.rmtree(BUILD / "interfaces")
    # With the environment as an ament prefix, no file has to be sourced.
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
    """Link the shared files into an ament prefix, as an editable install copies no data files.

    Files are linked instead of folders, because ``ros2 launch`` does not search linked folders.
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
    """Return the files that launch and ros2 tools require in the share folder."""
    folders = [ROOT / name for name in ("config", "launch", "urdf")]
    found = [path for folder in folders for path in files_below(folder)]
    files = sorted(path for path in found if "__pycache__" not in path.parts)
    return [ROOT / "package.xml", *files]


def report_missing_apt_packages(env: dict[str, str]) -> None:
    """Print the missing packages of the installed ROS 2, which are optional."""
    for module, package in FROM_APT.items():
        code = f"import importlib.util as u; raise SystemExit(not u.find_spec('{module}'))"
        if subprocess.run([VENV_PYTHON, "-c", code], env=env).returncode:
            distro = os.environ.get("ROS_DISTRO", "$ROS_DISTRO")
            report(f"missing {module}: apt install ros-{distro}-{package}")


def main() -> None:
    """Update the environment."""
    # A lock of the folder needs no lock file, and ends with the process.
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
    building: list[Running | None] = [None]  # started by the step "packages"
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

    # A step depends on all previous steps.
    keys: list[str] = []
    for _, _, step_key, _ in steps:
        keys.append(digest([], step_key, *keys[-1:]))
    unfinished = STAMPS / "unfinished"
    if unfinished.exists() and unfinished.read_text() == "packages":
        # To pip, a partly copied package is installed.
        report("the last run was interrupted while installing: starting over")
        for stamp in STAMPS.iterdir():
            stamp.unlink()
    todo = [i for i, step in enumerate(steps) if not current(step[0], keys[i])]
    if not todo:
        report("environment .venv is up to date")
        return
    if VENV.is_symlink():  # make_venv would delete the files of another checkout
        fail(f"{VENV} is a link to {VENV.resolve()} and not up to date: remove the link")
    check_tools(python, system_ros)
    version = ".".join(map(str, python["version"]))
    source = (
        f"ROS 2 {os.environ['ROS_DISTRO']} of this system, numpy fixed to {python['numpy']}"
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
