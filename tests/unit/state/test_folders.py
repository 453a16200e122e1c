"""Where everybody can write, a folder of state is our own or is refused."""

from __future__ import annotations

import os
import re
import stat
import tempfile
from pathlib import Path

import pytest

from penstock.config.keys import KEYS
from penstock.errors import ProcessorStateError
from penstock.state import folders
from penstock.state.directory import LOCK_FILE, FolderLock, StateDirectory

STRANGER = 54_321


@pytest.fixture
def public(tmp_path: Path) -> Path:
    """A place where everybody can write, as the temporary folder."""
    place = tmp_path / "public"
    place.mkdir()
    place.chmod(0o1777)
    return place


def mode(folder: Path) -> int:
    return stat.S_IMODE(folder.stat().st_mode)


def give_away(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a folder somebody else's, or us somebody else who has the folders above it."""
    user, real = os.geteuid(), folders._owner
    if user == 0:
        os.chown(folder, STRANGER, STRANGER)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: STRANGER)
        monkeypatch.setattr(folders, "_owner", lambda path: STRANGER if real(path) == user else real(path))


def belongs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have one folder belong to somebody else, whoever runs the tests."""
    real = folders._owner
    monkeypatch.setattr(folders, "_owner", lambda path: STRANGER if path == folder else real(path))


def test_should_have_a_default_folder_for_each_user() -> None:
    assert KEYS["state.dir"].default == str(Path(tempfile.gettempdir()) / f"penstock-{os.getuid()}")


def test_should_make_a_folder_for_its_user_alone_where_everybody_can_write(public: Path) -> None:
    directory = StateDirectory(public / "state", "app")
    assert (mode(public / "state"), mode(directory.folder)) == (0o700, 0o750)
    assert mode(StateDirectory(public / "shared", "app", allow_group_write=True).folder.parent) == 0o770
    StateDirectory(public / "state", "app")  # a second time


@pytest.mark.parametrize("allow_group_write", [True, False])
def test_should_not_change_the_rights_of_a_folder_that_was_there(tmp_path: Path, public: Path, allow_group_write: bool) -> None:
    for parent in (tmp_path, public):
        mine = parent / "mine"
        (mine / "app").mkdir(parents=True)
        mine.chmod(0o711)
        (mine / "app").chmod(0o755)
        StateDirectory(mine, "app", allow_group_write=allow_group_write)
        assert (mode(mine), mode(mine / "app")) == (0o711, 0o755)


def test_should_refuse_a_folder_of_somebody_else(public: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = public / "state"
    theirs.mkdir()
    give_away(theirs, monkeypatch)
    with pytest.raises(
        ProcessorStateError, match=r"state is refused.* it belongs to user \d+, and this process runs as user \d+"
    ):
        StateDirectory(theirs, "app")
    assert list(theirs.iterdir()) == []


def test_should_refuse_an_applications_folder_of_somebody_else(public: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = public / "app"
    theirs.mkdir()
    give_away(theirs, monkeypatch)
    with pytest.raises(ProcessorStateError, match="app is refused"):
        StateDirectory(public, "app")


def test_should_refuse_a_link_and_a_file(public: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (public / "link").symlink_to(elsewhere)
    (public / "nowhere").symlink_to(tmp_path / "nowhere")
    (public / "file").touch()
    for name, what in {"link": "a link", "nowhere": "a link", "file": "a file"}.items():
        with pytest.raises(ProcessorStateError, match=f"{name} is refused.* it is {what}, which anybody may have made"):
            StateDirectory(public / name, "app")
    assert list(elsewhere.iterdir()) == []
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("rights", [0o777, 0o702, 0o770])
def test_should_refuse_a_folder_that_others_can_write(public: Path, rights: int) -> None:
    open_to_all = public / "state"
    open_to_all.mkdir()
    open_to_all.chmod(rights)
    command = re.escape(f"chmod go-w {open_to_all}")
    with pytest.raises(ProcessorStateError, match=rf"others can write into it \(its mode is {rights:o}; {command}\)"):
        StateDirectory(open_to_all, "app")
    assert mode(open_to_all) == rights


def test_should_share_a_folder_with_its_group_where_that_is_allowed(public: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = public / "state"
    shared.mkdir()
    shared.chmod(0o770)
    if os.geteuid() == 0:
        os.chown(shared, STRANGER, os.getegid())
    else:
        monkeypatch.setattr(os, "geteuid", lambda: STRANGER)
    StateDirectory(shared, "app", allow_group_write=True)
    with pytest.raises(ProcessorStateError, match="is refused"):
        StateDirectory(shared, "app")


def test_should_leave_it_to_the_user_where_not_everybody_can_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    assert StateDirectory(tmp_path / "link", "app").folder.is_dir()
    given = tmp_path / "given"
    given.mkdir()
    belongs(given, monkeypatch)
    assert StateDirectory(given, "app").folder.is_dir()


def test_should_refuse_a_folder_below_one_of_somebody_else(public: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = public / "shop"
    (theirs / "disk").mkdir(parents=True)
    (public / "link").symlink_to(theirs)
    belongs(theirs, monkeypatch)
    reason = rf"{re.escape(str(theirs))} belongs to user {STRANGER}, who can replace what is in it"
    for state in (theirs / "state", theirs / "disk" / "deep" / "state", public / "link" / "state"):
        with pytest.raises(ProcessorStateError, match=reason):
            StateDirectory(state, "app")
        assert not (state / "app").exists()
    StateDirectory(theirs / "state", "app", allow_group_write=True)  # it is of our group


def test_should_refuse_a_folder_behind_a_link_of_somebody_else(
    public: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").mkdir()
    (public / "link").symlink_to(tmp_path / "mine")
    belongs(public / "link", monkeypatch)
    with pytest.raises(ProcessorStateError, match=f"belongs to user {STRANGER}"):
        StateDirectory(public / "link" / "state", "app")


def test_should_take_a_folder_below_a_sticky_one_that_everybody_can_write_to(
    public: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    belongs(public, monkeypatch)
    assert StateDirectory(public / "a" / "state", "app").folder.is_dir()


def test_should_not_follow_a_link_in_place_of_a_lock_file(tmp_path: Path) -> None:
    (tmp_path / LOCK_FILE).symlink_to(tmp_path / "victim")
    with pytest.raises(ProcessorStateError, match="cannot create lock file"):
        FolderLock.acquire(tmp_path)
    assert not (tmp_path / "victim").exists()
