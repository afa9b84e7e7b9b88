"""`qkv link`: the links of a training text in the file that its config names; those of two files on standard output."""

import pytest
import yaml

from qkv.commands.link import main
from qkv.commands.train import main as train
from qkv.text.corpora.word_links import read_pharaoh
from tests.support.tiny_runs import small_settings, write_small_corpus

PAIRS = [("the cat", "le chat"), ("the dog", "le chien"), ("a cat", "un chat"), ("a dog", "un chien")] * 5
# A no-break space and an ideographic one stand inside of words, two spaces are one gap, a line may be empty.
ODD = [("the\u00a0cat black", "le\u00a0chat noir"), ("", "chat"), ("the\u3000cat  sleeps .", "chat dort .")]


def write_pairs(folder, pairs, suffix=""):
    for side, lines in zip(("source", "target"), zip(*pairs, strict=True), strict=True):
        (folder / f"odd{suffix}.{side}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return {side: str(folder / f"odd{suffix}.{side}") for side in ("source", "target")}


@pytest.fixture
def config(tmp_path):
    settings = small_settings(write_small_corpus(tmp_path), tmp_path)
    settings["data"]["train"] |= {**write_pairs(tmp_path, PAIRS), "alignments": str(tmp_path / "made")}
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump(settings))
    return path


def change(config, **data):
    settings = yaml.safe_load(config.read_text())
    settings["data"] |= data
    config.write_text(yaml.safe_dump(settings))


def made(config, name="made", **options):
    return [sorted(line.sure) for line in read_pharaoh(config.parent / name, **options)]


def test_the_links_of_a_training_text_are_written_where_its_config_says(config, capsys, caplog):
    caplog.set_level("INFO")
    assert main([str(config)]) == 0
    assert made(config) == [[(0, 0), (1, 1)]] * len(PAIRS)
    assert not capsys.readouterr().out
    assert "update 9 of 9" in caplog.text and "made: written, the links of 20 pairs" in caplog.text


def test_options_replace_settings_of_the_config(config):
    other = config.parent / "other"
    assert main([str(config), "--data.train.alignments", str(other)]) == 0
    assert made(config, "other") == [[(0, 0), (1, 1)]] * len(PAIRS) and not (config.parent / "made").exists()


def test_two_files_are_linked_on_standard_output(config, capsys):
    folder = config.parent
    assert main(["--source", str(folder / "odd.source"), "--target", str(folder / "odd.target")]) == 0
    assert capsys.readouterr().out == "0-0 1-1\n" * len(PAIRS)


def test_links_count_the_words_between_spaces(config):
    write_pairs(config.parent, [*PAIRS, *ODD])
    assert main([str(config)]) == 0
    assert made(config)[-2] == []
    for (source, target), links in zip(ODD, made(config)[-3:], strict=True):
        sizes = [len([word for word in line.split(" ") if word]) for line in (source, target)]
        assert all(i < sizes[0] and j < sizes[1] for i, j in links)
    assert (2, 2) in made(config)[-1]


def test_links_count_characters_where_the_config_says_so(config):
    pairs = [("cat eats", "猫\u3000吃"), ("dog eats", "狗吃"), ("cat", "猫"), ("dog", "狗")] * 5
    write_pairs(config.parent, pairs)
    change(config, words={"target": "characters"})
    assert main([str(config)]) == 0
    assert made(config)[:4] == [[(0, 0), (1, 1)], [(0, 0), (1, 1)], [(0, 0)], [(0, 0)]]


def test_links_are_turned_and_counted_as_the_config_reads_them(config):
    pairs = [("the cat sleeps", "chat dort"), ("the dog sleeps", "chien dort"), ("the dog", "chien"), ("cat", "chat")]
    files = write_pairs(config.parent, pairs * 5)
    assert main([str(config)]) == 0
    plain = made(config)
    assert plain[0] == [(1, 0), (2, 1)]
    for turned, first_index in ((True, 0), (False, 1), (True, 1)):
        options = {"alignments_turned": turned, "alignments_first_index": first_index}
        change(config, train={**files, "alignments": str(config.parent / "made"), **options})
        assert main([str(config)]) == 0
        assert made(config, turned=turned, first_index=first_index) == plain
    assert (config.parent / "made").read_text().startswith("1-2 2-3\n")


def test_the_corpora_of_a_list_are_linked_together(config):
    corpora = []
    for number, pairs in enumerate((PAIRS, ODD[:1], [])):
        if pairs:
            files = write_pairs(config.parent, pairs, suffix=f".{number}")
            corpora.append({**files, "alignments": str(config.parent / f"made.{number}")})
    change(config, train=corpora)
    assert main([str(config)]) == 0
    assert [len(made(config, f"made.{number}")) for number in range(2)] == [len(PAIRS), 1]
    write_pairs(config.parent, [*PAIRS, *ODD[:1]])
    change(config, train={**write_pairs(config.parent, [*PAIRS, *ODD[:1]]), "alignments": str(config.parent / "both")})
    assert main([str(config)]) == 0
    assert made(config, "both") == made(config, "made.0") + made(config, "made.1")


@pytest.mark.parametrize("changes", [{"words": {"target": "subwords"}}, {"tokenized": False}])
def test_text_whose_subwords_count_as_words_is_refused(config, capsys, changes):
    write_pairs(config.parent, [("the cat", "我喜欢苹果"), ("a dog", "猫吃苹果")])
    change(config, **changes)
    assert main([str(config)]) == 2
    assert "set data.words to characters" in capsys.readouterr().err
    assert not (config.parent / "made").exists()


@pytest.mark.parametrize(
    ("alignments", "message"),
    [
        (None, "expected data.train.alignments, the name of the file of links to write, found none"),
        ("made*", "found the pattern"),
        ("odd.source", "the command reads this file; choose another name"),
        ("run.yaml", "the command reads this file; choose another name"),
        ("", "this is a directory; expected the name of a file"),
    ],
)
def test_a_file_of_links_that_cannot_be_written_is_named(config, capsys, alignments, message):
    name = None if alignments is None else str(config.parent / alignments)
    kept = (config.parent / "odd.source").read_text()
    files = {side: str(config.parent / f"odd.{side}") for side in ("source", "target")}
    change(config, train={**files, "alignments": name})
    assert main([str(config)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and message in said
    assert (config.parent / "odd.source").read_text() == kept


@pytest.mark.parametrize(
    "arguments", [[], ["CONFIG", "--source", "SOURCE", "--target", "SOURCE"], ["--source", "SOURCE"]]
)
def test_neither_both_nor_half_a_text_is_linked(config, capsys, arguments):
    paths = {"CONFIG": str(config), "SOURCE": str(config.parent / "odd.source")}
    assert main([paths.get(argument, argument) for argument in arguments]) == 2
    assert "expected a text to link: either CONFIG" in capsys.readouterr().err


def test_options_that_are_no_settings_are_refused(config, capsys):
    for options, message in {
        ("--data.trian", "x"): "--data.trian: no such option",
        ("--resume", "x"): "--resume",
    }.items():
        assert main([str(config), *options]) == 2
        assert message in capsys.readouterr().err


def test_text_without_words_is_refused(config, capsys):
    write_pairs(config.parent, [("", "le"), ("the", "")])
    assert main([str(config)]) == 2
    assert "no pair has words in both languages" in capsys.readouterr().err


def test_a_training_that_needs_links_names_this_command(config, capsys):
    assert train(["--config", str(config)]) == 2
    assert "made: there is no such file of links (data.train.alignments); `qkv link CONFIG`" in capsys.readouterr().err
    files = {side: str(config.parent / f"odd.{side}") for side in ("source", "target")}
    change(config, train=files)
    assert train(["--config", str(config), "--training.guided_attention.layer", "0"]) == 2
    assert "name a new file there, and `qkv link CONFIG` writes it" in capsys.readouterr().err
