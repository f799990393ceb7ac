"""Files keep their mode when they are replaced, and say which one the disk had no room for."""

import errno
import os
import signal
import stat
import subprocess
import sys

import pytest

from dm2l._utils.files import atomic_write


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644])
def test_a_file_that_is_replaced_keeps_its_mode(mode, tmp_path):
    path = tmp_path / "secret.csv"
    path.write_text("old")
    path.chmod(mode)
    (tmp_path / "link.csv").symlink_to(path)
    for name in ("secret.csv", "link.csv"):
        with atomic_write(tmp_path / name) as partial:
            partial.write_text("new")
        assert stat.S_IMODE(path.stat().st_mode) == mode
        assert path.read_text() == "new"


def test_a_full_disk_is_told_with_the_file(tmp_path):
    path = tmp_path / "out.csv"

    def write():
        with atomic_write(path) as partial:
            partial.write_text("half of")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(OSError, match=r"No space left on device: '.*out\.csv'"):
        write()
    assert not list(tmp_path.iterdir())


KILLED = """
import os, signal, sys
from pathlib import Path
from dm2l._utils.files import atomic_write
with atomic_write(Path(sys.argv[1])) as partial:
    partial.write_text("half of")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(os.name != "posix", reason="the system has no SIGKILL")
def test_what_a_killed_process_left_is_removed_by_the_next_write(tmp_path):
    path = tmp_path / "out [1].csv"
    for _ in range(2):
        ended = subprocess.run([sys.executable, "-c", KILLED, path], check=False).returncode
        assert ended == -signal.SIGKILL
    assert not path.exists()
    others = [
        tmp_path / ".1-0123abcd.part.out [1].csv",  # of a process that runs
        tmp_path / ".999999999-0123abcd.part.other.csv",  # of another file
        tmp_path / ".mine.part.out [1].csv",
    ]
    for other in others:
        other.write_text("x")
    assert len(list(tmp_path.iterdir())) == 4
    with atomic_write(path) as partial:
        partial.write_text("whole")
        with atomic_write(path) as another:  # of the same process, at the same time
            another.write_text("whole")
    assert sorted(tmp_path.iterdir()) == sorted([path, *others])
