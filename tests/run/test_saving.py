"""Models in memory as runs: they translate with today's weights, and every command takes the folder that is saved."""

import io
import json
import shutil
from pathlib import Path

import keras
import numpy as np
import pytest
import sentencepiece
import yaml

import qkv
from qkv.commands import align, compare, draw, evaluate, live, translate, view
from qkv.commands.train import parse_train_arguments
from qkv.config import load_run_config
from qkv.config.ancestor import check_ancestor
from qkv.config.run import dump, load_started_run
from qkv.errors import InputError
from qkv.files.paths import sha256
from qkv.files.run_directory import SAVED, RunDirectory
from qkv.model.recurrent import Recurrent
from qkv.model.transformer import Transformer
from qkv.run import saving
from qkv.run.ancestor import take_ancestor
from qkv.run.start import load_training
from qkv.run.trained_run import digest_weights
from tests.support import KEPT_RUNS, ROOT, files_below
from tests.support.layer_contract import stir
from tests.support.minutes import by_hand
from tests.support.text import SENTENCES
from tests.support.tiny_runs import held_out_config, small_config, write_small_corpus
from tests.support.trained_runs import loading_once

pytestmark = pytest.mark.slow

SOURCES = ["the cat eats the apple .", "", "a dog sees the old church .", "the girl does not like the juice ."]
LANGUAGES = {"data": {"source_language": "en", "target_language": "fr"}}
PARTS = {"config.yaml", "manifest.json", "model.keras", "source_look.json", "target_look.json"}


@pytest.fixture
def run(unbroken, tmp_path):
    """A copy of the run, so that tests may change its model and write into its folder."""
    return qkv.load(shutil.copytree(unbroken, tmp_path / "unbroken"))


@pytest.fixture
def batches(unbroken):
    return qkv.batches(unbroken)


def logits(model, seed=1):
    generator = np.random.default_rng(seed)
    source, target = generator.integers(4, 90, (3, 9)), generator.integers(4, 90, (3, 5))  # other lengths
    target[:, 0], source[1, 6:] = 2, 0
    return np.asarray(model(source.astype("int32"), target.astype("int32"), training=False))


def translations(run, **decoding):
    found = run.translate(SOURCES, **decoding)
    return [(one.text, one.log_probabilities) for one in found]


def assert_same_translations(run, other, **decoding):
    for (text, found), (other_text, expected) in zip(
        translations(run, **decoding), translations(other, **decoding), strict=True
    ):
        assert text == other_text
        np.testing.assert_allclose(found, expected, atol=2e-5)


def manifest_of(run):
    return json.loads((run.path / "manifest.json").read_text(encoding="utf-8"))


def fit(model, batches, rate=0.05):
    model.compile(keras.optimizers.Adam(rate), qkv.losses.TokenCrossEntropy())
    model.fit(batches, shuffle=False, verbose=0, steps_per_epoch=1)


# Saving


@pytest.mark.minutes
def test_a_saved_run_is_the_run(run, tmp_path):
    saved = run.save(tmp_path / "runs" / "saved")
    assert saved.path == tmp_path / "runs" / "saved" and saved.path.is_dir()
    names = {path.relative_to(saved.path).as_posix() for path in saved.path.rglob("*") if path.is_file()}
    assert names == PARTS | {"tokenizer/sentencepiece.model"}
    assert_same_translations(saved, run)
    assert_same_translations(qkv.load(saved.path), run, beam_size=3)
    np.testing.assert_array_equal(logits(saved.model), logits(run.model))
    config = saved.config.model_dump(exclude={"run": {"name", "directory"}})
    assert config == run.config.model_dump(exclude={"run": {"name", "directory"}})
    assert (saved.config.run.name, saved.config.run.directory) == ("saved", tmp_path / "runs")
    manifest = manifest_of(saved)
    assert manifest["weights"] == SAVED and manifest["changed"] is False
    assert manifest["lora"] == {"ranks": [], "merged": False}
    assert manifest["saved_from"] == {
        "run": str(run.path),
        "weights": "model.keras",
        "weights_sha256": sha256(run.path / "model.keras"),
    }
    assert manifest["data_sha256"] == manifest_of(run)["data_sha256"]
    assert manifest["versions"]["qkv"] == qkv.__version__ and len(manifest["golden_logits"]) == 8
    assert saved.history.empty


@pytest.mark.minutes
def test_weights_that_fit_has_changed_are_saved(run, batches, tmp_path):
    before = logits(run.model)
    fit(run.model, batches)
    saved = run.save(tmp_path / "fitted")
    assert np.abs(logits(saved.model) - before).max() > 0.01
    np.testing.assert_array_equal(logits(saved.model), logits(run.model))
    np.testing.assert_array_equal(logits(qkv.load(tmp_path / "fitted").model), logits(run.model))
    assert manifest_of(saved)["changed"] is True and manifest_of(saved)["saved_from"]["run"] == str(run.path)
    again = saved.save(tmp_path / "again")  # of a saved run
    assert manifest_of(again)["saved_from"]["run"] == str(saved.path)
    assert_same_translations(again, run)


@pytest.mark.minutes
def test_low_rank_matrices_are_merged(run, batches, tmp_path):
    parameters = run.model.count_params()
    run.model.enable_lora(3)
    fit(run.model, batches)
    assert run.model.count_params() > parameters
    saved = run.save(tmp_path / "tuned")
    np.testing.assert_allclose(logits(saved.model), logits(run.model), atol=1e-4)
    assert not any("lora" in variable.path for variable in saved.model.weights)
    manifest = manifest_of(saved)
    assert manifest["lora"] == {"ranks": [3], "merged": True} and manifest["parameters"] == parameters
    assert_same_translations(saved, run)
    np.testing.assert_allclose(logits(run.float64_model), logits(run.model), atol=1e-4)


def test_a_folder_appears_whole_or_not_at_all(run, tmp_path, monkeypatch):
    before = files_below(tmp_path)
    for path, told in ((run.path, "exists already"), (tmp_path / ".hidden", "without slashes or a dot")):
        with pytest.raises(InputError, match=told):
            run.save(path)
    monkeypatch.setattr(saving, "write_manifest", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        run.save(tmp_path / "saved")
    assert files_below(tmp_path).keys() - before.keys() <= {".saved.qkv-lock", ".unbroken.qkv-lock"}
    assert not (tmp_path / "saved").exists()


@pytest.mark.minutes
def test_what_tuning_chose_is_kept(run, tmp_path):
    (run.path / "decoding.yaml").write_text("beam_size: 3\nlength_penalty: 0.4\n", encoding="utf-8")
    tuned = qkv.load(run.path)
    saved = tuned.save(tmp_path / "saved")
    assert saved.config.decoding.beam_size == tuned.config.decoding.beam_size == 3
    assert qkv.load(saved.path).config.decoding == tuned.config.decoding
    assert load_started_run(saved.path / "config.yaml").decoding == load_started_run(run.path / "config.yaml").decoding
    assert tuned.with_model(tuned.model).config.decoding == tuned.config.decoding


@pytest.mark.minutes
@pytest.mark.parametrize(
    "name", ["transformer", *(pytest.param(name, marks=by_hand) for name in ("recurrent", "decoder_only"))]
)
def test_runs_of_older_versions_are_saved_too(name, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    run = qkv.load(KEPT_RUNS / name)
    for variable in run.model.weights:
        variable.assign(variable * 1.01)
    saved = run.save(tmp_path / name)
    assert_same_translations(saved, run)
    assert saved.path.joinpath("config.yaml").read_text(encoding="utf-8").startswith("# made by qkv")


# No training goes on


def test_no_training_continues_a_saved_run(run, tmp_path):
    saved = run.save(tmp_path / "saved").path
    told = rf"{saved}: its model was saved by run.save, .*--training.start_from {saved}"
    for start in (
        lambda: qkv.train(saved),
        lambda: qkv.train(saved / "config.yaml"),
        lambda: parse_train_arguments(["--resume", str(saved)]),
        lambda: parse_train_arguments(["--config", str(saved / "config.yaml")]),
        lambda: load_training(saved, {}, resumes=True),
    ):
        with pytest.raises(InputError, match=told):
            start()
    with pytest.raises(InputError, match="no checkpoint is left here"):
        qkv.load(saved, "last")


def test_another_training_starts_from_a_saved_run(run, tmp_path):
    run.model.encoder_blocks[0].feed_forward.inner.bias.assign_add(np.full(8, 0.5, "float32"))
    saved = run.save(tmp_path / "saved")
    changes = {"training": {"start_from": str(saved.path)}, "run": {"name": "next", "directory": str(tmp_path)}}
    values = yaml.safe_load((saved.path / "config.yaml").read_text(encoding="utf-8"))
    for section, settings in changes.items():
        values[section] |= settings
    (tmp_path / "next.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
    config = load_run_config(tmp_path / "next.yaml")
    assert check_ancestor(config) is not None
    descendant = RunDirectory.create(tmp_path / "next")
    ancestor = take_ancestor(config, descendant)
    assert ancestor is not None
    model = type(run.model).from_config(run.model.get_config())
    model.build()
    ancestor.load(model)
    np.testing.assert_array_equal(logits(model), logits(run.model))


# Models from elsewhere


def new_model(run, **changes):
    sizes = {"d_model": 16, "num_heads": 2, "d_ff": 12, "encoder_layers": 1, "decoder_layers": 1, "max_positions": 64}
    model = Transformer(run.trained.tokenizer.vocabulary_size, **sizes | changes)
    model.build()
    return stir(model)


@pytest.mark.minutes
def test_a_model_of_other_sizes_becomes_a_run(run, batches, tmp_path):
    model = new_model(run)
    own = qkv.Run.from_model(model, batches)
    assert own.model is model and own.config.model.d_model == 16
    ids = own.trained.reader.read(SOURCES)[1]
    as_generate = own._with({"beam_size": 1, "max_target_ratio": 2.0, "max_target_extra": 10}).translator
    targets = model.generate([[*row, 3] for row in ids])
    for target, translation in zip(targets, as_generate.translate_ids(ids), strict=True):
        assert [int(token) for token in target if token] == translation[0].ids
    saved = own.save(tmp_path / "saved")
    assert_same_translations(saved, own)
    manifest = manifest_of(saved)
    assert manifest["saved_from"] == {"model": "Transformer"} and manifest["changed"] is True
    assert saved.trained.reader.styles["source"] == run.trained.reader.styles["source"] is not None
    assert set(RunDirectory(saved.path).root.iterdir()) >= {saved.path / name for name in PARTS}


@pytest.mark.minutes
@pytest.mark.parametrize(
    "kind", ["run", *(pytest.param(kind, marks=by_hand) for kind in ("file", "folder", "tokenizer", "text path"))]
)
def test_tokenizers_of_every_kind_are_taken(run, kind, tmp_path):
    file = run.path / "tokenizer" / "sentencepiece.model"
    tokenizer = {
        "run": run,
        "folder": run.path,
        "tokenizer": run.trained.tokenizer,
        "file": file,
        "text path": str(file),
    }[kind]
    own = qkv.Run.from_model(run.model, tokenizer, LANGUAGES)
    plain = [one.tokens for one in qkv.Run.from_model(run.model, file, LANGUAGES).translate(SOURCES)]
    assert [one.tokens for one in own.translate(SOURCES)] == plain
    assert (own.config.tokenizer.kind, own.config.tokenizer.vocabulary_size) == ("given", 90)
    assert own.config.data.max_source_tokens == 63 and own.config.data.train is None
    assert own.align(SOURCES[0], "le chat mange la pomme .").keys()
    saved = own.save(tmp_path / "saved")
    assert [one.tokens for one in qkv.load(saved.path).translate(SOURCES)] == plain


@pytest.mark.minutes
def test_configs_of_every_kind_are_taken(run, tmp_path):
    model = run.model
    file = tmp_path / "own.yaml"
    values = yaml.safe_load((run.path / "config.yaml").read_text(encoding="utf-8"))
    file.write_text(yaml.safe_dump(values), encoding="utf-8")
    dotted = {f"data.{key}": value for key, value in LANGUAGES["data"].items()}
    sizes = {"model.d_model": 8, "decoding.beam_size": 3}
    for config in (file, str(file), dotted | sizes, LANGUAGES | {"model": {"d_model": 8}}, run.config, run, None):
        own = qkv.Run.from_model(model, run, config)
        assert own.config.model == run.config.model
        assert own.config.data.source_language == "en"
    assert qkv.Run.from_model(model, run, dotted | sizes).config.decoding.beam_size == 3


def test_models_that_do_not_fit_are_refused(run, tmp_path):
    tokenizer = run.trained.tokenizer
    other = new_model(run)
    functional = keras.Sequential()
    unbuilt = Transformer(90)
    recurrent = Recurrent(90, embedding_dim=4, hidden_dim=4, attention_dim=4)
    recurrent.build()
    small = Transformer(50, d_model=8, num_heads=2, d_ff=8, encoder_layers=1, decoder_layers=1)
    small.build()
    for model, told in (
        (other, r"(?s)the config describes another model:.*model.d_model: 16 in the model, 8 in the config"),
        (functional, "model: expected a model of class Transformer, Recurrent, DecoderOnly or of a subclass"),
        (unbuilt, "found one without weights"),
        (recurrent, "model.architecture: expected recurrent, found 'transformer'"),
        (small, "the vocabulary of the tokenizer, 90 ids, found a model of 50"),
        ("model.keras", "expected a model of class .* found str"),
    ):
        with pytest.raises(InputError, match=told):
            run.with_model(model)
    broken = new_model(run)
    broken.source_embedding.table.assign(np.full((90, 16), np.nan))
    for arguments, told in (
        ((broken, run), "has numbers that are not finite"),
        ((other, tokenizer), "config: expected settings, since a tokenizer alone has no languages"),
        ((other, 4, LANGUAGES), "tokenizer: expected a run, .* found int"),
        ((other, tokenizer, 4), "settings: expected a dictionary"),
        ((other, tmp_path / "none.model", LANGUAGES), "none.model: no such file; expected a run, or"),
        ((other, tokenizer, {}), "source_language"),
        ((other, tokenizer, LANGUAGES | {"tokenizer": {"kind": "given", "vocabulary_size": 91}}), "has 90 ids, found"),
        ((other, tokenizer, LANGUAGES | {"model": {"d_model": 32}}), "d_model: 16 in the model, 32 in the config"),
        ((other, tokenizer, LANGUAGES | {"model": {"d_modle": 32}}), "model.d_modle: no such key"),
    ):
        with pytest.raises(InputError, match=told):
            qkv.Run.from_model(*arguments)


def test_layers_that_a_config_does_not_describe_are_refused(run):
    model = new_model(run, cross={"use_bias": False})
    with pytest.raises(InputError, match="use_bias"):
        qkv.Run.from_model(model, run)
    replaced = Transformer(90, d_model=16, num_heads=2, d_ff=12, encoder_layers=1, decoder_layers=1, max_positions=64)
    replaced.source_embedding.scale = 3.0
    other = Transformer(90, d_model=16, num_heads=2, d_ff=20, encoder_layers=1, decoder_layers=1, max_positions=64)
    replaced.encoder_blocks = other.encoder_blocks
    replaced.build()
    with pytest.raises(InputError, match="its layers may have been replaced"):
        qkv.Run.from_model(replaced, run)


def test_a_tokenizer_with_other_special_ids_is_refused(run, tmp_path):
    prefix = str(tmp_path / "spm")
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES * 3), model_prefix=prefix, vocab_size=90, hard_vocab_limit=False, minloglevel=2
    )
    size = sentencepiece.SentencePieceProcessor(model_file=f"{prefix}.model").get_piece_size()
    model = Transformer(size, d_model=8, num_heads=2, d_ff=8, encoder_layers=1, decoder_layers=1)
    model.build()
    with pytest.raises(InputError, match="pad_id=0, unk_id=1, bos_id=2, eos_id=3, found pad_id=-1, unk_id=0"):
        qkv.Run.from_model(model, f"{prefix}.model", LANGUAGES)


def test_a_subclass_is_a_run_in_memory_and_is_saved_once_it_is_registered(run, tmp_path, monkeypatch):
    class Doubled(Transformer):
        def call(self, source_ids, target_ids=None, training=None):
            return 2.0 * super().call(source_ids, target_ids, training=training)

    model = Doubled(**{name: value for name, value in run.model.get_config().items() if name != "name"})
    model.build()
    model.set_weights(run.model.get_weights())
    own = run.with_model(model)
    assert_same_translations(own, run)  # a search calls `decode`
    with pytest.raises(InputError, match="no command could load Doubled, which is not a registered architecture"):
        own.save(tmp_path / "saved")
    assert not (tmp_path / "saved").exists()
    settings = type(run.config.model)
    monkeypatch.setitem(saving.MODELS, settings, Doubled)
    saved = own.save(tmp_path / "saved")
    assert type(saved.model) is Doubled
    np.testing.assert_array_equal(logits(saved.model), logits(model))


def test_mixed_precision_is_saved_in_float32(run, tmp_path):
    model = type(run.model).from_config(run.model.get_config() | {"dtype": "mixed_bfloat16"})
    model.build()
    model.set_weights(run.model.get_weights())
    saved = run.with_model(model).save(tmp_path / "saved")
    assert saved.model.dtype_policy.name == "float32"
    np.testing.assert_array_equal(logits(saved.model), logits(run.model))


def test_weights_in_float16_take_half_the_size_and_are_computed_with_in_float32(run, tmp_path):
    saved = run.save(tmp_path / "saved", dtype="float16")
    sizes = [(folder / "model.keras").stat().st_size for folder in (saved.path, run.path)]
    assert sizes[1] - sizes[0] >= 1.9 * run.model.count_params()  # two bytes a number; names take their part
    for rounded, weight in zip(saved.model.get_weights(), run.model.get_weights(), strict=True):
        assert rounded.dtype == "float32"
        np.testing.assert_array_equal(rounded, weight.astype("float16").astype("float32"))
    manifest = manifest_of(saved)
    assert manifest["dtype"] == "float16" and not saved.trained.is_changed
    assert manifest["values_sha256"] == digest_weights(saved.model)
    model = qkv.load_model(saved.path)
    np.testing.assert_array_equal(logits(model), logits(saved.model))
    again = saved.save(tmp_path / "again")  # in float32
    np.testing.assert_array_equal(logits(again.model), logits(saved.model))


def test_weights_that_are_too_large_for_float16_are_refused(run, tmp_path):
    run.model.weights[0].assign(run.model.weights[0] + 1e5)
    with pytest.raises(InputError, match=r"numbers too large for float16; expected float32"):
        run.save(tmp_path / "saved", dtype="float16")
    with pytest.raises(InputError, match=r"dtype: expected float32 or float16, found 'bfloat16'"):
        run.save(tmp_path / "saved", dtype="bfloat16")
    assert not (tmp_path / "saved").exists()


# Held-out sets


@by_hand
@pytest.mark.minutes
def test_held_out_sets_are_found_after_the_text_is_gone(tmp_path):
    config = held_out_config(write_small_corpus(tmp_path / "corpus"), tmp_path / "runs")
    batches = qkv.batches(config)
    model = Transformer(
        90, d_model=8, num_heads=2, d_ff=8, encoder_layers=1, decoder_layers=1, max_positions=64, dropout=0.0
    )
    model.build()
    own = qkv.Run.from_model(model, batches)
    assert len(Path(own.config.data.test.source).read_text(encoding="utf-8").splitlines()) == 7
    saved = own.save(tmp_path / "saved")
    held_out = files_below(saved.path / "held_out")
    assert held_out == files_below(batches.directory.held_out) != {}
    shutil.rmtree(tmp_path / "corpus")
    shutil.rmtree(own.path)
    again = qkv.load(saved.path)
    assert again.config.data.test.source == saved.path / "held_out" / "test.source"
    assert again.evaluate("test").metrics["sentences"] == 7
    assert load_started_run(saved.path / "config.yaml").data.test.pairs == 7  # as the user wrote it
    moved = saved.path.rename(tmp_path / "moved")
    assert qkv.load(moved).evaluate("validation").metrics["sentences"] > 0


# Today's weights


def change_by_fit(run, batches):
    fit(run.model, batches)


def change_by_assignment(run, batches):
    for variable in run.model.trainable_variables:
        variable.assign(variable * 1.2)


def change_by_file(run, batches):
    other = type(run.model).from_config(run.model.get_config())
    other.build()
    stir(other)
    other.save_weights(run.path / "other.weights.h5")
    run.model.load_weights(run.path / "other.weights.h5")


def change_by_lora(run, batches):
    run.model.enable_lora(2)
    for variable in run.model.trainable_variables:
        variable.assign(np.random.default_rng(1).normal(0, 0.4, variable.shape))


def change_trainable(run, batches):
    run.model.encoder_blocks[0].trainable = False
    fit(run.model, batches, rate=0.2)


BY_HAND = change_by_lora, change_by_assignment, change_by_file, change_trainable
CHANGES = [change_by_fit, *(pytest.param(change, marks=by_hand) for change in BY_HAND)]


@pytest.mark.minutes
@pytest.mark.parametrize("change", CHANGES)
def test_every_method_uses_the_present_weights(run, batches, tmp_path, change):
    pairs = SOURCES[0], "le chat mange la pomme ."
    searches = ({}, {"beam_size": 3}, {"search": "sampling", "seed": 3})
    for decoding in searches:
        run.translate(SOURCES, **decoding)  # graphs are traced with the old weights
    old_links = run.align(*pairs)
    old_choice = (run.path / "alignment.json").read_bytes()
    run.cache([pairs], ["logits"])
    old = logits(run.float64_model)
    change(run, batches)
    fresh = run.save(tmp_path / "fresh")  # traces all anew
    assert np.abs(logits(fresh.model) - old).max() > 0.01
    for decoding in searches[:2]:
        assert_same_translations(run, fresh, **decoding)
    np.testing.assert_allclose(logits(run.float64_model), logits(fresh.model), atol=2e-4)
    for inside, other in zip(run.cache([pairs], ["logits"]), fresh.cache([pairs], ["logits"]), strict=True):
        np.testing.assert_allclose(inside.logits, other.logits, atol=2e-4)
    links, expected = run.align(*pairs), fresh.align(*pairs)
    assert links.keys() == expected.keys()
    np.testing.assert_allclose([*links.values()], [*expected.values()], atol=1e-3)
    assert list(links.items()) != list(old_links.items())
    assert (run.path / "alignment.json").read_bytes() == old_choice  # that of the weights in the folder
    attention, other = (one.translate(SOURCES[0]).attention.to_numpy() for one in (run, fresh))
    np.testing.assert_allclose(attention, other, atol=1e-4)


@pytest.mark.minutes
def test_an_evaluation_of_changed_weights_says_so(run, tmp_path):
    whole = run.evaluate("test", name="whole").metrics
    assert whole["checkpoint"] == "model.keras"
    for variable in run.model.trainable_variables:
        variable.assign(variable * 1.2)
    changed = run.evaluate("test", name="changed")
    assert changed.metrics["checkpoint"] == "memory" and changed.metrics["loss"] != whole["loss"]
    archived = json.loads((changed.path / "attention" / "manifest.json").read_text(encoding="utf-8"))
    assert archived["model_sha256"] == run.trained.weights_sha256() != sha256(run.path / "model.keras")
    fresh = run.save(tmp_path / "fresh").evaluate("test")
    assert fresh.metrics["checkpoint"] == "model.keras"
    assert fresh.metrics["loss"] == pytest.approx(changed.metrics["loss"], abs=1e-5)
    in_memory = run.with_model(run.model).evaluate("test")
    assert in_memory.metrics["loss"] == pytest.approx(changed.metrics["loss"], abs=1e-5)
    assert in_memory.path.is_dir() and not in_memory.path.is_relative_to(run.path)


# Commands


@pytest.mark.minutes
@loading_once()
def test_every_command_takes_a_saved_run(run, batches, tmp_path, monkeypatch, capsysbinary):
    fit(run.model, batches, rate=0.01)
    saved = run.save(tmp_path / "saved")
    (tmp_path / "text").write_text("the cat eats the apple .\na dog .\n", encoding="utf-8")
    (tmp_path / "target").write_text("le chat mange la pomme .\nun chien .\n", encoding="utf-8")
    folder = str(saved.path)
    assert evaluate.main([folder, "--set", "test"]) == 0
    capsysbinary.readouterr()
    sentences = ["the cat eats the apple .", "a dog ."]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("\n".join(sentences).encode())))
    assert translate.main([folder]) == 0
    assert capsysbinary.readouterr().out.decode().splitlines() == [one.text for one in run.translate(sentences)]
    files = ["--source", str(tmp_path / "text"), "--target", str(tmp_path / "target")]
    assert align.main([folder, *files]) == 0
    assert len(capsysbinary.readouterr().out.splitlines()) == 2
    assert view.main([folder, "--output", str(tmp_path / "view.html")]) == 0
    assert draw.main([folder, "--sentence", "0", "--output", str(tmp_path / "drawn.png")]) == 0
    assert compare.main([folder, folder]) == 0
    assert live.main([folder, "--page", str(tmp_path / "page.html")]) == 0
    assert saved.export("ctranslate2", tmp_path / "exported").is_dir()
    changed = json.loads((tmp_path / "exported" / "manifest.json").read_text(encoding="utf-8"))
    assert changed["weights"] == "model.keras" and changed["weights_sha256"] == sha256(saved.path / "model.keras")


@pytest.mark.minutes
def test_a_training_goes_from_fit_to_a_run_to_a_training(tmp_path):
    config = small_config(write_small_corpus(tmp_path / "corpus"), tmp_path / "runs", "first")
    (tmp_path / "first.yaml").write_text(dump(config), encoding="utf-8")
    batches = qkv.batches(tmp_path / "first.yaml")
    model = Transformer(
        90, d_model=8, num_heads=2, d_ff=8, encoder_layers=1, decoder_layers=1, max_positions=64, dropout=0.0
    )
    fit(model, batches, rate=0.01)
    saved = qkv.Run.from_model(model, batches).save(tmp_path / "runs" / "saved")
    changes = {"run.name": "next", "training.start_from": str(saved.path), "training.max_updates": 1}
    section = saved.config.model.model_dump(mode="json")
    values = yaml.safe_load((saved.path / "config.yaml").read_text(encoding="utf-8")) | {"model": section}
    (tmp_path / "next.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
    descendant = qkv.train(tmp_path / "next.yaml", changes, verbose=0)
    assert manifest_of(descendant)["started_from"]["run"] == str(saved.path)
