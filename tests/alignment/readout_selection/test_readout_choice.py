"""Heads of two directions that link the same words are found, wherever they are."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from qkv.alignment import readout_selection
from qkv.alignment.readout import MEAN_HEAD, AlignmentReadout
from qkv.alignment.readout_selection import find_readout, last_layer_readout, most_agreeing_readouts
from qkv.config.training import GuidedAttentionSettings
from qkv.decoding.forced import forced_pass
from qkv.errors import InputError
from qkv.files.run_directory import RunDirectory
from tests.support.tiny_models import SOURCE, TARGET, model_of
from tests.support.viewer import make_record

PAIRS = [("the cat sleeps", "le chat dort bien"), ("a b c d", "u v w"), ("one two", "un deux trois")]


def planted(forward_place, backward_place):
    """Records of random attention, but for one head of each direction that looks along the same random links."""
    forward, backward = [], []
    for id_, (source, target) in enumerate(PAIRS):
        one, other = make_record(id_, source, target), make_record(id_, target, source, seed=1)
        generator = np.random.default_rng(id_)
        # one source word for each target word, and back: pairs along the shorter sentence, shuffled
        count = min(len(source.split()), len(target.split()))
        pairs = list(zip(generator.permutation(count), generator.permutation(count), strict=True))
        for record, place, links in ((one, forward_place, pairs), (other, backward_place, [(j, i) for i, j in pairs])):
            weights = record.attention["cross"].copy()
            rows = record.target_words if place.side == "output" else [None, *record.target_words[:-1]]
            for source_word, target_word in links:
                for t, word in enumerate(rows):
                    if word == target_word:
                        weights[place.layer, place.head, t] = [float(w == source_word) for w in record.source_words]
            (forward if record is one else backward).append(replace(record, attention={"cross": weights}))
    return forward, backward


@pytest.mark.parametrize("side", ["output", "input"])
def test_the_two_heads_that_link_the_same_words_are_found(side):
    places = AlignmentReadout(1, 2, side), AlignmentReadout(0, 1, "output")
    *found, share = most_agreeing_readouts(*planted(*places))
    assert tuple(found) == places
    assert 0.8 < share <= 1  # words beyond the shorter sentence are linked at random


def test_records_of_other_words_or_numbers_are_refused():
    forward, backward = planted(AlignmentReadout(0, 0, "output"), AlignmentReadout(0, 0, "output"))
    with pytest.raises(ValueError, match="shorter"):
        most_agreeing_readouts(forward, backward[:2])
    with pytest.raises(ValueError, match="sentence 1: expected the same words in both directions"):
        most_agreeing_readouts(forward, [backward[0], make_record(1, "u v", "a b c d"), backward[2]])
    with pytest.raises(ValueError, match="there is no cross-attention to compare"):
        most_agreeing_readouts([], [])


@pytest.mark.parametrize(("source", "target"), [("", ""), ("", "le chat"), ("the cat", "")])
def test_a_pair_with_an_empty_side_changes_nothing(source, target):
    forward, backward = planted(AlignmentReadout(1, 2, "input"), AlignmentReadout(0, 1, "output"))
    empty = make_record(9, source, target), make_record(9, target, source)
    assert most_agreeing_readouts([empty[0], *forward], [empty[1], *backward]) == most_agreeing_readouts(
        forward, backward
    )


DIGITS = "9" * 5000


@pytest.mark.parametrize(
    "at",
    ["", "1", "-1,mean,output", "١,mean,output", "0.0,mean,output"]
    + ["1_0,mean,output", "²,mean,output", "nan,mean,output", "0,mean,output\n", 0]
    + [pytest.param(f"{DIGITS},mean,output", id="layer"), pytest.param(f"0,{DIGITS},output", id="head")]
    + [pytest.param(f"0,mean,output,{DIGITS}", id="links")],
)
def test_a_place_that_is_no_layer_head_and_side_is_refused(at):
    with pytest.raises(InputError, match=r"^expected LAYER,HEAD,SIDE such as 1,mean,output .*; found ") as caught:
        find_readout(None, at)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("site", ["cross", "norms"])
@pytest.mark.parametrize(
    "name", ["transformer of other sizes", "recurrent of one context vector", "luong", "decoder-only"]
)
def test_the_layers_and_heads_that_can_be_named_are_those_that_a_forced_pass_gives(name, site):
    model = model_of(name)
    run = SimpleNamespace(directory=RunDirectory("tiny"), model=model)
    layers, heads = forced_pass(model, SOURCE, TARGET, TARGET, [site]).attention[site].shape[1:3]
    for layer, head in ((layers, 0), (layers - 1, heads), (layers, MEAN_HEAD)):
        with pytest.raises(
            InputError, match=f"tiny has {layers} layers of {heads}" if layers else "no cross-attention"
        ):
            find_readout(run, f"{max(layer, 0)},{head},output,target,{site}")
    for head in (0, heads - 1, MEAN_HEAD) if layers else ():
        readout = find_readout(run, f"{layers - 1},{head},output,target,{site}")
        assert (readout.layer, readout.head, readout.site) == (layers - 1, head, site)


def test_gradients_have_one_layer_and_one_head():
    run = SimpleNamespace(directory=RunDirectory("tiny"), model=model_of("transformer"))
    assert find_readout(run, "0,0,input,target,gradients").site == "gradients"
    for place in ("1,0", "0,1"):
        with pytest.raises(InputError, match="tiny has 1 layers of 1 heads"):
            find_readout(run, f"{place},input,target,gradients")


def test_a_run_without_gold_links_is_read_at_the_head_that_training_guided(monkeypatch):
    monkeypatch.setattr(readout_selection, "read_choice_set", lambda config, segmenter: None)
    monkeypatch.setattr(readout_selection, "choose_readout", lambda run, gold_set: None)
    settings = GuidedAttentionSettings(layer=2, head=3, side="input")
    for guided, expected in ((settings, (2, 3, "input", "cross")), (None, None)):
        config = SimpleNamespace(training=SimpleNamespace(guided_attention=guided))
        run = SimpleNamespace(config=config, reader=SimpleNamespace(segmenter=None))
        readout = find_readout(run, None)
        assert (readout and (readout.layer, readout.head, readout.side, readout.site)) == expected


def test_a_model_without_cross_attention_has_no_place_to_read_links():
    run = SimpleNamespace(directory=RunDirectory("random"), model=SimpleNamespace(attention_layers=dict))
    for choose in (last_layer_readout, lambda run: find_readout(run, "0,mean,output")):
        with pytest.raises(InputError, match="random: its model has no cross-attention, and so no links to read"):
            choose(run)
