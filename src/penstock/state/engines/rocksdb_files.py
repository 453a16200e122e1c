"""Opening a RocksDB folder without ever taking a damaged or foreign one for an empty store."""

from __future__ import annotations

import logging
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from rocksdict import AccessType, Options, Rdict

from penstock.errors import LockError, ProcessorStateError
from penstock.state.engines.format_change import FORMAT_KEY, META_COLUMN_FAMILY, convert, needed_change
from penstock.state.engines.store_format import Change, StoreFormat
from penstock.state.rocksdb_options import meta_options, require_safe_open

_COLUMN_FAMILIES = {"default", META_COLUMN_FAMILY}
_log = logging.getLogger(__name__)

# What RocksDB writes before CURRENT names its first manifest: all that a creation cut short can leave behind.
_UNFINISHED = re.compile(r"LOCK|LOG(\.old\..*)?|IDENTITY|MANIFEST-\d+|OPTIONS-\d+|.*\.dbtmp|rocksdict-config\.json")


def open_folder(
    folder: Path,
    store_name: str,
    options: Options,
    store_format: StoreFormat,
    has_changelog: bool = False,
    place: Callable[[bytes], bytes] | None = None,
) -> Rdict:
    """Open or create the RocksDB of a store.

    Steps: 1. make the folder, 2. refuse contents that are not a whole store, 3. open, 4. save the format in a new RocksDB; one of
    another format is converted, or deleted to be restored from the changelog, or refused.
    """
    _make_folder(folder, store_name)
    _refuse_foreign_files(folder, store_name)
    db = _open(folder, store_name, options)
    try:
        if _adopt(db, folder, store_name, store_format, has_changelog, place):
            return db
    except BaseException:
        db.close()
        raise
    db.close()
    delete_folder(folder)
    return open_folder(folder, store_name, options, store_format)


def delete_folder(folder: Path) -> None:
    """Delete the folder of a store that is closed; readers in other processes notice."""
    # Renamed first: half a store that a crash leaves behind would be refused as damaged.
    deleted = folder.with_name(f"{folder.name}.deleted")
    try:
        shutil.rmtree(deleted, ignore_errors=True)
        folder.rename(deleted)
        shutil.rmtree(deleted)
    except OSError as exc:
        raise ProcessorStateError(f"cannot delete the state in {folder}: {exc.strerror or exc}") from exc


def open_secondary(folder: Path, store_name: str, options: Options, store_format: StoreFormat, log_folder: Path) -> Rdict:
    """Open the RocksDB of a store for reading, whether or not another process writes it; it sees what is committed."""
    options.set_max_open_files(-1)  # what the writer deletes stays readable while it is open
    try:
        access = AccessType.secondary(str(log_folder))
        db = Rdict(str(folder), options, column_families={META_COLUMN_FAMILY: meta_options()}, access_type=access)
    except Exception as exc:
        raise ProcessorStateError(f"cannot read store {store_name} in folder {folder}: {exc}") from exc
    found = db.get_column_family(META_COLUMN_FAMILY).get(FORMAT_KEY)
    if found != store_format.text.encode():
        db.close()
        raise ProcessorStateError(
            f"cannot read store {store_name} in folder {folder}: it "
            + ("has not been written yet" if found is None else f"was written as {found.decode()!r}, not {store_format.text!r}")
        )
    return db


def _make_folder(folder: Path, store_name: str) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise ProcessorStateError(f"cannot create folder {folder} of store {store_name}: {exc}{advice(str(exc))}") from exc


def _refuse_foreign_files(folder: Path, store_name: str) -> None:
    try:
        names = sorted(path.name for path in folder.iterdir())
        families = set(Rdict.list_cf(str(folder))) if "CURRENT" in names else set()
    except Exception as exc:
        raise _unusable(folder, store_name, str(exc)) from exc
    if "CURRENT" not in names:
        foreign = [name for name in names if not _UNFINISHED.fullmatch(name)]
        if foreign:
            raise _unusable(folder, store_name, f"it has no CURRENT file but holds {', '.join(foreign[:5])}")
    elif not families <= _COLUMN_FAMILIES:
        unexpected = ", ".join(sorted(families - _COLUMN_FAMILIES))
        raise _unusable(folder, store_name, f"it holds a RocksDB that penstock did not write (column family {unexpected})")


def _open(folder: Path, store_name: str, options: Options) -> Rdict:
    require_safe_open(options)
    try:
        return Rdict(str(folder), options, column_families={META_COLUMN_FAMILY: meta_options()})
    except Exception as exc:
        reason = str(exc)
        if "lock hold by" in reason or "While lock file" in reason:
            raise LockError(f"store {store_name} in folder {folder} is already open: {reason}") from exc
        raise _unusable(folder, store_name, reason) from exc


def _adopt(
    db: Rdict, folder: Path, name: str, wanted: StoreFormat, has_changelog: bool, place: Callable[[bytes], bytes] | None
) -> bool:
    """Make the RocksDB one of the wanted format; False if it has to be rebuilt from the changelog."""
    meta = db.get_column_family(META_COLUMN_FAMILY)
    saved = meta.get(FORMAT_KEY)
    if saved is None:
        if next(db.keys(), None) is not None or next(meta.keys(), None) is not None:
            raise _unusable(folder, name, "it holds a RocksDB that penstock did not write")
        meta[FORMAT_KEY] = wanted.text.encode()
        return True
    found = StoreFormat.parse(saved)
    if found is None:
        raise _other_format(folder, name, saved, wanted, "this version does not know that format. Use the version that wrote it")
    change = needed_change(meta, found, wanted)
    if change is Change.REFUSE:
        raise _other_format(folder, name, saved, wanted, "its changelog cannot be used either. Reset the application")
    if change is Change.REBUILD and not has_changelog:
        raise _other_format(
            folder,
            name,
            saved,
            wanted,
            "it has no changelog to be rebuilt from. Go back to the earlier format, delete the folder",
        )
    if change is Change.REBUILD:
        _log.warning(
            "store %s is restored from the start of its changelog: its state in %s was written as %r, and it is now %r",
            *(name, folder, found.text, wanted.text),
        )
        return False
    if change is Change.CONVERT:
        _log.info("store %s: its state in %s is converted from %r to %r", name, folder, found.text, wanted.text)
        try:
            convert(db, meta, found, wanted, place)
        except Exception as exc:
            raise ProcessorStateError(
                f"cannot convert store {name} in folder {folder} from {found.text!r} to {wanted.text!r}: {exc}{advice(str(exc))}"
            ) from exc
    return True


def _other_format(folder: Path, name: str, saved: bytes, wanted: StoreFormat, reason: str) -> ProcessorStateError:
    text = saved[:100].decode("ascii", "replace")
    return ProcessorStateError(
        f"cannot open store {name} in folder {folder}: it was written as a store of format {text!r}, not {wanted.text!r}, and "
        f"{reason}, or give the store another name"
    )


def advice(reason: str) -> str:
    """What to do where it is the disk that fails, not the store; empty otherwise."""
    if "No space left" in reason or "Disk quota" in reason:
        return ". The disk is full: make room, or set another state.dir; what is committed is in Kafka, nothing is lost"
    if "Permission denied" in reason or "Read-only file system" in reason or "Operation not permitted" in reason:
        return ". This process may not write there: give it the rights, or set another state.dir"
    return ""


def _unusable(folder: Path, store_name: str, reason: str) -> ProcessorStateError:
    if advice(reason):
        return ProcessorStateError(f"cannot open store {store_name} in folder {folder}: {reason}{advice(reason)}")
    return ProcessorStateError(
        f"cannot open store {store_name} in folder {folder}: {reason}. The folder is damaged or belongs to something else; "
        "move it away, and the store is rebuilt from its changelog (a store without changelog starts empty)"
    )
