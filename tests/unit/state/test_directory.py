from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from penstock.clock import ManualClock
from penstock.errors import LockError, ProcessorStateError
from penstock.ids import TaskId
from penstock.state import directory as directory_module
from penstock.state import folders
from penstock.state.directory import LOCK_FILE, PROCESS_FILE, FolderLock, StateDirectory

TASK = TaskId(0, 1)


def _other_process(tmp_path: Path, then: str) -> subprocess.Popen[str]:
    script = textwrap.dedent(
        f"""
        import sys
        from penstock.errors import LockError
        from penstock.ids import TaskId
        from penstock.state.directory import StateDirectory
        directory = StateDirectory({str(tmp_path)!r}, "app")
        """
    ) + textwrap.dedent(then)
    return subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _answer(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_should_make_the_folders_of_an_application(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path / "state", "app")

    assert directory.folder == tmp_path / "state" / "app"
    assert directory.get_or_create_directory_for_task(TASK) == tmp_path / "state" / "app" / "0_1"
    assert directory.global_state_dir() == tmp_path / "state" / "app" / "global"
    assert (tmp_path / "state" / "app" / "global").is_dir()
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o750
    assert StateDirectory(tmp_path / "shared", "app", allow_group_write=True).folder.stat().st_mode & 0o777 == 0o770


def test_should_create_and_lock_nothing_without_persistent_stores(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path / "state", "app", has_persistent_stores=False)

    directory.lock(TASK)
    directory.get_or_create_directory_for_task(TASK)
    directory.global_state_dir()
    assert directory.initialize_process_id() != directory.initialize_process_id()
    directory.unlock(TASK)
    directory.clean()
    directory.close()

    assert not (tmp_path / "state").exists()


def test_should_lock_a_task_for_this_process_only(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "app")
    directory.lock(TASK)
    directory.lock(TASK)

    with pytest.raises(LockError, match=f"{directory.folder_of_task(TASK)} is already in use by this process"):
        StateDirectory(tmp_path, "app").lock(TASK)
    with _other_process(
        tmp_path,
        """
        try:
            directory.lock(TaskId(0, 1))
        except LockError as exc:
            print(exc)
        directory.lock(TaskId(0, 2))
        """,
    ) as other:
        assert _answer(other).startswith(f"folder {directory.folder_of_task(TASK)} is in use by another process")
    assert other.returncode == 0

    directory.unlock(TASK)
    StateDirectory(tmp_path, "app").lock(TASK)
    FolderLock._held[(os.getpid(), str(directory.folder_of_task(TASK)))].release()


def test_should_lose_a_lock_with_its_process_even_when_it_left_children(tmp_path: Path) -> None:
    other = _other_process(
        tmp_path,
        """
        import os, time
        directory.lock(TaskId(0, 1))
        child = os.fork()
        if child == 0:
            directory.close()
            os.close(1)
            time.sleep(60)
            os._exit(0)
        print(child, flush=True)
        sys.stdin.readline()
        os.kill(os.getpid(), 9)
        """,
    )
    directory = StateDirectory(tmp_path, "app")
    child = int(_answer(other))
    with pytest.raises(LockError):
        directory.lock(TASK)

    assert other.stdin is not None
    other.stdin.close()
    other.wait()
    assert other.stdout is not None
    other.stdout.close()

    directory.lock(TASK)
    directory.close()
    os.kill(child, signal.SIGKILL)


def test_should_not_take_the_lock_of_a_folder_that_was_deleted_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "0_0"
    folder.mkdir()
    real_lockf = directory_module.fcntl.lockf
    deleted: list[bool] = []

    def lockf(descriptor: int, operation: int) -> None:
        if not deleted:
            deleted.append(True)
            (folder / LOCK_FILE).unlink()
        real_lockf(descriptor, operation)

    monkeypatch.setattr(directory_module.fcntl, "lockf", lockf)
    lock = FolderLock.acquire(folder)

    assert (folder / LOCK_FILE).exists()
    lock.release()


def test_should_keep_its_process_id(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "app")
    process_id = directory.initialize_process_id()
    assert directory.initialize_process_id() == process_id
    assert json.loads((directory.folder / PROCESS_FILE).read_text())["processId"] == str(process_id)
    directory.close()

    directory = StateDirectory(tmp_path, "app")
    assert directory.initialize_process_id() == process_id
    (directory.folder / PROCESS_FILE).write_text("{broken")
    assert directory.initialize_process_id() != process_id
    directory.close()


def test_should_refuse_a_second_instance_in_the_same_folder(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "app")
    directory.initialize_process_id()

    with _other_process(
        tmp_path,
        """
        try:
            directory.initialize_process_id()
        except LockError as exc:
            print(exc)
        """,
    ) as other:
        assert str(directory.folder) in _answer(other)
    directory.close()


def test_should_list_task_folders_only(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "app")
    directory.lock(TASK)
    (directory.get_or_create_directory_for_task(TaskId(1, 0)) / "rocksdb").mkdir()
    directory.global_state_dir()
    (directory.folder / "2_0").write_text("a file")
    (directory.folder / "notes").mkdir()

    assert list(directory.list_all_task_directories()) == [TASK, TaskId(1, 0)]
    assert list(directory.list_non_empty_task_directories()) == [TaskId(1, 0)]
    directory.close()


def _age(path: Path, ms: int) -> None:
    os.utime(path, ns=(ms * 1_000_000, ms * 1_000_000))


def test_should_clean_obsolete_folders_after_a_delay(tmp_path: Path) -> None:
    clock = ManualClock(1_000_000)
    directory = StateDirectory(tmp_path, "app", clock=clock)
    for task in (TaskId(0, 0), TaskId(0, 1), TaskId(0, 2), TaskId(0, 3)):
        _age(directory.get_or_create_directory_for_task(task), 900_000)
    directory.lock(TaskId(0, 1))
    _age(directory.folder_of_task(TaskId(0, 1)), 900_000)
    _age(directory.folder_of_task(TaskId(0, 2)), 990_000)

    with _other_process(tmp_path, "directory.lock(TaskId(0, 3)); print('locked', flush=True); sys.stdin.readline()") as other:
        assert _answer(other) == "locked"
        _age(directory.folder_of_task(TaskId(0, 3)), 900_000)
        assert directory.clean_removed_tasks(50_000) == [TaskId(0, 0)]
        assert directory.clean_removed_tasks(50_000) == []

    assert list(directory.list_all_task_directories()) == [TaskId(0, 1), TaskId(0, 2), TaskId(0, 3)]
    directory.close()


def test_should_count_the_age_of_a_folder_from_its_last_use(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "app")
    directory.lock(TASK)
    _age(directory.folder_of_task(TASK), 1000)
    directory.unlock(TASK)
    directory.unlock(TASK)

    assert directory.clean_removed_tasks(60_000) == []


def test_should_clean_outdated_folders_on_startup(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "app")
    _age(directory.get_or_create_directory_for_task(TASK), 1000)

    assert directory.clean_outdated_dirs_on_startup(-1) == []
    assert directory.clean_outdated_dirs_on_startup(60_000) == [TASK]


def test_should_clean_up_everything(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "app")
    directory.initialize_process_id()
    directory.lock(TASK)
    (directory.folder_of_task(TASK) / "rocksdb").mkdir()
    directory.global_state_dir()

    directory.clean()
    directory.close()

    assert list(tmp_path.iterdir()) == []


def test_should_leave_foreign_files_when_it_cleans_up(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    directory = StateDirectory(tmp_path, "app")
    (directory.folder / "notes.txt").write_text("mine")

    directory.clean()

    assert (directory.folder / "notes.txt").exists()
    assert "not penstock's" in caplog.text


def test_should_not_clean_up_what_another_process_uses(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "app")
    with _other_process(tmp_path, "directory.lock(TaskId(0, 1)); print('locked', flush=True); sys.stdin.readline()") as other:
        assert _answer(other) == "locked"
        with pytest.raises(LockError, match="0_1 is in use by another process"):
            directory.clean()

    assert directory.folder_of_task(TASK).exists()


def test_should_name_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "app").write_text("in the way")
    with pytest.raises(ProcessorStateError, match=f"{tmp_path / 'app'} cannot be created: there is a file of that name"):
        StateDirectory(tmp_path, "app")
    with pytest.raises(ProcessorStateError, match=f"{tmp_path / 'app' / 'below'} does not exist and cannot be created"):
        StateDirectory(tmp_path / "app" / "below", "x")


def test_should_name_a_folder_without_rights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders.os, "access", lambda path, mode: Path(path).name != "app")

    with pytest.raises(ProcessorStateError, match=f"{tmp_path / 'app'} cannot be used: this process needs the rights"):
        StateDirectory(tmp_path, "app")


def test_should_name_a_lock_file_that_cannot_be_made(tmp_path: Path) -> None:
    folder = tmp_path / "0_0"
    (folder / LOCK_FILE).mkdir(parents=True)

    with pytest.raises(ProcessorStateError, match="cannot create lock file"):
        FolderLock.acquire(folder)
