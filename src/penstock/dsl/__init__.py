"""What the user writes: streams, tables, and their options.

Streams make tables and tables make streams, so their modules need each other; importing `kstream` first, here, gives
them the one order in which that works.
"""

from penstock.dsl.builder import StreamsBuilder
from penstock.dsl.kstream import KStream
from penstock.dsl.ktable import KTable

__all__ = ["KStream", "KTable", "StreamsBuilder"]
