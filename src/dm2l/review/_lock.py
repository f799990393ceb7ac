"""One writer to a file at a time."""

from __future__ import annotations

import sys
from typing import IO

if sys.platform == "win32":
    import msvcrt

    def hold(file: IO[bytes]) -> bool:
        """Lock an open file until it is closed or its process ends; False if another has it."""
        position = file.tell()
        # Locks of Windows keep others from reading, too: a byte far behind the end is taken.
        file.seek(1 << 62)
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        finally:
            file.seek(position)
        return True
else:
    import fcntl

    def hold(file: IO[bytes]) -> bool:
        """Lock an open file until it is closed or its process ends; False if another has it."""
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
