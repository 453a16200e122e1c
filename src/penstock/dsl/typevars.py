"""The type variables of the DSL.

A stream whose serdes are not given has keys and values of any type: the defaults say so to a type checker. At run time
they are plain type variables, because defaults exist from Python 3.13 on only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    K = TypeVar("K", default=Any)
    V = TypeVar("V", default=Any)
    V1 = TypeVar("V1", default=Any)
    V2 = TypeVar("V2", default=Any)
    KO = TypeVar("KO", default=Any)
    VO = TypeVar("VO", default=Any)
    GK = TypeVar("GK", default=Any)
    GV = TypeVar("GV", default=Any)
    VAgg = TypeVar("VAgg", default=Any)
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")
    V1 = TypeVar("V1")
    V2 = TypeVar("V2")
    KO = TypeVar("KO")
    VO = TypeVar("VO")
    GK = TypeVar("GK")
    GV = TypeVar("GV")
    VAgg = TypeVar("VAgg")

# Results of the user's functions: always inferred, so without a default.
KR = TypeVar("KR")
VR = TypeVar("VR")
