"""Who does which work: one pure function from what there is to who gets it, for threads and for instances alike."""

from penstock.client.assignment.assignor.assign import assign, bring_near
from penstock.client.assignment.assignor.model import (
    LATEST_OFFSET,
    RACK_TAG,
    UNKNOWN_OFFSET_SUM,
    Assignment,
    AssignorSettings,
    AssignorTask,
    Member,
)

__all__ = [
    "LATEST_OFFSET",
    "RACK_TAG",
    "UNKNOWN_OFFSET_SUM",
    "Assignment",
    "Member",
    "AssignorSettings",
    "AssignorTask",
    "assign",
    "bring_near",
]
