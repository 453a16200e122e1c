from penstock.config.streams_config import StreamsConfig
from penstock.ids import TaskId
from penstock.spark.messages import Application, Residency, TaskStart
from penstock.spark.worker.residency import packed


def test_should_not_show_secrets_where_a_message_is_printed() -> None:
    config = StreamsConfig({"application.id": "a", "bootstrap.servers": "b:1", "sasl.password": "s3cret"})
    application = Application("key", config, None, None, "process", "client")  # type: ignore[arg-type]
    assert "s3cret" not in repr(application)
    data = packed(application)
    assert b"s3cret" in data  # the thread needs it
    residency = Residency("key", 0, 1, {TaskId(0, 0): TaskStart()}, application=data)
    assert "s3cret" not in repr(residency)
    assert "0_0" in repr(residency) or "TaskId" in repr(residency)
