from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from tests.unit.client.web.served import Served
from tests.unit.client.web.test_server import fill

pytestmark = pytest.mark.skipif(sys.version_info < (3, 11), reason="SQLite's memory cannot be limited before")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = Served(tmp_path_factory.mktemp("served")).serve()
    fill(served)
    yield served
    served.close()


def ask(server: Served, query: str) -> tuple[int, Any]:
    return server.get(f"/api/sql?query={quote(query)}")


def test_should_answer_sql_over_stores(server: Served) -> None:
    status, found = ask(server, 'select count(*) as many, max("key") as last from counts;')
    assert (status, found["columns"], found["rows"]) == (200, ["many", "last"], [[250, "k249"]])
    assert found["stores"] == [{"store": "counts", "entries": 250, "whole": True, "partitions": 3, "here": 3}]
    joined = "select c.key, c.value, v.value from counts c join versions v on v.key = c.key where c.key < 'k003' order by 1"
    status, found = ask(server, joined)
    assert status == 200
    assert {store["store"] for store in found["stores"]} == {"counts", "versions"}
    assert ask(server, "with top as (select * from counts) select count(*) from top")[1]["rows"] == [[250]]


def test_should_give_so_many_rows_and_say_that_there_are_more(server: Served) -> None:
    status, found = ask(server, "select a.key from counts a, counts b")
    assert (status, len(found["rows"]), found["more"]) == (200, 1000, True)


@pytest.mark.parametrize(
    "query",
    [
        "drop table counts",
        "insert into counts values ('a', 1, 2)",
        "update counts set value = 1",
        "attach database '/tmp/x' as x",
        "pragma temp_store",
        "vacuum into '/tmp/x'",
        "select load_extension('/tmp/x')",
        "select zeroblob(1000000000)",
        "select hex(randomblob(1000000000))",
        "select printf('%1000000000d', 1)",
        "select replace('aa', 'a', key) from counts",
        "select group_concat(key) from counts",
        "select readfile('/etc/passwd')",
        "select * from sqlite_master",
        "select * from pragma_database_list",
        "select sqlite_version()",
        "select 1; select 2",
        "with recursive c(x) as (select 1 union all select x + 1 from c) select count(*) from c",
        "explain select 1",
        "select * from nowhere",
        "select",
        "",
        "select '" + "x" * 5000 + "'",
    ],
)
def test_should_refuse_what_is_not_a_plain_query(server: Served, query: str) -> None:
    status, found = ask(server, query)
    assert status == 400, found
    assert found["error"]
    assert ask(server, "select count(*) from counts")[1]["rows"] == [[250]]


def test_should_limit_what_texts_grow_to(server: Served) -> None:
    doubled = ", ".join(f"t{n} as materialized (select a || a as a from t{n - 1})" for n in range(1, 31))  # noqa: S608 - a query to refuse
    status, found = ask(server, f"with t0 as (select 'x' as a), {doubled} select length(a) from t30")  # noqa: S608 - the same
    assert (status, "too big" in found["error"]) == (400, True)
