"""Opening a RocksDB folder without ever taking a damaged or foreign one for an empty store."""

from __future__ import annotations

import re
from pathlib import Path

from rocksdict import AccessType, Options, Rdict

from penstock.errors import LockError, ProcessorStateError
from penstock.state.rocksdb_options import meta_options, require_safe_open

META_COLUMN_FAMILY = "penstock"
_COLUMN_FAMILIES = {"default", META_COLUMN_FAMILY}
_FORMAT_KEY = b"format"

# What RocksDB writes before CURRENT names its first manifest: all that a creation cut short can leave behind.
_UNFINISHED = re.compile(r"LOCK|LOG(\.old\..*)?|IDENTITY|MANIFEST-\d+|OPTIONS-\d+|.*\.dbtmp|rocksdict-config\.json")


def open_folder(folder: Path, store_name: str, options: Options, store_format: str) -> Rdict:
    """Open or create the RocksDB of a store.

    Steps: 1. make the folder, 2. refuse contents that are not a whole store, 3. open, 4. check that it holds this
    format of store, or say so in a new one.
    """
    _make_folder(folder, store_name)
    _refuse_foreign_files(folder, store_name)
    db = _open(folder, store_name, options)
    try:
        _check_format(db, folder, store_name, store_format)
    except BaseException:
        db.close()
        raise
    return db


def open_secondary(folder: Path, store_name: str, options: Options, store_format: str, log_folder: Path) -> Rdict:
    """Open the RocksDB of a store for reading, whether or not another process writes it; it sees what is committed."""
    options.set_max_open_files(-1)  # what the writer deletes stays readable while it is open
    try:
        access = AccessType.secondary(str(log_folder))
        db = Rdict(str(folder), options, column_families={META_COLUMN_FAMILY: meta_options()}, access_type=access)
    except Exception as exc:
        raise ProcessorStateError(f"cannot read store {store_name} in folder {folder}: {exc}") from exc
    found = db.get_column_family(META_COLUMN_FAMILY).get(_FORMAT_KEY)
    if found != f"1 {store_format}".encode():
        db.close()
        raise ProcessorStateError(
            f"cannot read store {store_name} in folder {folder}: it "
            + ("has not been written yet" if found is None else f"was written as {found.decode()!r}, not {store_format!r}")
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


def _check_format(db: Rdict, folder: Path, store_name: str, store_format: str) -> None:
    meta = db.get_column_family(META_COLUMN_FAMILY)
    wanted = f"1 {store_format}".encode()
    found = meta.get(_FORMAT_KEY)
    if found is None:
        if next(db.keys(), None) is not None or next(meta.keys(), None) is not None:
            raise _unusable(folder, store_name, "it holds a RocksDB that penstock did not write")
        meta[_FORMAT_KEY] = wanted
    elif found != wanted:
        raise _unusable(folder, store_name, f"it was written as a store of format {found.decode()!r}, not {wanted.decode()!r}")


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
