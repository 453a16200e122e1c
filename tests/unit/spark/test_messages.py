from penstock.config.streams_config import StreamsConfig
from penstock.ids import TaskId
from penstock.spark.messages import Application, OpenTurn
from penstock.spark.worker.lane_worker import packed


def test_should_not_show_secrets_where_a_message_is_printed() -> None:
    config = StreamsConfig({"application.id": "a", "bootstrap.servers": "b:1", "sasl.password": "s3cret"})
    application = Application("key", config, None, None, "process", "client")  # type: ignore[arg-type]
    assert "s3cret" not in repr(application)
    data = packed(application)
    assert b"s3cret" in data  # the lane needs it
    turn = OpenTurn("key", 0, {TaskId(0, 0): {}}, data)
    assert "s3cret" not in repr(turn)
    assert "0_0" in repr(turn) or "TaskId" in repr(turn)
