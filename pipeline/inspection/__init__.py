"""Where the attention went: kept as numbers, measured, compared with gold alignments, drawn."""

from .archive import AttentionArchive
from .archive_writer import ArchiveWriter
from .record import Record

__all__ = ["ArchiveWriter", "AttentionArchive", "Record"]
