"""The confidence of translations: from hypotheses with known qualities, from a run without a fit, and from the demo."""

import io
import json
import pickle
import random
import shutil
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

import qkv
from qkv.commands import evaluate, translate
from qkv.config.run import with_decoding_values
from qkv.decoding.translator import Translation
from qkv.errors import InputError
from qkv.evaluation import confidence
from qkv.evaluation.confidence import (
    TokenStatistics,
    change_sources,
    find_confidence,
    source_features,
    translation_features,
)
from qkv.evaluation.tables import read_translations
from qkv.files.run_directory import PACKAGED
from qkv.run.trained_run import load_run
from qkv.text.tokens.special_tokens import EOS, UNK

pytestmark = pytest.mark.usefixtures("loaded_once")

READABLE = ["the cat sleeps .", "the ministers want to sign the law !"]
NOT_READABLE = ["le chat dort .", "der Hund schläft .", "teh tca psesle .", "x = f(y)", "123 4567"]


@pytest.fixture(scope="module")
def demo():
    return load_run(PACKAGED)


@pytest.fixture(scope="module")
def own(unbroken, tmp_path_factory):
    """A copy of a run that has ten pairs to fit on, with a fit: ten pairs count as enough."""
    run = load_run(shutil.copytree(unbroken, tmp_path_factory.mktemp("fitted") / "run"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(confidence, "LEAST_PAIRS", 5)
        find_confidence(run)
    return run


@pytest.fixture
def fitted(own, monkeypatch):
    """The run; nothing of its fit is in memory, and its file is restored after the test."""
    monkeypatch.setattr(confidence, "LEAST_PAIRS", 5)
    monkeypatch.setattr(confidence, "_fitted", {})
    written = own.directory.confidence.read_bytes()
    yield own
    own.directory.confidence.write_bytes(written)


def translated(run, text, monkeypatch, capsysbinary, *options):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    status = translate.main([str(run), *options])
    said = capsysbinary.readouterr()
    return status, said.out.decode(), said.err.decode()


def test_every_second_source_is_changed_in_each_way_in_turn(demo):
    sources = [f"the cat sees {number} dogs" for number in range(12)]
    references = [f"le chat voit {number} chiens" for number in range(12)]
    changed = change_sources(sources, references, demo.tokenizer)
    assert list(changed) == [0, 2, 4, 6, 8, 10] and changed == change_sources(sources, references, demo.tokenizer)
    assert (changed[0], changed[6]) == (references[0], references[6])
    for number in (2, 8):
        words = zip(changed[number].split(" "), sources[number].split(" "), strict=True)
        assert changed[number] != sources[number] and all(Counter(one) == Counter(other) for one, other in words)
    for number in (4, 10):
        assert list(map(len, changed[number].split(" "))) == list(map(len, sources[number].split(" ")))
        letters = set("".join(sources)) - set(" 0123456789")
        assert set(changed[number]) <= letters | set(" 0123456789") and str(number) in changed[number].split(" ")


def test_the_tag_of_a_changed_source_stays():
    class Tagged:
        tags = ("<de>",)

        def encode(self, texts):
            return [[9, 9] for _ in texts]

    changed = change_sources(["<de> a b", "c", "d"], ["x y", "z", "w"], Tagged())
    assert changed[0] == "<de> x y" and not changed[2].startswith("<de>")


def test_features_are_what_their_names_say():
    tokens = TokenStatistics(np.log([0.1, 0.2, 0.3, 0.4]), np.array([0.0, -1.0, 2.0, 1.0]), np.array([5.0, 1, 2, 4]))
    best = Translation("a b", [2, 3, 3], [3, 2, EOS], [-0.5, -2.0, -0.5], truncated=False)
    np.testing.assert_allclose(
        source_features(best, tokens), [4 / 3, np.log([0.3, 0.4, 0.4]).mean(), np.log(10 / 3)], rtol=1e-12
    )
    same, other = replace(best), replace(best, text="xyz")
    np.testing.assert_allclose(
        translation_features([best, same, other], tokens),
        [-1.0, -2.0, 0.5, np.log(3), np.log(3 / 4), np.log([0.3, 0.4, 0.4]).mean()],
        rtol=1e-12,
    )
    assert translation_features([best], tokens)[2] == 1.0
    many = [best, *[same] * 4, *[other] * 9]
    assert translation_features(many, tokens)[2] == 1.0  # five hypotheses count


def test_an_unknown_token_counts_as_one_character(demo):
    size = demo.tokenizer.vocabulary_size
    tokens = TokenStatistics.of(np.zeros(size), np.zeros(size), demo.tokenizer)
    assert tokens.characters[UNK] == 1
    ids = demo.tokenizer.encode(["the cat"])[0]
    assert tokens.characters[ids].sum() == len("thecat")
    np.testing.assert_allclose(np.exp(tokens.source).sum(), 1)
    np.testing.assert_array_equal(tokens.odds, 0)


class Letters:
    """A tokenizer of twelve tokens; sources have the first ones, references the last ones."""

    vocabulary_size = 16

    def pieces(self, ids):
        return ["\u2581ab" if token < 10 else "c" for token in ids]


def made_fit(pairs, seed=0):
    """A fit on pairs whose odds to be good are known; half as many sources are of the other language, and bad."""
    numbers = random.Random(seed)

    def sentence(tokens, log_probability):
        ids = [numbers.choice(tokens) for _ in range(6)]
        return [Translation("a", ids, [9, 9, EOS], [log_probability] * 3, truncated=False)]

    values = [numbers.uniform(-3, 0) for _ in range(pairs)]
    good = [numbers.random() < 1 / (1 + np.exp(-3 * (value + 1.5))) for value in values]
    n_best = [sentence([4, 5, 6, 7], value) for value in values]
    changed = [sentence([10, 11, 12, 4], -0.1) for _ in range(0, pairs, 2)]
    target_ids = [[numbers.choice([10, 11, 12, 4]) for _ in range(6)] for _ in range(pairs)]
    numbers_of_pairs = np.array([*range(pairs), *range(0, pairs, 2)])
    outcomes = np.array([*good, *[False] * len(changed)])
    fitted = confidence._fit([*n_best, *changed], numbers_of_pairs, outcomes, target_ids, Letters(), 60.0)
    return fitted, n_best, np.array(values), changed


def test_a_fit_finds_the_probability_that_made_the_outcomes():
    fitted, n_best, values, changed = made_fit(2000)
    predicted = np.array(fitted.of(n_best, Letters()))
    np.testing.assert_allclose(predicted, 1 / (1 + np.exp(-3 * (values + 1.5))), atol=0.08)
    assert fitted.calibration_error < 0.04 and 0.8 < fitted.auroc < 0.95
    assert np.quantile(fitted.of(changed, Letters()), 0.95) < 0.05  # although their log-probabilities are the highest
    alone = confidence.probability_of(
        np.array([translation_features(row, TokenStatistics.of(*[np.ones(16)] * 2, Letters())) for row in changed]),
        np.array(fitted.translation),
    )
    assert alone.min() > 0.9  # so it is the source that makes them doubtful


def test_cross_fitted_figures_are_those_of_unseen_pairs():
    fitted, *_ = made_fit(300)
    other, n_best, values, _ = made_fit(3000, seed=5)
    predicted = np.array(fitted.of(n_best, Letters()))
    good = np.random.default_rng(0).random(len(values)) < 1 / (1 + np.exp(-3 * (values + 1.5)))
    assert abs(fitted.measure(predicted, good * 100.0)["auroc"] - other.auroc) < 0.03
    assert abs(fitted.auroc - other.auroc) < 0.08


def test_few_bad_translations_give_all_readable_sentences_the_share_of_good_ones(demo):
    fitted = find_confidence(demo)
    assert fitted.good == 1.0 and fitted.translation[:-1] == (0.0,) * 6
    values = fitted.of(demo.translator.translate_ids(demo.reader.read(READABLE)[1]), demo.tokenizer)
    assert all(0.97 < value < 1 for value in values)


def test_the_demo_is_sure_of_its_language_and_of_no_other_and_fits_nothing(demo, monkeypatch):
    monkeypatch.setattr(confidence, "fit_confidence", None)  # the package has the fit
    monkeypatch.setattr(confidence, "_fitted", {})
    sources = [*READABLE, *NOT_READABLE, ""]
    n_best_lists = demo.translator.translate_ids(demo.reader.read(sources)[1])
    values = find_confidence(demo).of(n_best_lists, demo.tokenizer)
    assert min(values[:2]) > 0.9 and max(values[2:-1]) < 0.2 and values[-1] == 1.0
    cut = [[replace(n_best_lists[0][0], truncated=True)]]
    assert find_confidence(demo).of(cut, demo.tokenizer) == [0.0]


def test_the_command_writes_each_confidence_and_leaves_doubtful_lines_empty(monkeypatch, capsysbinary):
    text = "".join(f"{line}\n" for line in ["the cat sleeps .", "le chat dort .", "", "the dog eats ."])
    run = PACKAGED
    plain = translated(run, text, monkeypatch, capsysbinary)[1].splitlines()
    rated = translated(run, text, monkeypatch, capsysbinary, "--confidence")[1].splitlines()
    numbers, texts = zip(*(line.split("\t") for line in rated), strict=True)
    assert list(texts) == plain and all(len(number) == 4 for number in numbers)
    some = translated(run, text, monkeypatch, capsysbinary, "--at_least", "0.5")[1].splitlines()
    assert some == [line if float(number) >= 0.5 else "" for number, line in zip(numbers, plain, strict=True)]
    assert some[0] and not some[1] and some[3]
    every = translated(run, text, monkeypatch, capsysbinary, "--at_least", "0")[1].splitlines()
    none = translated(run, text, monkeypatch, capsysbinary, "--at_least=1")[1].splitlines()
    assert every == plain and none == [""] * 4
    objects = translated(run, text, monkeypatch, capsysbinary, "--at_least", ".5", "--json")[1].splitlines()
    objects = list(map(json.loads, objects))
    assert [one["text"] for one in objects] == some
    assert [f"{one['confidence']:.2f}" for one in objects] == list(numbers)
    python = qkv.load(run).translate(text.splitlines())
    assert [round(one.confidence, 6) for one in python] == [one["confidence"] for one in objects]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--confidence", "--n_best", "2", "--beam_size", "2"], "--n_best: --confidence and --at_least rate the best"),
        (["--at_least", "90"], "expected a number from 0 to 1, such as 0.9, found '90'"),
        (["--at_least", "nan"], "expected a number from 0 to 1"),
        (["--confidence", "--search", "sampling"], "expected decoding.search beam"),
    ],
)
def test_what_has_no_confidence_is_refused(options, message, monkeypatch, capsysbinary):
    status, output, said = translated(PACKAGED, "the cat .\n", monkeypatch, capsysbinary, *options)
    assert (status, output) == (2, "") and message in said


def test_a_line_of_sentences_is_as_sure_as_its_least_sure_one(monkeypatch, capsysbinary):
    pytest.importorskip("sentencex")
    text = "the cat sleeps . le chat dort .\nthe cat sleeps . the dog eats .\n"
    run = PACKAGED
    lines = translated(run, text, monkeypatch, capsysbinary, "--split", "--confidence", "--at_least", "0.5")[1]
    first, second = (line.split("\t") for line in lines.splitlines())
    assert float(first[0]) < 0.5 and first[1] == "" and float(second[0]) > 0.9 and second[1].count(".") == 2


def with_decoding(run, **values):
    return run.with_config(with_decoding_values(run.config, values))


def test_a_fit_is_kept_in_the_run_until_its_settings_change(fitted, monkeypatch, caplog):
    path = fitted.directory.confidence
    with monkeypatch.context() as patch:
        patch.setattr(confidence, "fit_confidence", None)
        kept = find_confidence(fitted)
        assert kept.pairs == 10 and kept.changed == 5 and kept.good_chrf == 60.0
        assert find_confidence(with_decoding(fitted, n_best=2)) == kept  # another number of results, the same search
    other = with_decoding(fitted, length_penalty=0.5)
    assert find_confidence(other, 30.0).good_chrf == 30.0
    assert "fitting it on 10 pairs of the validation set, once" in caplog.text
    assert json.loads(path.read_text())["fitted_for"]["decoding"]["length_penalty"] == 0.5
    confidence._fitted.clear()
    assert find_confidence(fitted).good_chrf == 30.0  # the bound stays


def test_weights_that_were_changed_in_memory_are_fitted_and_not_saved(fitted, caplog):
    written = fitted.directory.confidence.read_bytes()
    variable = fitted.model.weights[0]
    value = variable.numpy()
    variable.assign(value + 1)
    try:
        find_confidence(fitted)
    finally:
        variable.assign(value)
    assert "fitting it on 10 pairs" in caplog.text and fitted.directory.confidence.read_bytes() == written


def without_text(run, **validation):
    sets = run.config.data.validation.model_copy(update=validation) if validation else None
    data = run.config.data.model_copy(update={"validation": sets})
    return replace(run, config=run.config.model_copy(update={"data": data}))


def test_a_run_without_its_text_keeps_its_fit_and_says_what_is_missing_for_another(fitted):
    moved = without_text(fitted, source=fitted.directory.root / "gone.en")
    assert find_confidence(moved).pairs == 10
    decoding = moved.config.decoding.model_copy(update={"beam_size": 2})
    other = replace(moved, config=moved.config.model_copy(update={"decoding": decoding}))
    with pytest.raises(InputError, match=r"gone.en: .* fitted for other weights or settings of decoding: use those"):
        find_confidence(other)
    fitted.directory.confidence.unlink()
    confidence._fitted.clear()
    with pytest.raises(InputError, match=r"gone.en: there is no such file, so .* expected a validation set with ref"):
        find_confidence(moved)
    with pytest.raises(InputError, match=r"config.yaml: data.validation is null"):
        find_confidence(without_text(fitted))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 9}, "expected format 1"),
        ({"translation": [1.0]}, "expected 4 coefficients in source and 7 in translation"),
        ({"source_counts": "1 x"}, "invalid literal"),
        ({"pairs": "many"}, "pairs: Input should be a valid integer"),
        ({"more": 1}, "more"),
    ],
)
def test_a_damaged_file_is_named(fitted, change, message):
    path = fitted.directory.confidence
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(InputError, match=r"confidence.json: expected the confidence that .* delete the file") as caught:
        find_confidence(fitted)
    assert message in str(caught.value)


def test_too_few_pairs_are_refused(fitted, monkeypatch):
    monkeypatch.setattr(confidence, "LEAST_PAIRS", 100)
    with pytest.raises(InputError, match=r"data.validation: expected at least 100 pairs to fit .*, found 10"):
        find_confidence(fitted, 40.0)


def test_an_evaluation_has_a_column_and_its_figures(fitted, capsys):
    root = fitted.directory.root
    assert evaluate.main([str(root), "--confidence", "30"]) == 0
    folder = root / "evaluations" / "test"
    table = read_translations(folder / "translations.tsv")
    figures = json.loads((folder / "metrics.json").read_text())["confidence"]
    assert table["confidence"].between(0, 1).all() and figures["good_chrf"] == 30.0
    assert figures["good"] == np.mean(table["sentence_chrf"] >= 30)
    page = (folder / "viewer.html").read_text(encoding="utf-8")
    assert f'"confidence": {round(table["confidence"][0], 4)}'.replace(" ", "") in page.replace(" ", "")
    assert evaluate.main([str(root), "--confidence", "--ban", str(root / "config.yaml")]) == 2
    assert "--confidence: it is fitted for translations without --ban" in capsys.readouterr().err


def test_only_the_best_translation_of_a_known_run_has_a_confidence():
    run = qkv.load("demo")
    first, second = run.translate("the cat sleeps .", n_best=2, beam_size=2)
    with pytest.raises(InputError, match="only the best translation"):
        _ = second.confidence
    translation = run.translate("the cat sleeps .")
    with pytest.raises(InputError, match="confidence: this translation has no run"):
        _ = pickle.loads(pickle.dumps(translation)).confidence
    assert translation.confidence > 0.9 and pickle.loads(pickle.dumps(translation)).confidence > 0.9
    assert "confidence" not in vars(first)
