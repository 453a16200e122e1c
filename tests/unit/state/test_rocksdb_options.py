from __future__ import annotations

import configparser
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from rocksdict import (
    BlockBasedOptions,
    Cache,
    DBCompactionStyle,
    DBCompressionType,
    Options,
    UniversalCompactOptions,
)

from penstock.errors import ConfigError
from penstock.state.engines.rocksdb import RocksDBStore
from penstock.state.rocksdb_options import RocksDBConfigSetter, config_setter, default_table_options

Setter = Callable[[str, Options, Mapping[str, Any]], None]


class Written:
    """What RocksDB wrote down as its own options, and what it says of its block cache."""

    def __init__(self, path: Path, configs: Mapping[str, Any]) -> None:
        store = RocksDBStore("store")
        store.open_db(configs, path)
        self.block_cache_capacity = int(store.property_value("rocksdb.block-cache-capacity") or 0)
        newest = max(store.folder.glob("OPTIONS-*"))
        store.close()
        parser = configparser.ConfigParser(interpolation=None, strict=False)
        parser.read_string(newest.read_text())
        self.db = parser["DBOptions"]
        self.cf = parser['CFOptions "default"']
        self.table = parser['TableOptions/BlockBasedTable "default"']


def test_should_start_from_kafka_streams_defaults(tmp_path: Path) -> None:
    written = Written(tmp_path, {})

    assert written.block_cache_capacity == 50 * 1024 * 1024
    assert written.table["block_size"] == "4096"
    assert written.table["filter_policy"].startswith("bloomfilter")
    assert written.cf["write_buffer_size"] == str(16 * 1024 * 1024)
    assert written.cf["max_write_buffer_number"] == "3"
    assert written.cf["compression"] == "kNoCompression"
    assert written.cf["compaction_style"] == "kCompactionStyleUniversal"
    assert written.cf["optimize_filters_for_hits"] == "true"
    assert int(written.db["max_background_jobs"]) >= 2


class Tuned(RocksDBConfigSetter):
    def set_config(self, store_name: str, options: Options, configs: Mapping[str, Any]) -> None:
        assert store_name == "store"
        table = BlockBasedOptions()
        table.set_block_cache(Cache(int(configs["my.cache.size"])))
        table.set_block_size(16 * 1024)
        table.set_cache_index_and_filter_blocks(True)
        table.set_pin_l0_filter_and_index_blocks_in_cache(True)
        table.set_pin_top_level_index_and_filter(False)
        options.set_block_based_table_factory(table)
        options.set_write_buffer_size(8 * 1024 * 1024)
        options.set_max_write_buffer_number(5)
        options.set_compression_type(DBCompressionType.lz4())
        options.set_compression_per_level(
            [DBCompressionType.none(), DBCompressionType.snappy(), DBCompressionType.lz4(), DBCompressionType.zstd()]
        )
        options.set_bottommost_compression_type(DBCompressionType.zstd())
        options.set_compaction_style(DBCompactionStyle.level())
        options.set_level_zero_file_num_compaction_trigger(7)
        options.set_level_zero_slowdown_writes_trigger(21)
        options.set_level_zero_stop_writes_trigger(42)
        options.set_max_bytes_for_level_base(123 * 1024 * 1024)
        options.set_target_file_size_base(11 * 1024 * 1024)


def test_should_really_change_what_a_setter_sets(tmp_path: Path) -> None:
    written = Written(tmp_path, {"rocksdb.config.setter": Tuned, "my.cache.size": 7 * 1024 * 1024})

    assert written.block_cache_capacity == 7 * 1024 * 1024
    assert written.table["block_size"] == str(16 * 1024)
    assert written.table["cache_index_and_filter_blocks"] == "true"
    assert written.table["pin_l0_filter_and_index_blocks_in_cache"] == "true"
    assert written.table["pin_top_level_index_and_filter"] == "false"
    assert written.cf["write_buffer_size"] == str(8 * 1024 * 1024)
    assert written.cf["max_write_buffer_number"] == "5"
    assert written.cf["compression"] == "kLZ4Compression"
    assert written.cf["compression_per_level"] == "kNoCompression:kSnappyCompression:kLZ4Compression:kZSTD"
    assert written.cf["bottommost_compression"] == "kZSTD"
    assert written.cf["compaction_style"] == "kCompactionStyleLevel"
    assert written.cf["level0_file_num_compaction_trigger"] == "7"
    assert written.cf["level0_slowdown_writes_trigger"] == "21"
    assert written.cf["level0_stop_writes_trigger"] == "42"
    assert written.cf["max_bytes_for_level_base"] == str(123 * 1024 * 1024)
    assert written.cf["target_file_size_base"] == str(11 * 1024 * 1024)


def test_should_change_the_triggers_of_universal_compaction(tmp_path: Path) -> None:
    def set_config(store_name: str, options: Options, configs: Mapping[str, Any]) -> None:
        universal = UniversalCompactOptions()
        universal.size_ratio = 13
        universal.min_merge_width = 4
        universal.max_merge_width = 9
        universal.max_size_amplification_percent = 150
        options.set_universal_compaction_options(universal)

    written = Written(tmp_path, {"rocksdb.config.setter": set_config})

    found = written.cf["compaction_options_universal"]
    for expected in ("size_ratio=13", "min_merge_width=4", "max_merge_width=9", "max_size_amplification_percent=150"):
        assert expected in found


def test_should_keep_the_other_table_defaults_when_one_is_changed(tmp_path: Path) -> None:
    def set_config(store_name: str, options: Options, configs: Mapping[str, Any]) -> None:
        table = default_table_options()
        table.set_block_size(1024)
        options.set_block_based_table_factory(table)

    written = Written(tmp_path, {"rocksdb.config.setter": set_config})

    assert written.table["block_size"] == "1024"
    assert written.table["filter_policy"].startswith("bloomfilter")
    assert written.block_cache_capacity == 50 * 1024 * 1024


def test_should_share_a_block_cache_between_stores(tmp_path: Path) -> None:
    shared = default_table_options(Cache(3 * 1024 * 1024))

    def set_config(store_name: str, options: Options, configs: Mapping[str, Any]) -> None:
        options.set_block_based_table_factory(shared)

    configs = {"rocksdb.config.setter": set_config}
    assert Written(tmp_path / "a", configs).block_cache_capacity == 3 * 1024 * 1024
    assert Written(tmp_path / "b", configs).block_cache_capacity == 3 * 1024 * 1024


def test_should_not_let_a_setter_loosen_how_the_folder_is_opened(tmp_path: Path) -> None:
    def set_config(store_name: str, options: Options, configs: Mapping[str, Any]) -> None:
        options.create_if_missing(False)
        options.set_error_if_exists(True)

    configs = {"rocksdb.config.setter": set_config}
    Written(tmp_path, configs)

    assert Written(tmp_path, configs).db["wal_recovery_mode"] == "kTolerateCorruptedTailRecords"


class Closing:
    """Not a subclass: the two methods are all that is asked for."""

    closed: list[str] = []  # noqa: RUF012 - the test reads it from the class that the config names

    def set_config(self, store_name: str, options: Options, configs: Mapping[str, Any]) -> None:
        options.set_max_write_buffer_number(6)

    def close(self, store_name: str, options: Options) -> None:
        assert isinstance(options, Options)
        self.closed.append(store_name)


@pytest.mark.parametrize(
    "given",
    [Closing, Closing(), f"{__name__}.Closing", f"{__name__}:Closing"],
    ids=["class", "object", "path", "path-with-colon"],
)
def test_should_take_a_setter_in_every_form_and_close_it(tmp_path: Path, given: Any) -> None:
    Closing.closed.clear()

    written = Written(tmp_path, {"rocksdb.config.setter": given})

    assert written.cf["max_write_buffer_number"] == "6"
    assert Closing.closed == ["store"]


class OnlySet:
    def set_config(self, store_name: str, options: Options, configs: Mapping[str, Any]) -> None:
        options.set_max_write_buffer_number(6)


def test_should_not_ask_for_a_close_method(tmp_path: Path) -> None:
    assert Written(tmp_path, {"rocksdb.config.setter": OnlySet}).cf["max_write_buffer_number"] == "6"


def test_should_go_without_setter() -> None:
    assert config_setter({}) is None
    assert config_setter({"rocksdb.config.setter": None}) is None
    assert config_setter({"rocksdb.config.setter": ""}) is None


@pytest.mark.parametrize("given", ["no.such.module.Setter", "json.Setter", "Setter", 5])
def test_should_name_a_setter_that_cannot_be_used(given: Any) -> None:
    with pytest.raises(ConfigError, match=r"rocksdb\.config\.setter"):
        config_setter({"rocksdb.config.setter": given})


def test_should_ask_for_set_config() -> None:
    class Empty(RocksDBConfigSetter):
        pass

    with pytest.raises(TypeError, match="Empty must implement set_config"):
        Empty().set_config("store", Options(), {})
