"""Selection of the path that layers run on: native kernels where available, or torch alone."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

from ..settings import one_of

NAMES = ("auto", "torch", "native")
Function = TypeVar("Function", bound=Callable[..., Any])

_writing = threading.Lock()  # what follows is replaced, never changed: reading needs no lock
_blocks: tuple[tuple[int, backend], ...] = ()  # the open `with` blocks and their threads, in the order of opening
_calls: tuple[tuple[str, weakref.ref[Any]], ...] = ()  # plain calls, in their order; the last one decides


class backend:
    """Selects the path that layers run on.

    "auto" runs a native kernel if there is one, otherwise torch; "torch" never runs one; "native" raises an error
    if there is none. The environment variable CHRONODE_BACKEND sets the default.

    A plain call, `chronode.backend("torch")`, chooses for the whole process from here on, for all of its threads. A
    `with` block chooses until it is left, also for threads that run meanwhile and have no block of their own: in each
    thread its own innermost block decides, else the block that was opened last anywhere, else the plain call. The same
    object may be entered again, also within itself.

    Example:
        >>> import chronode
        >>> with chronode.backend("torch"):
        ...     layer = chronode.create("ltc", 3, 8)
    """

    def __init__(self, name: str):
        global _calls
        self.name = one_of("backend", name, NAMES)
        with _writing:
            # A call whose object is gone cannot become a block any more: of those only the last is of use.
            gone = [call for call in _calls if call[1]() is None][-1:]
            _calls = (*(call for call in _calls if call[1]() is not None or call in gone), (name, weakref.ref(self)))

    def __enter__(self) -> backend:
        global _blocks, _calls
        with _writing:
            _calls = tuple(call for call in _calls if call[1]() is not self)  # it is a block, not a plain call
            _blocks = (*_blocks, (threading.get_ident(), self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        global _blocks
        with _writing:
            mine = [i for i, (_, block) in enumerate(_blocks) if block is self]
            here = [i for i in mine if _blocks[i][0] == threading.get_ident()]
            left = (here or mine)[-1]
            _blocks = _blocks[:left] + _blocks[left + 1 :]


def _after_fork() -> None:
    """A forked child has the one thread that forked it: blocks of others would never be left there."""
    global _blocks, _writing
    _writing = threading.Lock()
    _blocks = tuple(block for block in _blocks if block[0] == threading.get_ident())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def constant_to_compilers(function: Function) -> Function:
    """Makes torch.compile treat the result of the function as a constant.

    It is `torch.compiler.assume_constant_result`, which would import the compiler together with chronode.
    """
    function._dynamo_marked_constant = True  # pyrefly: ignore[missing-attribute]
    return function


@constant_to_compilers
def chosen() -> str:
    """Returns the backend in force: "auto", "torch" or "native"."""
    if blocks := _blocks:
        thread = threading.get_ident()
        thread_blocks = [block for owner, block in blocks if owner == thread]
        return (thread_blocks[-1] if thread_blocks else blocks[-1][1]).name
    if calls := _calls:
        return calls[-1][0]
    return one_of("CHRONODE_BACKEND", os.environ.get("CHRONODE_BACKEND", "auto"), NAMES)
