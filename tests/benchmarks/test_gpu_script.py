"""The script that measures a GPU: what it reads and writes, and one of its stages with tiny sizes on the processor."""

import json

import numpy as np
import pytest

from qkv.commands.train import parse_train_arguments
from qkv.text.tokens import special_tokens
from tests.benchmarks.contestants import text_batches
from tests.benchmarks.gpu.memory import watch_memory
from tests.benchmarks.gpu.page import write_page
from tests.benchmarks.gpu.sitting import MeasurementError, Sitting, options
from tests.benchmarks.gpu.text import Text, flops_per_token
from tests.benchmarks.gpu.training import compiled, measure_ours, read_training, sizes
from tests.support.minutes import by_hand

PAIRS = 300
LINES = """\
computing on 1 GPU (NVIDIA H200, 9.0) in mixed_bfloat16
XLA has prepared the update in 31 s
48,000,000 parameters in float32; 27 batches an epoch, 4.2 % of their positions are padding
update      1  epoch 1
update    100  epoch 4  loss 6.219  learning rate 1.20e-03  0:01 left
update    200  epoch 8  loss 6.2  800,000 tokens/s  learning rate 2.00e-03  0:01 left
update    200  validation: loss 5.900  perplexity 365.00  accuracy 0.002  BLEU 0.00  after 0:11
update  1,300  epoch 9  loss 6.1  900,001 tokens/s  0:01 left
update  1,400  epoch 9  loss 6.1  1,000,000 tokens/s  0:01 left
""".splitlines()


@pytest.fixture
def encoded(tmp_path):
    """A folder `encoded` of pairs of 1 to 20 source and 1 to 30 target tokens."""
    generator = np.random.default_rng(5)
    for side, longest in (("source", 20), ("target", 30)):
        lengths = generator.integers(1, longest + 1, PAIRS)
        np.save(tmp_path / f"train.{side}.starts.npy", np.concatenate([[0], np.cumsum(lengths)]))
        np.save(tmp_path / f"train.{side}.ids.npy", generator.integers(4, 100, lengths.sum()).astype("uint16"))
    return tmp_path


def read_pairs(batch):
    """Yields the source, target input and target output of each pair of a batch, by its segments alone."""
    for row in range(len(batch.source)):
        for segment in range(1, batch.source_segments[row].max() + 1):
            here = batch.source_segments[row] == segment
            there = batch.target_segments[row] == segment
            assert list(batch.source_positions[row][here]) == list(range(here.sum()))
            assert list(batch.target_positions[row][there]) == list(range(there.sum()))
            yield tuple(
                tuple(ids.tolist())
                for ids in (batch.source[row][here], batch.target_input[row][there], batch.target_output[row][there])
            )


@pytest.mark.parametrize("rows", ["packed", "padded"])
def test_batches_of_the_others_have_each_pair_once_and_are_within_their_size(encoded, rows):
    batches = text_batches.make_batches(encoded, rows, 512, PAIRS)
    found = sorted(pair for batch in batches for pair in read_pairs(batch))
    bos, eos = special_tokens.BOS, special_tokens.EOS
    wanted = sorted(
        ((*map(int, source), eos), (bos, *map(int, target)), (*map(int, target), eos))
        for source, target in zip(*text_batches.read_ids(encoded), strict=True)
    )
    assert len(set(found)) == len(found) and set(found) <= set(wanted)
    assert all(max(batch.source.size, batch.target_output.size) <= 512 for batch in batches)
    if rows == "padded":
        assert found == wanted
    else:
        assert len({batch.source.shape for batch in batches}) == 1 and len(found) > 0.8 * PAIRS
    filled = sum(len(source) + len(target) for source, _, target in found)
    positions = sum(batch.source.size + batch.target_output.size for batch in batches)
    assert text_batches.padding(batches) == pytest.approx(1 - filled / positions)
    assert sum(batch.tokens for batch in batches) == sum(len(target) for _, _, target in found)


def test_padded_batches_are_sorted_by_length(encoded):
    unsorted_share = 0.4  # about, of rows in any order
    assert text_batches.padding(text_batches.make_batches(encoded, "padded", 256, PAIRS)) < unsorted_share


def test_operations_are_those_of_a_model_without_attention_and_a_loop_over_pairs(encoded):
    model = {"width": 8, "hidden": 24, "encoder_layers": 3, "decoder_layers": 2, "vocabulary": 50}
    products = tokens = 0
    for source, target in zip(*text_batches.read_ids(encoded), strict=True):
        S, T = len(source) + 1, len(target) + 1
        for _ in range(3):
            products += 4 * S * 8 * 8 + 2 * S * S * 8 + 2 * S * 8 * 24
        for _ in range(2):
            products += (4 * T + 2 * T + 2 * S) * 8 * 8 + 2 * T * T * 8 + 2 * T * S * 8 + 2 * T * 8 * 24
        products += T * 8 * 50
        tokens += T
    assert flops_per_token(encoded, model) == pytest.approx(6 * products / tokens)


def test_a_training_is_read_until_its_windows_are_enough():
    lines = [(10.0 + 2 * number, line) for number, line in enumerate(LINES)]
    began = []
    trained = read_training(iter(lines), lambda rates: len(rates) > 1, lambda: began.append(True))
    assert (trained.rates, trained.padding, trained.compiling, began) == ([800_000, 900_001], 0.042, 31, [True])
    assert (trained.start, trained.first_update) == (14, 16) and trained.facts == LINES[:2]


def test_the_first_update_ends_before_the_first_window():
    lines = [(1.0, LINES[0]), (50.0, LINES[4]), (52.0, LINES[5])]
    trained = read_training(iter(lines), lambda rates: False, lambda: None)
    assert trained.first_update == pytest.approx(50 - 99 * 0.02)


def test_a_training_without_an_update_has_failed():
    with pytest.raises(MeasurementError, match="no update"):
        read_training(iter([(1.0, LINES[0])]), lambda rates: False, lambda: None)


def make_sitting(folder, minutes=1.0, tiny=True):
    return Sitting(folder, minutes, tiny, ["python"])


@pytest.mark.parametrize("tiny", [False, True])
def test_all_trainings_have_settings_that_train_takes(tmp_path, tiny):
    sitting = make_sitting(tmp_path, tiny=tiny)
    for size in sizes(sitting, Text("", tmp_path)).values():
        settings = {**size.overrides, **compiled(sitting), "run.name": "x", "training.max_updates": size.total or 10**7}
        config = parse_train_arguments(["--config", size.config, *options(settings)]).config
        assert config.training.max_minutes is None or "demo" not in size.config


@by_hand
@pytest.mark.minutes
def test_a_training_is_measured(tmp_path):
    sitting = make_sitting(tmp_path, minutes=10)
    size = sizes(sitting, Text("", tmp_path))["demo"]
    figures = sitting.measure("training", "qkv", lambda: measure_ours(sitting, "qkv", size, {"training.xla": False}))
    assert figures["tokens_per_second"] > 0 and 0 < figures["padding"] < 1 and len(figures["windows"]) == 2
    assert 0 < figures["start_seconds"] < figures["first_update_seconds"] < figures["sitting_seconds"]
    assert sum(len(ids) for side in text_batches.read_ids(tmp_path / "encoded/qkv") for ids in side) > 100_000


def test_a_gpu_is_watched_as_nvidia_smi_describes_it(tmp_path, monkeypatch):
    tool = tmp_path / "nvidia-smi"
    tool.write_text('#!/bin/sh\necho "$1" >> asked\nn=$(wc -l < asked)\necho "$((n * 100)), 1000"\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.chdir(tmp_path)
    with watch_memory() as seen:
        while seen["used_megabytes"] < 200:
            pass
    assert seen == {"free_megabytes": 900, "used_megabytes": seen["used_megabytes"]}
    tool.write_text("#!/bin/sh\necho '[N/A], [N/A]'\n")
    with watch_memory() as seen:
        pass
    assert seen == {}


def fail():
    raise MeasurementError("no such card")


def test_a_sitting_goes_on_with_what_is_missing(tmp_path):
    calls = []
    sitting = make_sitting(tmp_path)
    assert sitting.measure("search", "ours", lambda: calls.append(1) or {"seconds": 2.0})["seconds"] == 2
    assert sitting.measure("search", "theirs", fail) is None
    assert sitting.measure("search", "dead", lambda: 1 / 0 if calls[1:] else fail()) is None
    again = make_sitting(tmp_path)
    assert again.measure("search", "ours", fail)["seconds"] == 2
    assert again.measure("search", "theirs", lambda: {"seconds": 3.0})["seconds"] == 3
    with pytest.raises(MeasurementError, match="search: dead"):
        again.figures("search", "dead")


def test_a_sitting_whose_time_is_over_begins_nothing(tmp_path):
    assert make_sitting(tmp_path, minutes=0.4).measure("search", "ours", lambda: 1 / 0) is None
    assert "no time was left" in json.loads((tmp_path / "results.json").read_text())["search"]["ours"]["missing"]


def test_a_command_that_hangs_is_killed_with_all_that_it_has_started(tmp_path):
    sitting = make_sitting(tmp_path)
    process = sitting.start("sleep", ["sh", "-c", "sleep 60 & echo begun; wait"], 0.05)
    assert [line for _, line in process.lines()] == ["begun\n"]
    with pytest.raises(MeasurementError, match="killed after 0 s: begun"):
        process.check()


def test_the_page_judges_what_was_wanted_and_names_what_is_missing():
    training = {
        "qkv, base, 16,384 tokens": {"tokens_per_second": 800_000, "share_of_products": 0.3, "aim": None},
        "PyTorch, compiled, packed, base, 16,384 tokens": {"tokens_per_second": 1_000_000},
        "qkv, demo": {"tokens_per_second": 600_000, "aim": 500_000},
    }
    page = write_page({"training": training, "search": {"qkv": {"missing": "needs a run"}}}, {"GPU": "H200"})
    assert "| base, 16,384 tokens: at least compiled PyTorch's rate | 0.80 times | no |" in page
    assert "| qkv, demo: 500,000 target tokens/s | 600,000 | yes |" in page
    assert "| base, 65,536 tokens: 40 % of the product rate | not measured |  |" in page
    assert "- qkv: needs a run" in page and "| qkv, base, 16,384 tokens | 800,000 | 30.0 % |  |  |  |  |" in page
