"""A Marian folder becomes a run, whole or not at all."""

import json
import os
import re
import shutil
import sys

import h5py
import numpy as np
import pytest
from safetensors.numpy import save_file

import evaluate
import train
from qkv.commands.import_marian import main
from qkv.errors import InputError
from qkv.exchange.marian_import import import_marian
from qkv.exchange.marian_weights import torch_name
from qkv.files.atomic import temporary_path
from qkv.files.paths import sha256
from tests.support import change_json
from tests.support.marian import MARIAN, arrays_of


@pytest.fixture
def marian(tmp_path):
    """A copy of the folder, to be changed."""
    return shutil.copytree(MARIAN, tmp_path / "marian")


def refused(folder, tmp_path):
    """Imports a folder that must be refused; returns the message. Nothing is left."""
    with pytest.raises(InputError) as caught:
        import_marian(folder, tmp_path / "runs" / "opus", {})
    assert not [*tmp_path.glob("runs/*"), *tmp_path.glob("runs/.*")]
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_the_manifest_names_every_file_of_the_ancestor(imported):
    manifest = json.loads((imported / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["imported_from"]["format"] == "marian"
    assert manifest["imported_from"]["sha256"] == {path.name: sha256(path) for path in MARIAN.iterdir()}
    assert {path.name for path in imported.iterdir()} == {"config.yaml", "manifest.json", "model.keras", "tokenizer"}


def test_the_search_is_that_of_the_folder(run):
    decoding = run.config.decoding
    assert (decoding.beam_size, decoding.max_target_ratio, decoding.max_target_extra) == (4, 0.0, 19)
    assert decoding.force_eos and decoding.renormalize and decoding.no_repeat_ngram == 2
    assert (decoding.length_divisor, decoding.beam_end) == ("power", "worst")


def test_the_command_says_how_to_go_on(tmp_path, capsys):
    assert main([str(MARIAN), str(tmp_path / "opus"), "--target_language", "de"]) == 0
    output = capsys.readouterr().out
    assert "en to de, 1 + 2 layers of width 16, 153 tokens" in output and ">>fra<< >>deu<<" in output
    assert f"evaluate {tmp_path / 'opus'} --source FILE" in output


def test_a_folder_that_is_used_is_left_alone(tmp_path, capsys):
    (tmp_path / "opus").mkdir()
    (tmp_path / "opus" / "mine").touch()
    assert main([str(MARIAN), str(tmp_path / "opus")]) == 2
    assert "exists already" in capsys.readouterr().err and (tmp_path / "opus" / "mine").exists()


def test_what_a_killed_import_left_is_replaced(tmp_path):
    leftover = temporary_path(tmp_path / "opus")
    leftover.mkdir()
    (leftover / "half").touch()
    assert main([str(MARIAN), str(tmp_path / "opus")]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["opus"]


def test_weights_of_tensorflow_give_the_same_model(marian, tmp_path, imported):
    arrays = arrays_of(marian)
    (marian / "model.safetensors").unlink()
    with h5py.File(marian / "tf_model.h5", "w") as file:
        for name, array in arrays.items():
            write_as_tensorflow(file, name, array)
    assert main([str(marian), str(tmp_path / "opus")]) == 0
    logits = [json.loads((run / "manifest.json").read_text())["golden_logits"] for run in (tmp_path / "opus", imported)]
    assert logits[0] == logits[1]


def write_as_tensorflow(file, name, array):
    """Writes an array where transformers 4 wrote it."""
    *parts, kind = name.removeprefix("model.").split(".")
    if "shared" in name:
        file["model/model.shared/weight:0"] = array
    elif name == "final_logits_bias":
        file["final_logits_bias/tf_marian_mt_model/final_logits_bias:0"] = array
    else:
        place = "/".join(parts).replace("layers/", "layers.")
        names = {"weight": "gamma", "bias": "beta"} if "norm" in name else {"weight": "kernel", "bias": "bias"}
        turned = array.T if names[kind] == "kernel" else array
        file[f"model/tf_marian_mt_model/model/{place}/{names[kind]}:0"] = turned


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ("model/tf_marian_mt_model/model/encoder/layers.0/fc1/kernel:0", "model.encoder.layers.0.fc1.weight"),
        ("model/m/decoder/layers.11/encoder_attn/q_proj/bias:0", "model.decoder.layers.11.encoder_attn.q_proj.bias"),
        ("model/m/decoder/layers.1/final_layer_norm/gamma:0", "model.decoder.layers.1.final_layer_norm.weight"),
        ("model/m/encoder/embed_positions/embeddings:0", "model.encoder.embed_positions.weight"),
        ("decoder/layers.0/fc2/kernel:0", "model.decoder.layers.0.fc2.weight"),
    ],
)
def test_arrays_of_tensorflow_have_their_names_in_pytorch(place, name):
    assert torch_name(place) == name


def remove(name):
    return lambda folder: (folder / name).unlink()


def set_config(**values):
    return lambda folder: change_json(folder / "config.json", **values)


def set_generation(**values):
    return lambda folder: change_json(folder / "generation_config.json", **values)


def set_array(name, value):
    return lambda folder: save_file({**arrays_of(folder), name: value.astype("float32")}, folder / "model.safetensors")


def external_h5(folder):
    (folder / "model.safetensors").unlink()
    with h5py.File(folder / "tf_model.h5", "w") as file:
        file["model"] = h5py.ExternalLink("/etc/passwd", "/x")


FC1 = "model.encoder.layers.0.fc1.bias"
CASES = {
    "no config": (remove("config.json"), r"config\.json: cannot be read"),
    "no vocabulary": (remove("vocab.json"), r"vocab\.json: cannot be read"),
    "no source model": (remove("source.spm"), r"source\.spm: expected a SentencePiece model"),
    "no weights": (remove("model.safetensors"), "no weights; expected one of model.safetensors, tf_model.h5"),
    "no languages": (remove("tokenizer_config.json"), "source_lang: .* --source_language CODE"),
    "damaged config": (lambda folder: (folder / "config.json").write_text("{"), r"config\.json: cannot be read"),
    "deep config": (lambda folder: (folder / "config.json").write_text("[" * 100_000), "nests too deeply|recursion"),
    "damaged model": (
        lambda folder: (folder / "target.spm").write_bytes(b"x" * 99),
        r"marian/target\.spm: not a SentencePiece model",
    ),
    "an empty model": (lambda folder: (folder / "source.spm").write_bytes(b""), r"source\.spm: .*empty or cut off"),
    "another family": (set_config(model_type="bart"), "model_type: expected marian, found 'bart'"),
    "pre-norm": (set_config(normalize_before=True), "normalize_before: expected False, found true"),
    "an activation": (set_config(activation_function="tanh"), "activation_function: expected one of relu"),
    "a huge width": (set_config(d_model=1 << 40), "d_model: expected an integer >= 2 and <= 65536"),
    "sizes that would not fit into memory": (
        set_config(d_model=65_536, encoder_layers=1000, encoder_ffn_dim=65_536, decoder_ffn_dim=65_536),
        "expected shape",
    ),
    "a pipe": (lambda folder: (remove("vocab.json")(folder), os.mkfifo(folder / "vocab.json")), "expected a file of"),
    "weights that are a pipe": (
        lambda folder: (remove("model.safetensors")(folder), os.mkfifo(folder / "model.safetensors")),
        "this is a pipe",
    ),
    "a width of text": (set_config(d_model="16"), "d_model: expected an integer"),
    "another width": (set_config(d_model=32), r"expected shape \(152, 32\), as config.json says, found \(152, 16\)"),
    "more layers": (set_config(decoder_layers=3), "decoder.layers.2.*: expected shape .* found nothing"),
    "fewer layers": (set_config(decoder_layers=1), "arrays do not belong to the model, such as model.decoder.layers.1"),
    "odd heads": (set_config(encoder_attention_heads=3, decoder_attention_heads=3), "multiple of num_heads"),
    "two numbers of heads": (set_config(decoder_attention_heads=4), "decoder_attention_heads: expected 2, as enc"),
    "two sizes": (set_config(share_encoder_decoder_embeddings=False, decoder_vocab_size=99), "differ|pad_token_id"),
    "a pad id": (set_generation(pad_token_id=152), "pad_token_id: expected an id below 152"),
    "a pad id of another piece": (set_generation(pad_token_id=5), "<pad>: expected id 5"),
    "two eos ids": (set_generation(eos_token_id=[0, 5]), "eos_token_id: expected an integer"),
    "a forced bos": (set_generation(forced_bos_token_id=4), "forced_bos_token_id: expected no value"),
    "a forced eos": (set_generation(forced_eos_token_id=7), "forced_eos_token_id: expected eos_token_id or null"),
    "a bad phrase": (set_generation(bad_words_ids=[[4, 5]]), "bad_words_ids: expected a list of lists"),
    "diverse beams": (set_generation(num_beam_groups=2), "num_beam_groups: expected no value"),
    "endless beams": (set_generation(early_stopping="never"), "early_stopping: expected true or false"),
    "an id twice": (lambda folder: change_json(folder / "vocab.json", new=5), "two pieces have the same id"),
    "an id too large": (lambda folder: change_json(folder / "vocab.json", new=152), "expected an id below 152"),
    "ids of text": (lambda folder: change_json(folder / "vocab.json", new="5"), "expected an id below 152"),
    "numbers that are not finite": (set_array(FC1, np.full(24, np.nan)), "fc1.bias has numbers that are not finite"),
    "an array too many": (
        set_array("model.extra", np.zeros(3)),
        "1 arrays do not belong to the model, such as model.e",
    ),
    "other positions": (set_array("model.encoder.embed_positions.weight", np.zeros((512, 16))), "expected Marian's"),
    "two tables": (set_array("lm_head.weight", np.zeros((152, 16))), "differ, but config.json declares them as one"),
    "truncated weights": (
        lambda folder: (folder / "model.safetensors").write_bytes((MARIAN / "model.safetensors").read_bytes()[:-1]),
        r"model\.safetensors: ",
    ),
    "links in HDF5": (external_h5, "tf_model.h5: it is not the file of a model: model is a link to other data"),
}


@pytest.mark.parametrize("kind", CASES)
def test_a_folder_that_is_damaged_hostile_or_of_another_kind_is_refused(marian, tmp_path, kind):
    damage, pattern = CASES[kind]
    damage(marian)
    message = refused(marian, tmp_path)
    assert re.search(pattern, message), message


def test_a_pickle_is_not_read_without_pytorch(marian, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    (marian / "model.safetensors").rename(marian / "pytorch_model.bin")
    assert "pytorch_model.bin: the file is a pickle, which only PyTorch can read safely" in refused(marian, tmp_path)


def test_an_imported_run_cannot_be_trained_and_says_what_it_lacks(imported, capsys):
    for arguments in (["--resume", str(imported)], ["--config", str(imported / "config.yaml"), "--run.name", "x"]):
        assert train.main(arguments) == 2
        message = capsys.readouterr().err
        assert "imported run" in message and "data.train, data.validation, training.max_updates" in message


def test_a_tokenizer_model_that_was_swapped_is_refused(imported, tmp_path, capsys):
    run = shutil.copytree(imported, tmp_path / "run")
    (run / "tokenizer" / "target.spm").write_bytes((run / "tokenizer" / "source.spm").read_bytes())
    (tmp_path / "text").write_text("the cat\n", encoding="utf-8")
    assert evaluate.main([str(run), "--source", str(tmp_path / "text")]) == 2
    assert "target.spm is not the file that was imported" in capsys.readouterr().err
