"""The attention of evaluated sentences: recorded, archived, measured and drawn."""

from .archive import ArchiveWriter, AttentionArchive
from .archive_import import Sentence, write_archive
from .record import Record

__all__ = ["ArchiveWriter", "AttentionArchive", "Record", "Sentence", "write_archive"]
