"""`penstock topics`: list, create and delete topics."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.commands.brokers import broker_config, open_admin, users_topics
from penstock.commands.common import ConfigFile, Settings, fail, quiet_clients, report_errors, say, show_table
from penstock.commands.progress import busy

_CLIENT = "penstock-topics"

topics = typer.Typer(name="topics", help="List, create and delete topics.", no_args_is_help=True)

Names = Annotated[list[str], typer.Argument(metavar="TOPIC...", help="One or more topics.")]


@topics.command("list")
def list_topics(config: ConfigFile = None, settings: Settings = None) -> None:
    """List the topics with their numbers of partitions, without the brokers' internal topics.

    The brokers are those of the setting bootstrap.servers, localhost:9092 by default.
    """
    with report_errors():
        quiet_clients()
        with busy("asking the brokers"):
            found = users_topics(open_admin(broker_config(config, settings, _CLIENT), _CLIENT))
        show_table("Topics", ("TOPIC", "PARTITIONS"), list(found.items()))


@topics.command("create")
def create_topics(
    names: Names,
    partitions: Annotated[int | None, typer.Option(min=1, help="Partitions per topic. Default: that of the brokers.")] = None,
    replication_factor: Annotated[
        int | None, typer.Option(min=1, help="Replicas per partition. Default: that of the brokers.")
    ] = None,
    config: ConfigFile = None,
    settings: Settings = None,
) -> None:
    """Create topics. Exits with 1, and creates nothing, if one of them exists."""
    with report_errors():
        quiet_clients()
        with busy("asking the brokers"):
            admin = open_admin(broker_config(config, settings, _CLIENT), _CLIENT)
            known = users_topics(admin)
        if there := [name for name in names if name in known]:
            fail(f"Creating {', '.join(there)} failed: the topic exists already")
        for name in dict.fromkeys(names):
            admin.create_topic(name, partitions or -1, {}, replication_factor or -1)
            say(f"created {name}")


@topics.command("delete")
def delete_topics(names: Names, config: ConfigFile = None, settings: Settings = None) -> None:
    """Delete topics with all records. Exits with 1, and deletes nothing, if one of them does not exist."""
    with report_errors():
        quiet_clients()
        with busy("asking the brokers"):
            admin = open_admin(broker_config(config, settings, _CLIENT), _CLIENT)
            known = users_topics(admin)
        if missing := [name for name in names if name not in known]:
            fail(f"Deleting {', '.join(missing)} failed: there is no such topic")
        for name in dict.fromkeys(names):
            admin.delete_topics([name])
            say(f"deleted {name}")
