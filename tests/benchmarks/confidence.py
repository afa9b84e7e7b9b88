"""Measures the confidence of translations on text that was not used to fit it.

    python -m tests.benchmarks.confidence runs/tatoeba --europarl graca_enfr --other multi30k_en_de/test_2016_flickr

The confidence is fitted on the validation set of the run, and compared with the mean log-probability, calibrated on the
same pairs, and with one regression for both kinds of sources. All is reported on the test set of the config and on
text that is none of the model's business: the references (text of the target language), another language, and garbage.
An AUROC has the 95 % interval of a bootstrap over sentences. "alone" is the AUROC of a feature by itself; a feature
that is lower for good translations is turned round. "without" and "with" are cross-fitted on the validation set, which
is what choices are made on.
"""

import argparse
import random
import re
import time
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
from sacrebleu import CHRF

from qkv.config.run import with_decoding_values
from qkv.evaluation import confidence as qkv_confidence
from qkv.evaluation.confidence import (
    FOLDS,
    TokenStatistics,
    change_sources,
    fit_confidence,
    source_features,
    translation_features,
    with_hypotheses,
)
from qkv.evaluation.request import read_configured_set
from qkv.inspection.measures import coverage, measure_site
from qkv.inspection.recorder import pair_translations
from qkv.run.trained_run import load_run
from qkv.statistics.logistic_regression import (
    area_under_roc,
    calibration_error,
    fit_logistic,
    probability_of,
    reliability_table,
)
from qkv.text.lines.moses import detokenize
from qkv.text.lines.text_file import read_lines
from qkv.text.tokens.special_tokens import UNK
from tests.support import ROOT

SAMPLES = 1000
SOURCE = ("odds", "source frequency", "characters of a token")
TRANSLATION = ("mean log-probability", "least log-probability", "agreement", "length", "length ratio", "rarity")
GROUPS = {
    "log-probabilities": TRANSLATION[:2],
    "agreement": TRANSLATION[2:3],
    "lengths": TRANSLATION[3:5],
    "rarity": TRANSLATION[5:],
}
ATTENTION = (
    "attention entropy",
    "attention peak",
    "attention on EOS",
    "least coverage",
    "covered share",
    "diagonality",
)
PIECES = ("unknown share", "single letters", "tokens of a word")
OUTPUT = ("second log-probability", "first log-probability", "EOS log-probability", "score gap", "share of the beam")


class Sentences:
    """Sentences, translated: the features of each, and whether its translation is good, if there are references."""

    def __init__(self, run, name, sources, references=None, samples=0):
        read = run.reader.typed_text(name)
        read.style = None  # no warnings
        texts = [run.reader.read_line(source, name) for source in sources]
        kept = [i for i, ids in enumerate(run.tokenizer.encode(texts)) if 0 < len(ids) < run.config.model.max_positions]
        self.texts = [texts[i] for i in kept]
        self.ids = run.tokenizer.encode(self.texts)
        self.references = [references[i] for i in kept] if references is not None else None
        self.n_best = with_hypotheses(run).translator.translate_ids(self.ids)
        chrf = CHRF()
        best = [translations[0] for translations in self.n_best]
        self.good = None
        if references is not None:
            pairs = zip(best, self.references, strict=True)
            self.good = np.array([chrf.sentence_score(one.text, [other]).score >= 60 for one, other in pairs])
        self.others = [self._features(run, *pair) for pair in zip(self.n_best, self._records(run, best), strict=True)]
        if samples:
            config = with_decoding_values(run.config, {"search": "sampling", "n_best": samples})
            for row, translation, drawn in zip(
                self.others, best, run.with_config(config).translator.translate_ids(self.ids), strict=True
            ):
                scores = [chrf.sentence_score(translation.text, [one.text]).score for one in drawn]
                row["agreement of samples"] = float(np.mean(scores)) / 100

    def _records(self, run, best):
        if not run.config.model.has_cross_attention:
            return [None] * len(best)
        return run.recorder(["cross"]).record(pair_translations(self.texts, None, best, run.config.decoding.kind))

    @staticmethod
    def _features(run, n_best, record):
        """The features that were tried and are not used."""
        best = n_best[0]
        pieces = [piece.replace("\u2581", "") for piece in run.tokenizer.pieces(best.source_ids)]
        values = np.array(best.log_probabilities)
        totals = np.array([sum(one.log_probabilities) for one in n_best])
        row = {
            "unknown share": float(np.mean([one == UNK for one in best.source_ids])),
            "single letters": float(np.mean([len(piece) == 1 and piece.isalpha() for piece in pieces])),
            "tokens of a word": len(pieces) / max(1, len(record.source.split()) if record else 1),
            "second log-probability": float(np.sort(values)[min(1, len(values) - 1)]),
            "first log-probability": float(values[0]),
            "EOS log-probability": float(values[-1]),
            "score gap": best.score - n_best[1].score if len(n_best) > 1 else 0.0,
            "share of the beam": float(totals[0] - np.logaddexp.reduce(totals)),
        }
        if record is not None:
            measured = {name: float(np.nan_to_num(values.mean())) for name, values in measure_site(record).items()}
            covered = np.nan_to_num(coverage(record)[:-1], nan=1.0)
            row |= {
                "attention entropy": measured["entropy"],
                "attention peak": measured["confidence"],
                "attention on EOS": measured["eos_share"],
                "attention on the sink": measured["sink_share"],
                "diagonality": measured["diagonality"],
                "least coverage": float(np.log(covered.min(initial=1.0) + 1e-3)),
                "covered share": float((covered > 0.2).mean()) if covered.size else 1.0,
            }
        return row

    def features(self, statistics):
        """A dict from name to values; `statistics` has the statistics of tokens for each sentence."""
        of_source = np.array([source_features(row[0], one) for row, one in zip(self.n_best, statistics, strict=True)])
        of_translation = [translation_features(row, one) for row, one in zip(self.n_best, statistics, strict=True)]
        columns = dict(zip(SOURCE + TRANSLATION, np.c_[of_source, np.array(of_translation)].T, strict=True))
        return columns | {name: np.array([row[name] for row in self.others]) for name in self.others[0]}


def columns_of(features, names):
    """The features of these names, `(N, F)`."""
    return np.stack([features[name] for name in names], axis=1)


def cross_fitted(features, names, good):
    """The probabilities of each fold by a fit on the other folds."""
    values, predicted, fold = columns_of(features, names), np.empty(len(good)), np.arange(len(good)) % FOLDS
    for number in range(FOLDS):
        fitted = fit_logistic(values[fold != number], good[fold != number])
        predicted[fold == number] = probability_of(values[fold == number], fitted)
    return predicted


def interval(good, *predictions):
    """The 95 % interval of the AUROC, or of the AUROC of the first prediction minus that of the second."""
    draws = np.random.default_rng(0).integers(0, len(good), (SAMPLES, len(good)))
    areas = [[area_under_roc(predicted[rows], good[rows]) for rows in draws] for predicted in predictions]
    values = np.array(areas[0]) - (np.array(areas[1]) if len(areas) > 1 else 0)
    return np.nanquantile(values, [0.025, 0.975])


def error_of(predicted, good):
    return calibration_error(reliability_table(predicted, good))


def shuffled(source, numbers):
    words = source.split(" ")
    return " ".join(numbers.sample(words, len(words)))


def shuffled_letters(source, numbers):
    return " ".join("".join(numbers.sample(word, len(word))) for word in source.split(" "))


def other_texts(options, test, number):
    """Text that the model does not know: name -> sources, references."""
    numbers = random.Random(7)
    rows = numbers.sample(range(len(test.source)), min(number, len(test.source)))
    sources, references = [test.source[i] for i in rows], [test.reference[i] for i in rows]
    code = [line.strip() for path in sorted((ROOT / "pipeline/qkv").glob("*/*.py")) for line in read_lines(path)]
    code = [line for line in code if len(line) > 15 and re.search(r"[=()]", line) and not re.search(r'"""|#', line)]
    texts = {
        "target language": (references, None),
        "letters shuffled": ([shuffled_letters(one, numbers) for one in sources], references),
        "words shuffled": ([shuffled(one, numbers) for one in sources], references),
        "code": (numbers.sample(code, min(number, len(code))), None),
        "numbers": (
            [
                " ".join(str(numbers.randrange(10 ** numbers.randrange(1, 8))) for _ in range(numbers.randrange(1, 10)))
                for _ in range(number)
            ],
            None,
        ),
    }
    if options.other:
        for suffix, name in (("de", "another language"), ("en", "another domain")):
            lines = list(read_lines(options.other.with_name(f"{options.other.name}.{suffix}")))
            texts[f"{name} ({suffix})"] = lines[:number], None
    if options.europarl:
        sides = [
            list(read_lines(options.europarl.with_name(f"{options.europarl.name}.{side}"))) for side in ("en", "fr")
        ]
        if not options.tokenized:
            sides = [
                [plain[:1].upper() + plain[1:] for plain in (detokenize(line, code) for line in lines)]
                for lines, code in zip(sides, ("en", "fr"), strict=True)
            ]
        texts["Europarl"] = sides[0], sides[1]
    return texts


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0],
        epilog="\n".join(__doc__.splitlines()[1:]),
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument("run", type=Path)
    parser.add_argument("--europarl", type=Path, help="pairs of another domain: this path with .en and .fr")
    parser.add_argument("--other", type=Path, help="text of another language and domain: this path with .de and .en")
    parser.add_argument("--number", type=int, default=500, help="sentences of each other text (default: 500)")
    parser.add_argument("--samples", type=int, default=0, help="also compare with this many samples (default: 0)")
    parser.add_argument("--turns", type=int, default=3, help="turns of timing (default: 3)")
    options = parser.parse_args()
    run = load_run(options.run)
    options.tokenized = run.config.data.tokenized

    fitted = fit_confidence(run)
    make = partial(Sentences, run, samples=options.samples)
    validation, test = (read_configured_set(run, name, name) for name in ("validation", "test"))
    used = min(len(validation.source), qkv_confidence.MOST_PAIRS)
    rows = [number * len(validation.source) // used for number in range(used)]
    clean = make("validation", [validation.source[i] for i in rows], [validation.reference[i] for i in rows])
    changes = change_sources(clean.texts, clean.references, run.tokenizer)
    changed = make("changed", list(changes.values()), [clean.references[i] for i in changes])
    tests = make("test", test.source, test.reference)
    others = {name: make(name, *pair) for name, pair in other_texts(options, test, options.number).items()}

    counts = [[np.zeros(run.tokenizer.vocabulary_size) for _ in range(FOLDS)] for _ in range(2)]
    for side, ids in enumerate((clean.ids, run.tokenizer.encode(clean.references))):
        for i, row in enumerate(ids):
            np.add.at(counts[side][i % FOLDS], row, 1)
    sums = [sum(folds) for folds in counts]
    of_fold = [
        TokenStatistics.of(*(total - folds[k] for total, folds in zip(sums, counts, strict=True)), run.tokenizer)
        for k in range(FOLDS)
    ]
    statistics = TokenStatistics.of(*sums, run.tokenizer)
    known = clean.features([of_fold[i % FOLDS] for i in range(len(clean.ids))])
    known_changed = changed.features([of_fold[i % FOLDS] for i in list(changes)[: len(changed.ids)]])
    unseen = {"test": tests} | others
    features = {name: part.features([statistics] * len(part.ids)) for name, part in unseen.items()}

    # The systems that are compared: functions of features.
    names_of_both = SOURCE + tuple(name for name in TRANSLATION if name != "rarity")

    def regression(names, *parts):
        coefficients = fit_logistic(
            np.concatenate([columns_of(part, names) for part, _ in parts]), np.concatenate([good for _, good in parts])
        )
        return lambda one: probability_of(columns_of(one, names), coefficients)

    both = (known, clean.good), (known_changed, changed.good)
    systems = {
        "mean log-probability": regression(TRANSLATION[:1], both[0]),
        "translation features alone": regression(TRANSLATION, both[0]),
        "one regression, no changed sources": regression(names_of_both, both[0]),
        "one regression, changed sources too": regression(names_of_both, *both),
    }
    predicted = {name: {text: rate(features[text]) for text in unseen} for name, rate in systems.items()}
    predicted["confidence"] = {text: np.array(fitted.of(part.n_best, run.tokenizer)) for text, part in unseen.items()}

    for name, part in {"validation": clean, "changed": changed, "test": tests}.items():
        print(f"{options.run}, {name}: {len(part.ids)} sentences, {part.good.mean():.3f} good")
    print(f"cross-fitted: AUROC {fitted.auroc:.3f}, calibration error {100 * fitted.calibration_error:.1f} %\n")
    print("| system | AUROC (test) | 95 % interval | minus log-probability | calibration error % | Brier |")
    base = predicted["mean log-probability"]["test"]
    for name, values in predicted.items():
        p, good = values["test"], tests.good
        low, high = interval(good, p)
        first, last = interval(good, p, base)
        area, error, brier = area_under_roc(p, good), 100 * error_of(p, good), np.mean((p - good) ** 2)
        gain = area - area_under_roc(base, good)
        print(f"| {name} | {area:.3f} | {low:.3f} to {high:.3f} | {gain:+.3f} ({first:+.3f} to {last:+.3f}) ", end="")
        print(f"| {error:.1f} | {brier:.3f} |")
    if "Europarl" in others:
        good = others["Europarl"].good
        print(f"\nEuroparl: {len(good)} pairs, {good.mean():.3f} good")
        for name, values in predicted.items():
            p = values["Europarl"]
            low, high = interval(good, p)
            print(
                f"| {name} | {area_under_roc(p, good):.3f} | {low:.3f} to {high:.3f} | {100 * error_of(p, good):.1f} |"
            )

    print("\nshare flagged, at 5 % of the test set")
    print(f"| text | sentences | {' | '.join(predicted)} | above 0.5: {' | '.join(predicted)} |")
    for text, part in others.items():
        flagged = [np.mean(values[text] < np.quantile(values["test"], 0.05)) for values in predicted.values()]
        sure = [np.mean(values[text] >= 0.5) for values in predicted.values()]
        print(f"| {text} | {len(part.ids)} | {' | '.join(f'{100 * one:.1f}' for one in chain(flagged, sure))} |")
    bad = {name: part for name, part in others.items() if part.good is not None or name != "another domain (en)"}
    bad.pop("Europarl", None)
    good = np.r_[
        tests.good, *(part.good if part.good is not None else np.zeros(len(part.ids), bool) for part in bad.values())
    ]
    print(f"test and the texts above but the other domain together, {good.size} sentences:")
    everything = {name: np.r_[values["test"], *(values[text] for text in bad)] for name, values in predicted.items()}
    for name, p in everything.items():
        first, last = interval(good, p, everything["mean log-probability"])
        print(f"| {name} | AUROC {area_under_roc(p, good):.3f}, minus log-probability {first:+.3f} to {last:+.3f} | "
              f"calibration error {100 * error_of(p, good):.1f} % |")  # fmt: skip

    print("\nconfidence of the test set\n| at least | sentences | mean confidence | good |")
    for least in (0.9, 0.8, 0.7, 0.6, 0.5):
        p = predicted["confidence"]["test"]
        rows = p >= least
        if rows.any():
            print(f"| {least} | {rows.sum()} | {p[rows].mean():.3f} | {tests.good[rows].mean():.3f} |")
    for row in reliability_table(predicted["confidence"]["test"], tests.good):
        print(f"| {row.low:.1f} to {row.high:.1f} | {row.number} | {row.predicted:.3f} | {row.right:.3f} |")

    print("\n| feature | alone, validation | alone, test |")
    rows = []
    for name in known:
        areas = [area_under_roc(known[name], clean.good), area_under_roc(features["test"][name], tests.good)]
        rows.append([max(area, 1 - area) for area in areas] + [name])
    for first, second, name in sorted(rows, reverse=True):
        print(f"| {name} | {first:.3f} | {second:.3f} |")

    print("\n| translation features | AUROC (validation, cross-fitted) | test |")
    sets = {"all": TRANSLATION}
    sets |= {f"without {name}": tuple(one for one in TRANSLATION if one not in group) for name, group in GROUPS.items()}
    more = {"attention": ATTENTION, "pieces": PIECES, "more of the search": OUTPUT}
    if options.samples:
        more["samples"] = ("agreement of samples",)
    sets |= {f"with {name}": TRANSLATION + group for name, group in more.items()}
    sets |= {"attention alone": ATTENTION, "with everything": TRANSLATION + tuple(chain(*more.values()))}
    for name, group in sets.items():
        if not set(group) <= known.keys():
            continue
        p = cross_fitted(known, group, clean.good)
        t = regression(group, both[0])(features["test"])
        print(f"| {name} | {area_under_roc(p, clean.good):.4f} | {area_under_roc(t, tests.good):.4f} |")

    print("\nseconds to translate the test set, processor time:")
    plain, rated = run.translator, with_hypotheses(run).translator
    spent: dict[str, list[float]] = {"without": [], "with": [], "with attention": []}
    for _ in range(options.turns):
        began = time.process_time()
        plain.translate_ids(tests.ids)
        spent["without"].append(time.process_time() - began)
        began = time.process_time()
        n_best = rated.translate_ids(tests.ids)
        fitted.of(n_best, run.tokenizer)
        spent["with"].append(time.process_time() - began)
        began = time.process_time()
        if run.config.model.has_cross_attention:
            best = [replace(row[0]) for row in n_best]
            for record in run.recorder(["cross"]).record(pair_translations(tests.texts, None, best, "beam")):
                measure_site(record)
        spent["with attention"].append(spent["with"][-1] + time.process_time() - began)
    print({name: f"{np.median(values):.1f} (least {min(values):.1f})" for name, values in spent.items()})


if __name__ == "__main__":
    main()
