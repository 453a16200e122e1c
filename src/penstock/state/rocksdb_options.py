"""RocksDB's options for a store: the defaults, and the user's `rocksdb.config.setter` on top.

The setter gets rocksdict's own `Options` object and may change anything in it. It is a class, an object, a callable
`(store_name, options, configs)`, or the import path of one of these. Classes and objects follow `RocksDBConfigSetter`:

>>> class SmallBlocks(RocksDBConfigSetter):
...     def set_config(self, store_name, options, configs):
...         table = default_table_options()
...         table.set_block_size(1024)
...         options.set_block_based_table_factory(table)
...         options.set_max_write_buffer_number(2)
"""

from __future__ import annotations

import importlib
import inspect
import os
from collections.abc import Mapping
from typing import Any

from rocksdict import BlockBasedOptions, Cache, DBCompactionStyle, DBCompressionType, DBRecoveryMode, Options

from penstock.errors import ConfigError

ROCKSDB_CONFIG_SETTER = "rocksdb.config.setter"

BLOCK_CACHE_SIZE = 50 * 1024 * 1024
BLOCK_SIZE = 4096
WRITE_BUFFER_SIZE = 16 * 1024 * 1024
MAX_WRITE_BUFFERS = 3

_META_WRITE_BUFFER_SIZE = 1024 * 1024
_MAX_INFO_LOG_SIZE = 1024 * 1024
_BLOOM_BITS_PER_KEY = 10


class RocksDBConfigSetter:
    """What a user writes to tune RocksDB, store by store."""

    def set_config(self, store_name: str, options: Options, configs: Mapping[str, Any]) -> None:
        """Change the options of a store; called each time before it is opened."""
        raise TypeError(f"{type(self).__name__} must implement set_config(store_name, options, configs)")

    def close(self, store_name: str, options: Options) -> None:
        """Called when the store was closed: release what `set_config` made."""


class _FunctionSetter(RocksDBConfigSetter):
    def __init__(self, function: Any) -> None:
        self._function = function

    def set_config(self, store_name: str, options: Options, configs: Mapping[str, Any]) -> None:
        self._function(store_name, options, configs)


def default_table_options(block_cache: Cache | None = None) -> BlockBasedOptions:
    """The table options a store starts from: 4 KB blocks, a Bloom filter, and a block cache of 50 MB unless one is given.

    RocksDB cannot change single table options, only replace them all; start from these to change one.
    """
    table = BlockBasedOptions()
    table.set_block_cache(Cache(BLOCK_CACHE_SIZE) if block_cache is None else block_cache)
    table.set_block_size(BLOCK_SIZE)
    table.set_bloom_filter(_BLOOM_BITS_PER_KEY, False)
    return table


def default_options() -> Options:
    """The options a store starts from, Kafka Streams' defaults."""
    options = Options(raw_mode=True)
    options.set_block_based_table_factory(default_table_options())
    options.set_optimize_filters_for_hits(True)
    options.set_write_buffer_size(WRITE_BUFFER_SIZE)
    options.set_max_write_buffer_number(MAX_WRITE_BUFFERS)
    options.set_compression_type(DBCompressionType.none())
    options.set_compaction_style(DBCompactionStyle.universal())
    options.increase_parallelism(max(os.cpu_count() or 2, 2))
    # Without a level for RocksDB's own log (rocksdict has none), at least its files stay small and few.
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(_MAX_INFO_LOG_SIZE)
    options.set_stats_dump_period_sec(0)
    return options


def require_safe_open(options: Options) -> None:
    """What the engine relies on and no setter may change."""
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    options.set_error_if_exists(False)
    # A torn last write after a crash was never committed; damage anywhere else must be an error, not a shorter history.
    options.set_wal_recovery_mode(DBRecoveryMode.tolerate_corrupted_tail_records())


def meta_options() -> Options:
    """Options of the small column family that holds positions."""
    options = Options(raw_mode=True)
    options.set_compression_type(DBCompressionType.none())
    options.set_write_buffer_size(_META_WRITE_BUFFER_SIZE)
    options.set_max_write_buffer_number(2)
    return options


def config_setter(configs: Mapping[str, Any]) -> RocksDBConfigSetter | None:
    """The user's setter as an object; None where there is none."""
    given = configs.get(ROCKSDB_CONFIG_SETTER)
    if given is None or given == "":
        return None
    setter = _import(given) if isinstance(given, str) else given
    if inspect.isclass(setter):
        setter = setter()
    if hasattr(setter, "set_config"):
        return setter if hasattr(setter, "close") else _FunctionSetter(setter.set_config)
    if callable(setter):
        return _FunctionSetter(setter)
    raise ConfigError(
        f"{ROCKSDB_CONFIG_SETTER} = {given!r} cannot configure RocksDB: it must be a class or an object with "
        "set_config(store_name, options, configs), a callable with the same arguments, or the import path of one"
    )


def _import(path: str) -> Any:
    module_name, separator, attribute = path.replace(":", ".").rpartition(".")
    try:
        if not separator:
            raise ImportError("no module in it")
        return getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError) as exc:
        raise ConfigError(
            f"{ROCKSDB_CONFIG_SETTER} = {path!r} cannot be imported ({exc}): expected <module>.<name> or <module>:<name>"
        ) from exc
