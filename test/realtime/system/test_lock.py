# SPDX-License-Identifier: Apache-2.0
"""Locks of cells: where they are, and what others may have put there."""

from __future__ import annotations

import errno
import os
import re
import tempfile

import pytest

from multipanda_py.exceptions import CellBusy, LoopError
from multipanda_py.realtime.system import lock
from multipanda_py.realtime.system.lock import CellLock, lock_folder

pytestmark = pytest.mark.inline

SECRET = "a victim's file\n"


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Where the folder of locks may be; all of it is this test's own."""
    user = str(os.getuid())
    monkeypatch.setattr(lock, "USER_FOLDERS", tmp_path)
    monkeypatch.setattr(lock, "SHARED_FOLDER", tmp_path)
    (tmp_path / user).mkdir(mode=0o700)
    return [tmp_path / user / "multipanda", tmp_path / f"multipanda-{user}"]


@pytest.fixture
def victim(tmp_path):
    file = tmp_path / "victim"
    file.write_text(SECRET)
    return file


def test_locks_are_in_the_user_s_runtime_folder(places):
    taken = CellLock("one")
    assert lock_folder() == places[0]
    assert (places[0] / "one.lock").read_text() == f"{os.getpid()}\n"
    assert places[0].stat().st_mode & 0o777 == 0o700
    assert not places[1].exists()
    taken.release()


def test_a_runtime_folder_that_others_may_enter_is_not_used(places):
    places[0].parent.chmod(0o755)
    assert lock_folder() == places[1]


@pytest.mark.parametrize("logged_in", [True, False])
def test_two_nodes_of_one_cell_started_when_their_environments_differed(
    places, monkeypatch, tmp_path, logged_in
):
    """Without XDG_RUNTIME_DIR their locks were where TMPDIR said."""
    if not logged_in:
        places[0].parent.rmdir()
    first = CellLock("one")
    for name in ("TMPDIR", "XDG_RUNTIME_DIR"):
        (tmp_path / name).mkdir(mode=0o700)
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setattr(tempfile, "tempdir", None)  # as in a process that has just begun
    with pytest.raises(CellBusy, match=f"started by process {os.getpid()}"):
        CellLock("one")
    first.release()


def test_a_second_instance_is_refused_until_the_first_lets_go(places):
    first = CellLock("one")
    CellLock("two").release()
    with pytest.raises(CellBusy, match=f"started by process {os.getpid()}"):
        CellLock("one")
    first.release()
    first.release()
    CellLock("one").release()


def test_a_link_in_place_of_the_lock_does_not_truncate_what_it_points_to(places, victim):
    for folder in places:
        folder.mkdir(mode=0o700)
        (folder / "one.lock").symlink_to(victim)
    with pytest.raises(LoopError, match="symbolic link"):
        CellLock("one")
    assert victim.read_text() == SECRET


def test_a_hard_link_in_place_of_the_lock_does_not_truncate_it_either(places, victim):
    for folder in places:
        folder.mkdir(mode=0o700)
        os.link(victim, folder / "one.lock")
    with pytest.raises(LoopError, match=r"one\.lock.*not a regular file"):
        CellLock("one")
    assert victim.read_text() == SECRET


def test_a_folder_that_others_may_write_to_is_refused(places):
    for folder in places:
        folder.mkdir()
        folder.chmod(0o777)
    with pytest.raises(LoopError, match=r"has mode 0777.*chmod 700"):
        CellLock("one")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_a_folder_that_another_user_made_first_is_refused(places):
    for folder in places:
        folder.mkdir(mode=0o700)
        os.chown(folder, 4321, 4321)
    with pytest.raises(LoopError, match="belongs to user 4321"):
        CellLock("one")


def test_a_linked_folder_is_refused(places, tmp_path):
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    for folder in places:
        folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LoopError, match=re.escape(f"{places[0]}: ")):
        CellLock("one")
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_file_in_place_of_the_folder_is_refused_in_words(places):
    for folder in places:
        folder.write_text("")
    with pytest.raises(LoopError, match=re.escape(f"{places[0]}: ")):
        CellLock("one")


def test_a_pipe_in_place_of_the_lock_does_not_block(places):
    for folder in places:
        folder.mkdir(mode=0o700)
        os.mkfifo(folder / "one.lock")
    with pytest.raises(LoopError, match="not a regular file"):
        CellLock("one")


def test_a_name_too_long_for_a_file_is_refused_in_words(places):
    with pytest.raises(LoopError, match=os.strerror(errno.ENAMETOOLONG)):
        CellLock("a" * 300)
