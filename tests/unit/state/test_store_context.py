from __future__ import annotations

from pathlib import Path

from penstock.state.store import StateStoreContext
from tests.unit.state.contexts import FakeStoreContext, LoggedChange


def test_should_log_many_changes_one_by_one_with_their_headers_by_default(tmp_path: Path) -> None:
    context = FakeStoreContext(tmp_path)

    StateStoreContext.log_columns(context, "store", [b"a", b"b"], [b"1", None], [5, 6], [(("h", b"x"),), ()])
    StateStoreContext.log_columns(context, "store", [b"c"], [b"2"], [7])

    assert context.changes == [
        LoggedChange("store", b"a", b"1", 5, (("h", b"x"),)),
        LoggedChange("store", b"b", None, 6, ()),
        LoggedChange("store", b"c", b"2", 7, ()),
    ]
