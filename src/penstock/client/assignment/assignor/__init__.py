"""The assignor: one pure function that assigns tasks to threads and to instances."""

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
