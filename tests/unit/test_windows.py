import pickle
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ConfigError
from penstock.windows import (
    MAX_TIMESTAMP,
    EmitStrategy,
    JoinWindows,
    SessionWindow,
    SessionWindows,
    SlidingWindows,
    StrategyType,
    TimeWindow,
    TimeWindows,
    UnlimitedWindow,
    UnlimitedWindows,
    Window,
    Windowed,
    to_ms,
)


def test_should_convert_durations_to_milliseconds():
    assert to_ms(timedelta(minutes=1), "x") == 60_000
    assert to_ms(timedelta(microseconds=1999), "x") == 1
    assert to_ms(5, "x") == 5


@pytest.mark.parametrize("bad", ["5m", None, 1.5, True, b"1"])
def test_should_name_the_argument_when_a_duration_has_the_wrong_type(bad):
    with pytest.raises(TypeError, match="size must be a timedelta"):
        to_ms(bad, "size")


def test_should_refuse_durations_beyond_64_bits():
    with pytest.raises(ConfigError, match="grace"):
        to_ms(2**63, "grace")


def test_should_compare_windows_by_their_bounds():
    assert Window(0, 10) == TimeWindow(0, 10)
    assert SessionWindow(0, 10) == Window(0, 10)
    assert TimeWindow(0, 10) != SessionWindow(0, 10)
    assert Windowed("k", TimeWindow(0, 10)) != Windowed("k", SessionWindow(0, 10))
    assert hash(Window(0, 10)) == hash(TimeWindow(0, 10))
    assert Window(0, 10) != Window(0, 11)
    assert Windowed("k", Window(0, 10)) == Windowed("k", TimeWindow(0, 10))
    assert {Windowed("k", Window(0, 10)): 1}[Windowed("k", SessionWindow(0, 10))] == 1
    assert Windowed("k", Window(0, 10)) != Windowed("other", Window(0, 10))
    assert Windowed("k", Window(0, 10)) != "k"


def test_should_print_windowed_keys_as_java_does():
    assert str(Windowed("key", TimeWindow(5, 15))) == "[key@5/15]"
    assert repr(Windowed("key", TimeWindow(5, 15))) == "Windowed('key', TimeWindow(start=5, end=15))"


def test_should_be_immutable_and_picklable():
    windowed = Windowed("k", SessionWindow(1, 1))
    with pytest.raises(AttributeError):
        windowed.key = "other"
    with pytest.raises(AttributeError):
        windowed.window.start = 3
    with pytest.raises(AttributeError):
        del windowed.window.start
    assert pickle.loads(pickle.dumps(windowed)) == windowed
    assert type(pickle.loads(pickle.dumps(windowed)).window) is SessionWindow


def test_should_refuse_impossible_windows():
    with pytest.raises(ConfigError):
        Window(-1, 10)
    with pytest.raises(ConfigError):
        Window(10, 9)
    with pytest.raises(ConfigError):
        TimeWindow(10, 10)
    assert SessionWindow(10, 10).end == 10


def test_should_tell_the_moments_of_a_window():
    assert Window(0, 1000).end_time == datetime(1970, 1, 1, 0, 0, 1, tzinfo=timezone.utc)
    assert UnlimitedWindow(0).end_time.year == 9999
    assert Window(5, 6).start_time.microsecond == 5000


@pytest.mark.parametrize(
    ("left", "right", "overlap"),
    [
        (TimeWindow(50, 100), TimeWindow(0, 50), False),
        (TimeWindow(50, 100), TimeWindow(0, 51), True),
        (TimeWindow(50, 100), TimeWindow(99, 200), True),
        (TimeWindow(50, 100), TimeWindow(100, 200), False),
        (SessionWindow(50, 100), SessionWindow(0, 49), False),
        (SessionWindow(50, 100), SessionWindow(0, 50), True),
        (SessionWindow(50, 100), SessionWindow(100, 200), True),
        (SessionWindow(50, 100), SessionWindow(101, 200), False),
        (UnlimitedWindow(50), UnlimitedWindow(10_000), True),
        (Window(0, 10), Window(9, 10), True),
    ],
)
def test_should_know_whether_windows_overlap(left, right, overlap):
    assert left.overlap(right) is overlap


def test_should_not_compare_windows_of_different_kinds():
    with pytest.raises(ConfigError):
        TimeWindow(0, 10).overlap(SessionWindow(0, 10))


def test_should_put_a_timestamp_into_its_tumbling_window():
    assert dict(TimeWindows(12, grace=0).windows_for(21)) == {12: TimeWindow(12, 24)}


def test_should_put_a_timestamp_into_its_hopping_windows():
    windows = TimeWindows(timedelta(milliseconds=12), grace=0, advance=5).windows_for(21)
    assert list(windows.items()) == [(10, Window(10, 22)), (15, Window(15, 27)), (20, Window(20, 32))]


@given(st.integers(1, 50), st.integers(1, 50), st.integers(0, 300))
def test_should_find_every_window_that_holds_the_timestamp(size, advance, timestamp):
    advance = min(size, advance)
    found = list(TimeWindows(size, grace=0, advance=advance).windows_for(timestamp))
    assert found == [start for start in range(0, timestamp + 1, advance) if start <= timestamp < start + size]


def test_should_need_a_grace_period():
    for make in (lambda: TimeWindows(10), lambda: SlidingWindows(10), lambda: SessionWindows(10), lambda: JoinWindows(10)):
        with pytest.raises(TypeError, match="grace"):
            make()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TimeWindows(0, grace=0), "size"),
        (lambda: TimeWindows(-1, grace=0), "size"),
        (lambda: TimeWindows(10, grace=-1), "grace"),
        (lambda: TimeWindows(10, grace=0, advance=0), "advance"),
        (lambda: TimeWindows(10, grace=0, advance=11), "advance"),
        (lambda: TimeWindows(10, grace=0, advance=-1), "advance"),
        (lambda: SlidingWindows(-1, grace=0), "time_difference"),
        (lambda: SlidingWindows(1, grace=-1), "grace"),
        (lambda: SessionWindows(-1, grace=0), "inactivity_gap"),
        (lambda: SessionWindows(1, grace=-1), "grace"),
        (lambda: UnlimitedWindows(-1), "start"),
        (lambda: JoinWindows(-1, grace=0), "time_difference"),
        (lambda: JoinWindows(before=-10, after=5, grace=0), "before"),
        (lambda: JoinWindows(10, grace=-1), "grace"),
    ],
)
def test_should_name_the_argument_that_is_not_allowed(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


def test_should_have_the_defaults_of_each_kind():
    windows = TimeWindows(10, grace=3)
    assert (windows.size_ms, windows.advance_ms, windows.grace_period_ms, windows.size) == (10, 10, 3, 10)
    assert SlidingWindows(5, grace=timedelta(seconds=1)).grace_period_ms == 1000
    assert SessionWindows(0, grace=0).inactivity_gap_ms == 0
    unlimited = UnlimitedWindows()
    assert (unlimited.start_ms, unlimited.size, unlimited.grace_period_ms) == (0, MAX_TIMESTAMP, 0)
    assert unlimited.windows_for(3) == {0: UnlimitedWindow(0)}
    assert UnlimitedWindows(datetime(1970, 1, 1, 0, 0, 1, tzinfo=timezone.utc)).start_ms == 1000
    assert UnlimitedWindows(start=5).windows_for(4) == {}


def test_should_build_join_windows_from_both_sides_or_each():
    assert JoinWindows(10, grace=0) == JoinWindows(before=10, after=10, grace=0)
    assert JoinWindows(10, before=3, grace=0) == JoinWindows(before=3, after=10, grace=0)
    asymmetric = JoinWindows(before=-3, after=5, grace=1)
    assert (asymmetric.before_ms, asymmetric.after_ms, asymmetric.size, asymmetric.grace_period_ms) == (-3, 5, 2, 1)
    with pytest.raises(TypeError, match="time_difference"):
        JoinWindows(before=3, grace=0)
    with pytest.raises(TypeError):
        asymmetric.windows_for(0)


def test_should_compare_definitions_by_value():
    assert TimeWindows(10, grace=1) == TimeWindows(10, grace=1, advance=10)
    assert TimeWindows(10, grace=1) != TimeWindows(10, grace=2)
    assert hash(SessionWindows(1, grace=0)) == hash(SessionWindows(1, grace=0))
    for windows in (TimeWindows(10, grace=1), SlidingWindows(1, grace=0), UnlimitedWindows(3), JoinWindows(3, grace=0)):
        assert pickle.loads(pickle.dumps(windows)) == windows
    with pytest.raises(AttributeError):
        TimeWindows(10, grace=1).size_ms = 3


def test_should_know_its_emit_strategies():
    assert EmitStrategy.on_window_close() == EmitStrategy(StrategyType.ON_WINDOW_CLOSE)
    assert EmitStrategy.on_window_update().type is StrategyType.ON_WINDOW_UPDATE


def test_should_have_the_join_windows_of_javas_deprecated_spelling() -> None:
    windows = JoinWindows.of(10)
    assert (windows.before_ms, windows.after_ms, windows.grace_period_ms) == (10, 10, 24 * 60 * 60 * 1000 - 20)
    assert windows.emits_eagerly
    assert JoinWindows.of(timedelta(days=1)).grace_period_ms == 0
    changed = windows.grace(timedelta(seconds=1)).before(3).after(4)
    assert changed == JoinWindows(before=3, after=4, grace=1000)
    assert changed.emits_eagerly
    assert not JoinWindows(10, grace=0).before(3).emits_eagerly
    assert JoinWindows(10, grace=0).before(3) == JoinWindows(before=3, after=10, grace=0)


def test_should_refuse_a_second_grace_period_and_bad_ones() -> None:
    with pytest.raises(ValueError, match="Cannot call grace"):
        JoinWindows(10, grace=0).grace(5)
    with pytest.raises(ConfigError, match="grace"):
        JoinWindows.of(10).grace(-1)
    with pytest.raises(ConfigError, match="time_difference"):
        JoinWindows.of(-1)
    with pytest.raises(ConfigError, match="before \\+ after"):
        JoinWindows.of(3).before(-4)


@pytest.mark.parametrize("windows", [TimeWindows, SlidingWindows, SessionWindows, JoinWindows])
def test_should_warn_of_a_plain_number_below_a_second(windows):
    with pytest.warns(UserWarning, match=r"60 is 60 milliseconds; for seconds write timedelta\(seconds=60\)") as told:
        windows(60, grace=0)
    assert [warning.filename for warning in told] == [__file__]


@pytest.mark.filterwarnings("error")
def test_should_not_warn_of_a_timedelta_or_of_a_second():
    for windows in (TimeWindows, SlidingWindows, SessionWindows, JoinWindows):
        windows(timedelta(milliseconds=60), grace=0)
        windows(1000, grace=0)
    JoinWindows(0, grace=0)
