"""Heads that look from a pronoun at its noun: a head that is planted by hand is found, and missed when it is gone."""

import numpy as np
import pytest

from qkv.errors import InputError
from qkv.inspection.experiments.pronouns import (
    PronounCase,
    control_sets,
    find_pointing_heads,
    measure_without,
    read_cases,
)
from qkv.model.recurrent import Recurrent
from tests.support.tiny_models import RECURRENT, make_transformer, shared_model, shared_transformer

IT, NOUNS, EOS = 5, (6, 7), 3
CASES = [
    PronounCase([8, noun, *[9] * gap, IT, EOS], [2, 10], gap + 2, range(1, 2), right, wrong)
    for gap in (1, 2, 4)
    for noun, right, wrong in ((6, 11, 12), (7, 12, 11))
]


@pytest.fixture
def planted():
    """A model whose encoder has in head 1 a query of "it" that fits the keys of both nouns alone, and passes on which
    noun it was; the decoder reads the state of "it", and predicts 11 or 12 by the noun."""
    model = make_transformer(encoder_layers=1, decoder_layers=1, positions_on="queries_and_keys", norm="post")
    for variable in model.trainable_variables:
        gain = variable.path.endswith("gamma")
        variable.assign(np.ones(variable.shape) if gain else np.zeros(variable.shape))
    table = np.zeros((17, 8))
    table[IT, 0] = 1
    table[6, [1, 2]] = table[7, [1, 3]] = 1
    table[11, 4] = table[12, 5] = 1
    model.target_embedding.table.assign(table)
    layer = model.encoder_blocks[0].self_attention
    kernel = np.zeros((8, 24))  # queries, keys and values of two heads, four numbers each
    kernel[0, 4] = 40  # the query of "it" in head 1
    kernel[1, 12] = 40  # the keys of nouns
    kernel[2, 20] = kernel[3, 21] = 1  # the values say which one
    layer.qkv_projection.kernel.assign(kernel)
    output = np.zeros((8, 8))
    output[4, 4] = output[5, 5] = 9  # what is passed on
    layer.output_projection.kernel.assign(output)
    cross = model.decoder_blocks[0].cross_attention
    cross.value_projection.kernel.assign(np.eye(8))
    cross.output_projection.kernel.assign(np.eye(8))
    return model


def test_a_planted_head_is_found_and_missed_when_it_is_gone(planted):
    table = find_pointing_heads(planted, CASES)
    assert table.loc[0, ["layer", "head", "points", "sentences"]].tolist() == [0, 1, 6, 6]
    assert table.loc[0, "weight"] > 0.99
    assert table.loc[1, "points"] == 0, "the other head attends evenly, its first largest weight on another word"
    whole, without, other = (measure_without(planted, CASES, heads) for heads in ([], [(0, 1)], [(0, 0)]))
    assert whole > 0.6
    assert without == pytest.approx(0.5, abs=1e-6)
    assert other == pytest.approx(whole, abs=1e-6)


def test_a_model_whose_encoder_has_no_such_heads_is_refused():
    for model in (shared_model(Recurrent, **RECURRENT), shared_transformer(encoder_self={"mechanism": "linformer"})):
        with pytest.raises(InputError, match="expected a Transformer"):
            find_pointing_heads(model, CASES)


def test_other_heads_are_taken_from_the_same_layers():
    assert control_sets([(0, 1), (1, 2)], layers=2, heads_per_layer=3) == [
        ((0, 0), (1, 0)),
        ((0, 0), (1, 1)),
        ((0, 2), (1, 0)),
        ((0, 2), (1, 1)),
    ]
    assert control_sets([(0, 0), (0, 1)], layers=1, heads_per_layer=2) == []


HEADER = "source\ttarget\tpronoun\tnoun\tright\twrong\n"


def test_a_table_of_sentences_gives_the_positions_of_its_words(tmp_path, tokenizer):
    path = tmp_path / "pronouns.tsv"
    path.write_text(HEADER + "the cat sees a dog\tle chat voit un chien\tdog\tcat\tvoit\tun\n", encoding="utf-8")
    (case,) = read_cases(path, tokenizer)
    pieces = tokenizer.pieces
    assert pieces(case.source_ids)[-1] == "</s>"
    assert "".join(pieces([case.source_ids[i] for i in case.noun])) == "▁cat"
    assert "▁dog".endswith(pieces([case.source_ids[case.pronoun]])[0].lstrip("▁"))
    assert "".join(pieces(case.target_ids)) == "<s>▁le▁chat"
    assert pieces([case.right])[0] in "▁voit"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a table with the columns source"),
        ("source\ttarget\n", "expected a table with the columns source"),
        (HEADER, "found none"),
        (HEADER + "the cat\tle chat\tcat\tdog\tle\tchat\n", ":2: expected the word 'dog' once .* 0 times"),
        (HEADER + "the cat the cat\tle chat\tcat\tthe\tle\tchat\n", "'cat' once in its sentence, found it 2 times"),
        (HEADER + "the cat\tle chat\tcat\tthe\tle\tle\n", "begin differently"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(tmp_path, tokenizer, text, message):
    path = tmp_path / "pronouns.tsv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read_cases(path, tokenizer)
