from __future__ import annotations

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.drawing.layout import Size, layered, place_apart


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=12), st.data())
def test_should_keep_order_and_distances(wanted: list[float], data: st.DataObject) -> None:
    distances = data.draw(st.lists(st.floats(0, 20), min_size=len(wanted) - 1, max_size=len(wanted) - 1))
    places = place_apart(wanted, distances)
    for before, after, distance in zip(places, places[1:], distances):
        assert after - before >= distance - 1e-6


def test_should_leave_places_that_are_far_enough_apart() -> None:
    assert place_apart([0, 10, 30], [5, 5]) == [0, 10, 30]


@settings(max_examples=50)
@given(st.integers(1, 9), st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=16))
def test_should_never_put_one_node_over_another(count: int, edges: list[tuple[int, int]]) -> None:
    sizes = {str(number): Size(10 + 7 * number, 5 + number) for number in range(count)}
    layout = layered(sizes, [(str(top), str(bottom)) for top, bottom in edges], Size(4, 6))
    assert set(layout.centers) == set(sizes)
    for first, second in combinations(sizes, 2):
        (x1, y1), (x2, y2) = layout.centers[first], layout.centers[second]
        apart_x = abs(x1 - x2) >= (sizes[first].width + sizes[second].width) / 2 - 1e-6
        apart_y = abs(y1 - y2) >= (sizes[first].height + sizes[second].height) / 2 - 1e-6
        assert apart_x or apart_y
    assert all(0 <= x <= layout.width and 0 <= y <= layout.height for x, y in layout.centers.values())


def test_should_put_children_below_their_parents() -> None:
    layout = layered(dict.fromkeys("abcd", Size(4, 4)), [("a", "b"), ("b", "c"), ("a", "c"), ("c", "d")], Size(2, 2))
    rows = [layout.centers[name][1] for name in "abcd"]
    assert rows == sorted(rows)
    assert len(layout.routes["a", "c"]) == 1


def test_should_survive_a_circle() -> None:
    layout = layered(dict.fromkeys("ab", Size(4, 4)), [("a", "b"), ("b", "a")], Size(2, 2))
    assert set(layout.centers) == {"a", "b"}


def test_should_lay_out_nothing() -> None:
    assert layered({}, [], Size(1, 1)).height == 0
