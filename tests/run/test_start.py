"""A training on pairs in memory: its settings, its sets, and the text and weights that files of the pairs give."""

import shutil

import numpy as np
import pandas as pd
import pytest
import yaml

from qkv.commands import train as train_command
from qkv.config.model import TransformerSettings
from qkv.errors import InputError
from qkv.files.json import read_json_object
from qkv.files.run_directory import RunDirectory
from qkv.run import start, train
from qkv.run.start import check_config_paths, load_given_training, load_training_on_pairs
from qkv.run.trained_run import load_run
from qkv.run.training import prepare
from tests.support import files_below
from tests.support.text import DEMO, write_table
from tests.support.tiny_runs import small_settings

pytestmark = pytest.mark.slow

LANGUAGES = {"data.source_language": "en", "data.target_language": "fr"}
SIDES = [(DEMO / f"train.{suffix}").read_text(encoding="utf-8").splitlines()[:150] for suffix in ("en", "fr", "align")]
SIDES[1][7] = ""
FRAME = pd.DataFrame(dict(zip(("en", "fr", "alignments"), SIDES, strict=True)))
PAIRS = list(zip(*SIDES[:2], strict=True))
PAIRS_WITH_LINKS = list(zip(*SIDES, strict=True))
SETS = {"validation": {"pairs": 12}, "test": {"share": 0.05}}
ONE_UPDATE = {"training.max_updates": 1, "training.validate_every_updates": 1}


@pytest.fixture
def config(tmp_path):
    """A config file of a small run, on files that are not there."""
    settings = small_settings(tmp_path / "nowhere", tmp_path / "runs", ONE_UPDATE)
    settings["inspection"]["choose_head_on"] = None
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    return tmp_path / "mine.yaml"


def with_sets(settings):
    return {f"data.{name}": value for name, value in SETS.items()} | settings


def load(config, pairs, tmp_path, settings=None):
    folder = tmp_path / "spooled"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return load_training_on_pairs(config, settings or {}, pairs, folder)


def prepared(config, pairs, tmp_path, name, settings=None):
    """The run of a config and pairs, prepared and not trained."""
    values, resumed, spooled = load(config, pairs, tmp_path, {"run.name": name, **(settings or {})})
    assert resumed is None
    check_config_paths(values, spooled)
    run = RunDirectory.create(values.run.directory / name)
    prepare(values, run, spooled)
    return run


def trained(config, pairs, tmp_path, settings=None):
    values, resumed, spooled = load(config, pairs, tmp_path, settings)
    assert train(values, resumed, pairs=spooled) == 0
    return values.run.directory / values.run.name


def text_of(run):
    """The bytes of all that the text becomes."""
    folders = run.encoded, run.held_out, run.tokenizer.parent
    return [files_below(folder) for folder in folders]


def weights_of(root):
    return [np.array(weights) for weights in load_run(root).model.get_weights()]


class TestText:
    @pytest.mark.minutes
    def test_each_form_is_prepared_as_a_table_is(self, config, tmp_path):
        write_table(tmp_path / "pairs.tsv", PAIRS)
        table = with_sets({"data.train": {"table": str(tmp_path / "pairs.tsv")}, "run.name": "table"})
        values, _ = start.load_training(config, table, "settings", resumes=False)
        run = RunDirectory.create(tmp_path / "runs" / "table")
        prepare(values, run)
        expected = text_of(run)
        assert min(map(len, expected)) > 0 and "test.source" in expected[1]
        forms = [FRAME[["fr", "en"]], PAIRS, iter(PAIRS), np.array(PAIRS), (FRAME["en"], FRAME["fr"]), tuple(SIDES[:2])]
        for number, pairs in enumerate(forms):
            assert text_of(prepared(config, pairs, tmp_path, f"run{number}", with_sets({}))) == expected

    @pytest.mark.minutes
    def test_weights_are_those_of_a_table_also_with_links(self, config, tmp_path):
        guided = with_sets({"training.guided_attention": {"layer": 0, "head": 0}})
        root = trained(config, FRAME, tmp_path, guided | {"run.name": "memory"})
        for name, lines in zip(("en", "fr", "align"), SIDES, strict=True):
            (tmp_path / f"a.{name}").write_text("\n".join(lines) + "\n", encoding="utf-8")
        names = {"source": "a.en", "target": "a.fr", "alignments": "a.align"}
        files = {key: str(tmp_path / name) for key, name in names.items()}
        values, _ = start.load_training(
            config, guided | {"data.train": files, "run.name": "files"}, "settings", resumes=False
        )
        assert train(values) == 0
        runs = [RunDirectory(tmp_path / "runs" / name) for name in ("memory", "files")]
        assert text_of(runs[0]) == text_of(runs[1]) and (root / "held_out" / "test.alignments").is_file()
        for mine, theirs in zip(weights_of(runs[0].root), weights_of(runs[1].root), strict=True):
            np.testing.assert_array_equal(mine, theirs)
        other = trained(config, FRAME[["en", "fr"]], tmp_path, with_sets({"run.name": "without"}))
        assert any((a != b).any() for a, b in zip(weights_of(other), weights_of(root), strict=True))

    def test_report_and_manifest_tell_the_origin(self, config, tmp_path):
        run = prepared(config, PAIRS, tmp_path, "mine")
        report = read_json_object(run.corpus_report)
        origin = report["text_origin"]
        assert (origin["from"], origin["pairs"]) == ("pairs in memory", 150)
        assert report["sha256"]["pairs/source.txt"] == origin["sha256"]["source"]
        assert report["pairs"] == 120 and report["held_out"]["validation"]["pairs"] == 15


class TestRun:
    @pytest.mark.minutes
    def test_a_run_goes_on_without_the_pairs_and_with_the_same_also_where_it_was_moved(self, config, tmp_path, capsys):
        root = trained(config, FRAME, tmp_path)
        assert read_json_object(root / "manifest.json")["text_origin"]["pairs"] == 150
        assert trained(config, FRAME.copy(), tmp_path, {"training.max_updates": 2}) == root
        with pytest.raises(
            InputError, match=r"runs/mine: the run was started with other pairs: with 150, and these are"
        ):
            load(config, FRAME[:149], tmp_path)
        with pytest.raises(InputError, match="started with other pairs: with 150, and these are 150, or their text"):
            load(root, FRAME[::-1], tmp_path)
        moved = tmp_path / "elsewhere" / "other"
        moved.parent.mkdir()
        root.rename(moved)
        assert train_command.main(["--resume", str(moved), "--training.max_updates", "3"]) == 0
        values, resumed, spooled = load(moved, iter(PAIRS_WITH_LINKS), tmp_path, {"training.max_updates": 4})
        assert train(values, resumed, pairs=spooled) == 0
        assert str(moved / "pairs" / "source.txt") in (moved / "config.yaml").read_text(encoding="utf-8")
        loaded = load_run(moved)
        assert loaded.config.data.train.source == moved / "pairs" / "source.txt"
        options = ["--config", str(moved / "config.yaml"), "--run.name", "longer", "--run.directory", str(tmp_path)]
        assert train_command.main(options) == 0

    @pytest.mark.minutes
    def test_a_run_that_fails_before_its_first_checkpoint_leaves_nothing(self, config, tmp_path, monkeypatch):
        def fail(*arguments):
            raise KeyError

        monkeypatch.setattr("qkv.run.training.build_model_and_optimizer", fail)
        with pytest.raises(KeyError):
            trained(config, FRAME, tmp_path)
        assert not (tmp_path / "runs" / "mine").exists()

    def test_a_run_that_was_killed_before_its_pairs_were_copied_gets_them(self, config, tmp_path):
        run = prepared(config, FRAME, tmp_path, "mine")
        shutil.rmtree(run.pairs)
        values, resumed, spooled = load(config, FRAME, tmp_path)
        assert resumed == run.root
        prepare(values, run, spooled)
        assert run.pairs_origin.is_file()

    def test_the_run_of_files_is_no_run_of_pairs(self, config, tmp_path, unbroken):
        with pytest.raises(InputError, match=r"trained on files.*qkv.train\('.*config.yaml', .*pairs=...\)"):
            load(unbroken, FRAME, tmp_path)

    def test_several_machines_need_files(self, config, tmp_path, monkeypatch):
        monkeypatch.setattr(start, "read_cluster", lambda: [1, 2])
        with pytest.raises(InputError, match="pairs: a training on several machines reads files"):
            load(config, FRAME, tmp_path)


class TestSettings:
    @pytest.mark.parametrize(
        ("of_file", "settings", "validation", "test"),
        [
            ({}, {}, {"pairs": 15}, {"pairs": 15}),
            ({"data.validation": {"share": 0.1}}, {}, {"share": 0.1}, {"pairs": 15}),
            ({"data.validation": {"share": 0.1}}, {"data.validation.pairs": 9}, {"pairs": 9}, {"pairs": 15}),
            ({"data.validation": {"share": 0.1}}, {"data.validation": {"pairs": 9}}, {"pairs": 9}, {"pairs": 15}),
            ({"data.test": None}, {"data.test": None}, {"pairs": 15}, None),
            (
                {},
                {"data.test.source": str(DEMO / "test.en"), "data.test.target": str(DEMO / "test.fr")},
                {"pairs": 15},
                {"source": DEMO / "test.en", "target": DEMO / "test.fr"},
            ),
        ],
    )
    def test_sets_are_those_of_the_settings_or_held_out(self, config, tmp_path, of_file, settings, validation, test):
        values = yaml.safe_load(config.read_text(encoding="utf-8"))
        for key, value in of_file.items():
            values["data"][key.removeprefix("data.")] = value
        config.write_text(yaml.safe_dump(values), encoding="utf-8")
        data = load(config, FRAME, tmp_path, settings)[0].data
        for section, expected in ((data.validation, validation), (data.test, test)):
            assert (section and section.model_dump(exclude_defaults=True)) == expected

    def test_columns_of_the_file_or_of_the_settings_are_read(self, config, tmp_path):
        frame = FRAME.rename(columns={"en": "fr", "fr": "en"})
        values = yaml.safe_load(config.read_text(encoding="utf-8"))
        values["data"]["train"] = {"table": "a.tsv", "header": True, "source_column": "fr", "target_column": "en"}
        config.write_text(yaml.safe_dump(values), encoding="utf-8")
        spooled = load(config, frame, tmp_path)[2]
        assert spooled.spooled_files()["source"].read_text(encoding="utf-8").startswith(SIDES[0][0])
        spooled = load(config, frame, tmp_path, {"data.train.source_column": 1, "data.train.target_column": "fr"})[2]
        assert spooled.spooled_files()["source"].read_text(encoding="utf-8").startswith(SIDES[1][0])

    def test_links_may_count_from_one(self, config, tmp_path):
        settings = {"data.train.alignments_first_index": 1, "data.train.alignments_turned": True}
        train_settings = load(config, FRAME, tmp_path, settings)[0].data.train
        assert train_settings.alignments_first_index == 1 and train_settings.alignments_turned
        assert not load(config, PAIRS, tmp_path, settings)[0].data.train.alignments_turned

    @pytest.mark.parametrize(
        ("settings", "told"),
        [
            ({"data.train": {"table": "a.tsv"}}, "settings: data.train: .*found both"),
            ({"data.train.table": "a.tsv"}, "settings: data.train.table: .*found both"),
            ({"model.d_modle": 3}, r"did you mean model.d_model\? \(settings\)"),
            ({"data.validation.pairs": 100}, "would hold out 107 of 150 pairs"),
            ({"data.train.source_column": "english"}, "pairs: no column 'english'"),
            ({"run.name": "a/b"}, "run.name"),
        ],
    )
    def test_mistakes_are_named(self, config, tmp_path, settings, told):
        settings = {"data.test": {"pairs": 7}, **settings}
        with pytest.raises(InputError, match=told):
            prepare(*prepared_arguments(config, tmp_path, settings))

    def test_a_wrong_setting_uses_up_no_iterator(self, config, tmp_path):
        pairs = iter(PAIRS)
        with pytest.raises(InputError, match="d_modle"):
            load(config, pairs, tmp_path, {"model.d_modle": 3})
        assert len(list(pairs)) == len(PAIRS)

    def test_links_are_needed_if_they_guide(self, config, tmp_path):
        with pytest.raises(InputError, match=r"training.guided_attention needs data.train.alignments"):
            load(config, PAIRS, tmp_path, {"training.guided_attention": {"layer": 0, "head": 0}})


def prepared_arguments(config, tmp_path, settings):
    values, _, spooled = load(config, FRAME, tmp_path, settings)
    return values, RunDirectory.create(values.run.directory / values.run.name), spooled


class TestDictionary:
    def test_two_languages_are_enough(self, tmp_path):
        values, resumed, _ = load({**LANGUAGES, "run.directory": str(tmp_path)}, FRAME, tmp_path)
        assert resumed is None and values.run.name == "en_fr"
        assert values.data.validation.pairs == values.data.test.pairs == 15
        assert (values.training.schedule, values.training.max_minutes) == ("clock", 5)
        assert values.model.d_model <= 128 and values.tokenizer.vocabulary_size < 1000
        assert load({**LANGUAGES, "run.directory": str(tmp_path)}, FRAME, tmp_path)[0] == values

    @pytest.mark.minutes
    @pytest.mark.parametrize("pairs", [20, 150])
    def test_its_vocabulary_fits_the_text(self, tmp_path, pairs):
        config = {**LANGUAGES, "run.directory": str(tmp_path)}
        text = prepare(*prepared_arguments(config, tmp_path, {}) if pairs == 150 else prepared_few(config, tmp_path))[1]
        assert text.tokenizer.vocabulary_size > 60

    def test_what_the_user_has_chosen_stays(self, tmp_path):
        chosen = {
            "training.max_updates": 30,
            "model.d_model": 12,
            "data.validation.pairs": 5,
            "data.test": None,
            "tokenizer.vocabulary_size": 99,
        }
        values, _, _ = load({**LANGUAGES, **chosen}, FRAME, tmp_path)
        assert (values.training.max_updates, values.training.max_minutes) == (30, None)
        assert (values.training.schedule, values.training.warmup_updates) == ("inverse_sqrt", 3)
        assert (values.model.d_model, values.data.validation.pairs, values.data.test) == (12, 5, None)
        assert values.tokenizer.vocabulary_size == 99

    def test_another_architecture_has_its_own_sizes(self, tmp_path):
        values, _, _ = load({**LANGUAGES, "model.architecture": "recurrent"}, FRAME, tmp_path)
        assert values.model.hidden_dim == 256

    def test_a_language_that_is_missing_is_named(self, tmp_path):
        with pytest.raises(InputError, match=r"data\.target_language: "):
            load({"data.source_language": "en"}, FRAME, tmp_path)

    def test_without_pairs_it_is_a_whole_config(self, tmp_path):
        files = {"data.train": {"table": "a.tsv"}, "data.validation": {"share": 0.1}, "training.max_updates": 3}
        values, resumed = load_given_training({**LANGUAGES, **files})
        assert (values.run.name, values.data.train.table.name, resumed) == ("en_fr", "a.tsv", None)
        assert values.model == TransformerSettings()
        with pytest.raises(InputError, match="training: "):
            load_given_training({**LANGUAGES, "data.train": {"table": "a.tsv"}, "data.validation": {"share": 0.1}})


def prepared_few(config, tmp_path):
    values, _, spooled = load(config, PAIRS[:20], tmp_path)
    return values, RunDirectory.create(values.run.directory / values.run.name), spooled
