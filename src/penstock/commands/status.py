"""`penstock status`: show members, tasks and lag."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.commands.brokers import open_admin
from penstock.commands.common import (
    ConfigFile,
    Settings,
    fail,
    quiet_clients,
    report_errors,
    say,
    show_table,
    streams_config,
)
from penstock.commands.progress import busy
from penstock.ids import TopicPartition

if TYPE_CHECKING:  # the client takes long to import
    from penstock.kafka.groups import MemberStatus


def status(config: ConfigFile = None, settings: Settings = None) -> None:
    """Show an application's members, their tasks, and the lag of every input partition.

    A task is shown as sub-topology and partition, such as 0_1. Exits with 1 if the brokers do not know the application.
    """
    from penstock.kafka.groups import STREAMS_PROTOCOL, Groups

    with report_errors():
        quiet_clients()
        merged = streams_config(config, settings)
        application_id = merged["application.id"]
        with busy("asking the brokers"):
            admin = open_admin(merged, f"{application_id}-status")
            topics = admin.partition_counts()
            with Groups(merged, f"{application_id}-status") as groups:
                group, committed = groups.status(application_id), groups.committed(application_id)
        if not group.exists and not committed:
            fail(f"The brokers do not know the application {application_id}. Check application.id")
        ends = admin.log_ends([p for p in committed if p.topic in topics], merged.eos_enabled)
        is_streams = group.protocol == STREAMS_PROTOCOL
        members = [_row(member, is_streams=is_streams) for member in group.members]
        say(f"{application_id}: {_in_words(group.state, len(members))}, lag {_total(committed, ends)}")
        if members:
            columns = ("EPOCH", "TASKS", "STANDBYS") if is_streams else ("THREADS", "TASKS")
            show_table("Members", ("CLIENT", "HOST", *columns), members)
        if ends:
            rows = [(p.topic, p.partition, committed[p], end, max(0, end - committed[p])) for p, end in sorted(ends.items())]
            show_table("Partitions", ("TOPIC", "PARTITION", "COMMITTED", "END", "LAG"), rows)


def _row(member: MemberStatus, *, is_streams: bool) -> tuple[object, ...]:
    name, tasks = member.client_id.removesuffix("-consumer"), " ".join(member.tasks) or "-"
    if is_streams:
        return name, member.host, member.epoch, tasks, " ".join(member.copies) or "-"
    return name, member.host, member.threads, tasks


def _in_words(state: str, members: int) -> str:
    if members == 0:
        return "not running"
    return f"{'running' if state == 'Stable' else 'rebalancing'} on {members} instance{'s' if members > 1 else ''}"


def _total(committed: dict[TopicPartition, int], ends: dict[TopicPartition, int]) -> int:
    return sum(max(0, end - committed[partition]) for partition, end in ends.items())
