"""Writes the vectors of the subwords for TensorBoard's embedding projector."""

from collections.abc import Sequence
from pathlib import Path
from unicodedata import category

import numpy as np
from google.protobuf import text_format
from tensorboard.plugins.projector import ProjectorConfig

from ...files.atomic import write_atomically

NAME = "subwords"
_UNWRITTEN = ("Cc", "Cs")  # control characters, and halves of characters, which UTF-8 does not have


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
    write_atomically(folder / embedding.tensor_path, "".join(f"{row}\n" for row in rows).encode())
    write_atomically(
        folder / embedding.metadata_path, "".join(f"{name}\n" for name in map(_spell_name, pieces)).encode()
    )
    write_atomically(folder / "projector_config.pbtxt", text_format.MessageToString(config).encode())


def _spell_name(piece: str) -> str:
    """Returns a name that is a line of its own: TensorBoard skips lines of white space, which shifts all names after
    them, and takes a first line with a tab for headings."""
    if not any(character.isprintable() and character != " " for character in piece):
        return "".join(map(_escape, piece)) or "''"
    return "".join(
        _escape(one) if one != " " and (one.isspace() or category(one) in _UNWRITTEN) else one for one in piece
    )


def _escape(character: str) -> str:
    return f"\\u{ord(character):04x}"
