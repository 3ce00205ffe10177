"""Deprecated names and arguments: they work for one more minor version and warn with the replacement."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def deprecated(*, since: str, use: str) -> Callable[[Function], Function]:
    """Marks a function or class as deprecated: a call warns once per place and names the replacement.

    Args:
        since: Version of the deprecation, such as "0.2"; the name is removed in the following minor version.
        use: What to write instead.

    Example:
        >>> @deprecated(since="0.2", use="create")
        ... def make(name):
        ...     return name
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     _ = make("ltc")
        >>> print(caught[0].message)
        make is deprecated since chronode 0.2: use create.
    """

    def mark(function: Function) -> Function:
        @functools.wraps(function)
        def warn_and_call(*arguments: Any, **options: Any) -> Any:
            _warn(f"{function.__qualname__} is deprecated since chronode {since}: use {use}.")
            return function(*arguments, **options)

        return warn_and_call  # pyrefly: ignore[bad-return]

    return mark


def renamed_arguments(since: str, **new_names: str) -> Callable[[Function], Function]:
    """Accepts arguments under their old names with a warning; passing both names is a TypeError.

    Args:
        since: Version in which the arguments were renamed.
        new_names: Old names as keywords, new names as values.

    Example:
        >>> @renamed_arguments("0.2", hidden="hidden_size")
        ... def make(hidden_size=1):
        ...     return hidden_size
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     make(hidden=8)
        8
    """

    def mark(function: Function) -> Function:
        @functools.wraps(function)
        def translate_and_call(*arguments: Any, **options: Any) -> Any:
            for old in new_names.keys() & options.keys():
                new = new_names[old]
                if new in options:
                    raise TypeError(f"{function.__qualname__} got both {new} and {old}, its old name: pass {new} only.")
                _warn(f"{function.__qualname__}: {old} is deprecated since chronode {since}: use {new}.")
                options[new] = options.pop(old)
            return function(*arguments, **options)

        return translate_and_call  # pyrefly: ignore[bad-return]

    return mark


def _warn(message: str) -> None:
    # FutureWarning, not DeprecationWarning: Python shows the former to users by default.
    warnings.warn(message, FutureWarning, stacklevel=3)
