"""Topologies written with processors, and processors inside the DSL."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from penstock import Consumed, Stores
from tests.conformance.scenarios import processors
from tests.conformance.scenarios.kit import GROUPED, IN, LONGS_OUT, OUT, L, S, plus, stored, stream
from tests.conformance.scenarios.registry import dsl, papi
from tests.conformance.scenarios.stateless import by_initial


def _source(t: Any, name: str, *topics: Any) -> Any:
    return t.add_source(name, *topics, key_deserializer=S, value_deserializer=S)


def _sink(t: Any, name: str, topic: Any, *parents: str) -> Any:
    return t.add_sink(name, topic, *parents, key_serializer=S, value_serializer=S)


def _single(t: Any, supplier: Any, *stores: Any) -> None:
    _source(t, "source", "in")
    t.add_processor("process", supplier, "source")
    for store in stores:
        t.add_state_store(store, "process")
    _sink(t, "sink", "out", "process")


def _counting(t: Any, builder: Any) -> None:
    _source(t, "source", "in")
    t.add_processor("count", processors.Count, "source")
    t.add_state_store(builder, "count")
    t.add_sink("sink", "out", "count", key_serializer=S, value_serializer=L)


def _counts(supplier: Any) -> Any:
    return Stores.key_value_store_builder(supplier, S, L)


def _texts(supplier: Any) -> Any:
    return Stores.key_value_store_builder(supplier, S, S)


@papi("papi_shout")
def _(t: Any) -> None:
    _single(t, processors.Shout)


@papi("papi_count")
def _(t: Any) -> None:
    _counting(t, _counts(Stores.persistent_key_value_store("counts")))


@papi("papi_count_cached")
def _(t: Any) -> None:
    _counting(t, _counts(Stores.persistent_key_value_store("counts")).with_caching_enabled())


@papi("papi_count_lru")
def _(t: Any) -> None:
    _counting(t, _counts(Stores.lru_map("counts", 2)))


@papi("papi_count_unlogged")
def _(t: Any) -> None:
    _counting(t, _counts(Stores.in_memory_key_value_store("counts")).with_logging_disabled())


@papi("papi_supplier_with_stores")
def _(t: Any) -> None:
    _source(t, "source", "in")
    t.add_processor("count", processors.CountSupplier(), "source")
    t.add_sink("sink", "out", "count", key_serializer=S, value_serializer=L)


@papi("papi_shared_store", "left", "right")
def _(t: Any) -> None:
    _source(t, "writes", "left")
    t.add_processor("write", processors.Write, "writes")
    _source(t, "reads", "right")
    t.add_processor("read", partial(processors.Read, "shared"), "reads")
    t.add_state_store(_texts(Stores.persistent_key_value_store("shared")), "write")
    t.connect_processor_and_state_stores("read", "shared")
    _sink(t, "sink", "out", "read")


@papi("papi_two_sources_one_processor", "left", "right", "third")
def _(t: Any) -> None:
    _source(t, "one", "left")
    _source(t, "two", "right", "third")
    t.add_processor("origin", processors.Origin, "one", "two")
    _sink(t, "sink", "out", "origin")


@papi("papi_children")
def _(t: Any) -> None:
    _source(t, "source", "in")
    t.add_processor("route", processors.Route, "source")
    _sink(t, "long", "out-long", "route")
    t.add_processor("short", processors.Shout, "route")
    _sink(t, "sink", "out-short", "short")


@papi("papi_stream_time")
def _(t: Any) -> None:
    _single(t, processors.StreamTicker)


@papi("papi_anchored_ticks")
def _(t: Any) -> None:
    _single(t, processors.AnchoredTicker)


@papi("papi_wall_clock")
def _(t: Any) -> None:
    _single(t, processors.WallClockFlush, _texts(Stores.in_memory_key_value_store("last")))


@papi("papi_pattern", "in-a", "in-bc")
def _(t: Any) -> None:
    _source(t, "source", re.compile("in-[a-z]+"))
    t.add_processor("shout", processors.Shout, "source")
    _sink(t, "sink", "out", "shout")


@papi("papi_headers")
def _(t: Any) -> None:
    _single(t, processors.Head)


@papi("papi_origin")
def _(t: Any) -> None:
    _single(t, processors.Origin)


@papi("papi_shift")
def _(t: Any) -> None:
    _single(t, processors.Shift)


@papi("papi_window_store")
def _(t: Any) -> None:
    _single(t, processors.Recent, Stores.window_store_builder(Stores.persistent_window_store("windows", 50, 10), S, S))


@papi("papi_window_store_in_memory")
def _(t: Any) -> None:
    _single(t, processors.Recent, Stores.window_store_builder(Stores.in_memory_window_store("windows", 50, 10), S, S))


@papi("papi_window_store_duplicates")
def _(t: Any) -> None:
    supplier = Stores.persistent_window_store("windows", 50, 10, retain_duplicates=True)
    _single(t, processors.Recent, Stores.window_store_builder(supplier, S, S))


@papi("papi_window_store_in_memory_duplicates")
def _(t: Any) -> None:
    supplier = Stores.in_memory_window_store("windows", 50, 10, retain_duplicates=True)
    _single(t, processors.Recent, Stores.window_store_builder(supplier, S, S))


@papi("papi_window_store_cached")
def _(t: Any) -> None:
    builder = Stores.window_store_builder(Stores.persistent_window_store("windows", 50, 10), S, S)
    _single(t, processors.Recent, builder.with_caching_enabled())


@papi("papi_session_store")
def _(t: Any) -> None:
    _single(t, processors.Sessions, Stores.session_store_builder(Stores.persistent_session_store("sessions", 60), S, S))


@papi("papi_session_store_in_memory")
def _(t: Any) -> None:
    _single(t, processors.Sessions, Stores.session_store_builder(Stores.in_memory_session_store("sessions", 60), S, S))


@papi("papi_session_store_cached")
def _(t: Any) -> None:
    builder = Stores.session_store_builder(Stores.persistent_session_store("sessions", 60), S, S)
    _single(t, processors.Sessions, builder.with_caching_enabled())


@papi("papi_versioned_store")
def _(t: Any) -> None:
    supplier = Stores.persistent_versioned_key_value_store("history", 40)
    _single(t, processors.History, Stores.versioned_key_value_store_builder(supplier, S, S))


@papi("papi_versioned_store_segments")
def _(t: Any) -> None:
    supplier = Stores.persistent_versioned_key_value_store("history", 100, 10)
    _single(t, processors.History, Stores.versioned_key_value_store_builder(supplier, S, S))


@papi("papi_timestamped_store")
def _(t: Any) -> None:
    supplier = Stores.persistent_timestamped_key_value_store("stamped")
    _single(t, processors.Stamp, Stores.timestamped_key_value_store_builder(supplier, S, S))


@papi("papi_timestamped_store_in_memory")
def _(t: Any) -> None:
    builder = Stores.timestamped_key_value_store_builder(Stores.in_memory_key_value_store("stamped"), S, S)
    _single(t, processors.Stamp, builder.with_caching_enabled())


@papi("papi_walk")
def _(t: Any) -> None:
    _single(t, processors.Walk, _texts(Stores.persistent_key_value_store("entries")))


@papi("papi_walk_in_memory")
def _(t: Any) -> None:
    _single(t, processors.Walk, _texts(Stores.in_memory_key_value_store("entries")))


@papi("papi_walk_cached")
def _(t: Any) -> None:
    _single(t, processors.Walk, _texts(Stores.persistent_key_value_store("entries")).with_caching_enabled())


@papi("papi_global_store", "left", "right")
def _(t: Any) -> None:
    builder = _texts(Stores.in_memory_key_value_store("capitals")).with_logging_disabled()
    t.add_global_store(
        builder, "global-source", "right", "global-process", processors.Capitals, key_deserializer=S, value_deserializer=S
    )
    _source(t, "source", "left")
    t.add_processor("read", partial(processors.Read, "capitals"), "source")
    _sink(t, "sink", "out", "read")


@papi("papi_read_only_store", "left", "right")
def _(t: Any) -> None:
    builder = _texts(Stores.persistent_key_value_store("reference"))
    t.add_read_only_state_store(
        builder, "reference-source", "right", "reference-load", processors.Load, key_deserializer=S, value_deserializer=S
    )
    _source(t, "source", "left")
    t.add_processor("read", partial(processors.Read, "reference"), "source")
    t.connect_processor_and_state_stores("read", "reference")
    _sink(t, "sink", "out", "read")


@papi("papi_dynamic_sink")
def _(t: Any) -> None:
    _source(t, "source", "in")
    _sink(t, "sink", by_initial, "source")


@papi("papi_diamond")
def _(t: Any) -> None:
    _source(t, "source", "in")
    t.add_processor("one", processors.Shout, "source")
    t.add_processor("two", processors.Shift, "source")
    t.add_processor("three", processors.Shout, "one", "two")
    _sink(t, "sink", "out", "three", "source")


@dsl("dsl_process")
def _(b: Any) -> None:
    stream(b, "in").process(processors.Shout).process(processors.Shift, name="shifting").to("out", OUT)


@dsl("dsl_process_with_store")
def _(b: Any) -> None:
    b.add_state_store(_counts(Stores.persistent_key_value_store("counts")))
    stream(b, "in").process(processors.Count, "counts").to("out", LONGS_OUT)


@dsl("dsl_process_supplier_with_stores")
def _(b: Any) -> None:
    stream(b, "in").process(processors.CountSupplier()).to("out", LONGS_OUT)


@dsl("dsl_process_then_group")
def _(b: Any) -> None:
    shifted = stream(b, "in").process(processors.Shift)
    shifted.group_by_key(GROUPED).count(stored(L, "totals")).to_stream().to("out", LONGS_OUT)


@dsl("dsl_process_values")
def _(b: Any) -> None:
    b.add_state_store(_counts(Stores.in_memory_key_value_store("numbers")).with_caching_enabled())
    stream(b, "in").process_values(processors.Enumerate, "numbers").to("out", OUT)


@dsl("dsl_process_values_then_group")
def _(b: Any) -> None:
    b.add_state_store(_counts(Stores.persistent_key_value_store("numbers")))
    numbered = stream(b, "in").process_values(processors.Enumerate, "numbers", name="numbering")
    numbered.group_by_key(GROUPED).reduce(plus).to_stream().to("out", OUT)


@dsl("dsl_process_punctuation")
def _(b: Any) -> None:
    b.add_state_store(_texts(Stores.persistent_key_value_store("last")))
    sent = stream(b, "in").process(processors.WallClockFlush, "last")
    sent.group_by_key(GROUPED).count(stored(L, "sent")).to_stream().to("out", LONGS_OUT)


@dsl("dsl_process_reads_table", "left", "right")
def _(b: Any) -> None:
    b.table("right", IN, stored(S, "kept"))
    stream(b, "left").process(partial(processors.Read, "kept"), "kept").to("out", OUT)


@dsl("dsl_global_store", "left", "right")
def _(b: Any) -> None:
    builder = _texts(Stores.persistent_key_value_store("capitals")).with_logging_disabled()
    b.add_global_store(builder, "right", Consumed(S, S), processors.Capitals)
    stream(b, "left").process(partial(processors.Read, "capitals")).to("out", OUT)
