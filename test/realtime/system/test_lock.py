# SPDX-License-Identifier: Apache-2.0
"""Locks of cells: their folder, and protection against files of other users."""

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
def folders(tmp_path, monkeypatch):
    """Return the possible lock folders, in a temporary directory."""
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


def test_locks_are_in_runtime_folder_of_user(folders):
    taken = CellLock("one")
    assert lock_folder() == folders[0]
    assert (folders[0] / "one.lock").read_text() == f"{os.getpid()}\n"
    assert folders[0].stat().st_mode & 0o777 == 0o700
    assert not folders[1].exists()
    taken.release()


def test_runtime_folder_open_to_others_is_not_used(folders):
    folders[0].parent.chmod(0o755)
    assert lock_folder() == folders[1]


@pytest.mark.parametrize("logged_in", [True, False])
def test_two_nodes_of_one_cell_started_with_different_environments(
    folders, monkeypatch, tmp_path, logged_in
):
    """Without XDG_RUNTIME_DIR their locks were in TMPDIR."""
    if not logged_in:
        folders[0].parent.rmdir()
    first = CellLock("one")
    for name in ("TMPDIR", "XDG_RUNTIME_DIR"):
        (tmp_path / name).mkdir(mode=0o700)
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setattr(tempfile, "tempdir", None)  # as in a new process
    with pytest.raises(CellBusy, match=f"started by process {os.getpid()}"):
        CellLock("one")
    first.release()


def test_second_instance_is_refused_until_first_releases_lock(folders):
    first = CellLock("one")
    CellLock("two").release()
    with pytest.raises(CellBusy, match=f"started by process {os.getpid()}"):
        CellLock("one")
    first.release()
    first.release()
    CellLock("one").release()


def test_symbolic_link_as_lock_does_not_truncate_its_target(folders, victim):
    for folder in folders:
        folder.mkdir(mode=0o700)
        (folder / "one.lock").symlink_to(victim)
    with pytest.raises(LoopError, match="symbolic link"):
        CellLock("one")
    assert victim.read_text() == SECRET


def test_hard_link_as_lock_does_not_truncate_its_target(folders, victim):
    for folder in folders:
        folder.mkdir(mode=0o700)
        os.link(victim, folder / "one.lock")
    with pytest.raises(LoopError, match=r"one\.lock.*not a regular file"):
        CellLock("one")
    assert victim.read_text() == SECRET


def test_folder_writable_by_others_is_refused(folders):
    for folder in folders:
        folder.mkdir()
        folder.chmod(0o777)
    with pytest.raises(LoopError, match=r"has mode 0777.*chmod 700"):
        CellLock("one")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can change the owner of a folder")
def test_folder_of_another_user_is_refused(folders):
    for folder in folders:
        folder.mkdir(mode=0o700)
        os.chown(folder, 4321, 4321)
    with pytest.raises(LoopError, match="belongs to user 4321"):
        CellLock("one")


def test_symbolic_link_as_folder_is_refused(folders, tmp_path):
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    for folder in folders:
        folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LoopError, match=re.escape(f"{folders[0]}: ")):
        CellLock("one")
    assert not list((tmp_path / "elsewhere").iterdir())


def test_file_as_folder_is_refused_with_message(folders):
    for folder in folders:
        folder.write_text("")
    with pytest.raises(LoopError, match=re.escape(f"{folders[0]}: ")):
        CellLock("one")


def test_pipe_as_lock_does_not_block(folders):
    for folder in folders:
        folder.mkdir(mode=0o700)
        os.mkfifo(folder / "one.lock")
    with pytest.raises(LoopError, match="not a regular file"):
        CellLock("one")


def test_too_long_name_is_refused_with_message(folders):
    with pytest.raises(LoopError, match=os.strerror(errno.ENAMETOOLONG)):
        CellLock("a" * 300)
