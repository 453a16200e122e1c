"""Types of pydantic and msgspec, which define their own JSON form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from penstock.serdes.codecs import encode_json


class Library(NamedTuple):
    """How a library writes and reads its types, as JSON bytes and as plain values."""

    name: str
    plain: Callable[[Any], tuple[Callable[[Any], Any], Callable[[Any], Any]]]
    dumps: Callable[[Any], Callable[[Any], bytes]]
    loads: Callable[[Any], Callable[[bytes], Any]]


def library_of(cls: type) -> Library | None:
    """Return the library of a class, pydantic or msgspec, or None."""
    if hasattr(cls, "__pydantic_validator__") and hasattr(cls, "__pydantic_serializer__"):
        return PYDANTIC
    if hasattr(cls, "__struct_config__") and hasattr(cls, "__struct_fields__"):
        return MSGSPEC
    return None


def _pydantic_plain(cls: Any) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    serializer, validator = cls.__pydantic_serializer__, cls.__pydantic_validator__
    return (
        lambda value: serializer.to_python(value, mode="json", by_alias=True),
        # Through text: pydantic accepts some types (dates, strict types) only from JSON, not from Python values.
        lambda data: validator.validate_json(encode_json(data)),
    )


def _pydantic_dumps(cls: Any) -> Callable[[Any], bytes]:
    serializer = cls.__pydantic_serializer__

    def dumps(value: Any) -> bytes:
        data: bytes = serializer.to_json(value, by_alias=True)
        if b"null" in data:  # NaN would also be written as null, which is refused
            encode_json(serializer.to_python(value, mode="json", by_alias=True))
        return data

    return dumps


def _msgspec_plain(cls: Any) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    import msgspec

    return msgspec.to_builtins, lambda data: msgspec.convert(data, cls)


def _msgspec_dumps(cls: Any) -> Callable[[Any], bytes]:
    import msgspec

    encode = msgspec.json.Encoder().encode

    def dumps(value: Any) -> bytes:
        data: bytes = encode(value)
        if b"null" in data:
            encode_json(msgspec.to_builtins(value, str_keys=True))
        return data

    return dumps


def _msgspec_loads(cls: Any) -> Callable[[bytes], Any]:
    import msgspec

    decode: Callable[[bytes], Any] = msgspec.json.Decoder(cls).decode
    return decode


PYDANTIC: Final = Library("pydantic", _pydantic_plain, _pydantic_dumps, lambda cls: cls.__pydantic_validator__.validate_json)
MSGSPEC: Final = Library("msgspec", _msgspec_plain, _msgspec_dumps, _msgspec_loads)
