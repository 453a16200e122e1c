"""`processor.wrapper.class`: the user's hook around every processor of a topology, those of the DSL included."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from penstock.errors import ConfigError
from penstock.processor import FixedKeyProcessor
from penstock.topology.specs import ProcessorSupplier

PROCESSOR_WRAPPER = "processor.wrapper.class"


class ProcessorWrapper:
    """Wraps suppliers of processors, for example to log or measure what goes through them.

    A supplier's `stores` lists the builders of its stores, those of the DSL included. A wrapped supplier keeps the `stores`
    of the original unless it has its own, which then replace them.
    """

    def configure(self, configs: Mapping[str, Any]) -> None:
        """Called once with the application's configuration."""

    def wrap_processor_supplier(self, processor_name: str, supplier: ProcessorSupplier) -> ProcessorSupplier:
        """The supplier to use for a `Processor` in place of the given one."""
        return supplier

    def wrap_fixed_key_processor_supplier(self, processor_name: str, supplier: ProcessorSupplier) -> ProcessorSupplier:
        """The supplier to use for a `FixedKeyProcessor` in place of the given one."""
        return supplier


def wrap_supplier(wrapper: ProcessorWrapper, name: str, supplier: ProcessorSupplier) -> ProcessorSupplier:
    """The supplier as the wrapper leaves it."""
    if isinstance(supplier(), FixedKeyProcessor):
        return wrapper.wrap_fixed_key_processor_supplier(name, supplier)
    return wrapper.wrap_processor_supplier(name, supplier)


def configured_wrapper(configs: Mapping[str, Any] | None) -> ProcessorWrapper | None:
    """The wrapper named by the configuration: an object, its class, or the path to import it from."""
    value = None if configs is None else configs.get(PROCESSOR_WRAPPER)
    if configs is None or value is None:
        return None
    try:
        if isinstance(value, str):
            module, _, attribute = value.replace(":", ".").rpartition(".")
            value = getattr(importlib.import_module(module), attribute)
        wrapper = value() if isinstance(value, type) else value
        wrapper.configure(configs)
    except Exception as exc:
        raise ConfigError(
            f"{PROCESSOR_WRAPPER}={value!r} cannot be used: give a ProcessorWrapper, its class, or its import path."
        ) from exc
    if not isinstance(wrapper, ProcessorWrapper):
        raise ConfigError(f"{PROCESSOR_WRAPPER}={value!r} is not a ProcessorWrapper.")
    return wrapper
