"""Writes the vectors of the subwords for TensorBoard's embedding projector."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from google.protobuf import text_format
from tensorboard.plugins.projector import ProjectorConfig

from ...files import write_atomically

NAME = "subwords"


def write_projector(folder: Path, pieces: Sequence[str], vectors: np.ndarray) -> None:
    """Writes the vectors, their names, and the config by which the projector finds both.

    Args:
        folder: the folder of the run's event files.
        pieces: the vocabulary's spelling of each id.
        vectors: float `(V, d_model)`.

    Raises:
        ValueError: the numbers of names and vectors differ.
    """
    if len(pieces) != len(vectors):
        raise ValueError(f"expected one name for each vector, found {len(pieces)} names and {len(vectors)} vectors")
    config = ProjectorConfig()
    embedding = config.embeddings.add()
    embedding.tensor_name = NAME
    embedding.tensor_path, embedding.metadata_path = f"{NAME}.tsv", f"{NAME}_names.tsv"
    rows = ("\t".join(f"{value:.5g}" for value in vector) for vector in vectors.astype(float))
    # A single column has no heading. A line break in a name would shift all names after it.
    names = (piece.replace("\n", " ").replace("\r", " ").replace("\t", " ") or " " for piece in pieces)
    write_atomically(folder / embedding.tensor_path, "".join(f"{row}\n" for row in rows).encode())
    write_atomically(folder / embedding.metadata_path, "".join(f"{name}\n" for name in names).encode())
    write_atomically(folder / "projector_config.pbtxt", text_format.MessageToString(config).encode())
