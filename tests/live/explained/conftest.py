"""A small run with random weights and its explain page, which the tests of all sections share."""

from dataclasses import replace

import pytest

from qkv.config import RunConfig
from qkv.live import explained_numbers
from qkv.live.explain_page import explain_page
from tests.support.explained import ACCURACY, COUNTED, SENTENCES, Explained, make_cases
from tests.support.random_runs import random_run


@pytest.fixture(scope="session")
def explained(tokenizer, tmp_path_factory):
    """The weights are as 16-bit floats hold them."""
    folder = tmp_path_factory.mktemp("run")
    run = random_run(tokenizer, folder, encoder_layers=2, decoder_layers=2, positions_on="queries_and_keys")
    for variable in run.model.trainable_variables:
        variable.assign(variable.numpy().astype("float16").astype("float32"))
    values = run.config.model_dump()
    values["inspection"]["probes"] = [{"source": text} for text in SENTENCES]
    run = replace(run, config=RunConfig.model_validate(values))
    cases = make_cases(run.model, COUNTED + 2)
    uses = ["example", *["count"] * COUNTED, "subject"]
    words = {"pronoun": "it", "noun": "mouse", "right": "elle", "wrong": "il"}
    rows = [{**words, "source": f"sentence {i}", "use": use} for i, use in enumerate(uses)]
    path = tmp_path_factory.mktemp("page") / "explained.html"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(explained_numbers, "measure_accuracy", lambda run: ACCURACY)
        patch.setattr(explained_numbers, "read_pronouns", lambda run: list(zip(cases, rows, strict=True)))
        path.write_text(explain_page(run), encoding="utf-8")
    return Explained(run, cases, path)


@pytest.fixture
def page(browser, explained):
    with explained.open(browser, search="?lang=en") as page:
        yield page
