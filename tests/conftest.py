"""What every test shares: quiet TensorFlow, fixed random numbers, and a subword model small enough to read."""

import gc
import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")  # as the commands do
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")  # tests run side by side
os.environ["QKV_COMPILED_PROGRAMS"] = "off"  # tests that keep programs choose a folder
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")  # compiled functions run once or twice here

# Processes that tests start import this checkout, whatever is installed.
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(Path(__file__).parents[1] / "pipeline"), *filter(None, [os.environ.get("PYTHONPATH")])]
)

import hypothesis
import pytest

# Nothing here imports TensorFlow beforehand: pytest reads this file once more in the process that runs no tests.

# A busy machine is no reason to fail.
hypothesis.settings.register_profile("qkv", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("qkv")


def pytest_configure():
    """Files of tests need not outlast a power cut: nothing waits until a disk has written them."""
    os.fsync = lambda descriptor: None


def pytest_collection_modifyitems(items):
    """Files that take long come first, so that of several workers none is left alone with one of them."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


def pytest_collection_finish():
    """What is imported stays: Python need not look through it again and again for what could be thrown away. Graphs run
    once or twice here, and are not worth optimizing; those of the commands that tests start are as users have them."""
    if tensorflow := sys.modules.get("tensorflow"):
        tensorflow.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.fixture(autouse=True)
def fixed_random_numbers(monkeypatch):
    """The same random numbers for every test, whichever ran before it.

    TensorFlow's own seed is left out: setting it makes TensorFlow forget every operation and function that it has
    prepared, a quarter of a second or more for each function that tests share. `test_test_files.py` sees to it that
    nothing draws from TensorFlow's own generators.
    """
    import keras
    import tensorflow as tf

    with monkeypatch.context() as patch:
        patch.setattr(tf.random, "set_seed", lambda seed: None)
        keras.utils.set_random_seed(0)


MOST_GRADIENTS = 1000


@pytest.fixture(scope="module", autouse=True)
def forgotten_graphs():
    """Forgets the graphs of earlier tests, once there are many.

    TensorFlow registers the gradient of every `custom_gradient` that it traces for good, and with it the graph: 20 GB
    for all tests in one process.
    """
    yield
    if "tensorflow" in sys.modules:
        from tensorflow.python.framework.ops import gradient_registry

        names = [name for name in gradient_registry._registry if name.startswith("CustomGradient-")]
        if len(names) > MOST_GRADIENTS:
            for name in names:
                del gradient_registry._registry[name]
            gc.collect()


@pytest.fixture(scope="session")
def tokenizers(tmp_path_factory):
    """A tokenizer of each kind, trained on `SENTENCES`."""
    from qkv.text.tokens.run_tokenizer import train_tokenizer
    from qkv.text.tokens.tokenizer import Tokenizer
    from tests.support.text import SENTENCES

    folder = tmp_path_factory.mktemp("tokenizers")
    for kind, size in (("bpe", 80), ("unigram", 50)):
        train_tokenizer(SENTENCES, folder / kind, kind=kind, vocabulary_size=size, character_coverage=1.0)
    return {kind: Tokenizer(folder / kind) for kind in ("bpe", "unigram")}


@pytest.fixture(scope="session")
def tokenizer(tokenizers):
    return tokenizers["bpe"]


@pytest.fixture(scope="session")
def unbroken(tmp_path_factory):
    """The folder of a small run that all tests share and none changes; its text is in `corpus` beside `runs`."""
    from tests.support.trained_runs import check_unchanged, made_once, train_unbroken

    folder = made_once(tmp_path_factory, "trained", train_unbroken)
    yield folder / "runs" / "unbroken"
    check_unchanged(folder)


@pytest.fixture(scope="module")
def loaded_once():
    """A run is loaded once for all commands that the tests of a file call in this process."""
    from tests.support.trained_runs import loading_once

    with loading_once():
        yield


@pytest.fixture(scope="session")
def browser():
    """Chromium, started once; every test opens windows of its own."""
    from tests.support.pages import open_browser

    with open_browser() as started:
        yield started


@pytest.fixture
def make_record():
    """Makes records with random weights."""
    from tests.support.records import build_record

    return build_record


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    from tests.support.tiny_runs import MINIMAL

    path = tmp_path / "small.yaml"
    path.write_text(MINIMAL)
    return path
