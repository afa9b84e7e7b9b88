"""Corpora, lists of them and held-out sets are read, and settings that contradict each other are refused by key."""

import copy
import re
from pathlib import Path

import pytest

from qkv.commands.train import parse_train_arguments
from qkv.config.corpus import SetSettings
from qkv.config.run import dump, load_run_config, make_run_config
from qkv.errors import InputError
from tests.support.tiny_runs import MINIMAL, parsed, problem

VALUES = {
    "data": {
        "source_language": "en",
        "target_language": "fr",
        "train": [
            {"source": "a.en", "target": "a.fr", "weight": 3},
            {"table": "b-*.parquet", "source_column": "en", "target_column": "fr", "weight": 1, "tag": "<back>"},
        ],
        "validation": {"source": "v.en", "target": "v.fr"},
    },
    "training": {"max_updates": 3},
}


def changed(change):
    values = copy.deepcopy(VALUES)
    change(values["data"]["train"], values["data"], values)
    return make_run_config(values, {}, "run")


def test_a_list_is_read_and_written_as_it_is(tmp_path):
    config = changed(lambda *_: None)
    assert config.data.tags == ("<back>",) and [one.weight for one in config.data.training_corpora] == [3, 1]
    (tmp_path / "saved.yaml").write_text(dump(config), encoding="utf-8")
    assert load_run_config(tmp_path / "saved.yaml").data == config.data


def test_one_corpus_is_no_list_and_has_no_shares_and_tags():
    data = changed(lambda train, data, _: data.update(train={"source": "a.en", "target": "a.fr"})).data
    assert len(data.training_corpora) == 1 and data.listed_corpora == () and data.tags == ()
    with pytest.raises(InputError, match=r"data\.train\.weight: no such key"):
        changed(lambda train, data, _: data.update(train={"source": "a.en", "target": "a.fr", "weight": 2}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda train, *_: train[0].update(weight=-1), r"data\.train\.0\.weight: expected a number >= 0 .*found -1"),
        (lambda train, *_: [one.update(weight=0) for one in train], "data.train: expected a weight above 0"),
        (lambda train, *_: train[1].pop("weight"), "data.train: expected a weight for every corpus .*corpus 1"),
        (lambda train, *_: train[0].update(wieght=1), "data.train.0.wieght: no such key; did you mean .*0.weight"),
        (lambda train, *_: train[0].update(tag="a b"), "data.train.0.tag: expected one word without spaces"),
        (lambda train, *_: train[0].update(tag="</s>"), "data.train.0.tag: </s> is a special token"),
        (lambda train, *_: train[0].update(tag=""), "data.train.0.tag: expected text that is not empty"),
        (lambda train, *_: train.clear(), "data.train: expected at least one corpus in the list, found none"),
        (lambda train, *_: train.append(3), "data.train.2: expected a section of keys and values, found 3"),
        (lambda train, *_: train.append({"share": 0.1}), r"data\.train\.2\.share: no such key"),
        (lambda train, *_: train[1].update(header=True), "header and separator describe text"),
        (lambda train, data, _: data.update(train=3), "data.train: expected a section .* or a list of sections"),
        (lambda train, data, _: data.update(temperature=5), "expected either temperature or a weight .* found both"),
        (lambda train, data, _: data.update(train=train[1] | {"weight": None}, temperature=5), "data.train"),
        (lambda train, data, _: data.update(filters={"source_script": "Lat"}), "filters.source_script: .*mean Latin"),
        (lambda train, data, all_: all_.update(decoding={"tag": "<bck>"}), "decoding.tag: .*did you mean <back>"),
        (
            lambda train, data, all_: (train[1].pop("tag"), all_.update(decoding={"tag": "<back>"})),
            "decoding.tag: no corpus of data.train has a tag",
        ),
        (
            lambda train, data, all_: (data.update(max_source_tokens=99), all_.update(model={"max_positions": 100})),
            "model.max_positions .* so does a tag: expected at least 101",
        ),
        (
            lambda train, data, all_: all_["training"].update(guided_attention={"weight": 1}),
            "needs data.train.alignments.* for every corpus of the list",
        ),
    ],
)
def test_what_contradicts_itself_is_told(change, message):
    with pytest.raises(InputError, match=message):
        changed(change)


def test_a_temperature_stands_in_the_place_of_weights():
    def flatten(train, data, _):
        for one in train:
            del one["weight"]
        data["temperature"] = 5

    assert changed(flatten).data.temperature == 5
    with pytest.raises(InputError, match=r"temperature weighs the corpora of a list, but data\.train is not a list"):
        changed(lambda train, data, _: data.update(train={"source": "a", "target": "b"}, temperature=5))


def test_names_of_scripts_are_read_in_any_case():
    data = changed(lambda train, data, _: data.update(filters={"source_script": "latin"})).data
    assert data.filters is not None and data.filters.source_script == "Latin"


def test_an_option_does_not_change_a_corpus_of_a_list(tmp_path):
    (tmp_path / "config.yaml").write_text(dump(changed(lambda *_: None)), encoding="utf-8")
    given = ["--config", str(tmp_path / "config.yaml")]
    with pytest.raises(InputError, match=r"--data\.train\.source: data\.train is a list of corpora"):
        parse_train_arguments([*given, "--data.train.source", "other.en"])
    with pytest.raises(InputError, match=r"^settings: data\.train\.source: .*; give a whole list as data\.train$"):
        load_run_config(tmp_path / "config.yaml", {"data.train.source": "other.en"}, "settings")
    assert parse_train_arguments([*given, "--data.validation.source", "w.en"]).config.data.tags == ("<back>",)


@pytest.mark.parametrize(
    ("corpus", "told"),
    [
        ("{}", "expected either source and target or table, found neither"),
        ("{source: a}", "expected either source and target or table, found source"),
        ("{source: a, table: b}", "expected either source and target or table, found source and table"),
        ("{source: a, target: b, table: c}", "expected either source and target or table, found source and target"),
        ("{source: a, target: b, header: true}", "header and separator describe a table"),
        ("{table: a, source_column: en}", "columns can be named only if header is true"),
        ("{table: a, source_column: 1}", "source_column and target_column are both 1"),
        ("{table: a, split: train}", "expected split together with split_file"),
        ("{table: a, split_file: b}", "expected split together with split_file"),
    ],
)
def test_a_corpus_comes_from_one_place(config_file: Path, corpus: str, told: str):
    text = re.sub(r"train: {.*}", f"train: {corpus}", MINIMAL)
    assert problem(config_file, text=text).startswith(f"data.train: {told}")


@pytest.mark.parametrize(
    ("corpus", "told"),
    [
        ("{}", ": expected either source and target or table, found neither (they can be held out"),
        ("{share: 0}", ".share: expected a number > 0 and <= 0.5 or null, found 0"),
        ("{share: 0.51}", ".share: expected a number > 0 and <= 0.5 or null, found 0.51"),
        ("{pairs: 0}", ".pairs: expected an integer >= 1 and <= 1000000000 or null, found 0"),
        ("{share: 0.1, pairs: 9}", ": expected either share or pairs alone, to hold out pairs of the training "),
        ("{share: 0.1, table: a.tsv}", ": expected either share or pairs alone"),
        ("{pairs: 9, split: test}", ": expected either share or pairs alone"),
        ("{pairs: 9, alignments: a}", ": expected either share or pairs alone"),
    ],
)
def test_a_set_is_held_out_by_one_number_alone(config_file: Path, corpus: str, told: str):
    text = re.sub(r"validation: {.*}", f"validation: {corpus}", MINIMAL)
    assert problem(config_file, text=text).startswith(f"data.validation{told}")


def test_sets_are_held_out_by_share_or_number(config_file: Path):
    config_file.write_text(re.sub(r"validation: {.*}", "validation: {share: 0.01}", MINIMAL))
    data = parsed(config_file, "--data.test.pairs", "500").data
    assert data.test == SetSettings(pairs=500)
    assert {name: settings.held_out_pairs(20_000) for name, settings in data.held_out.items()} == {
        "validation": 200,
        "test": 500,
    }
