"""What required and banned words do to translations, and what they cost.

`python -m tests.benchmarks.constrained RUN --source FILE --reference FILE --ban FILE [--beam_size 5]`: requires of each
sentence one word of its reference, then two, then bans the words of the file. The text is in the form of the run's
training text, tokenised.
"""

import argparse
import dataclasses
import random
import time
from pathlib import Path

import sacrebleu

from qkv.decoding.build import build_search, build_translator
from qkv.run.trained_run import load_run
from qkv.text.phrases.banned import read_banned
from qkv.text.phrases.required import encode_phrase
from qkv.text.phrases.token_text import TokenText


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("run", type=Path)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--ban", type=Path, required=True)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--beam_size", type=int, default=5)
    options = parser.parse_args()
    run = load_run(options.run)
    decoding = run.config.decoding.model_copy(update={"search": "beam", "beam_size": options.beam_size})
    run = dataclasses.replace(run, config=run.config.model_copy(update={"decoding": decoding}))
    source, reference = (
        path.read_text(encoding="utf-8").splitlines()[: options.sentences]
        for path in (options.source, options.reference)
    )
    ids, tokens = run.tokenizer.encode(source), TokenText(run.tokenizer, run.config.data.tokenized)

    def translator(banned=None):
        search = build_search(decoding, 1, banned)
        return build_translator(run.model, run.tokenizer, run.config, search, tokens)

    def report(name, of, phrases=None, words=()):
        of.translate_ids(ids[:8], None, phrases and phrases[:8])  # traces the graph
        seconds = []
        for _ in range(options.turns):
            started = time.monotonic()
            texts = [best.text for best, *_ in of.translate_ids(ids, None, phrases)]
            seconds.append(time.monotonic() - started)
        bleu = sacrebleu.corpus_bleu(texts, [reference], tokenize="none", force=True).score
        met = [
            [is_in(text, one.text) for one in row] for text, row in zip(texts, phrases or [[]] * len(ids), strict=True)
        ]
        share = f"{sum(map(sum, met))} of {sum(map(len, met))} required" if phrases else ""
        left = f"{sum(is_in(text, word) for text in texts for word in words)} banned words left" if words else ""
        print(f"{name}: BLEU {bleu:.2f}, best {min(seconds):.2f} s; {share}{left}", flush=True)
        return texts

    free, draw = translator(), random.Random(1)
    texts = report("free", free)
    for count in (1, 2):
        words = [[word for word in dict.fromkeys(line.split()) if word.isalpha()] for line in reference]
        drawn = [draw.sample(row, min(count, len(row))) for row in words]
        there = sum(is_in(text, word) for text, row in zip(texts, drawn, strict=True) for word in row)
        print(f"{there} of {sum(map(len, drawn))} words are in the free translations")
        report(f"{count} required", free, [[encode_phrase(word, tokens, "") for word in row] for row in drawn])
    texts = report("free", free)
    banned = options.ban.read_text(encoding="utf-8").splitlines()
    print(f"{sum(is_in(text, word) for text in texts for word in banned)} banned words in the free translations")
    report("banned", translator(read_banned(options.ban, tokens)), None, banned)


def is_in(text, word):
    """Whether a word stands between spaces."""
    return f" {word} " in f" {text} "


if __name__ == "__main__":
    main()
