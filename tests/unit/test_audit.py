from __future__ import annotations

from pathlib import Path

import pytest

from tests import audit


def test_should_say_that_nothing_was_audited_where_no_index_is_reached(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(audit, "unreachable", lambda: "no route to host")
    assert audit.main() == audit.NOT_AUDITED
    assert "nothing was audited" in capsys.readouterr().err


def test_should_tell_why_an_index_is_not_reached(tmp_path: Path) -> None:
    assert audit.unreachable(tmp_path.as_uri() + "/none") is not None
    index = tmp_path / "json"
    for text, reached in (("no JSON", False), ('{"info": {}}', False), ('{"vulnerabilities": []}', True)):
        index.write_text(text)
        assert (audit.unreachable(index.as_uri()) is None) == reached


def test_should_audit_every_lock_of_what_is_installed() -> None:
    assert all((audit.ROOT / lock).is_file() for lock in audit.LOCKS)
