"""The attention of sentences: records, archives, measures and pictures; experiments on models; the viewer's page.

The modules, in reading order:

- `record`: the record of a sentence: its tokens, words and attention
- `recorder`: records from sentence pairs, by a teacher-forced pass
- `archive`: the attention archive, a folder that stores records
- `archive_import`: archives from the attention of other programs
- `archive_export`: records in the formats of other tools
- `measures`: measures of attention heads, and the row of a sentence in `sentences.csv`
- `head_tables`: tables of the measures of all heads over a set
- `head_types`: types of heads, such as "attends to the previous token", with permutation tests
- `matched_heads`: pairs of corresponding heads of two models
- `heatmap`: a heat map of one matrix, and files of figures
- `attention_figure`: pictures of attention, one panel for each head
- `attention_card`: small pictures for TensorBoard
- `fonts`: the fonts of pictures
- `colours`: the colours of pictures and pages

Subpackages:

- `experiments`: experiments on the attention of a trained model
- `viewer`: the page that shows attention in a browser
"""

from .archive import ArchiveWriter, AttentionArchive
from .archive_import import Sentence, write_archive
from .record import Record

__all__ = ["ArchiveWriter", "AttentionArchive", "Record", "Sentence", "write_archive"]
