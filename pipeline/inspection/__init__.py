"""The attention of evaluated sentences: recorded, archived, measured and drawn."""

from .archive import AttentionArchive
from .archive_writer import ArchiveWriter
from .record import Record

__all__ = ["ArchiveWriter", "AttentionArchive", "Record"]
