"""How much is computed at once, by device: a processor's core wants what its cache holds, a GPU wants much."""

from dataclasses import dataclass

from .cores import CORE_GROUPS
from .gpus import visible_gpus

MOST_WORKERS = 4  # each holds a batch in memory


@dataclass(frozen=True)
class Sizes:
    """How much is computed at once.

    Attributes:
        update_slices: slices of a batch that an update computes side by side.
        loss_chunk_tokens: tokens whose scores over the vocabulary exist at the same time, in the cross-entropy.
        divergence_chunk_tokens: the same of either pass, in R-Drop's divergence.
        matrix_groups: groups of matrices of one shape that Muon makes orthogonal side by side.
        search_sentences: sentences that are translated in one batch, unless `decoding.batch_sentences` says it.
        most_batches: batches that are searched or read side by side, at most.
    """

    update_slices: int
    loss_chunk_tokens: int
    divergence_chunk_tokens: int
    matrix_groups: int
    search_sentences: int
    most_batches: int


CPU = Sizes(
    # Not by the number of cores, so that a seed gives the same random numbers on every processor;
    # `pipeline.runtime.import_tensorflow` divides the cores between the slices.
    update_slices=CORE_GROUPS,
    # (1024, V) or twice (512, V) float32 scores fit a CPU's last cache for V of some thousands.
    loss_chunk_tokens=1024,
    divergence_chunk_tokens=512,
    matrix_groups=CORE_GROUPS,
    search_sentences=64,
    most_batches=MOST_WORKERS,
)
# Not measured: no GPU was at hand. (4096, V) scores of 32,000 words are half a gigabyte in float32.
GPU = Sizes(
    update_slices=1,
    loss_chunk_tokens=4096,
    divergence_chunk_tokens=2048,
    matrix_groups=1,
    search_sentences=512,
    most_batches=1,
)


def sizes() -> Sizes:
    """Returns the sizes for the device that computes."""
    return GPU if visible_gpus() else CPU
