from __future__ import annotations

import os
import subprocess
import sys

from bench.processes import CpuWatch, MemoryWatch, ProcessStat, cpu_between, end_session, memory_mb, parse_stat, session_of

_LINE = "7 (a (b) c) S 1 7 42 0 -1 0 0 0 0 0 100 50 25 25 20 0"


def test_should_read_a_stat_line_whose_command_has_blanks_and_brackets() -> None:
    stat = parse_stat(_LINE)
    assert (stat.pid, stat.command, stat.session) == (7, "a (b) c", 42)
    assert stat.cpu_seconds * os.sysconf("SC_CLK_TCK") == 200


def test_should_find_and_end_all_processes_of_a_session() -> None:
    sleeper = "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])"
    script = f"import subprocess, sys, time; {sleeper}; print(1, flush=True); time.sleep(600)"
    leader = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, start_new_session=True)
    assert leader.stdout is not None
    leader.stdout.readline()
    try:
        assert len(session_of(leader.pid)) == 2
        assert memory_mb(leader.pid)["rss"] >= memory_mb(leader.pid)["pss"] > 1
    finally:
        end_session(leader.pid)
        leader.wait()
        leader.stdout.close()
    while session_of(leader.pid):
        continue


def test_should_tell_the_share_of_a_core() -> None:
    watch = CpuWatch(1, cpu=3.0, seconds=6.0)
    assert watch.share == 0.5
    assert CpuWatch(1).share == 0.0


def test_should_count_what_processes_have_used_that_have_ended_and_never_less_than_nothing() -> None:
    driver, worker = ProcessStat(1, "driver", 1, 10.0, 8.0), ProcessStat(2, "worker", 1, 5.0, 5.0)
    waited_for = ProcessStat(1, "driver", 1, 17.0, 9.0)  # a second of its own, and the worker's five and one more
    assert cpu_between([driver, worker], [waited_for]) == 2.0
    nobody_waited = ProcessStat(1, "driver", 1, 11.0, 9.0)
    assert cpu_between([driver, worker], [nobody_waited]) == 1.0


def test_should_keep_the_peak_of_memory() -> None:
    watch = MemoryWatch(1, [{"pss": 1.0, "rss": 5.0}, {"pss": 2.0, "rss": 4.0}])
    assert (watch.peak_pss, watch.peak_rss) == (2.0, 5.0)
    assert MemoryWatch(1).peak_pss == 0.0
