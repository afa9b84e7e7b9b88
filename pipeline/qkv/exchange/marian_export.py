"""Export to a Marian model of Hugging Face: the files of `save_pretrained`, and the loaded model."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from ..files.atomic import write_atomically
from ..files.json import write_json
from ..run.trained_run import TrainedRun
from ..text.tokens.special_tokens import BOS, EOS, PAD, UNK
from .compatibility import STANDARD_TRANSFORMER, TRAINING_SETTINGS, NamedWeights, check_supported, write_subword_models
from .marian_weights import marian_layers

# Model setting -> the values that Marian supports.
SUPPORTED_BY_MARIAN: Mapping[str, Any] = {
    **STANDARD_TRANSFORMER,
    "norm": ["post"],
    "positions": ["sinusoidal", "sinusoidal_halves"],
    "tie_embeddings": ["all"],
}


def write_marian(run: TrainedRun, folder: Path) -> None:
    """Writes a run as a Marian folder.

    The files are `config.json`, `generation_config.json`, `model.safetensors`, and the files of the MarianTokenizer.
    Each token has the same id as in the run. In Marian's positional encodings all sines come before all cosines. If
    sines and cosines alternate in the run, the coordinates of the model are permuted. Its outputs stay the same.

    Args:
        run: the run.
        folder: an empty folder.

    Raises:
        InputError: Marian does not support a setting of the model.
    """
    settings: Any = run.config.model
    check_supported(settings, SUPPORTED_BY_MARIAN, "Marian", "model")
    weights = NamedWeights(run)
    arrays = _arrays(weights, settings)
    weights.check_all_taken(run.directory.root)
    write_json(folder / "config.json", _config(run))
    write_json(folder / "generation_config.json", _generation(run))
    arrays = {name: np.ascontiguousarray(array, "<f4") for name, array in arrays.items()}
    write_atomically(folder / "model.safetensors", save(arrays, {"format": "pt"}))
    write_subword_models(run, folder)
    pieces = run.tokenizer.pieces(range(run.tokenizer.vocabulary_size))
    write_json(folder / "vocab.json", {piece: token for token, piece in enumerate(pieces)})
    data = run.config.data
    tokenizer = {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": data.source_language,
        "target_lang": data.target_language,
        "separate_vocabs": False,
        "model_max_length": settings.max_positions,
        **{f"{name}_token": pieces[token] for name, token in (("pad", PAD), ("unk", UNK), ("eos", EOS))},
    }
    write_json(folder / "tokenizer_config.json", tokenizer)


def _arrays(weights: NamedWeights, settings: Any) -> dict[str, np.ndarray]:
    """Returns the weights of the Marian model, a dict from the name in PyTorch to the array.

    Args:
        weights: the weights of the run's model.
        settings: the settings of the run's section `model`.
    """
    order = np.arange(settings.d_model)
    if settings.positions == "sinusoidal":
        order = np.concatenate([order[0::2], order[1::2]])
    table = weights.take("target_embedding/table")[:, order]
    bias = weights.take("target_embedding/bias") if settings.output_bias else np.zeros(len(table), "float32")
    arrays = {"model.shared.weight": table, "final_logits_bias": bias[None]}
    for layer in marian_layers(settings.encoder_layers, settings.decoder_layers):
        weight, bias = map(weights.take, layer.arrays)
        for axis, kind in enumerate(layer.axes):
            weight = weight.take(order, axis) if kind == "width" else weight
        bias = bias[order] if layer.axes[-1] == "width" else bias
        parts = len(layer.torch_names)
        split = zip(layer.torch_names, np.split(weight, parts, axis=-1), np.split(bias, parts), strict=True)
        for name, part_weight, part_bias in split:
            arrays[f"{name}.weight"] = part_weight.T
            arrays[f"{name}.bias"] = part_bias
    return arrays


def _config(run: TrainedRun) -> dict[str, Any]:
    settings: Any = run.config.model
    return {
        "model_type": "marian",
        "architectures": ["MarianMTModel"],
        "is_encoder_decoder": True,
        "vocab_size": run.tokenizer.vocabulary_size,
        "decoder_vocab_size": run.tokenizer.vocabulary_size,
        "d_model": settings.d_model,
        **{f"{side}_layers": getattr(settings, f"{side}_layers") for side in ("encoder", "decoder")},
        **{f"{side}_attention_heads": settings.num_heads for side in ("encoder", "decoder")},
        **{f"{side}_ffn_dim": settings.d_ff for side in ("encoder", "decoder")},
        "activation_function": settings.activation,
        **settings.model_dump(include=TRAINING_SETTINGS),
        "scale_embedding": settings.scale_embeddings,
        "max_position_embeddings": settings.max_positions,
        "share_encoder_decoder_embeddings": True,
        "tie_word_embeddings": True,
        "normalize_before": False,
        "static_position_embeddings": True,
        "dtype": "float32",
        **_ids(),
    }


def _ids() -> dict[str, int]:
    return {"pad_token_id": PAD, "bos_token_id": BOS, "eos_token_id": EOS, "decoder_start_token_id": BOS}


def _generation(run: TrainedRun) -> dict[str, Any]:
    decoding = run.config.decoding
    return {
        **_ids(),
        "num_beams": decoding.beam_size,
        "length_penalty": decoding.length_penalty,
        "no_repeat_ngram_size": decoding.no_repeat_ngram,
        "min_length": decoding.min_length + 1 if decoding.min_length else 0,  # Marian counts the start token
        "max_length": run.config.model.max_positions,
        "bad_words_ids": [[PAD], [BOS]],
        **({"forced_eos_token_id": EOS} if decoding.force_eos else {}),
        **({"renormalize_logits": True} if decoding.renormalize else {}),
    }


class LoadedMarian:
    """A model that Hugging Face's transformers has loaded, with the interface `exchange.parity.ExportedModel`.

    Args:
        folder: a folder that `write_marian` wrote.

    Raises:
        ImportError: PyTorch or transformers is not installed.
    """

    fixed_decoding: Mapping[str, Any] = {"length_divisor": "power", "beam_end": "worst", "coverage_penalty": 0.0}

    def __init__(self, folder: Path) -> None:
        import torch
        from transformers import MarianMTModel, MarianTokenizer

        self._torch = torch
        self._tokenizer = MarianTokenizer.from_pretrained(folder)
        self._model = MarianMTModel.from_pretrained(folder).eval()

    def translate(self, sources: Sequence[str], decoding: Any, longest: int) -> list[str]:
        encoded = self._tokenizer(list(sources), return_tensors="pt", padding=True)
        with self._torch.inference_mode():
            ids = self._model.generate(
                **encoded,
                num_beams=decoding.beam_size,
                length_penalty=decoding.length_penalty,
                no_repeat_ngram_size=decoding.no_repeat_ngram,
                max_length=longest + 1,  # Marian counts the start token
            )
        return self._tokenizer.batch_decode(ids, skip_special_tokens=True)

    def log_probabilities(self, sources: Sequence[str], targets: Sequence[str]) -> list[np.ndarray]:
        rows = []
        for source, target in zip(sources, targets, strict=True):
            encoded = self._tokenizer([source], text_target=[target], return_tensors="pt")
            with self._torch.inference_mode():
                scores = self._model(**encoded).logits.log_softmax(-1)
            rows.append(scores.gather(-1, encoded["labels"][..., None])[0, :, 0].numpy())
        return rows
