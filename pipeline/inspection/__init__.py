"""Where the attention went: kept as numbers, measured, compared with gold alignments, drawn."""

from pipeline.inspection.archive import ArchiveWriter, AttentionArchive
from pipeline.inspection.record import Record

__all__ = ["ArchiveWriter", "AttentionArchive", "Record"]
