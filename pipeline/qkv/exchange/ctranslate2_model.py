"""Export to CTranslate2 (Klein et al. 2020): the model, its vocabulary and the SentencePiece model."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, import_optional
from ..files.atomic import write_atomically
from ..model.embedding import sinusoidal_positions
from ..run.trained_run import TrainedRun
from ..text.tokens.special_tokens import BOS, EOS, UNK
from ..text.tokens.tokenizer import Tokenizer
from .compatibility import STANDARD_TRANSFORMER, NamedWeights, check_supported, write_subword_models

CTRANSLATE2_ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "silu": "SWISH"}
TOKENIZER_FILE = "sentencepiece.model"


def write_ctranslate2(run: TrainedRun, folder: Path, quantization: str = "float32") -> None:
    """Writes a run's model and tokenizer for CTranslate2.

    The tokenizer is `sentencepiece.model`; of an imported run, `source.spm` and `target.spm`.

    Args:
        run: the run.
        folder: an empty folder.
        quantization: the number format of the weights, one of `exchange.export.QUANTIZATIONS`.

    Raises:
        InputError: see `write_model`.
    """
    write_model(run, folder, quantization)
    if run.directory.has_imported_tokenizer:
        write_subword_models(run, folder)
    else:
        write_atomically(folder / TOKENIZER_FILE, run.tokenizer.model)


def write_model(
    run: TrainedRun, folder: Path, quantization: str, *, positions: int = 0, source_start: str | None = None
) -> None:
    """Writes a run's model and vocabulary for CTranslate2.

    Args:
        run: the run.
        folder: an empty folder.
        quantization: see `write_ctranslate2`.
        positions: the number of positions to write if the model has sinusoidal positions and fewer `max_positions`.
            CTranslate2 refuses longer sentences.
        source_start: the token that CTranslate2 puts before every source; None for no token.

    Raises:
        InputError: the package ctranslate2 is not installed, CTranslate2 does not support a setting of the model, or
            the number format needs PyTorch, which is not installed.
    """
    check_supported(run.config.model, STANDARD_TRANSFORMER, "CTranslate2", "model")
    specs = import_optional(
        "ctranslate2.specs", "this format needs the package ctranslate2: python -m pip install ctranslate2"
    )
    settings: Any = run.config.model
    weights = NamedWeights(run)
    spec = specs.TransformerSpec.from_config(
        (settings.encoder_layers, settings.decoder_layers),
        settings.num_heads,
        pre_norm=settings.norm == "pre",
        activation=getattr(specs.common_spec.Activation, CTRANSLATE2_ACTIVATIONS[settings.activation]),
        alignment_heads=settings.num_heads,  # the mean over all heads of the last layer
    )
    _set_embeddings(spec, settings, weights, positions)
    for side, stack in (("encoder", spec.encoder), ("decoder", spec.decoder)):
        if settings.norm == "pre":
            _set_norm(stack.layer_norm, weights, f"{side}_norm")
        for number, layer in enumerate(stack.layer):
            _set_layer(layer, weights, f"{side}_{number}", side == "decoder")
    weights.check_all_taken(run.directory.root)
    pieces = run.tokenizer.pieces(range(run.tokenizer.vocabulary_size))
    spec.register_source_vocabulary(pieces)
    spec.register_target_vocabulary(pieces)
    spec.config.bos_token, spec.config.eos_token, spec.config.unk_token = (pieces[i] for i in (BOS, EOS, UNK))
    spec.config.decoder_start_token = pieces[BOS]
    spec.config.add_source_bos = source_start is not None
    if source_start is not None:  # decoding starts with `decoder_start_token`, so this token is of the source alone
        spec.config.bos_token = source_start
    spec.config.add_source_eos = True
    spec.validate()
    try:
        spec.optimize(quantization=quantization)
    except RuntimeError as error:
        if "torch" not in str(error):
            raise
        raise InputError(
            f"--quantization {quantization}: CTranslate2 needs PyTorch to write it; install the package torch, or "
            "choose --quantization float32 and load the model with compute_type bfloat16"
        ) from None
    spec.save(str(folder))


def _set_embeddings(spec: Any, settings: Any, weights: NamedWeights, positions: int) -> None:
    """Sets the embeddings, the output projection and the positions of a CTranslate2 model."""
    target = weights.take("target_embedding/table")
    source = target if settings.tie_embeddings == "all" else weights.take("source_embedding/table")
    output = weights.take("output_embedding/table") if settings.tie_embeddings == "none" else target
    spec.encoder.embeddings[0].weight = source
    spec.decoder.embeddings.weight = target
    spec.decoder.projection.weight = output
    if settings.output_bias:
        side = "output" if settings.tie_embeddings == "none" else "target"
        spec.decoder.projection.bias = weights.take(f"{side}_embedding/bias")
    spec.encoder.scale_embeddings = spec.decoder.scale_embeddings = settings.scale_embeddings
    halves = settings.positions == "sinusoidal_halves"
    for side, stack in (("source", spec.encoder), ("target", spec.decoder)):
        stack.position_encodings.encodings = (
            weights.take(f"{side}_positions/table")
            if settings.positions == "learned"
            else sinusoidal_positions(max(settings.max_positions, positions), settings.d_model, halves)
        )


def _set_layer(layer: Any, weights: NamedWeights, block: str, is_decoder: bool) -> None:
    """Sets a CTranslate2 layer to the weights of a block of the run's model, such as `encoder_0`."""
    self_attention = f"{block}/self_attention"
    _set_dense(layer.self_attention.linear[0], weights, f"{self_attention}/qkv")
    _set_dense(layer.self_attention.linear[1], weights, f"{self_attention}/output")
    _set_norm(layer.self_attention.layer_norm, weights, f"{self_attention}_residual/norm")
    if is_decoder:
        cross = f"{block}/cross_attention"
        _set_dense(layer.attention.linear[0], weights, f"{cross}/query")
        _set_dense(layer.attention.linear[1], weights, f"{cross}/key", f"{cross}/value")
        _set_dense(layer.attention.linear[2], weights, f"{cross}/output")
        _set_norm(layer.attention.layer_norm, weights, f"{cross}_residual/norm")
    _set_dense(layer.ffn.linear_0, weights, f"{block}/feed_forward/inner")
    _set_dense(layer.ffn.linear_1, weights, f"{block}/feed_forward/outer")
    _set_norm(layer.ffn.layer_norm, weights, f"{block}/feed_forward_residual/norm")


def _set_dense(target: Any, weights: NamedWeights, *paths: str) -> None:
    """Sets a CTranslate2 layer to one or several dense layers of the run's model, concatenated along their outputs.

    Args:
        target: the CTranslate2 layer.
        weights: the weights of the run's model.
        paths: the names of the dense layers in the run's model, in the order of their outputs.
    """
    kernels = [weights.take(f"{path}/kernel") for path in paths]
    target.weight = np.ascontiguousarray(np.concatenate(kernels, axis=1).T)
    target.bias = np.concatenate([weights.take(f"{path}/bias") for path in paths])


def _set_norm(target: Any, weights: NamedWeights, path: str) -> None:
    target.gamma = weights.take(f"{path}/gamma")
    target.beta = weights.take(f"{path}/beta")


class LoadedCTranslate2:
    """A model that CTranslate2 has loaded, with the interface `exchange.parity.ExportedModel`.

    Args:
        folder: a folder that `write_ctranslate2` wrote.
        run: the run, for its tokenizer.
    """

    fixed_decoding: Mapping[str, Any] = {"length_divisor": "power", "beam_end": "full", "force_eos": False}

    def __init__(self, folder: Path, run: TrainedRun) -> None:
        import ctranslate2

        self._tokenizer = run.tokenizer
        pieces = run.tokenizer.pieces(range(run.tokenizer.vocabulary_size))
        self._ids = {piece: token for token, piece in enumerate(pieces)}
        self._translator = ctranslate2.Translator(str(folder), compute_type="default")

    def translate(self, sources: Sequence[str], decoding: Any, longest: int) -> list[str]:
        results = self._translator.translate_batch(
            self._pieces(sources, self._tokenizer),
            beam_size=decoding.beam_size,
            length_penalty=decoding.length_penalty,
            coverage_penalty=decoding.coverage_penalty,
            no_repeat_ngram_size=decoding.no_repeat_ngram,
            min_decoding_length=decoding.min_length,
            max_decoding_length=longest,
        )
        return self._tokenizer.decode([[self._ids[piece] for piece in result.hypotheses[0]] for result in results])

    def log_probabilities(self, sources: Sequence[str], targets: Sequence[str]) -> list[np.ndarray]:
        target_pieces = self._pieces(targets, self._tokenizer.of_target)
        scores = self._translator.score_batch(self._pieces(sources, self._tokenizer), target_pieces)
        return [np.array(score.log_probs) for score in scores]

    def _pieces(self, sentences: Sequence[str], tokenizer: Tokenizer) -> list[list[str]]:
        """Tokenises sentences. Returns the tokens of each sentence by their spelling."""
        return [tokenizer.pieces(row) for row in tokenizer.encode(sentences)]
