"""An imported Marian model computes what Hugging Face's does, from the committed golden."""

from dataclasses import replace

import numpy as np
import pytest

from qkv.decoding.forced import forced_pass
from qkv.text.batch import forced_batch
from qkv.text.tokens.special_tokens import BOS, EOS
from tests.support.marian import our_ids, read_expected


@pytest.fixture(scope="module")
def forced(run):
    """Source and target ids of the golden's forced pairs."""
    expected, _ = read_expected()
    tokenizer = run.tokenizer
    sides = tokenizer.encode(expected["forced"][0]), tokenizer.of_target.encode(expected["forced"][1])
    return [(source, [*target, EOS]) for source, target in zip(*sides, strict=True)]


def test_logits_and_every_heads_attention_are_those_of_hugging_face(run, forced):
    _, arrays = read_expected()
    ours = our_ids(run.tokenizer)
    columns = [ours[number] for number in range(len(ours))]
    batch = forced_batch(forced)  # of two lengths, so that one is padded
    attention = forced_pass(run.model, *batch.ids, ("encoder", "decoder", "cross")).attention
    logits = run.model(batch.source, batch.target_input, training=False).numpy()
    for number, (source, target) in enumerate(forced):
        found = logits[number, : len(target)][:, columns]
        np.testing.assert_allclose(found, arrays[f"logits_{number}"], atol=1e-4)
        for site in ("encoder", "decoder", "cross"):
            expected = arrays[f"{site}_{number}"]
            rows, keys = expected.shape[-2:]
            assert keys == (len(target) if site == "decoder" else len(source) + 1)
            found = attention[site][number, ..., :rows, :keys].numpy()
            np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.minutes
@pytest.mark.parametrize("beams", ["1", "4"])
def test_translations_are_those_of_hugging_face(run, beams):
    expected, _ = read_expected()
    ours = our_ids(run.tokenizer)
    decoding = run.config.decoding.model_copy(update={"beam_size": int(beams)})
    translator = replace(run, config=run.config.model_copy(update={"decoding": decoding})).translator
    translations = translator.translate(expected["lines"][:20])
    assert [translation.ids for translation in translations] == [
        [ours[i] for i in row] for row in expected["searched"][beams]
    ]
    assert (
        len({len(translation.ids) for translation in translations}) > 3
        and max(len(translation.ids) for translation in translations) == 19
    )
    if beams == "4":
        assert [translation.text for translation in translations] == expected["texts"]


def test_bos_takes_no_part_of_the_probability(run, forced):
    batch = forced_batch(forced)
    logits = run.model(batch.source, batch.target_input, training=False).numpy()
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    assert (powers[..., BOS] < 1e-12).all()
