"""The explain page of a small run in a browser, and sentences with a pronoun for it."""

from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import keras
import numpy as np

from qkv.inspection.experiments.pronouns import PronounCase
from qkv.text.tokens.special_tokens import BOS, EOS
from tests.support.pages import open_page
from tests.support.viewer import wait_until

SENTENCES = ["the cat sees the dog", "le petit chien voit Éva"]
COUNTED = 5
ACCURACY = {
    "changes": {
        "as it is": 0.998,
        "one-hot": 0.9741,
        "raw vectors": 0.438,
        "keys := values": 0.2752,
        "values := keys": 0.204,
    },
    "tokens": 5784,
}
POINTING = (0, 1)  # the layer and head for which the cases are made


@dataclass
class Explained:
    """A page in a file, the run of the page, and the sentences with a pronoun on it."""

    run: Any
    cases: list[PronounCase]
    path: Path

    @contextmanager
    def open(self, browser, fragment="", search="", **settings):
        with open_page(browser, f"{self.path.as_uri()}{search}{fragment}", offline=True, **settings) as page:
            yield page


def make_cases(model, count):
    """Sentences whose "pronoun" has its largest weight on its "noun" in one head, by the choice of the noun."""
    generator = np.random.default_rng(3)
    cases = []
    while len(cases) < count:
        ids = [*(int(token) for token in generator.choice(np.arange(5, 60), size=7, replace=False)), EOS]
        layer, head = POINTING
        memory = model.encode(np.array([ids]), training=False)
        rows = np.stack([keras.ops.convert_to_numpy(weights)[0, :, 5] for weights in memory.self_attention])
        largest = rows.argmax(axis=-1)
        noun = int(largest[layer, head])
        if (largest == noun).sum() > 1:
            continue  # no other head points at it
        prefix = [BOS, *(int(token) for token in generator.integers(5, 60, size=3))]
        cases.append(PronounCase(ids, prefix, 5, range(noun, noun + 1), right=20 + len(cases), wrong=40))
    return cases


def read_address(page):
    """The state that the address holds, as one would send it."""
    page.evaluate("explained.writeNow()")
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).fragment).items()}


def wait_for(page, selector, text):
    """Waits until an element has a text in it."""
    wait_until(page, f"document.querySelector({selector!r})?.textContent.includes({text!r})")
