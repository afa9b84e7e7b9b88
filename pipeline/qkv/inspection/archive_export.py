"""Writes the attention of sentences in the formats of other tools: SoftAlignments, BertViz and inseq."""

import base64
import json
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from ..files.atomic import write_output
from .record import Record

__all__ = ["bertviz_arguments", "write_inseq", "write_soft_alignments"]


def write_soft_alignments(path: Path, records: Iterable[Record], readout: Any) -> None:
    """Writes cross-attention in the format of Nematus, which SoftAlignments draws.

    Each sentence is a line `number ||| target ||| 0 ||| source ||| source_length target_length`, a row of weights for
    each target token, and an empty line (Rikters et al. 2017; `process_alignments.py -f Nematus`). EOS has a row and a
    column, but is left out of the texts, since readers add it.

    Args:
        path: the file.
        records: the sentences.
        readout: the `AlignmentReadout` that chooses layer and head.
    """
    parts = []
    for record in records:
        weights = readout.weights(record)
        target = _spell_tokens(record.target_output_tokens, record.target_words)
        source = _spell_tokens(record.source_tokens, record.source_words)
        rows = "\n".join(" ".join(f"{weight:.6f}" for weight in row) for row in weights)
        size = f"{weights.shape[1]} {weights.shape[0]}"
        parts.append(f"{record.id} ||| {target} ||| 0 ||| {source} ||| {size}\n{rows}\n\n")
    write_output(path, "".join(parts).encode())


def bertviz_arguments(record: Record, make_tensor: Callable[[np.ndarray], Any]) -> dict[str, Any]:
    """Returns the arguments of `bertviz.head_view` and `bertviz.model_view` for a sentence.

    They hold the cross-attention, and the self-attention of encoder and decoder if the record has it. The labels of
    decoder tokens are output tokens: row t is labelled with the token that it predicts. The keys of the decoder's
    self-attention are input tokens, so key t is labelled with the token after it.

    Args:
        record: the sentence.
        make_tensor: the function that converts a NumPy array, `torch.tensor`.
    """
    attention = {
        f"{site}_attention": [make_tensor(layer[None]) for layer in weights]  # (1, head, query, key)
        for site, weights in record.attention.items()
        if site not in ("norms", "gradients")
    }
    return attention | {"encoder_tokens": record.source_tokens, "decoder_tokens": record.target_output_tokens}


def write_inseq(path: Path, records: Sequence[Record]) -> None:
    """Writes the cross-attention of all layers and heads in the format of inseq 0.7.1.

    `FeatureAttributionOutput.load` reads the file. The sentences are as inseq's attribution method `attention` makes
    them: scores `(source, target, layer, head)` of all target tokens except the first, which is BOS.

    Args:
        path: the file. An existing file is replaced.
        records: the sentences.
    """
    output = {
        "sequence_attributions": [_inseq_sequence(record) for record in records],
        "step_attributions": None,
        "info": {
            "attribution_method": "attention",
            "input_texts": [record.source for record in records],
            "generated_texts": [record.hypothesis for record in records],
        },
    }
    text = json.dumps(_inseq_instance("data.attribution.FeatureAttributionOutput", output), ensure_ascii=False)
    write_output(path, text.encode())


def _inseq_sequence(record: Record) -> dict[str, Any]:
    """Returns the JSON value of a sentence."""
    target = [record.target_input_tokens[0], *record.target_output_tokens]
    probabilities = {"probability": np.exp(record.token_log_probabilities)} if record.token_log_probabilities else {}
    encoder = {"encoder_self_attentions": record.attention["encoder"]} if "encoder" in record.attention else {}
    fields = {
        "source": [_inseq_token(token) for token in record.source_tokens],
        "target": [_inseq_token(token) for token in target],
        "source_attributions": _inseq_tensor(record.attention["cross"].transpose(3, 2, 0, 1)),
        "target_attributions": None,
        "step_scores": {name: _inseq_tensor(scores) for name, scores in probabilities.items()},
        "sequence_scores": {name: _inseq_tensor(weights.transpose(3, 2, 0, 1)) for name, weights in encoder.items()},
        "attr_pos_start": 1,
        "attr_pos_end": len(target),
        "_num_dimensions": 2,  # layers and heads, over which inseq takes the mean by default
    }
    return _inseq_instance("data.attribution.MultiDimensionalFeatureAttributionSequenceOutput", fields)


def _inseq_token(token: str) -> dict[str, Any]:
    return _inseq_instance("utils.typing.TokenWithId", {"token": token, "id": -1})  # archives have no ids


def _inseq_instance(name: str, fields: dict[str, Any]) -> dict[str, Any]:
    """Returns the JSON value of an instance of a class of inseq, given as `MODULE.CLASS`."""
    module, _, class_name = name.rpartition(".")
    return {"__instance_type__": [f"inseq.{module}", class_name], "attributes": fields}


def _inseq_tensor(array: np.ndarray) -> str:
    """Returns the JSON value of an array: float32 in the safetensors format, as base64."""
    return base64.b64encode(save({"attribution": np.ascontiguousarray(array, "<f4")})).decode()


def _spell_tokens(tokens: list[str], words: list[int | None]) -> str:
    """Joins the tokens, without EOS, by spaces. Separators of the format within a token are replaced."""
    end = len(tokens) - 1 if words and words[-1] is None else len(tokens)
    return " ".join(re.sub(r"\s", "\u2581", token.replace("|", "\u00a6")) or "\u2581" for token in tokens[:end])
