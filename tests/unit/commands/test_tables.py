"""Tables for people on a terminal."""

from __future__ import annotations

from functools import partial

import pytest
from rich.console import Console

from penstock.commands import common


def test_should_show_names_that_look_like_markup_as_they_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(common, "Console", partial(Console, force_terminal=True, width=80))
    common.show_table("Members", ("CLIENT",), [("[/evil]",), ("[red]shop",)])
    shown = capsys.readouterr().out
    assert "[/evil]" in shown
    assert "[red]shop" in shown
