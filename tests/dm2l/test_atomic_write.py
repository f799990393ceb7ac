"""Files keep their mode when they are replaced, and say which one the disk had no room for."""

import errno
import os
import stat

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
