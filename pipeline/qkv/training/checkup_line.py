"""A line of what the checkup of a training reports."""

from typing import NamedTuple


class CheckupLine(NamedTuple):
    """A line of the report.

    - subject: the part of training that it describes, in one word.
    - text: what was found.
    - fine: whether nothing needs a closer look.
    """

    subject: str
    text: str
    fine: bool = True
