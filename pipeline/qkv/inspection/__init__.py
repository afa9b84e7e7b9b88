"""The attention of evaluated sentences: recorded, archived, measured and drawn."""

from .archive import AttentionArchive
from .archive_writer import ArchiveWriter
from .arrays_to_archive import write_archive
from .given_sentence import Sentence
from .record import Record

__all__ = ["ArchiveWriter", "AttentionArchive", "Record", "Sentence", "write_archive"]
