"""Folders of state: how they are made, and which are refused because somebody else could change what is in them.

In a place where everybody can write, such as the temporary folder, anybody may have made a folder, or a link, of the name we use.
There a folder has to be our own, and writable by us alone. Elsewhere whoever made the place decides. No folder above it may be
somebody else's: its owner can put another folder in the place of ours. A folder that is there already keeps its rights.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from penstock.errors import ProcessorStateError

_ROOT = 0


def make_folder(folder: Path) -> None:
    """Make a folder where there is none; raises where that cannot be done, or it cannot be used."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as exc:
        raise ProcessorStateError(f"state folder {folder} cannot be created: there is a file of that name") from exc
    except OSError as exc:
        raise ProcessorStateError(f"state folder {folder} does not exist and cannot be created: {exc.strerror or exc}") from exc
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise ProcessorStateError(
            f"state folder {folder} cannot be used: this process needs the rights to read, write and list it "
            "(change them, or set another state.dir)"
        )


def make_own_folder(folder: Path, allow_group_write: bool) -> None:
    """The same, with rights for us alone where everybody can write beside it; there somebody else's folder is refused."""
    if not folder.parent.exists():
        make_folder(folder.parent)
    is_public = _everybody_can_write(folder.parent)
    mode = 0o770 if allow_group_write else 0o700 if is_public else 0o750
    try:
        folder.mkdir(mode)  # less what the umask takes: never more than wanted
        if mode == 0o770:
            folder.chmod(mode)
    except OSError:
        pass  # it is there, or the next step says why it is not
    if is_public:
        _refuse_foreign(folder, allow_group_write)
    make_folder(folder)


def refuse_foreign_ancestors(folder: Path, allow_group_write: bool) -> None:
    """Raise `ProcessorStateError` if a folder above this one is neither root's nor our own.

    A sticky folder that everybody can write to, such as the temporary folder, is fine: users cannot replace each other's folders.
    """
    named = Path(os.path.abspath(folder))
    for ancestor in dict.fromkeys((*named.parents, *named.resolve().parents)):
        found = ancestor.lstat()
        is_shared = allow_group_write and found.st_gid in {os.getegid(), *os.getgroups()}
        is_temporary = found.st_mode & stat.S_ISVTX and found.st_mode & stat.S_IWOTH
        owner = _owner(ancestor)
        if owner not in (os.geteuid(), _ROOT) and not is_shared and not is_temporary:
            raise ProcessorStateError(
                f"state folder {folder} is refused: {ancestor} belongs to user {owner}, who can replace what is in it, and this "
                f"process runs as user {os.geteuid()}. Set state.dir to a folder below folders of your own or of root"
            )


def _owner(folder: Path) -> int:
    return folder.lstat().st_uid


def _everybody_can_write(folder: Path) -> bool:
    try:
        return bool(folder.stat().st_mode & stat.S_IWOTH)
    except OSError:
        return False


def _refuse_foreign(folder: Path, allow_group_write: bool) -> None:
    """Looks at the folder itself, never at what a link leads to."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except NotADirectoryError:
        what = "a link" if folder.is_symlink() else "a file"
        raise _refusal(folder, f"it is {what}, which anybody may have made") from None
    except OSError as exc:
        raise _refusal(folder, f"it cannot be opened ({exc.strerror or exc}): somebody else may have made it") from exc
    try:
        found = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    shared = allow_group_write and found.st_gid in {os.getegid(), *os.getgroups()}
    if found.st_uid not in (os.geteuid(), _ROOT) and not shared:
        raise _refusal(folder, f"it belongs to user {found.st_uid}, and this process runs as user {os.geteuid()}")
    writers = found.st_mode & (stat.S_IWOTH if allow_group_write else stat.S_IWGRP | stat.S_IWOTH)
    if writers:
        raise _refusal(folder, f"others can write into it (its mode is {stat.S_IMODE(found.st_mode):o}; chmod go-w {folder})")


def _refusal(folder: Path, reason: str) -> ProcessorStateError:
    return ProcessorStateError(
        f"state folder {folder} is refused, for everybody can write to {folder.parent} and {reason}: remove it if it should "
        "not be there, or set state.dir to a folder of your own"
    )
