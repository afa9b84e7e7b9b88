"""Small pictures of attention between words."""

import io
from dataclasses import replace

import matplotlib.image
import numpy as np

from qkv.inspection.attention_card import CARD_WIDTH, SMALLEST_CELL, AttentionCard, best_head
from qkv.inspection.colours import INK


def colours_of(card, weights, caption=("layer 0", "head 1")):
    return matplotlib.image.imread(io.BytesIO(card.png(weights, caption)))[..., :3]


def test_cells_have_the_colour_of_their_weight_and_the_labels_stay(make_record):
    card = AttentionCard(make_record(0))
    shape = card.weights(make_record(0)).shape[2:]
    assert shape[0] != shape[1]
    weights = np.zeros(shape)
    weights[1, 2] = 1
    empty, picture = colours_of(card, np.zeros(shape)), colours_of(card, weights)
    assert picture.shape == (card.height, card.width, 3)
    row, column = np.argwhere((empty != picture).any(-1)).T
    assert set((row - card.above) // card.cell) == {1} and set((column - card.left) // card.cell) == {2}
    ink = [int(INK["light"][place : place + 2], 16) / 255 for place in (1, 3, 5)]
    np.testing.assert_allclose(picture[row[0], column[0]], ink, atol=0.01)


def test_a_word_sums_over_its_source_pieces_and_averages_over_its_target_pieces(make_record):
    record = make_record(0, source_words=(0, 0, 1, None), target_words=(0, 1, 1, 1, None))
    found = AttentionCard(record).weights(record)
    weights = record.attention["cross"]
    columns = np.stack([weights[..., :2].sum(-1), weights[..., 2], weights[..., 3]], -1)
    rows = np.stack([columns[:, :, 0], columns[:, :, 1:4].mean(2), columns[:, :, 4]], 2)
    np.testing.assert_allclose(found, rows, rtol=1e-6)
    np.testing.assert_allclose(found.sum(-1), 1, rtol=1e-5)


def test_the_caption_and_long_labels_stay_inside_and_cells_are_not_too_small(make_record):
    record = make_record(0, (*range(59), None), (*range(39), None))
    record = replace(record, source_tokens=["mmmmmmmmmmmmmmmmmmmmmm"] * 60)
    card = AttentionCard(record)
    assert card.cell == SMALLEST_CELL and card.width > CARD_WIDTH
    paper = colours_of(card, np.zeros((40, 60)))
    for edge in (paper[0], paper[-1], paper[:, 0], paper[:, -1]):
        assert (edge == 1).all()


def test_the_best_head_sees_other_words_with_other_words_whatever_looks_at_the_end():
    weights = np.full((2, 3, 4, 5), 0.2)
    weights[0, 1] = np.eye(5)[[4] * 4]  # all on the end
    weights[1, 0] = np.eye(5)[[0] * 4]  # all on one word
    weights[0, 2] = np.eye(5)[[1, 0, 4, 3]]  # the best if ends counted
    weights[1, 2, :3] = np.eye(5)[[1, 0, 2]]
    assert best_head([weights]) == (1, 2)


def test_a_character_that_no_font_has_is_a_box_without_a_warning_for_each(make_record):
    record = make_record(0)
    tokens = ("\U00013080", *record.source_tokens[1:])  # an Egyptian hieroglyph
    assert AttentionCard(replace(record, source_tokens=tokens)).height > 0
