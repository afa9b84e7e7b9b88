"""Types of heads: known ones are named, and none where sentences, places or links are exchanged."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from qkv.config.choices.inspection import HEAD_TYPES
from qkv.inspection.experiments.score_parts import in_float64, split_score
from qkv.inspection.head_types import HEAD_TYPE_COLUMNS, HeadTypesMeter
from qkv.text.corpora.word_links import GoldAlignment
from tests.support.known_heads import KNOWN, known_sentences, known_transformer
from tests.support.records import EMPTY_SIDES, build_record


@pytest.fixture(scope="module")
def known():
    return known_sentences()


def find_types(records, gold=None):
    meter = HeadTypesMeter(None if gold is None else dict(enumerate(gold)))
    for record in records:
        meter.add(record)
    return meter.table()


def types_of(table):
    named = table[table["named"].astype(bool)]
    return {(row.site, row.layer, row.head): row.type for row in named.itertuples()}


def test_a_model_of_known_heads_is_named_after_what_they_do(known):
    table = find_types(*known)
    assert tuple(table.columns) == HEAD_TYPE_COLUMNS
    assert types_of(table) == KNOWN
    named = table[table["named"]]
    assert (named["share"] > 0.99).all() and (named["p"] < 0.01).all() and (named["chance"] < 0.4).all()


def test_the_scores_of_these_heads_come_from_where_they_were_put():
    double, pair = in_float64(known_transformer()), ([5, 9, 4, 16, 7, 3], [2, 16, 4, 7])
    for layer, head, part in (
        ("encoder.0.self", 0, "position"),
        ("decoder.0.cross", 0, "position"),
        ("decoder.0.cross", 1, "token"),
    ):
        shares = split_score(double, pair, layer, head, 2).shares()
        assert shares.loc[part, part] == pytest.approx(1)


def permuted(record, random):
    """The same sentence, with its keys in another order, the same for all rows and heads."""
    attention = {
        site: weights[..., random.permutation(weights.shape[-1])]
        for site, weights in record.attention.items()
        if site != "decoder"
    }
    rows = record.attention["decoder"].shape[2]
    order = random.permutation(rows)
    own = np.zeros_like(record.attention["decoder"])
    for row in range(rows):  # those at which the row may look, in the order of all
        own[..., row, : row + 1] = record.attention["decoder"][..., row, order[order <= row]]
    return replace(record, attention=attention | {"decoder": own})


@pytest.mark.parametrize("seed", range(3))
def test_with_permuted_sentences_no_head_is_named(known, seed):
    records, gold = known
    random = np.random.default_rng(seed)
    table = find_types([permuted(record, random) for record in records], gold)
    assert types_of(table) == {}
    assert len(table) == 2 * (6 + 4 + 3)


def test_with_the_links_of_other_sentences_only_the_heads_of_words_lose_their_names(known):
    records, gold = known
    assert types_of(find_types(records, gold[1:] + gold[:1])) == {
        place: name for place, name in KNOWN.items() if name != "input_aligner"
    }


def test_few_sentences_name_no_head(known):
    records, gold = known
    assert types_of(find_types(records[:2], gold[:2])) == {}


def one_head(record, weights):
    return replace(record, attention={"cross": weights[None, None].astype(np.float32)})


def sentences_of_one_order(number=60):
    """All words in the same order in both languages, so that places are words."""
    random = np.random.default_rng(0)
    records, gold = [], []
    for i in range(number):
        words = int(random.integers(4, 8))
        record = build_record(i, (*range(words + 1), None), (*range(words), None), layers=1, heads=1)
        links = frozenset((word, word) for word in range(words))
        records.append(one_head(record, np.eye(words + 1, words + 2)))
        gold.append(GoldAlignment(links, links))
    return records, gold


def test_a_head_that_looks_at_places_is_no_aligner_in_languages_of_one_order():
    table = find_types(*sentences_of_one_order())
    assert types_of(table) == {("cross", 0, 0): "same"}
    aligner = table[table["type"] == "aligner"].iloc[0]
    assert aligner["share"] == 1 and aligner["p"] > 0.5


def test_a_head_that_puts_less_than_half_of_its_weight_at_a_place_has_no_name():
    records, gold = sentences_of_one_order()
    for share, expected in ((0.45, {}), (0.55, {("cross", 0, 0): "same"})):
        mixed = []
        for record in records:
            here = record.attention["cross"][0, 0]
            others = (1 - share) * (1 - here) / (here.shape[1] - 1)
            mixed.append(one_head(record, share * here + others))
        assert types_of(find_types(mixed, gold)) == expected


@pytest.mark.parametrize(
    ("site", "name", "column"), [("cross", "eos", -1), ("encoder", "eos", -1), ("decoder", "bos", 0)]
)
def test_sinks_are_named(site, name, column):
    records = []
    for i in range(40):
        record = build_record(i, (*range(4 + i % 3), None), (*range(3 + i % 2), None), layers=1, heads=1)
        weights = np.zeros_like(record.attention[site])
        weights[..., column] = 1
        records.append(replace(record, attention={"cross": record.attention["cross"], site: weights}))
    assert types_of(find_types(records)) == {(site, 0, 0): name}
    without_eos = [replace(record, source_words=[*range(len(record.source_words))]) for record in records]
    assert types_of(find_types(without_eos)) == ({} if name == "eos" else {(site, 0, 0): name})


def test_without_gold_links_equal_tokens_tell_aligners_by_their_names_and_numbers():
    records = []
    for i in range(60):
        random = np.random.default_rng(i)
        record = build_record(i, (*range(6), None), (*range(5), None), layers=1, heads=1)
        source, target = list(record.source_tokens), list(record.target_output_tokens)
        at, row = random.integers(0, 5), random.integers(0, 4)
        source[at] = target[row] = f"▁{1900 + i}"
        source[5] = target[4] = "."  # punctuation says nothing
        weights = np.full((6, 7), 0.1)
        weights[row], weights[4] = np.eye(7)[at], np.eye(7)[0]
        tokens = {"source_tokens": source, "target_output_tokens": target, "target_input_tokens": ["<s>", *target[:-1]]}
        records.append(replace(one_head(record, weights), **tokens))
    table = find_types(records)
    assert types_of(table) == {("cross", 0, 0): "aligner"}
    assert table.loc[table["type"] == "aligner", "rows"].item() == 60


def test_gold_links_count_where_the_target_is_the_reference(known):
    records, gold = known
    translated = [replace(record, mode="greedy", reference="another") for record in records]
    assert "input_aligner" not in types_of(find_types(translated, gold)).values()
    equal = [replace(record, reference=record.hypothesis) for record in translated]
    assert types_of(find_types(equal, gold)) == KNOWN


def test_every_type_is_described_and_found_somewhere(known):
    assert set(find_types(*known)["type"]) == set(HEAD_TYPES)
    assert find_types([]).empty


def test_among_more_heads_it_takes_more_sentences_to_name_one():
    records, _ = sentences_of_one_order()
    enough = next(n for n in range(2, 60) if types_of(find_types(records[:n])))
    beside = []
    for record in records:
        uniform = np.full_like(record.attention["cross"], 1 / len(record.source_tokens))
        beside.append(
            replace(record, attention={"cross": np.concatenate([record.attention["cross"], *[uniform] * 60], 1)})
        )
    assert types_of(find_types(beside[:enough])) == {}
    assert types_of(find_types(beside[: 4 * enough])) == {("cross", 0, 0): "same"}


def test_sentences_with_an_empty_side_count_nothing(known):
    records, gold = (part[:20] for part in known)
    nothing = GoldAlignment(frozenset(), frozenset())
    sites = {site: weights.shape[:2] for site, weights in records[0].attention.items()}
    empty = [
        replace(
            build_record(0, source, target),
            attention={site: build_record(0, source, target, *shape).attention[site] for site, shape in sites.items()},
        )
        for source, target in EMPTY_SIDES
    ]
    mixed = [replace(record, id=id_) for id_, record in enumerate([empty[0], *records[:9], *empty[1:], *records[9:]])]
    found = find_types(mixed, [nothing, *gold[:9], nothing, nothing, *gold[9:]])
    pd.testing.assert_frame_equal(found, find_types(records, gold))
