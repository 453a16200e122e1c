"""`penstock topics`, `produce`, `consume` and `run --create-topics` on a real broker."""

from __future__ import annotations

from typing import Any

from click.testing import Result
from typer.testing import CliRunner

from penstock.cli import app
from tests.harness.kafka import Kafka, Message, unique


def penstock(kafka: Kafka, *arguments: str, given: bytes = b"") -> Result:
    return CliRunner().invoke(app, [*arguments, "-c", f"bootstrap.servers={kafka.bootstrap_servers}"], input=given)


def ended(result: Any) -> tuple[int, str, str]:
    return result.exit_code, result.stdout, result.stderr


def test_should_create_list_and_delete_topics(kafka: Kafka) -> None:
    first, second = unique("first"), unique("second")
    created = penstock(kafka, "topics", "create", first, second, "--partitions", "3")
    assert ended(created) == (0, f"created {first}\ncreated {second}\n", "")
    listed = penstock(kafka, "topics", "list").stdout
    assert [line.split() for line in listed.splitlines() if line.startswith(first)] == [[first, "3"]]
    assert "__consumer_offsets" not in listed

    again = penstock(kafka, "topics", "create", first)
    assert ended(again) == (1, "", f"penstock: Creating {first} failed: the topic exists already\n")
    missing = penstock(kafka, "topics", "delete", first, "no-such-topic")
    assert ended(missing) == (1, "", "penstock: Deleting no-such-topic failed: there is no such topic\n")
    assert ended(penstock(kafka, "topics", "delete", first, second))[0] == 0
    assert first not in kafka.topics()


def test_should_write_lines_and_print_them_again(kafka: Kafka) -> None:
    topic = unique("orders")
    kafka.create(topic, partitions=3)
    lines = b'ada\t{"amount":30}\nbob\t{"amount":20}\nada\tnull\n'
    serdes = ("--key", "string", "--value", "json")
    assert ended(penstock(kafka, "produce", topic, *serdes, given=lines)) == (0, f"wrote 3 records to {topic}\n", "")
    written = {(message.key, message.value) for message in kafka.read(topic, 3)}
    assert written == {(b"ada", b'{"amount":30}'), (b"bob", b'{"amount":20}'), (b"ada", None)}
    code, shown, _ = ended(penstock(kafka, "consume", topic, *serdes, "--from-beginning", "--max", "3"))
    assert (code, sorted(shown.splitlines())) == (0, sorted(lines.decode().splitlines()))


def test_should_write_a_key_to_the_partition_that_java_writes_it_to(kafka: Kafka) -> None:
    ours, theirs = unique("ours"), unique("theirs")
    kafka.create(ours, theirs, partitions=5)
    keys = [f"key-{number}" for number in range(20)]
    penstock(kafka, "produce", ours, "--key", "string", given="".join(f"{key}\tx\n" for key in keys).encode())
    kafka.feed(theirs, [(key.encode(), b"x", 0) for key in keys])
    place = {message.key: message.partition for message in kafka.read(theirs, 20)}
    assert {message.key: message.partition for message in kafka.read(ours, 20)} == place


def test_should_name_the_line_that_it_does_not_write_and_keep_those_before_it(kafka: Kafka) -> None:
    topic = unique("numbers")
    kafka.create(topic, partitions=1)
    bad = penstock(kafka, "produce", topic, "--value", "long", given=b"1\n2\nmany\n4\n")
    said = "Writing line 3 failed: 'many' cannot be written as long: expected a whole number of 64 bits"
    assert ended(bad) == (1, "", f"penstock: {said}. 2 records before it were written to {topic}\n")
    assert [message.value for message in kafka.read(topic, 2)] == [(1).to_bytes(8, "big"), (2).to_bytes(8, "big")]
    no_tab = penstock(kafka, "produce", topic, "--key", "string", given=b"alone\n")
    assert (
        no_tab.stderr
        == f"penstock: Writing line 1 failed: it has no tab between key and value. 0 records before it were written to {topic}\n"
    )
    large = penstock(kafka, "produce", topic, given=b"x" * 2_000_000)
    assert (large.exit_code, "MSG_SIZE_TOO_LARGE" in large.stderr) == (1, True)


def test_should_say_that_a_topic_is_missing(kafka: Kafka) -> None:
    for command in ("produce", "consume"):
        missing = penstock(kafka, command, "no-such-topic")
        said = "There is no topic no-such-topic. Create it with: penstock topics create no-such-topic"
        assert ended(missing) == (1, "", f"penstock: {said}\n")
    assert "no-such-topic" not in kafka.topics()


def test_should_name_the_record_that_a_serde_does_not_read_and_escape_what_it_prints(kafka: Kafka) -> None:
    topic = unique("hostile")
    kafka.create(topic, partitions=1)
    kafka.feed(topic, [Message(b"k\t\n", b"\x1b[2J", 0), Message(None, None, 0)])
    shown = penstock(kafka, "consume", topic, "--key", "string", "--from-beginning", "--max", "2")
    assert ended(shown) == (0, "k\\u0009\\u000a\t\\u001b[2J\nnull\tnull\n", "")
    wrong = penstock(kafka, "consume", topic, "--value", "long", "--from-beginning")
    assert wrong.exit_code == 1
    assert f"Reading the value of the record at {topic}-0 @ 0 failed: 4 bytes cannot be read as long" in wrong.stderr
