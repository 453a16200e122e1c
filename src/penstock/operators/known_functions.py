"""Functions of the user's that are known by their code, so that a column can do what they do for each value.

`lambda line: line.split()` has no name to know it by; but its code is the code of the same words here. A function that is not
recognised is called, value by value; the results are the same.
"""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import Any

from penstock.operators.functions import IgnoreKey

_SPLITS = (lambda text: text.split(),)
_VALUES = (lambda key, value: value,)


def splits_words(function: Any) -> bool:
    """Whether a function of a string gives its words.

    >>> splits_words(IgnoreKey(str.split)), splits_words(IgnoreKey(lambda line: line.split())), splits_words(IgnoreKey(len))
    (True, True, False)
    """
    return type(function) is IgnoreKey and (function.function is str.split or _is_one_of(function.function, _SPLITS))


def is_value(function: Any) -> bool:
    """Whether a function of key and value gives the value.

    >>> is_value(lambda _, word: word), is_value(lambda key, _: key)
    (True, False)
    """
    return _is_one_of(function, _VALUES)


def _is_one_of(function: Any, known: tuple[Any, ...]) -> bool:
    if type(function) is not FunctionType or function.__closure__ or function.__defaults__ or function.__kwdefaults__:
        return False
    return any(_code(function) == _code(one) for one in known)


def _code(function: FunctionType) -> tuple[Any, ...]:
    code = function.__code__
    kind = code.co_flags & ~inspect.CO_NESTED  # where it was written does not matter
    return code.co_code, code.co_consts, code.co_names, code.co_argcount, code.co_kwonlyargcount, kind
