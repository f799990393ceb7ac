"""Work in a background thread, one run at a time, and its state."""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock, Thread
from typing import Any, NamedTuple


class State(NamedTuple):
    """Whether work is going on, how many runs were begun, and why the last one failed."""

    running: bool = False
    number: int = 0
    error: str = ""

    @property
    def done(self) -> bool:
        """Whether the last run has ended without an error."""
        return self.number > 0 and not self.running and not self.error


class Background:
    """A function that runs in a thread; errors that its input may cause end up in ``state``."""

    def __init__(self, work: Callable[..., None], lock: RLock) -> None:
        self.state = State()
        self._work, self._lock = work, lock
        self._thread: Thread | None = None

    def start(self, *arguments: Any) -> bool:
        """Begin a run, unless one is going on."""
        with self._lock:
            if self.state.running:
                return False
            self.state = State(True, self.state.number + 1)
            self._thread = Thread(target=self._run, args=arguments, daemon=True)
            self._thread.start()
            return True

    def wait(self, seconds: float | None = None) -> None:
        """Wait for the run to end."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _run(self, *arguments: Any) -> None:
        error = "This ended unexpectedly; see the terminal."
        try:
            self._work(*arguments)
            error = ""
        except (ValueError, ArithmeticError, MemoryError, OSError) as problem:
            error = str(problem)
        finally:
            with self._lock:
                self.state = State(False, self.state.number, error)
