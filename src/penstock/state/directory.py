"""The folders of an application's state: `<state.dir>/<application.id>/<task>/`, each locked by the process that uses it.

The locks are POSIX record locks (`fcntl.lockf`): the kernel drops them when the process ends, however it ends, and a
forked child does not inherit them. Such a lock does not keep out its own process, so that is done by a table here.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import shutil
import socket
import threading
import uuid
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from penstock.clock import Clock, SystemClock
from penstock.errors import LockError, ProcessorStateError
from penstock.ids import TaskId
from penstock.state.folders import make_folder, make_own_folder, refuse_foreign_ancestors

LOCK_FILE = ".lock"
PROCESS_FILE = "penstock-process-metadata"
_PROCESS_FILE_SIZE = 4096  # many times what is written there
GLOBAL_FOLDER = "global"
HISTORY_FOLDER = "history"
"""Staged history of sources, below the application's folder."""

_log = logging.getLogger(__name__)


class FolderLock:
    """An exclusive lock on a folder, held until `release` or the end of this process."""

    # What this process holds, by path; the pid tells a forked child that the entries it inherited are not its own.
    _held: ClassVar[dict[tuple[int, str], FolderLock]] = {}
    _table = threading.Lock()

    def __init__(self, folder: Path, descriptor: int, key: tuple[int, str]) -> None:
        self.folder = folder
        self._descriptor = descriptor
        self._key = key

    @classmethod
    def acquire(cls, folder: Path) -> FolderLock:
        """Lock a folder that exists; raises LockError where somebody else has it."""
        key = (os.getpid(), os.path.realpath(folder))
        with cls._table:
            if key in cls._held:
                raise LockError(f"folder {folder} is already in use by this process (pid {os.getpid()})")
            lock = cls(folder, cls._lock_file(folder), key)
            cls._held[key] = lock
            return lock

    def release(self) -> None:
        """Give the folder free; calling it twice, or in a forked child, does nothing."""
        with self._table:
            if self._held.get(self._key) is self and self._key[0] == os.getpid():
                del self._held[self._key]
                os.close(self._descriptor)

    @staticmethod
    def _lock_file(folder: Path) -> int:
        path = folder / LOCK_FILE
        while True:
            try:
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o640)
            except OSError as exc:
                raise ProcessorStateError(f"cannot create lock file {path}: {exc.strerror or exc}") from exc
            try:
                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_same_file(descriptor, path):
                    return descriptor
                # The folder was deleted between opening and locking: the lock is on a file nobody can see any more.
            except OSError as exc:
                os.close(descriptor)
                raise LockError(
                    f"folder {folder} is in use by another process: stop it, or give this application another state.dir"
                ) from exc
            os.close(descriptor)


class StateDirectory:
    """The state folder of one application on this machine.

    Without persistent stores (`has_persistent_stores=False`) nothing is created and nothing is locked.
    """

    def __init__(
        self,
        state_dir: str | Path,
        application_id: str,
        *,
        has_persistent_stores: bool = True,
        allow_group_write: bool = False,
        clock: Clock | None = None,
    ) -> None:
        self._base = Path(state_dir)
        self._folder = self._base / application_id
        self._has_persistent_stores = has_persistent_stores
        self._clock = clock or SystemClock()
        self._task_locks: dict[TaskId, FolderLock] = {}
        self._process_lock: FolderLock | None = None
        if has_persistent_stores:
            make_own_folder(self._base, allow_group_write)
            refuse_foreign_ancestors(self._base, allow_group_write)
            make_own_folder(self._folder, allow_group_write)

    @property
    def folder(self) -> Path:
        """The application's folder."""
        return self._folder

    def initialize_process_id(self) -> uuid.UUID:
        """Lock the application's folder for this instance and give the id it has kept there since its first start."""
        if not self._has_persistent_stores:
            return uuid.uuid4()
        if self._process_lock is None:
            try:
                self._process_lock = FolderLock.acquire(self._folder)
            except LockError as exc:
                raise LockError(
                    f"another instance of the application uses the state folder {self._folder}: "
                    "stop it, or give this one another state.dir"
                ) from exc
        return self._read_process_id() or self._write_process_id()

    def renew_process_id(self) -> uuid.UUID:
        """A new id for this instance: the folder is a copy of one that another instance uses."""
        return self._write_process_id() if self._has_persistent_stores else uuid.uuid4()

    def folder_of_task(self, task_id: TaskId) -> Path:
        """Where a task's folder is, whether it exists or not."""
        return self._folder / str(task_id)

    def get_or_create_directory_for_task(self, task_id: TaskId) -> Path:
        """A task's folder."""
        folder = self.folder_of_task(task_id)
        if self._has_persistent_stores:
            make_folder(folder)
        return folder

    def global_state_dir(self) -> Path:
        """The folder of the global stores."""
        folder = self._folder / GLOBAL_FOLDER
        if self._has_persistent_stores:
            make_folder(folder)
        return folder

    def lock(self, task_id: TaskId) -> None:
        """Take a task's folder for this process; raises LockError where another one has it. Twice is fine."""
        if not self._has_persistent_stores or task_id in self._task_locks:
            return
        self._task_locks[task_id] = FolderLock.acquire(self.get_or_create_directory_for_task(task_id))

    def unlock(self, task_id: TaskId) -> None:
        """Give a task's folder free; from now on it counts as unused."""
        lock = self._task_locks.pop(task_id, None)
        if lock is not None:
            # The folder's own time changes only with its entries, which may be weeks ago: its age starts now.
            with suppress(OSError):
                os.utime(lock.folder)
            lock.release()

    def list_all_task_directories(self) -> dict[TaskId, Path]:
        """Every task folder, by task."""
        found = {}
        if self._folder.is_dir():
            for path in sorted(self._folder.iterdir()):
                with suppress(ValueError):
                    task_id = TaskId.parse(path.name)
                    if path.is_dir():
                        found[task_id] = path
        return found

    def list_non_empty_task_directories(self) -> dict[TaskId, Path]:
        """The task folders that hold more than a lock file, by task."""
        return {
            task_id: path
            for task_id, path in self.list_all_task_directories().items()
            if any(entry.name != LOCK_FILE for entry in path.iterdir())
        }

    def clean_removed_tasks(self, cleanup_delay_ms: int) -> list[TaskId]:
        """Delete folders that nobody has locked and that were not used for so long; returns their tasks."""
        deleted = []
        for task_id, path in self.list_all_task_directories().items():
            if task_id not in self._task_locks and self._delete_if_older(path, cleanup_delay_ms):
                _log.info(
                    "Deleted obsolete state directory %s of task %s (cleanup delay is %d ms)", path, task_id, cleanup_delay_ms
                )
                deleted.append(task_id)
        return deleted

    def clean_outdated_dirs_on_startup(self, dir_max_age_ms: int) -> list[TaskId]:
        """Delete folders of tasks older than `state.cleanup.dir.max.age.ms`; a negative age keeps all."""
        return [] if dir_max_age_ms < 0 else self.clean_removed_tasks(dir_max_age_ms)

    def clean(self) -> None:
        """Delete the application's whole state; raises LockError where a task's folder is in use by another process."""
        for task_id, path in self.list_all_task_directories().items():
            lock = self._task_locks.pop(task_id, None) or FolderLock.acquire(path)
            try:
                _delete(path)
            finally:
                lock.release()
        if not self._folder.is_dir():
            return
        _delete(self._folder / GLOBAL_FOLDER)
        _delete(self._folder / HISTORY_FOLDER)
        (self._folder / PROCESS_FILE).unlink(missing_ok=True)
        (self._folder / LOCK_FILE).unlink(missing_ok=True)
        try:
            self._folder.rmdir()
        except OSError:
            _log.warning("The state folder %s was not deleted: it holds files that are not penstock's", self._folder)

    def close(self) -> None:
        """Give all folders free."""
        for task_id in list(self._task_locks):
            self.unlock(task_id)
        if self._process_lock is not None:
            self._process_lock.release()
            self._process_lock = None

    def _delete_if_older(self, path: Path, age_ms: int) -> bool:
        try:
            modified_ms = path.stat().st_mtime_ns // 1_000_000
            if self._clock.now_ms() - age_ms <= modified_ms:
                return False
            lock = FolderLock.acquire(path)
        except (OSError, ProcessorStateError):
            return False
        try:
            _delete(path)
            return True
        except ProcessorStateError as exc:
            _log.warning("Could not delete obsolete state directory %s: %s", path, exc)
            return False
        finally:
            lock.release()

    def _read_process_id(self) -> uuid.UUID | None:
        path = self._folder / PROCESS_FILE
        try:
            with path.open() as file:
                return uuid.UUID(json.loads(file.read(_PROCESS_FILE_SIZE))["processId"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as exc:
            _log.warning("Cannot read %s (%s): this instance gets a new process id", path, exc)
            return None

    def _write_process_id(self) -> uuid.UUID:
        process_id = uuid.uuid4()
        path = self._folder / PROCESS_FILE
        try:
            path.write_text(json.dumps({"processId": str(process_id), "version": 1}))
        except OSError as exc:
            raise ProcessorStateError(f"cannot write process file {path}: {exc.strerror or exc}") from exc
        return process_id


def delete_shared_history(history_dir: str | None, application_id: str) -> None:
    """Delete the history that an application has staged in a folder of `history.dir`; below its own folder `clean` deletes it."""
    if history_dir is not None:
        shutil.rmtree(Path(history_dir) / application_id, ignore_errors=True)


def state_dir_here(configured: str | Path) -> Path:
    """The folder of the state on this machine: `PENSTOCK_STATE_DIR`, where a machine of a cluster keeps it elsewhere."""
    return Path(os.environ.get("PENSTOCK_STATE_DIR") or configured)


def site_here() -> str:
    """Names the place of this machine's state folders: processes of the same site see the same files."""
    return f"{socket.gethostname()}:{os.environ.get('PENSTOCK_STATE_DIR', '')}"


def _delete(path: Path) -> None:
    try:
        shutil.rmtree(path)
    except FileNotFoundError:
        return
    except OSError as exc:
        raise ProcessorStateError(f"cannot delete state folder {path}: {exc.strerror or exc}") from exc


def _is_same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False
