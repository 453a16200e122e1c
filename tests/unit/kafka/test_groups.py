from penstock.kafka.groups import GroupStatus, MemberStatus, _member

DESCRIBED = {
    "member_id": "m-1",
    "client_id": "shop-1-consumer",
    "client_host": "/10.0.0.1",
    "member_metadata": {"topics": ["a"], "user_data": '{"process_id": "p", "capacity": 2, "host": "", "held": []}'},
    "member_assignment": {"assigned_partitions": [], "user_data": '{"units": ["p0", "1_1"], "owners": {}}'},
}


def test_should_read_what_a_member_told_and_was_given() -> None:
    assert _member(DESCRIBED) == MemberStatus("m-1", "shop-1-consumer", "10.0.0.1", "p", 2, ("p0", "1_1"))


def test_should_take_members_of_another_kind_as_they_are() -> None:
    strange = {**DESCRIBED, "member_metadata": b"\x00", "member_assignment": {"user_data": "\x00not json"}}
    assert _member(strange) == MemberStatus("m-1", "shop-1-consumer", "10.0.0.1", "", 0, ())


def test_should_know_whether_the_group_is_there() -> None:
    assert GroupStatus("Empty", ()).exists
    assert not GroupStatus("Dead", ()).exists
