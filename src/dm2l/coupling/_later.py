"""Values that are made when they are first asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Later:
    """A value that is made when it is first asked for; copies and files have it made.

    Most fits are of searches, cross-validations and bootstraps, which ask for scores alone. With
    Arts, 3,000 rows, a linear fit takes 0.09 s, and what only :meth:`complete` and probabilities
    need would add 0.4 s to each.

    Parameters
    ----------
    value : object or callable without arguments
        The value, or what makes it.

    Examples
    --------
    >>> from dm2l.coupling import Later
    >>> late = Later(lambda: print("made") or 3)
    >>> late.value, late.value
    made
    (3, 3)
    """

    __slots__ = ("_value",)

    def __init__(self, value: Any | Callable[[], Any]) -> None:
        self._value = value

    @property
    def value(self) -> Any:
        """The value. Threads that ask at once make it twice, the same."""
        if callable(self._value):
            self._value = self._value()
        return self._value

    def __reduce__(self) -> tuple[type[Later], tuple[Any]]:
        return Later, (self.value,)
