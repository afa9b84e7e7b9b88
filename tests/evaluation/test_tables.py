"""Tables are read back with the rows and fields that were written, whatever characters they hold."""

import pandas as pd
import pytest

from qkv.decoding.translator import Translation
from qkv.evaluation.tables import read_translations, write_csv, write_translations

ODD = [*'\r"# \u2028\x85\x00\x1a\ufeff\u00a0', "", "NA", "a\rb", "a\nb", "a\tb", 'a"b', "a,b"]


@pytest.mark.parametrize("text", ODD)
def test_a_field_of_odd_characters_shifts_no_row(tmp_path, text):
    table = pd.DataFrame({"id": [0, 1, 2], "head": ["mean", 0, 1], "word": ["x", text, "z"], "value": [1.5, 2.5, None]})
    write_csv(table, tmp_path / "table.csv")
    found = pd.read_csv(tmp_path / "table.csv", keep_default_na=False)
    assert found["word"].tolist() == ["x", text.replace("\r", " "), "z"]
    assert found["id"].tolist() == [0, 1, 2] and found["value"].tolist()[:2] == ["1.5", "2.5"]


@pytest.mark.parametrize("text", ODD)
def test_a_translation_of_odd_characters_shifts_no_row(tmp_path, text):
    texts = ["x", text, "z"]
    found = [Translation(one, [4], [5, 3], [-0.5, -0.25], truncated=False) for one in texts]
    write_translations(tmp_path / "translations.tsv", texts, texts, found, bleu_tokenizer="none")
    found = read_translations(tmp_path / "translations.tsv")
    expected = text.translate(dict.fromkeys(map(ord, "\t\r\n"), " "))
    assert found["source"].tolist() == found["translation"].tolist() == ["x", expected, "z"]
    lines = (tmp_path / "translations.tsv").read_bytes().decode().split("\n")
    assert len(lines) == 5 and all(line.count("\t") == 9 for line in lines[:-1])


def test_a_table_without_references_has_no_scores(tmp_path):
    found = [Translation("y", [4], [5, 3], [-0.5, -0.25], truncated=False)]
    write_translations(tmp_path / "translations.tsv", ["x"], None, found, bleu_tokenizer="none")
    table = read_translations(tmp_path / "translations.tsv")
    assert table["translation"].tolist() == ["y"] and not {"reference", "sentence_bleu"} & {*table}
