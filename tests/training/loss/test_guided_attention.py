"""Guided attention: its loss against a loop, and a training that guides one head alone."""

from itertools import product

import keras
import numpy as np
import pytest
import tensorflow as tf

from qkv.errors import InputError
from qkv.files.run_directory import RunDirectory
from qkv.text.batch import Batch
from qkv.text.corpora.word_links import read_pharaoh
from qkv.text.prepare import prepare_text
from qkv.text.tokens.special_tokens import EOS, PAD, UNK
from qkv.training.build import build_batches
from qkv.training.loss import GuidedAttention, TotalLoss
from qkv.training.step import BATCH_SIGNATURE, TrainStep
from tests.support.tiny_models import SOURCE, TARGET, make_transformer
from tests.support.tiny_runs import small_config, write_small_corpus

SIDES = ("en", "fr")
LINKS = np.array(
    [[[1, 0, 0, 0, 0], [0, 1, 1, 0, 0], [0, 0, 0, 0, 0]], [[0, 0, 0, 1, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 0]]], bool
)
IDS = np.array([[7, 8, 9, 10, EOS], [7, 8, 9, EOS, PAD]], "int32")
OUTPUTS = np.array([[5, 6, EOS], [5, 6, EOS]], "int32")


def guided_loss(weights, links, side, unlinked="nothing", outputs=OUTPUTS):
    """The loss of a head with these weights, and no other."""
    return GuidedAttention(0, 0, side, 1.0, unlinked).loss((weights[:, None],), links, IDS, outputs)


def random_weights():
    weights = np.random.default_rng(0).random((2, 3, 5)).astype("float32")
    return weights / weights.sum(-1, keepdims=True)


@pytest.mark.parametrize(("side", "shift"), [("output", 0), ("input", 1)])
def test_the_loss_is_the_cross_entropy_with_a_uniform_distribution_over_linked_tokens(side, shift):
    weights, expected = random_weights(), 0.0
    for b in range(2):
        for t in range(3):
            linked = np.flatnonzero(LINKS[b, t - shift]) if t >= shift else []
            if len(linked):
                expected -= np.mean(np.log(weights[b, t, linked]))
    assert float(guided_loss(weights, LINKS, side)) == pytest.approx(expected, rel=1e-5)


def test_gradients_are_finite_without_links_and_with_weights_of_zero():
    weights = tf.constant(np.zeros((2, 3, 5), np.float32))
    for links in (LINKS, np.zeros_like(LINKS)):
        with tf.GradientTape() as tape:
            tape.watch(weights)
            loss = guided_loss(weights, links, "output")
        assert np.isfinite(loss) and np.isfinite(tape.gradient(loss, weights)).all()


def test_guided_attention_reads_its_own_layer_and_head():
    weights = random_weights()
    other = np.full_like(weights, 0.2)
    cross = (np.stack([other, other], 1), np.stack([other, weights], 1))
    found = GuidedAttention(layer=1, head=1, side="output", weight=0.5, unlinked="nothing").loss(
        cross, LINKS, IDS, OUTPUTS
    )
    assert float(found) == pytest.approx(0.5 * float(guided_loss(weights, LINKS, "output")))


def test_tokens_without_links_are_guided_to_the_end_of_the_source_and_padding_is_not():
    weights, expected = random_weights(), LINKS.copy()
    expected[1, 1, 3] = True
    padded = np.where(OUTPUTS == EOS, PAD, OUTPUTS)
    for outputs in (padded, OUTPUTS):
        expected[0, 2, 4] = outputs is OUTPUTS
        for side in ("output", "input"):
            found = float(guided_loss(weights, LINKS, side, "eos", outputs))
            assert found == pytest.approx(float(guided_loss(weights, expected, side, outputs=outputs)))
            if outputs is OUTPUTS or side == "output":  # otherwise the row after the token is padding
                assert found != pytest.approx(float(guided_loss(weights, LINKS, side, outputs=outputs)))


@pytest.mark.parametrize("unlinked", ["nothing", "eos"])
@pytest.mark.parametrize("side", ["output", "input"])
def test_padding_after_a_target_changes_nothing(side, unlinked):
    def padded(array):
        return np.concatenate([array, np.zeros_like(array[:, :2])], 1)

    weights, linked_ends = random_weights(), LINKS.copy()
    linked_ends[:, 2] = IDS == EOS
    padded_weights = np.concatenate([weights, weights[:, 1:]], 1)
    found = guided_loss(padded_weights, padded(linked_ends), side, unlinked, padded(OUTPUTS))
    assert float(found) == pytest.approx(float(guided_loss(weights, linked_ends, side, unlinked)))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_small_corpus(tmp_path_factory.mktemp("guided"))


@pytest.mark.minutes
def test_the_guided_head_learns_where_to_look_and_the_others_do_not():
    model, side = make_transformer(decoder_layers=2), "input"
    output = np.concatenate([TARGET[:, 1:], np.full((3, 1), EOS)], 1) * (TARGET != 0)
    generator = np.random.default_rng(0)
    links = np.zeros((3, 5, 7), bool)
    for b, t in np.argwhere(output > EOS):
        links[b, t, generator.integers((SOURCE[b] != 0).sum())] = True
    signature = BATCH_SIGNATURE._replace(links=tf.TensorSpec([None, None, None], tf.bool))
    optimizer = keras.optimizers.Adam(0.01)
    loss = TotalLoss(model, guided_attention=GuidedAttention(1, 0, side, weight=2.0, unlinked="nothing"))
    step = TrainStep(loss, optimizer, tf.distribute.get_strategy(), signature)
    batch = Batch(SOURCE, TARGET, output.astype("int32"), links)

    def losses():
        cross = model.decode(TARGET, model.encode(SOURCE)).cross
        return np.array(
            [[float(guided_loss(layer[:, head], links, side, outputs=output)) for head in range(2)] for layer in cross]
        )

    before = losses()
    for _ in range(150):
        logs = step(batch)
    after = losses()
    assert after[1, 0] < 0.1 * before[1, 0]
    assert np.delete(after.ravel(), 2).min() > 0.5 * before.min()
    assert logs.loss / logs.tokens < 1  # it translates, too


def test_every_sentence_of_a_batch_has_its_own_links(corpus, tmp_path):
    longer = {"data.max_source_tokens": 90, "data.max_target_tokens": 90, "model.max_positions": 91}
    changes = {"data.joined_pairs": 1.0, "training.guided_attention.weight": 0.1, **longer}
    config = small_config(corpus, tmp_path, "run", changes)
    text = prepare_text(config, RunDirectory.create(tmp_path / "run"))
    pairs = text.segmentations[0]
    assert len(pairs.links) > 120 and len(pairs.links.ids) > 1000
    expected = {}
    for source, target, flat in zip(*pairs, strict=True):
        expected[tuple(source), tuple(target)] = {(j, i) for i, j in flat.reshape(-1, 2).tolist()}
    seen = 0
    for batch in build_batches(config, text, tf.distribute.get_strategy(), config.batches.batch_tokens).epoch(0):
        for source, target, links in zip(batch.source, batch.target_output, batch.links, strict=True):
            ids = [tuple(row[: row.tolist().index(EOS)]) for row in (source.numpy(), target.numpy())]
            assert set(map(tuple, np.argwhere(links).tolist())) == expected[tuple(ids)]
            seen += 1
    assert seen == len(pairs.links)


def test_links_outside_their_sentences_are_reported_once(corpus, tmp_path, caplog):
    lines = (corpus / "train.align").read_text().splitlines()
    lines[0] += " 99-0 0-99"
    wrong = tmp_path / "wrong.align"
    wrong.write_text("\n".join(lines) + "\n")
    changes = {
        "data.train.alignments": str(wrong),
        "training.guided_attention.weight": 0.1,
        "tokenizer.bpe_dropout": 0.1,
    }
    prepare_text(small_config(corpus, tmp_path, "run", changes), RunDirectory.create(tmp_path / "run"))
    counts = (len((corpus / f"train.{side}").read_text(encoding="utf-8").split("\n")[0].split(" ")) for side in SIDES)
    told = [record.getMessage() for record in caplog.records if "outside" in record.getMessage()]
    assert told == [
        f"2 word links on 1 lines point outside their sentences and are left out, the first ones at {wrong}:1, of "
        f"{' and '.join(map(str, counts))} words, counted from 0"
    ]


@pytest.mark.parametrize("sampling", [{}, {"tokenizer.bpe_dropout": 0.5}])
def test_text_that_was_cut_into_subwords_before_is_guided_by_its_own_words(corpus, tmp_path, sampling):
    """A mark of the start of a word in the text is no start of a word: the links are those of `words_of`."""
    marked = {}
    for side in SIDES:
        lines = (corpus / f"train.{side}").read_text(encoding="utf-8").split("\n")[:-1]
        words = ([f"▁{word}" if place % 3 else word for place, word in enumerate(line.split(" "))] for line in lines)
        marked[side] = [" ".join(row) for row in words]
        (tmp_path / side).write_text("".join(f"{line}\n" for line in marked[side]), encoding="utf-8")
    changes = {"data.train.source": str(tmp_path / "en"), "data.train.target": str(tmp_path / "fr")}
    changes |= {"data.max_source_tokens": 200, "data.max_target_tokens": 200, "model.max_positions": 201}
    changes |= {"training.guided_attention.weight": 0.1, "tokenizer.character_coverage": 1.0}
    text = prepare_text(
        small_config(corpus, tmp_path, "run", changes | sampling), RunDirectory.create(tmp_path / "run")
    )
    gold = read_pharaoh(corpus / "train.align")
    for pairs in text.segmentations:
        assert len(pairs.source) == len(gold)
        for source, target, flat, one, *sentences in zip(*pairs, gold, *marked.values(), strict=True):
            words = map(words_by_characters, [text.tokenizer] * 2, (source, target), sentences)
            places = [*map(enumerate, words)]
            expected = {(s, t) for (s, i), (t, j) in product(*places) if (i, j) in one.possible}
            assert set(map(tuple, flat.reshape(-1, 2).tolist())) == expected


def words_by_characters(tokenizer, ids, text):
    """The word of each token's last character, counting characters; a mark before a word belongs to it."""
    assert UNK not in ids
    of_characters = [number for number, word in enumerate(text.split(" ")) for _ in f"▁{word}"]
    return [of_characters[end - 1] for end in np.cumsum([len(piece) for piece in tokenizer.pieces(ids)])]


def test_models_and_texts_that_cannot_be_guided_are_refused(corpus, tmp_path):
    def refused(changes, message):
        with pytest.raises(InputError, match=message):
            small_config(corpus, tmp_path, "refused", {"training.guided_attention.weight": 0.1, **changes})

    refused({"data.train.alignments": None}, r"guided_attention needs data.train.alignments")
    refused({"training.guided_attention.layer": 7}, r"no head 0 in decoder layer 7")
    refused({"training.guided_attention.head": 4}, r"no head 4 in decoder layer 0")
    refused({"model.attention.cross.mechanism": "uniform"}, r"needs cross-attention with learnt weights")
    refused({"training.guided_attention.weight": 0}, r"weight")
