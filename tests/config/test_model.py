"""The model section: one schema for each architecture, and combinations that cannot work are refused with a way out."""

from pathlib import Path

import pytest

from qkv.config import load_run_config
from qkv.config.model import DecoderOnlySettings, RecurrentSettings, TransformerSettings
from tests.support.tiny_runs import parsed, problem

REFUSED = [
    ("{attention: {cross: {mechanism: lsh}}}", "attention.cross.mechanism: lsh makes queries and keys by one"),
    ("{attention: {decoder_self: {mechanism: lsh}}}", "lsh has no step that adds one token to a cache"),
    ("{attention: {decoder_self: {mechanism: linformer}}}", "linformer mixes all positions .* expected softmax"),
    ("{attention: {encoder_self: {mechanism: lsh, score: additive}}}", "lsh finds keys by their angle, which additive"),
    ("{attention: {encoder_self: {mechanism: lsh, buckets: 3}}}", "buckets: expected 1 or an even number, found 3"),
    ("{attention: {encoder_self: {mechanism: lsh, projection: false}}}", "lsh hashes projected queries"),
    ("{attention: {cross: {mechanism: uniform, score: dot}}}", "uniform compares nothing: leave out score, or use"),
    ("{attention: {cross: {mechanism: blockwise}}, attention_dropout: 0.1}", "set it to 0"),
    ("{attention: {cross: {projection: false, key_dim: 16}}}", r"key_dim \(16\) times num_heads \(4\) must be d_model"),
    ("{attention: {cross: {key_value_heads: 3}}}", r"key_value_heads: expected a divisor of num_heads \(4\), found 3"),
    ("{attention: {cross: {key_value_heads: 1, mechanism: last}}}", "mechanism last has none: leave it out"),
    ("{attention: {cross: {key_value_heads: 1, value_projection: false}}}", "value_projection false has none"),
    ("{positions: alibi, attention: {encoder_self: {mechanism: blockwise}}}", "does not work with positions alibi"),
    ("{positions: rotary, attention: {encoder_self: {mechanism: lsh}}}", "expected one of softmax, sink, blockwise"),
    ("{positions: rotary, attention: {decoder_self: {score: concat}}}", "expected one of scaled_dot, dot, cosine"),
    ("{positions: rotary, attention: {decoder_self: {key_dim: 7}}}", "expected an even key_dim, found 7"),
    ("{positions: rotery}", "model.positions: expected one of .*rotary.* found 'rotery'"),
    ("{num_heads: 3}", r"d_model \(128\) must be a multiple of num_heads \(3\)"),
    ("{architecture: recurrent, input_feeding: true}", "input_feeding needs decoder luong"),
    ("{architecture: recurent}", "model.architecture: expected one of transformer, recurrent, .* found 'recurent'"),
    ("{architecture: recurrent, d_ff: 64}", "model.d_ff: belongs to another architecture than recurrent"),
    ("{hidden_dim: 64}", "model.hidden_dim: belongs to another architecture than transformer"),
    ("{architecture: recurrent, hiden_dim: 64}", "model.hiden_dim: no such key; did you mean model.hidden_dim"),
    ("{architecture: decoder_only, layers: 0}", "model.layers: expected an integer >= 1 and <= 1000, found 0"),
    ("{architecture: decoder_only, attention: {cross: {}}}", "model.attention.cross: belongs to another architecture"),
]


@pytest.mark.parametrize(("model", "message"), REFUSED)
def test_model_settings_that_cannot_work_are_refused_on_reading(config_file: Path, model: str, message: str):
    said = problem(config_file, text=config_file.read_text() + f"model: {model}\n")
    with pytest.raises(AssertionError, match=message):  # shows the whole message when it does not match
        raise AssertionError(said)


@pytest.mark.parametrize(
    ("architecture", "schema"),
    [("transformer", TransformerSettings), ("recurrent", RecurrentSettings), ("decoder_only", DecoderOnlySettings)],
)
def test_the_architecture_chooses_the_schema(config_file: Path, architecture: str, schema: type):
    config = parsed(config_file, "--model.architecture", architecture)
    assert config.model == schema()
    assert config.model.architecture == architecture


@pytest.mark.parametrize(
    ("settings", "obstacle"),
    [
        (TransformerSettings(), None),
        (DecoderOnlySettings(), None),
        (TransformerSettings(attention={"cross": {"mechanism": "last"}, "encoder_self": {"mechanism": "sink"}}), None),
        (TransformerSettings(attention={"cross": {"mechanism": "linformer"}}), "attention.cross.mechanism linformer"),
        (TransformerSettings(attention={"encoder_self": {"mechanism": "lsh"}}), "attention.encoder_self.mechanism lsh"),
        (RecurrentSettings(), "architecture recurrent"),
    ],
)
def test_what_rules_out_packed_batches_is_named_as_it_is_written(settings, obstacle):
    assert settings.packing_obstacle == (obstacle and f"model.{obstacle}")


def test_a_recurrent_model_has_only_cross_attention_to_show(config_file: Path):
    said = problem(config_file, "--model.architecture", "recurrent", "--inspection.attention", "[cross, encoder]")
    assert "no self-attention and no projected values; expected [cross] or [cross, gradients]" in said
    parsed(config_file, "--model.architecture", "recurrent", "--inspection.attention", "[cross, gradients]")
    assert "expected cross" in problem(config_file, "--inspection.attention", "[encoder]")
    said = problem(config_file, "--model.architecture", "decoder_only", "--inspection.attention", "[cross, norms]")
    assert "only a Transformer has norms" in said


def test_xla_compiles_no_recurrent_model(config_file: Path):
    said = problem(config_file, "--model.architecture", "recurrent", "--training.xla", "true")
    assert "training.xla: model.architecture recurrent cannot be trained on rows of several sentence pairs" in said
    parsed(config_file, "--model.architecture", "decoder_only", "--training.xla", "true")


def test_a_key_of_another_architecture_on_the_command_line_is_taken(config_file: Path):
    overrides = ("--model.architecture", "recurrent", "--model.hidden_dim", "24", "--model.cross_attention", "none")
    model = parsed(config_file, *overrides).model
    assert (model.hidden_dim, model.cross_attention) == (24, "none")


def test_heads_need_not_divide_the_width_where_sizes_are_given(config_file: Path):
    sizes = "{key_dim: 5, value_dim: 7}"
    sites = ", ".join(f"{site}: {sizes}" for site in ("encoder_self", "decoder_self", "cross"))
    config_file.write_text(config_file.read_text() + f"model: {{num_heads: 3, attention: {{{sites}}}}}\n")
    assert load_run_config(config_file).model.attention.cross.key_dim == 5


def test_relative_positions_leave_cross_attention_as_it_is(config_file: Path):
    given = ("--model.positions", "rotary", "--model.attention.cross.score", "additive")
    assert parsed(config_file, *given).model.attention.cross.score == "additive"
