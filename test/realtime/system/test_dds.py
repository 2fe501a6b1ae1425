# SPDX-License-Identifier: Apache-2.0
"""DDS: removal of segments and ports of ended processes; discovery."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from claims import claim
from processes import wait_until
from repository import ROOT
from requirements import needs_rclpy

from multipanda_py.realtime.system.dds import (
    PROFILE_FILE,
    PROFILE_VARIABLE,
    SEGMENT_FOLDER,
    announce_without_types,
    release_half_made_ports,
    remove_leftovers,
    unused_segment_bytes,
)

LONG_AGO = 60.0


@pytest.fixture
def segment(tmp_path):
    """Return a function that creates a segment and its lock file."""

    def make(name, age=LONG_AGO):
        for path in (tmp_path / name, tmp_path / f"{name}_el"):
            path.write_bytes(bytes(1000) if path.name == name else b"")
            os.utime(path, (time.time() - age,) * 2)
        return tmp_path / name

    return make


@pytest.mark.inline
def test_unused_segments_are_removed_and_counted(tmp_path, segment):
    segment("fastdds_0123456789abcdef")
    segment("fastrtps_0123456789abcdef")
    assert unused_segment_bytes(tmp_path) == 2000
    assert remove_leftovers(tmp_path) == 2000
    assert not list(tmp_path.iterdir())
    assert remove_leftovers(tmp_path) == unused_segment_bytes(tmp_path) == 0


@pytest.mark.inline
def test_locked_and_new_segments_are_kept(tmp_path, segment):
    held = segment("fastdds_00000000000000aa")
    segment("fastdds_00000000000000bb", age=0.0)
    with held.with_name(f"{held.name}_el").open("rb+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert remove_leftovers(tmp_path) == unused_segment_bytes(tmp_path) == 0
    assert len(list(tmp_path.iterdir())) == 4


@pytest.mark.inline
@pytest.mark.parametrize("name", ["fastdds_port7400", "sem.fastdds_port7400_mutex", "other",
                                  "fastdds_00000000000000aa_more"])  # fmt: skip
def test_other_files_are_kept(tmp_path, segment, name):
    segment(name)
    assert remove_leftovers(tmp_path) == 0
    assert (tmp_path / name).exists()


@pytest.mark.inline
def test_symbolic_link_as_lock_is_not_followed(tmp_path, segment):
    victim = segment("fastdds_00000000000000cc")
    lock = victim.with_name(f"{victim.name}_el")
    lock.unlink()
    lock.symlink_to(tmp_path / "elsewhere")
    os.utime(lock, (0.0, 0.0), follow_symlinks=False)
    assert remove_leftovers(tmp_path) == 0
    assert victim.exists()


@pytest.mark.inline
def test_missing_folder_is_no_error(tmp_path):
    assert remove_leftovers(tmp_path / "nothing") == 0


def port(folder, name="fastdds_port7003", age=LONG_AGO, content=b""):
    path = folder / name
    path.write_bytes(content)
    os.utime(path, (time.time() - age,) * 2)
    return path


@pytest.mark.inline
def test_complete_or_new_ports_are_kept(tmp_path):
    stay = [
        port(tmp_path, age=0.0),
        port(tmp_path, "fastdds_port7005", content=bytes(8)),
        port(tmp_path, "sem.fastdds_port7007_mutex"),
        port(tmp_path, "fastdds_port7007_el"),
    ]
    (tmp_path / "fastdds_port7009").symlink_to(port(tmp_path, "victim"))
    assert release_half_made_ports(tmp_path) == 0
    assert all(path.exists() for path in stay)
    assert (tmp_path / "victim").read_bytes() == b""


JOINS = """
import rclpy
rclpy.init()
print("begins", flush=True)
rclpy.create_node("joins")
print("joined", flush=True)
"""


@pytest.mark.node
@pytest.mark.clock
@needs_rclpy
def test_port_of_killed_process_blocked_new_participant():
    """Use Fast DDS and the port of the first participant of a domain."""
    domain = claim("domain", 150, 80)
    half_made = port(SEGMENT_FOLDER, f"fastdds_port{7400 + 250 * domain + 11}")
    process = subprocess.Popen(
        [sys.executable, "-c", JOINS], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "ROS_DOMAIN_ID": str(domain),
             "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
             "FASTDDS_DEFAULT_PROFILES_FILE": ""},
    )  # fmt: skip
    try:
        assert process.stdout.readline() == "begins\n"
        holds = Path(f"/proc/{process.pid}/fd")
        wait_until(lambda: any(str(half_made) == link(fd) for fd in holds.iterdir()), 10.0)
        assert process.poll() is None
        assert release_half_made_ports() == 1
        assert process.stdout.readline() == "joined\n"
        assert not half_made.exists() or half_made.stat().st_size
    finally:
        process.kill()
        process.wait()
        half_made.unlink(missing_ok=True)


def link(path):
    try:
        return os.readlink(path)
    except OSError:  # the descriptor may be closed by now
        return ""


IN_PRIVATE = """
import os, stat, sys
import rclpy
from pathlib import Path
from multipanda_py.realtime.system.dds import keep_own_memory_private
rclpy.init()
node = rclpy.create_node("private")
changed = keep_own_memory_private()
mine = [line.split()[-1] for line in open("/proc/self/maps") if "/dev/shm/fast" in line]
modes = {stat.S_IMODE(os.stat(name).st_mode) for name in mine}
print(changed, sorted(modes))
"""


@pytest.mark.inline
@needs_rclpy
def test_other_users_could_read_shared_memory_of_node():
    environment = {
        **os.environ, "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
        "FASTDDS_DEFAULT_PROFILES_FILE": "", "ROS_DOMAIN_ID": "108",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", IN_PRIVATE],
        env=environment, capture_output=True, text=True, check=True, timeout=60.0,
    )  # fmt: skip
    changed, modes = done.stdout.split(maxsplit=1)
    if modes.strip() == "[]":
        pytest.skip("the middleware here uses no shared memory")
    assert int(changed) > 0
    assert modes.strip() == str([0o600])


LOOPBACK = ROOT / "config" / "fastdds_loopback.xml"


def elements(file):
    return {
        node.tag.rpartition("}")[2]: (node.text or "").strip() for node in ET.parse(file).iter()
    }


@pytest.mark.inline
@pytest.mark.parametrize("file", [PROFILE_FILE, LOOPBACK])
def test_profiles_disable_type_propagation(file):
    found = elements(file)
    assert (found["name"], found["value"]) == ("fastdds.type_propagation", "disabled")


@pytest.mark.inline
def test_user_profile_is_kept(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(PROFILE_VARIABLE, "/mine.xml")
    announce_without_types()
    assert os.environ[PROFILE_VARIABLE] == "/mine.xml"
    monkeypatch.setenv(PROFILE_VARIABLE, "")
    announce_without_types()
    assert os.environ[PROFILE_VARIABLE] == str(PROFILE_FILE)
    monkeypatch.delenv(PROFILE_VARIABLE)
    (tmp_path / "DEFAULT_FASTDDS_PROFILES.xml").touch()
    announce_without_types()
    assert PROFILE_VARIABLE not in os.environ
