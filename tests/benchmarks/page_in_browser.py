"""The pages with the model inside, in Chromium: do they translate as the run does, and how fast?

    python tests/benchmarks/page_in_browser.py runs/demo
    python tests/benchmarks/page_in_browser.py runs/demo --edits      # of the page of `qkv explain RUN --page`, alone
    python tests/benchmarks/page_in_browser.py runs/demo --sizes      # larger models too, with random weights

Compares the run's test sentences with the page's, every weight of their attention, and SentencePiece's ids of 2,000
lines; then takes times. The figures are in docs/measurements. It needs Chromium and tests/requirements.txt.
"""

import argparse
import base64
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

_ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(_ROOT), str(_ROOT / "pipeline")]

from qkv.config.choices.inspection import SITES
from qkv.decoding.build import build_search
from qkv.inspection.recorder import pair_translations
from qkv.live import model_page
from qkv.live.explain_page import write_explain_page
from qkv.live.model_page import write_model_page
from qkv.model.build import build_model
from qkv.run.trained_run import load_run
from qkv.text.corpora.formats import read_corpus
from tests.support.pages import open_browser, open_page
from tests.support.text import MARKS, ODD, lines_with

SENTENCES, LINES, TIMED = 200, 2000, 50
READY = "#extension[data-ready=true]"
TRANSLATE = """async (text) => {
  const start = performance.now();
  const { sentence, weights } = await livePanel.backend.answer({ text, changes: [], prefix: [] });
  const seconds = (performance.now() - start) / 1000;
  const bytes = new Uint8Array(weights.buffer);
  let packed = "";
  for (let i = 0; i < bytes.length; i += 8192) packed += String.fromCharCode(...bytes.subarray(i, i + 8192));
  return { sentence, weights: btoa(packed), seconds };
}"""


def compare_translations(page, run, sources) -> None:
    greedy = run.config.decoding.model_copy(update={"beam_size": 1, "n_best": 1})
    run = replace(run, config=run.config.model_copy(update={"decoding": greedy}))
    assert build_search(greedy, 1) is not None
    found = run.translator.translate(sources)
    sites = [site for site in SITES if site in ("cross", "encoder", "decoder")]
    records = run.recorder(sites).record(pair_translations(sources, None, found))
    equal, largest, likelihoods = 0, dict.fromkeys(sites, 0.0), 0.0
    for source, translation, record in zip(sources, found, records, strict=True):
        ours = page.evaluate(TRANSLATE, source)
        if ours["sentence"]["hypothesis"] != translation.text:
            print(f"differs: {source!r}: {ours['sentence']['hypothesis']!r}, not {translation.text!r}")
            continue
        equal += 1
        weights = np.frombuffer(base64.b64decode(ours["weights"]), "<f4")
        theirs = np.concatenate([record.attention[site].ravel() for site in sites])
        place = 0
        for site in sites:
            size = record.attention[site].size
            difference = np.abs(weights[place : place + size] - theirs[place : place + size]).max()
            largest[site], place = max(largest[site], float(difference)), place + size
        pairs = zip(ours["sentence"]["logProbabilities"], translation.log_probabilities, strict=True)
        likelihoods = max(likelihoods, *(abs(one - other) for one, other in pairs))
    print(f"translations equal: {equal} of {len(sources)}")
    print("largest difference of a weight:", ", ".join(f"{site} {value:.5f}" for site, value in largest.items()))
    print(f"largest difference of a log-probability: {likelihoods:.5f}")


def compare_subwords(page, run, sources) -> None:
    lines = [*sources, *lines_with(ODD, 1, LINES // 2)][:LINES]
    lines += lines_with(ODD, 2, LINES - len(lines))[: LINES - len(lines)]
    found = page.evaluate("(lines) => lines.map((line) => livePanel.backend.subwords.encode(line).ids)", lines)
    equal = sum(ours == theirs for ours, theirs in zip(found, run.tokenizer.encode(lines), strict=True))
    print(f"lines with equal ids: {equal} of {len(lines)}")
    if normalize := run.reader.make_normalizer():
        typed = lines_with(MARKS, 3, LINES)
        found = page.evaluate("(lines) => lines.map((line) => livePanel.backend.normalize(line))", typed)
        equal = sum(ours == normalize(line) for ours, line in zip(found, typed, strict=True))
        print(f"lines normalised alike: {equal} of {len(typed)}")


def take_times(browser, path, text) -> None:
    """Prints seconds from opening to the first answer, and of a sentence."""
    started = time.perf_counter()
    with open_page(browser, path.as_uri(), offline=True) as page:
        page.wait_for_selector(READY, state="attached", timeout=120_000)
        opened = time.perf_counter() - started
        times = [page.evaluate(TRANSLATE, text)["seconds"] for _ in range(TIMED)]
        tokens = len(page.evaluate(TRANSLATE, text)["sentence"]["source"])
    size = path.stat().st_size / 1e6
    print(
        f"{size:.1f} MB: first answer {opened:.2f} s after opening; a sentence of {tokens} tokens: median "
        f"{np.median(times) * 1000:.0f} ms, 99 % within {np.quantile(times, 0.99) * 1000:.0f} ms"
    )


def measure_sizes(browser, run, folder, text) -> None:
    """Random weights, whose translations end at the longest length: two tokens for one of the source, and ten."""
    model_page.MOST_PARAMETERS = 10**9
    for width, layers in ((256, (4, 4)), (384, (5, 5)), (512, (4, 4)), (512, (6, 6))):
        changes = {"d_model": width, "d_ff": 4 * width, "encoder_layers": layers[0], "decoder_layers": layers[1]}
        settings = run.config.model.model_copy(update={**changes, "num_heads": 8})
        config = run.config.model_copy(update={"model": settings})
        model = build_model(settings, run.tokenizer.vocabulary_size)
        print(f"{model.count_params() / 1e6:.1f} M parameters, ", end="")
        path = folder / f"{width}_{layers[0]}.html"
        write_model_page(replace(run, config=config, model=model), path)
        take_times(browser, path, text)


EDITS = 30
EDIT = """async (changes) => {
  const start = performance.now();
  await explained.set(changes);
  document.body.getBoundingClientRect(); // the browser has laid it out
  return performance.now() - start;
}"""


def take_edit_times(browser, run, folder, sources) -> None:
    """Prints how long the explain page takes to answer an edit: a sentence, a row, a change of the mechanism."""
    path = folder / "explained.html"
    write_explain_page(run, path)
    with open_page(browser, path.as_uri(), offline=True) as page:
        edits = {
            "sentence": [{"sentence": sources[i]} for i in range(EDITS)],
            "row": [{"row": i % 4} for i in range(EDITS)],
            "key": [{"key": i % 5} for i in range(EDITS)],
            "sharpness": [{"sharpness": 1 + i / 10} for i in range(EDITS)],
            "no W_Q and W_K": [{"rawVectors": "yes" if i % 2 else None} for i in range(EDITS)],
        }
        for name, changes in edits.items():
            times = [page.evaluate(EDIT, change) for change in changes]
            print(f"{name}: median {np.median(times):.0f} ms, longest {max(times):.0f} ms of {EDITS} edits")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--sizes", action="store_true", help="measure larger models")
    parser.add_argument("--edits", action="store_true", help="take the times of the page of `qkv explain`, alone")
    options = parser.parse_args()
    run = load_run(options.run)
    sources = read_corpus(run.config.data.test).source
    if options.edits:
        with open_browser() as browser, tempfile.TemporaryDirectory() as name:
            take_edit_times(browser, run, Path(name), sources)
        return
    lengths = [abs(count - 14) for count in run.tokenizer.count_tokens(sources)]  # 15 with EOS
    text = sources[int(np.argmin(lengths))]
    with open_browser() as browser, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "page.html"
        write_model_page(run, path)
        with open_page(browser, path.as_uri(), offline=True) as page:
            page.wait_for_selector(READY, state="attached")
            compare_translations(page, run, sources[:SENTENCES])
            compare_subwords(page, run, sources)
        take_times(browser, path, text)
        if options.sizes:
            measure_sizes(browser, run, folder, text)


if __name__ == "__main__":
    main()
