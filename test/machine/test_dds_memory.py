# SPDX-License-Identifier: Apache-2.0
"""Segments of dead processes are removed, and nobody else's."""

from __future__ import annotations

import fcntl
import os
import time

import pytest

from multipanda_py.machine.dds_memory import leftovers, remove_leftovers

LONG_AGO = 60.0


@pytest.fixture
def segment(tmp_path):
    """A function that makes a segment with its file for locking."""

    def make(name, age=LONG_AGO):
        for path in (tmp_path / name, tmp_path / f"{name}_el"):
            path.write_bytes(bytes(1000) if path.name == name else b"")
            os.utime(path, (time.time() - age,) * 2)
        return tmp_path / name

    return make


def test_what_nobody_holds_is_removed_and_counted(tmp_path, segment):
    segment("fastdds_0123456789abcdef")
    segment("fastrtps_0123456789abcdef")
    assert leftovers(tmp_path) == 2000
    assert remove_leftovers(tmp_path) == 2000
    assert not list(tmp_path.iterdir())
    assert remove_leftovers(tmp_path) == leftovers(tmp_path) == 0


def test_what_a_living_process_holds_or_is_just_making_stays(tmp_path, segment):
    held = segment("fastdds_00000000000000aa")
    segment("fastdds_00000000000000bb", age=0.0)
    with held.with_name(f"{held.name}_el").open("rb+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert remove_leftovers(tmp_path) == leftovers(tmp_path) == 0
    assert len(list(tmp_path.iterdir())) == 4


@pytest.mark.parametrize("name", ["fastdds_port7400", "sem.fastdds_port7400_mutex", "other",
                                  "fastdds_00000000000000aa_more"])  # fmt: skip
def test_other_files_are_nobody_s_business(tmp_path, segment, name):
    segment(name)
    assert remove_leftovers(tmp_path) == 0
    assert (tmp_path / name).exists()


def test_a_link_in_place_of_a_lock_is_not_followed(tmp_path, segment):
    victim = segment("fastdds_00000000000000cc")
    lock = victim.with_name(f"{victim.name}_el")
    lock.unlink()
    lock.symlink_to(tmp_path / "elsewhere")
    os.utime(lock, (0.0, 0.0), follow_symlinks=False)
    assert remove_leftovers(tmp_path) == 0
    assert victim.exists()


def test_no_folder_at_all_is_no_error(tmp_path):
    assert remove_leftovers(tmp_path / "nothing") == 0
