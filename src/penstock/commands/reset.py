"""`penstock reset`: reset an application."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

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

if TYPE_CHECKING:
    from penstock.client.reset.application_reset import ChooseOffsets, ResetPlan


def reset(
    config: ConfigFile = None,
    settings: Settings = None,
    input_topics: Annotated[
        list[str] | None,
        typer.Option(metavar="TOPICS", help="Topics whose offsets are reset, separated by commas. Default: all input topics."),
    ] = None,
    internal_topics: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOPICS", help="Delete exactly these internal topics. Default: all that certainly belong to the application."
        ),
    ] = None,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the first record (the default).")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="To the end of the log.")] = False,
    to_offset: Annotated[int | None, typer.Option(min=0, help="To this offset in every partition.")] = None,
    to_datetime: Annotated[str | None, typer.Option(metavar="TIME", help="To a time: YYYY-MM-DDTHH:mm:ss.sss, UTC.")] = None,
    by_duration: Annotated[str | None, typer.Option(metavar="DURATION", help="Back by PnDTnHnMnS from now.")] = None,
    shift_by: Annotated[
        int | None, typer.Option(metavar="N", help="By N records from the committed offset; may be negative.")
    ] = None,
    from_file: Annotated[
        Path | None, typer.Option(metavar="FILE.csv", help="To the offsets of a file with lines topic,partition,offset.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Remove members from the group that still count as active.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the actions.")] = False,
) -> None:
    """Reset an application, as Kafka's application reset tool does.

    Deletes its internal topics (changelogs, repartitions) and the local state on this machine, and resets the offsets of its
    input topics. Output topics are kept, and so are topics that may belong to another application whose id begins with this
    one's. Refused while the application runs. Instances on other machines keep local state there: call clean_up() or delete
    their state directories before they start again.
    """
    from penstock.client.reset import reset_offsets
    from penstock.client.reset.application_reset import carry_out, plan_reset, refusal
    from penstock.kafka.groups import Groups

    with report_errors():
        quiet_clients()
        chosen: list[ChooseOffsets] = [reset_offsets.to_earliest] if to_earliest else []
        chosen += [reset_offsets.to_latest] if to_latest else []
        chosen += [] if to_offset is None else [reset_offsets.to_offset(to_offset)]
        chosen += [] if to_datetime is None else [reset_offsets.to_datetime(to_datetime)]
        chosen += [] if by_duration is None else [reset_offsets.by_duration(by_duration)]
        chosen += [] if shift_by is None else [reset_offsets.shift_by(shift_by)]
        chosen += [] if from_file is None else [reset_offsets.from_file(from_file)]
        if len(chosen) > 1:
            fail(
                "choose one of --to-earliest, --to-latest, --to-offset, --to-datetime, --by-duration, --shift-by, --from-file", 2
            )
        choose = chosen[0] if chosen else reset_offsets.to_earliest
        merged = streams_config(config, settings)
        client_id = f"{merged['application.id']}-reset"
        with busy("asking the brokers"):
            admin = open_admin(merged, client_id)
        with Groups(merged, client_id) as groups:
            with busy(f"looking at {merged['application.id']}"):
                internal = None if internal_topics is None else _topics(internal_topics)
                plan = plan_reset(merged, admin, groups, choose, _topics(input_topics), internal)
            if not dry_run and (reason := refusal(plan, force)):
                fail(reason)
            _show(plan, dry_run)
            if not dry_run:
                with busy(f"resetting {plan.application_id}"):
                    carry_out(plan, merged, admin, groups, force)
                say("done")


def _topics(given: list[str] | None) -> list[str]:
    return [topic.strip() for text in given or [] for topic in text.split(",") if topic.strip()]


def _show(plan: ResetPlan, dry_run: bool) -> None:
    say(f"{'Would reset' if dry_run else 'Resetting'} {plan.application_id}:")
    for member in plan.members:
        say(f"remove from the group: {member.client_id} on {member.host}")
    for topic in plan.internal_topics:
        say(f"delete topic: {topic}")
    for topic, owner in plan.left.items():
        say(f"leave topic: {topic} ({'its owner is unknown' if owner is None else f'of application {owner}'})")
    if plan.state_folder is not None:
        say(f"delete local state: {plan.state_folder}")
    if plan.offsets:
        rows = [(p.topic, p.partition, _known(plan.before.get(p)), offset) for p, offset in sorted(plan.offsets.items())]
        show_table("Offsets", ("TOPIC", "PARTITION", "FROM", "TO"), rows)
    if not (plan.members or plan.internal_topics or plan.state_folder or plan.offsets):
        say("nothing to do")


def _known(offset: int | None) -> str:
    return "-" if offset is None else str(offset)
