"""Whether functions give the same records again: they are looked into before a repartition goes through Spark's shuffle.

    nodes.py      which functions of the user's run before a shuffle, and the first reason that speaks against it
    look.py       follows a function's code and what it calls, as far as that can be seen
    values.py     what is known of a value while its code is followed
    source.py     the syntax tree of a function
    bytecode.py   the same question where there is no source, answered by the names in the code
    chance.py     what counts as chance: generators of random numbers, clocks, hashes, what is outside of the process

Nothing of the user's is run. What is decided, and why:

- The user's own code is followed to its end: functions, closures, defaults, methods of known objects, partials, decorators. It is
  what was not installed, and the package that adds the operator.
- Code that was installed is followed three calls deep, and only for chance and clocks: libraries keep caches and read settings
  without changing what they compute, and to take that for state would send everything through topics.
- The standard library is not followed: what matters of it is listed in `chance.py`.
- What cannot be seen (code that is not Python, objects of unknown classes) counts as repeatable. A second computation that
  differs is noticed when it happens (`spark/blobs.py`).
- An object that is kept from record to record and changed counts as state, also where it is only a cache: that cannot be seen.
"""

from __future__ import annotations

from penstock.repeatable.nodes import Reason, why_not_repeatable

__all__ = ["Reason", "why_not_repeatable"]
