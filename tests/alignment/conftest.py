"""Alignments are read off the same random records as inspection's."""

from tests.inspection.conftest import make_record

__all__ = ["make_record"]
