"""Values that are made when they are first asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self


class Later:
    """A value that is made when it is first asked for; copies and files have it made.

    Most fits are of searches, cross-validations and bootstraps, which ask for scores alone. With
    Arts, 3,000 rows, a linear fit takes 0.09 s, and what only ``complete`` and probabilities
    need would add 0.4 s to each.

    Parameters
    ----------
    value : object
        The value, where it is there already. Whatever a file gives is never called.

    Examples
    --------
    >>> from dm2l.completion._later import Later
    >>> late = Later.by(lambda: print("made") or 3)
    >>> late.value, late.value
    made
    (3, 3)
    """

    __slots__ = ("_make", "_value")

    def __init__(self, value: Any) -> None:
        self._make: Callable[[], Any] | None = None
        self._value = value

    @classmethod
    def by(cls, make: Callable[[], Any]) -> Self:
        """A value that ``make`` will make."""
        late = cls(None)
        late._make = make
        return late

    @property
    def value(self) -> Any:
        """The value. Threads that ask at once make it twice, the same."""
        make = self._make
        if make is not None:
            self._value = make()
            self._make = None
        return self._value

    def __reduce__(self) -> tuple[type[Later], tuple[Any]]:
        return Later, (self.value,)
