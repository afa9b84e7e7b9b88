"""A trained run explained in numbers from the command line."""

import math
import re

import numpy as np
import pytest

from qkv.commands import explain
from qkv.inspection.experiments import changed_mechanism

SENTENCE = "the cat sees the dog ."


@pytest.fixture
def ask(unbroken, capsys):
    """Calls the command, and returns what it prints."""

    def call(*arguments):
        assert explain.main([str(unbroken), *arguments]) == 0
        return capsys.readouterr().out

    return call


def test_the_printed_lines_compute_the_printed_probability(ask, tmp_path):
    file = tmp_path / "steps.npz"
    printed = ask("--sentence", SENTENCE, "--target", "le chat voit", "--token", "1", "--arrays", str(file))
    lines = printed[printed.index("import math") : printed.index("\nlogit of")]
    names = {}
    exec(lines, names)
    (probability,) = re.findall(r"probability of the token: ([0-9.]+)", printed)
    assert names["probability"] == pytest.approx(float(probability), abs=1e-4)
    assert 0 < names["probability"] < 1 and math.isclose(names["weights"].sum(), 1, rel_tol=1e-6)
    with np.load(file, allow_pickle=False) as arrays:
        assert {"memory", "W_q", "W_k", "W_v", "W_o"} <= set(arrays)


def test_the_parts_of_the_logit_are_printed_with_their_sum(ask):
    printed = ask("--sentence", SENTENCE, "--target", "le chat voit", "--token", "1")
    (total,) = re.findall(r"less the mean of all tokens: (-?[0-9.]+)", printed)
    parts, tokens = printed[printed.index("the sum of") :].split("of the cross-attention, by source token")
    values = {name: float(value) for value, name in re.findall(r"^ +(-?[0-9.]+)  (\S+)$", parts, re.MULTILINE)}
    assert sum(values.values()) == pytest.approx(float(total), abs=0.03)
    of_tokens = [float(value) for value in re.findall(r"^ +(-?[0-9.]+)  ", tokens, re.MULTILINE)]
    crosses = [value for name, value in values.items() if name.endswith("cross")]
    assert sum(of_tokens) == pytest.approx(sum(crosses), abs=0.05)


@pytest.mark.parametrize(("given", "site"), [("encoder", "encoder"), ("decoder_self", "decoder")])
def test_self_attention_is_followed_by_either_of_its_names(ask, given, site):
    printed = ask("--sentence", SENTENCE, "--target", "le chat voit", "--site", given, "--layer", "0", "--token", "2")
    assert f"{site}.0.self, head 0, row 2" in printed
    assert ("end =" in printed) == (site == "encoder"), "cross-attention comes before the decoder's network"


def test_changes_of_the_mechanism_are_counted_on_the_test_set_above_their_controls(ask, monkeypatch):
    monkeypatch.setattr(changed_mechanism, "DRAWS", 1)
    line = r"^ +(\S.*?) +([0-9.]+)% +([0-9.]+) to +([0-9.]+)(?: +([+-][0-9.]+)% +([+-][0-9.]+) to +([+-][0-9.]+))?"
    printed = ask("--change")
    rows = re.findall(line, printed, re.MULTILINE)
    names = [row[0] for row in rows]
    assert names[:3] == ["as it is", "one-hot", "weights permuted"] and names[-1] == "nothing read"
    change = None
    for _, right, low, high, *difference in rows:
        assert 0 <= float(low) <= float(right) <= float(high) <= 100
        if difference[0]:
            assert float(difference[0]) == pytest.approx(change - float(right), abs=0.11)
            assert float(difference[1]) <= float(difference[0]) <= float(difference[2])
        else:
            change = float(right)
    assert "not a verdict" in printed


def test_heads_are_searched_for_pronouns(ask, tmp_path):
    table = tmp_path / "pronouns.tsv"
    row = "the cat sees a dog\tle chat voit un chien\tdog\tcat\tvoit\tun\n"
    table.write_text("source\ttarget\tpronoun\tnoun\tright\twrong\n" + row, encoding="utf-8")
    printed = ask("--pronouns", str(table))
    assert re.search(r"^  layer 0, head [01]: +[01]   mean weight 0\.", printed, re.MULTILINE)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--token", "chat"], "--token needs --sentence"),
        (["--sentence", SENTENCE, "--target", "le chat", "--token", "chein"], "expected a word or token of"),
        (["--sentence", SENTENCE, "--target", "le chat", "--token", "9" * 5000], "or a position from 0 to"),
        (["--sentence", SENTENCE, "--target", "le chat", "--token", "٩"], "or a position from 0 to"),
        (
            ["--sentence", SENTENCE, "--target", "le chat , le", "--token", "le"],
            "'le' fits 2 tokens; give the position",
        ),
        (["--sentence", ""], "--sentence: expected a sentence, found ''"),
        (["--sentence", "\u3164"], "--sentence: expected a sentence, found "),
        (["--sentence", SENTENCE, "--head", "9"], "head: expected a number from 0 to"),
        (["--sentence", SENTENCE, "--layer", "9"], "decoder.9.cross: expected one of"),
        (["--sentence", SENTENCE, "--arrays", "x.csv"], "expected a name that ends in .npz"),
    ],
)
def test_what_cannot_be_explained_ends_with_one_message(unbroken, capsys, monkeypatch, tmp_path, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert explain.main([str(unbroken), *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and error.count("\n") == 1 and message in error and len(error) < 500
