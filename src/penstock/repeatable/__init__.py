"""Whether functions give the same records again: they are looked into before a repartition goes through Spark's shuffle.

    nodes.py      which functions of the user's run before a shuffle, and the first reason that speaks against it
    look.py       follows a function's code and what it calls, as far as that can be seen
    values.py     what is known of a value while its code is followed
    source.py     the syntax tree of a function
    bytecode.py   the same question where there is no source, answered by the names in the code
    chance.py     what counts as chance: generators of random numbers, clocks, hashes, what is outside of the process
    proven.py     what is known to give the same again

Nothing of the user's is run. What is decided, and why:

- The user's own code is followed to its end: functions, closures, defaults, methods of known objects, partials, decorators. It is
  what was not installed, and the package that adds the operator.
- Plain Python, methods of plain data and the parts of the standard library that only compute count as repeatable (`proven.py`).
- Everything else that is called counts as not repeatable: code that was installed, code that is not Python, objects of unknown
  classes, other modules of the standard library.
- An object that is kept from record to record and changed counts as state, also where it is only a cache: that cannot be seen.
"""

from __future__ import annotations

from penstock.repeatable.nodes import Reason, why_not_repeatable

__all__ = ["Reason", "why_not_repeatable"]
