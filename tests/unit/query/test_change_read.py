"""Which changes are read, as options say it."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.query.change_read import MAX_TIME, ChangeRead, change_columns


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, None),
        ({"changes": "false"}, None),
        ({"changes": "True"}, ChangeRead(0, MAX_TIME)),
        ({"changes": "true", "from": "5", "to": "1970-01-01T00:00:01Z"}, ChangeRead(5, 1_000)),
        ({"changes": "true", "from": "1970-01-01T01:00:00+01:00"}, ChangeRead(0, MAX_TIME)),
    ],
)
def test_should_take_times_in_milliseconds_and_as_iso_8601(options: Any, expected: Any) -> None:
    assert ChangeRead.of(options) == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"changes": "yes"}, "neither true nor false"),
        ({"changes": "true", "from": "yesterday"}, "'yesterday' is no time"),
        ({"changes": "true", "from": "9" * 30}, "is no time"),
        ({"changes": "true", "from": "5", "to": "4"}, "is later than"),
    ],
)
def test_should_refuse_what_is_no_time(options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ChangeRead.of(options)


def test_should_show_one_time_and_where_a_change_is() -> None:
    columns = change_columns((("key", "string"), ("value", "bigint"), ("timestamp", "bigint")))
    assert [name for name, _ in columns] == ["key", "value", "timestamp", "deleted", "partition", "offset"]
