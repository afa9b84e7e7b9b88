"""A run's weights in the form of other programs, so that they are given the very same model.

Only a post-norm Transformer with ReLU, positions on its input and one table for all embeddings has a counterpart.
"""

from pathlib import Path

import numpy as np

from pipeline.config.model import TransformerSettings
from pipeline.errors import InputError
from pipeline.model.embedding import sinusoidal_positions
from pipeline.text.tokenizer import BOS, EOS, PAD
from pipeline.trained_run import TrainedRun

SAME = {
    "norm": "post",
    "activation": "relu",
    "positions": "sinusoidal",
    "positions_on": "input",
    "tie_embeddings": "all",
}


def weights_of(run: TrainedRun) -> dict[str, np.ndarray]:
    """Each weight by its path without the model's name.

    Raises:
        InputError: the model is none that the others have.
    """
    settings = run.config.model
    if not isinstance(settings, TransformerSettings) or any(getattr(settings, key) != SAME[key] for key in SAME):
        raise InputError(f"{run.directory.root}: expected a Transformer with {SAME}")
    return {variable.path.split("/", 1)[1]: variable.numpy() for variable in run.model.trainable_variables}


def to_ctranslate2(run: TrainedRun, folder: Path) -> None:
    """Writes the run as a CTranslate2 model."""
    from ctranslate2.specs import TransformerSpec, common_spec

    settings, weights = run.config.model, weights_of(run)
    spec = TransformerSpec.from_config(
        (settings.encoder_layers, settings.decoder_layers),
        settings.num_heads,
        pre_norm=False,
        activation=common_spec.Activation.RELU,
    )
    table = weights["target_embedding/table"]
    spec.encoder.embeddings[0].weight = spec.decoder.embeddings.weight = spec.decoder.projection.weight = table
    spec.encoder.scale_embeddings = spec.decoder.scale_embeddings = True
    positions = sinusoidal_positions(settings.max_positions, settings.d_model)
    spec.encoder.position_encodings.encodings = spec.decoder.position_encodings.encodings = positions

    def linear(target, *names):
        target.weight = np.ascontiguousarray(np.concatenate([weights[f"{name}/kernel"] for name in names], axis=1).T)
        target.bias = np.concatenate([weights[f"{name}/bias"] for name in names])

    def norm(target, name):
        target.gamma, target.beta = weights[f"{name}/norm/gamma"], weights[f"{name}/norm/beta"]

    for side, stack in (("encoder", spec.encoder), ("decoder", spec.decoder)):
        for number, layer in enumerate(stack.layer):
            block = f"{side}_{number}"
            linear(layer.self_attention.linear[0], f"{block}/self_attention/qkv")
            linear(layer.self_attention.linear[1], f"{block}/self_attention/output")
            norm(layer.self_attention.layer_norm, f"{block}/self_attention_residual")
            if side == "decoder":
                cross = f"{block}/cross_attention"
                linear(layer.attention.linear[0], f"{cross}/query")
                linear(layer.attention.linear[1], f"{cross}/key", f"{cross}/value")
                linear(layer.attention.linear[2], f"{cross}/output")
                norm(layer.attention.layer_norm, f"{block}/cross_attention_residual")
            linear(layer.ffn.linear_0, f"{block}/feed_forward/inner")
            linear(layer.ffn.linear_1, f"{block}/feed_forward/outer")
            norm(layer.ffn.layer_norm, f"{block}/feed_forward_residual")
    pieces = run.tokenizer.pieces(range(len(table)))
    spec.register_source_vocabulary(pieces)
    spec.register_target_vocabulary(pieces)
    spec.config.bos_token, spec.config.eos_token, spec.config.unk_token = (pieces[i] for i in (BOS, EOS, 1))
    spec.config.decoder_start_token = pieces[BOS]
    spec.config.add_source_bos, spec.config.add_source_eos = False, True
    spec.validate()
    spec.optimize()
    folder.mkdir(parents=True, exist_ok=True)
    spec.save(str(folder))


def marian_config(vocabulary, width, heads, hidden, encoder_layers, decoder_layers, positions, dropout=0.0):
    """The settings of a Marian model of those sizes that is built as ours is."""
    from transformers import MarianConfig

    return MarianConfig(
        vocab_size=vocabulary,
        d_model=width,
        encoder_layers=encoder_layers,
        decoder_layers=decoder_layers,
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        encoder_ffn_dim=hidden,
        decoder_ffn_dim=hidden,
        activation_function="relu",
        dropout=dropout,
        attention_dropout=0.0,
        scale_embedding=True,
        max_position_embeddings=positions,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        forced_eos_token_id=None,
        decoder_start_token_id=BOS,
        num_beams=1,
    )


def to_marian(run: TrainedRun):
    """The run as a `MarianMTModel` of Hugging Face."""
    import torch
    from transformers import MarianMTModel

    settings, weights = run.config.model, weights_of(run)
    table = weights["target_embedding/table"]
    model = MarianMTModel(
        marian_config(
            len(table),
            settings.d_model,
            settings.num_heads,
            settings.d_ff,
            settings.encoder_layers,
            settings.decoder_layers,
            settings.max_positions,
        )
    ).eval()
    state = {"final_logits_bias": np.zeros((1, len(table)), "float32"), "lm_head.weight": table}
    state |= {f"model.{name}.weight": table for name in ("shared", "encoder.embed_tokens", "decoder.embed_tokens")}
    positions = sinusoidal_positions(settings.max_positions, settings.d_model)

    def linear(target, kernel, bias):
        state[f"{target}.weight"], state[f"{target}.bias"] = np.ascontiguousarray(kernel.T), bias

    def norm(target, name):
        state[f"{target}.weight"], state[f"{target}.bias"] = weights[f"{name}/norm/gamma"], weights[f"{name}/norm/beta"]

    def dense(target, name):
        linear(target, weights[f"{name}/kernel"], weights[f"{name}/bias"])

    for side, layers in (("encoder", settings.encoder_layers), ("decoder", settings.decoder_layers)):
        state[f"model.{side}.embed_positions.weight"] = positions
        for number in range(layers):
            block, target = f"{side}_{number}", f"model.{side}.layers.{number}"
            kernels = np.split(weights[f"{block}/self_attention/qkv/kernel"], 3, axis=1)
            biases = np.split(weights[f"{block}/self_attention/qkv/bias"], 3)
            for name, kernel, bias in zip("qkv", kernels, biases, strict=True):
                linear(f"{target}.self_attn.{name}_proj", kernel, bias)
            dense(f"{target}.self_attn.out_proj", f"{block}/self_attention/output")
            norm(f"{target}.self_attn_layer_norm", f"{block}/self_attention_residual")
            if side == "decoder":
                for name, ours in (("q", "query"), ("k", "key"), ("v", "value"), ("out", "output")):
                    dense(f"{target}.encoder_attn.{name}_proj", f"{block}/cross_attention/{ours}")
                norm(f"{target}.encoder_attn_layer_norm", f"{block}/cross_attention_residual")
            dense(f"{target}.fc1", f"{block}/feed_forward/inner")
            dense(f"{target}.fc2", f"{block}/feed_forward/outer")
            norm(f"{target}.final_layer_norm", f"{block}/feed_forward_residual")
    model.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in state.items()}, strict=True)
    return model
