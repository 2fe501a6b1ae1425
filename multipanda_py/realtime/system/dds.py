# SPDX-License-Identifier: Apache-2.0
"""Settings of Fast DDS, and clean-up of the shared memory of its killed processes.

Fast DDS, the default middleware of ROS 2, gives every process a *segment* of 0.5 MB in /dev/shm,
which a killed process leaves there. The segment of a living process has a locked file with the
same name and the suffix ``_el``.

A process that sends to a *port* first creates a file for the port. If it is killed during the
creation, an empty file remains. Every process that opens this file waits forever.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from stat import S_ISREG

from multipanda_py.exceptions import ConfigurationError

PROFILE_VARIABLE = "FASTDDS_DEFAULT_PROFILES_FILE"
PROFILE_FILE = Path(__file__).with_name("without_types.xml")
LAST_DOMAIN = 232
"""Maximum domain by the port numbers of DDS (RTPS 2.2, 9.6.1.1)."""
_PROFILE_VARIABLES = ("FASTRTPS_DEFAULT_PROFILES_FILE", PROFILE_VARIABLE)
_DEFAULT_PROFILE_FILES = ("DEFAULT_FASTDDS_PROFILES.xml", "DEFAULT_FASTRTPS_PROFILES.xml")


def discovery_hint() -> str:
    """Return a hint on settings to check, to append to the error that no node was found."""
    domain = os.environ.get("ROS_DOMAIN_ID", "0")
    return (
        f". Check the namespace of the cell and ROS_DOMAIN_ID, which is {domain} here. Between "
        "machines, both need ROS_AUTOMATIC_DISCOVERY_RANGE=SUBNET"
    )


def check_domain() -> None:
    """Raise an error for an invalid ROS domain.

    Raises:
        ConfigurationError: If ``ROS_DOMAIN_ID`` is invalid.
    """
    domain = os.environ.get("ROS_DOMAIN_ID") or "0"
    if not domain.isdecimal() or int(domain) > LAST_DOMAIN:
        raise ConfigurationError(f"ROS_DOMAIN_ID: got {domain}, allowed 0 to {LAST_DOMAIN}")


def announce_without_types() -> None:
    """Let Fast DDS announce topics without message types, unless the user has set a profile.

    ROS does not need announced types. Other middleware ignores this setting.

    Thread: main, before the first context of ROS.
    """
    # A client that is killed while it requests types would hide topics of the node from later
    # clients.
    if any(os.environ.get(name) for name in _PROFILE_VARIABLES):
        return
    if any(
        Path(name).exists() for name in _DEFAULT_PROFILE_FILES
    ):  # Fast DDS reads these files in the working folder.
        return
    os.environ[PROFILE_VARIABLE] = str(PROFILE_FILE)


SEGMENT_FOLDER = Path("/dev/shm")
_SEGMENT = re.compile(r"^fast(dds|rtps)_[0-9a-f]{16}$")
_PORT = re.compile(r"^fast(dds|rtps)_port\d+$")
_ABANDONED = (3).to_bytes(4, "little").ljust(1 << 16, b"\0")
"""Content of the file of a port whose creation failed. It is the corresponding state of boost's
managed memory, filled up to the size that a waiting process expects. A process that opens the
file then gets an error, and Fast DDS creates a new port."""
_MIN_AGE = 5.0
"""Minimum age of a file for clean-up; its process may be about to lock a younger file [s]."""


def remove_leftovers(folder: Path = SEGMENT_FOLDER) -> int:
    """Remove the shared-memory segments that this user's killed processes have left.

    Returns:
        Freed memory [bytes].

    Thread: any, at any time.
    """
    freed = 0
    for segment, lock in _old_segments_of_user(folder):
        with contextlib.suppress(OSError), _exclusive_lock(lock):
            freed += segment.stat().st_size
            segment.unlink()
            lock.unlink()
    return freed


def release_half_made_ports(folder: Path = SEGMENT_FOLDER) -> int:
    """Remove the port files that this user's killed processes have left incomplete.

    Processes that wait for such a port then continue.

    Returns:
        Number of removed ports.

    Thread: any. Call it before this process opens ports, because an incomplete port would block
    it.
    """
    result = 0
    with contextlib.suppress(OSError):
        for port in sorted(folder.iterdir()):
            with contextlib.suppress(OSError):
                if _PORT.match(port.name) and _is_half_made(port.lstat()):
                    fd = os.open(port, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
                    try:
                        os.pwrite(fd, _ABANDONED, 0)
                    finally:
                        os.close(fd)
                    port.unlink()
                    result += 1
    return result


def _is_half_made(file: os.stat_result) -> bool:
    old = time.time() - file.st_mtime > _MIN_AGE
    return S_ISREG(file.st_mode) and file.st_size == 0 and file.st_uid == os.getuid() and old


def keep_own_memory_private(folder: Path = SEGMENT_FOLDER) -> int:
    """Remove read access of other users to the segments and ports that this process has mapped.

    Returns:
        Number of files whose mode has changed.

    Thread: any. Call it when this process has a DDS participant.
    """
    # Segments contain states, targets and requests. Fast DDS makes them readable for all users.
    changed = 0
    with contextlib.suppress(OSError):
        lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
        for path in {Path(line.split(maxsplit=5)[-1]) for line in lines if f"{folder}/" in line}:
            if not (_SEGMENT.match(path.name) or _PORT.match(path.name)):
                continue
            with contextlib.suppress(OSError):
                result = path.lstat()
                is_own = S_ISREG(result.st_mode) and result.st_uid == os.getuid()
                if is_own and result.st_mode & 0o077:
                    path.chmod(0o600)
                    changed += 1
    return changed


def unused_segment_bytes(folder: Path = SEGMENT_FOLDER) -> int:
    """Return the size of this user's segments that no living process holds [bytes]."""
    left = 0
    for segment, lock in _old_segments_of_user(folder):
        with contextlib.suppress(OSError), _exclusive_lock(lock):
            left += segment.stat().st_size
    return left


def _old_segments_of_user(folder: Path) -> Iterator[tuple[Path, Path]]:
    with contextlib.suppress(OSError):
        for segment in sorted(folder.iterdir()):
            lock = segment.with_name(f"{segment.name}_el")
            with contextlib.suppress(OSError):
                if _SEGMENT.match(segment.name):
                    result = lock.lstat()
                    # A segment with a young lock file may not be locked yet.
                    if result.st_uid == os.getuid() and time.time() - result.st_mtime > _MIN_AGE:
                        yield segment, lock


@contextlib.contextmanager
def _exclusive_lock(file: Path) -> Iterator[None]:
    fd = os.open(file, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(fd)
