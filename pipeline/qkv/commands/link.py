"""Links the words of parallel text by statistics, without a run: `qkv link CONFIG [--section.key VALUE ...]`, or
`--source` and `--target`."""

import argparse
import logging
import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from ..config.corpus import CorpusSettings
from ..errors import InputError, invocation
from ..files.paths import check_file_to_write, is_pattern, matching_files
from ..files.written import refuse_input
from .cli import ArgumentParser, exit_cleanly, text_file
from .train import parse_overrides

if TYPE_CHECKING:
    from ..alignment.statistical import StatisticalAligner
    from ..text.corpora.corpus import Corpus
    from ..text.tokens.words import WordSegmenter


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line, without the options of settings such as `--data.train.alignments`."""
    parser = ArgumentParser(
        "link",
        description="Links the words of a parallel text by statistics, IBM model 1 and a hidden Markov model in two "
        "directions that agree. Needs no run, but thousands of pairs. With CONFIG, it writes the file that "
        "data.train.alignments names, which a training with training.guided_attention reads; options replace settings "
        f"of CONFIG: {invocation('train')} --help lists them. Otherwise it writes to standard output. Each pair has a "
        "line of links in Pharaoh format: source word-target word, counted from 0.",
        usage=f"{invocation('link')} CONFIG [--section.key VALUE ...]\n"
        f"       {invocation('link')} --source FILE --target FILE",
    )
    parser.add_argument(
        "config",
        type=Path,
        nargs="?",
        metavar="CONFIG",
        help="link the training text of this config file, such as configs/manythings_en_fr_guided.yaml",
    )
    parser.add_argument("--source", type=text_file, metavar="FILE", help="link these source sentences, one a line")
    parser.add_argument(
        "--target", type=text_file, metavar="FILE", help="link them with these translations, one a line"
    )
    return parser


@exit_cleanly
def main(arguments: list[str]) -> None:
    """Reads the text, links its words, and writes the links."""
    options, overrides = make_parser().parse_known_args(arguments)
    if not options.config:
        make_parser().parse_args(arguments)  # refuses other options
    if bool(options.source) != bool(options.target) or bool(options.source) == bool(options.config):
        raise InputError(
            "expected a text to link: either CONFIG, the config file of a training, or --source and --target; see "
            "--help"
        )
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    from ..text.corpora.formats import read_parallel_files
    from ..text.corpora.word_links import format_pharaoh_line
    from ..text.tokens.words import AT_SPACES

    if options.config:
        _link_training_text(options.config, overrides)
        return
    corpus = read_parallel_files(options.source, options.target)
    aligner = _train_aligner(corpus, AT_SPACES, f"{options.source} and {options.target}")
    sys.stdout.writelines(map(format_pharaoh_line, aligner.links()))


def _link_training_text(path: Path, overrides: Sequence[str]) -> None:
    """Links the training text of a config, and writes the files of links that it names.

    All corpora are linked together.

    Args:
        path: the config file.
        overrides: options that replace settings of the config.

    Raises:
        InputError: the config is wrong or names no file of links, or a file cannot be read or written.
    """
    from ..config.run import load_run_config
    from ..text.corpora.corpus import join_corpora
    from ..text.corpora.formats import read_corpus
    from ..text.corpora.word_links import write_pharaoh
    from ..text.tokens.words import WordSegmenter

    data = load_run_config(path, parse_overrides(overrides)).data
    outputs = [_file_of_links(path, corpus) for corpus in data.training_corpora]
    if len(set(outputs)) < max(1, len(outputs)):
        raise InputError(f"{path}: expected a training text, and another file of alignments for each of its corpora")
    parts = [read_corpus(corpus) for corpus in data.training_corpora]
    segmenter = WordSegmenter(data.words.source, data.words.target, data.tokenized)
    links = _train_aligner(join_corpora(parts), segmenter, str(path)).links()
    for corpus, part, output in zip(data.training_corpora, parts, outputs, strict=True):
        first, turned = corpus.alignments_first_index, corpus.alignments_turned
        of_part = ([(i + first, j + first) for i, j in sentence] for sentence in islice(links, len(part)))
        write_pharaoh(output, ({(j, i) for i, j in sentence} if turned else sentence for sentence in of_part))
        logging.info("%s: written, the links of %s pairs", output, f"{len(part):,}")


def _file_of_links(path: Path, corpus: CorpusSettings) -> Path:
    """Returns the file to write for a corpus of a config: its `alignments`.

    Raises:
        InputError: the corpus names no such file, or a pattern of several files, or the file cannot be written or is a
            file that is read.
    """
    output = corpus.alignments
    if output is None or is_pattern(output):
        found = "none" if output is None else f"the pattern {output}"
        raise InputError(
            f"{path}: expected data.train.alignments, the name of the file of links to write, found {found}; add "
            "alignments: FILE beside source and target, or beside table"
        )
    check_file_to_write(output)
    read = [file for name, file in corpus if isinstance(file, Path) and name != "alignments"]
    refuse_input(output, [path, *(file for pattern in read for file in matching_files(pattern))], "alignments")
    return output


def _train_aligner(corpus: "Corpus", segmenter: "WordSegmenter", name: str) -> "StatisticalAligner":
    """Trains an aligner on the words of a corpus, and logs its progress.

    Args:
        corpus: the sentence pairs.
        segmenter: the segmenter of sentences into words.
        name: the config or the files of the corpus, for messages.

    Raises:
        InputError: subwords would count as words, or no pair has words on both sides.
    """
    from ..alignment.statistical import LONGEST_SENTENCE, ParallelWords, StatisticalAligner
    from ..text.lines.line import words_of

    units = segmenter.units(corpus.source, corpus.target)
    if "subwords" in units:
        raise InputError(
            f"{name}: subwords count as words (data.words), and only a run has them; expected words between spaces or "
            "characters: set data.words to characters, or give text with spaces between words"
        )
    sides = zip((corpus.source, corpus.target), units, strict=True)
    words = [map(words_of if unit == "spaces" else _characters, lines) for lines, unit in sides]
    text = ParallelWords(*words)
    if not text.pairs:
        raise InputError(f"{name}: no pair has words in both languages, and at most {LONGEST_SENTENCE} in each")
    if text.too_long:
        logging.info(
            "%s pairs have a sentence of more than %d words, and get no links", text.too_long, LONGEST_SENTENCE
        )
    logging.info("%s pairs read", f"{len(corpus):,}")
    aligner = StatisticalAligner(text)
    aligner.train(lambda update, updates: logging.info("update %d of %d", update, updates))
    return aligner


def _characters(line: str) -> str:
    """Returns the characters of a line, without spaces, for text whose characters count as words."""
    return "".join(line.split())
