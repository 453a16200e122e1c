"""The names that code uses, where there is no source to look into: what was typed at a prompt, or is compiled only."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from types import CodeType

_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")


def loads(code: CodeType) -> Iterator[list[str]]:
    """The names of others that code uses, each with the attributes that are asked of it: `["time", "time"]`."""
    chain: list[str] = []
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME") or _is_free(instruction, code):
            if chain:
                yield chain
            chain = [instruction.argval]
        elif instruction.opname in _ATTRIBUTES and chain:
            chain.append(instruction.argval)
        elif chain:
            yield chain
            chain = []
    if chain:
        yield chain
    for inner in _inside(code):
        yield from loads(inner)


def writes(code: CodeType) -> Iterator[str]:
    """The names of others that code sets."""
    for instruction in dis.get_instructions(code):
        if instruction.opname == "STORE_GLOBAL" or (
            instruction.opname == "STORE_DEREF" and instruction.argval in code.co_freevars
        ):
            yield str(instruction.argval)
    for inner in _inside(code):
        yield from (name for name in writes(inner) if name not in code.co_cellvars)


def _is_free(instruction: dis.Instruction, code: CodeType) -> bool:
    return instruction.opname.startswith("LOAD_DEREF") and instruction.argval in code.co_freevars


def _inside(code: CodeType) -> list[CodeType]:
    return [constant for constant in code.co_consts if isinstance(constant, CodeType)]
