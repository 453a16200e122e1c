"""Whether an instance works, and how it ends: what it was told from outside, and what has become of it."""

from __future__ import annotations

from penstock.client.scheduling.group_words import GroupWords
from penstock.client.scheduling.notes import Notes


class RunState:
    """Orders are given by anybody; what follows from them is known to the conductor's thread."""

    def __init__(self, words: GroupWords, notes: Notes) -> None:
        self._words, self._lock = words, notes.lock
        self.is_closing = False
        """Whether it ends when the turns that run are over, and all tasks behind a shuffle are level."""
        self.is_level = False
        """Whether they are, or cannot be brought there."""
        self.is_paused = False
        self.is_halted = False
        """Whether it waits for the group's word that all instances stop."""
        self.is_to_shut_down = False
        """Whether a member wants the whole application to stop."""
        self.has_failed = False
        """Whether there was a failure that the client does not want to survive."""
        self.told_running = False
        """What the client was told last: that all works."""

    # -- orders --------------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """End when the turns that run are over."""
        with self._lock:
            self.is_closing = True
            self._lock.notify_all()

    def pause(self, paused: bool) -> None:
        """Start no turns, and restore nothing, while paused."""
        with self._lock:
            self.is_paused = paused
            self._lock.notify_all()

    def halt(self) -> None:
        """Start no more turns."""
        with self._lock:
            self.is_halted = True

    def shut_down(self) -> None:
        """End at once, as far as turns that run allow."""
        with self._lock:
            self.is_to_shut_down = True
            self._lock.notify_all()

    # -- what follows --------------------------------------------------------------------------------------------------

    @property
    def is_over(self) -> bool:
        """Whether nothing more is begun."""
        return (self.is_closing and self.is_level) or self.is_to_shut_down or self.has_failed

    @property
    def may_work(self) -> bool:
        """Whether turns may be started."""
        return not (self.is_paused or self.is_halted or self.is_over) and self._words.allow_turns
