"""The tokenizer of a run: its training by SentencePiece, its reuse after a restart, and its loading."""

import io
import re
from collections.abc import Iterable, Sequence
from itertools import chain, islice
from pathlib import Path

import sentencepiece

from ...config import RunConfig
from ...errors import InputError
from ...files.atomic import write_atomically
from ...files.json import read_json_if_whole, write_json
from ...files.run_directory import RunDirectory
from ..corpora.corpus import Corpus
from ..lines.line import is_empty
from .marian_tokenizer import MarianTokenizer
from .special_tokens import BOS, EOS, PAD, UNK
from .tokenizer import Tokenizer

MOST_TRAINING_SENTENCES = 500_000  # the number of sentences to learn subwords from; SentencePiece keeps them in memory


class VocabularySizeError(InputError):
    """The error that a training text has too few different words, or too many characters, for a vocabulary size.

    Args:
        size: the size of the vocabulary.
        reason: the reason and advice, for the message.
        fitting: the nearest size that fits. The error has it as an attribute.
    """

    def __init__(self, size: int, reason: str, fitting: int) -> None:
        super().__init__(f"tokenizer.vocabulary_size: {size} does not fit the training text: {reason}")
        self.fitting = fitting


def reuse_or_train_tokenizer(
    config: RunConfig, training: Corpus, run: RunDirectory, digests: dict[str, str]
) -> Tokenizer:
    """Returns the run's tokenizer with the tag of `decoding.tag`.

    It is trained if it is missing or if the text has changed. If training starts from another run, the tokenizer of
    that run, which is already in the folder of the new run, is used in any case.

    Args:
        config: the settings of the run.
        training: the training pairs, without tags.
        run: the run.
        digests: the digests of the files of the text, see `text.corpora.provenance.data_sha256`.

    Raises:
        InputError: the tokenizer lacks a tag of `data.train`; or see `train_tokenizer` and `load_tokenizer`.
    """
    is_from_other_run = config.training.start_from is not None
    if not is_from_other_run and not (run.tokenizer.is_file() and read_json_if_whole(run.preparation) == digests):
        run.tokenizer.unlink(missing_ok=True)
        write_json(run.preparation, digests)
        every = max(1, -(-2 * len(training) // MOST_TRAINING_SENTENCES))
        sampled = chain.from_iterable(islice(training.pairs(), None, None, every))
        train_tokenizer(
            (sentence for sentence in sampled if not is_empty(sentence)),
            run.tokenizer,
            **config.tokenizer.model_dump(exclude={"bpe_dropout"}),
            tags=config.data.tags,
        )
    tokenizer = load_tokenizer(run.tokenizer)
    if missing := [tag for tag in config.data.tags if tag not in tokenizer.tags]:
        raise InputError(
            f"{run.tokenizer}: the tokenizer of the run from which training starts has no tag {', '.join(missing)}; "
            "expected the tags of data.train: leave them out, or start from a run that was trained with them"
        )
    return tokenizer.with_tag(config.decoding.tag)


def train_tokenizer(
    sentences: Iterable[str],
    path: Path,
    *,
    kind: str,
    vocabulary_size: int,
    character_coverage: float,
    tags: Sequence[str] = (),
) -> None:
    """Trains a subword model on sentences of both languages and writes it to `path`.

    Accents and case are kept, and the text is not normalised, except that several spaces become one.

    Args:
        sentences: the training text.
        path: the file to write.
        kind: "bpe" (Sennrich et al. 2016) or "unigram" (Kudo 2018).
        vocabulary_size: the number of tokens, with the four special tokens.
        character_coverage: the share of the text's characters that get a token, from 0 to 1.
        tags: further special tokens. Text is never divided into them.

    Raises:
        VocabularySizeError: the text has too few different words for `vocabulary_size`, or too many characters.
        InputError: SentencePiece refuses the text for another reason.
    """
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(sentences),
            model_writer=model,
            model_type=kind,
            vocab_size=vocabulary_size,
            character_coverage=character_coverage,
            normalization_rule_name="identity",
            pad_id=PAD,
            unk_id=UNK,
            bos_id=BOS,
            eos_id=EOS,
            control_symbols=list(tags),
            max_sentence_length=1 << 20,  # bytes; longer lines would be skipped silently
            num_threads=1,  # with several threads, floating-point sums would depend on how the work is divided
            minloglevel=2,
        )
    except (RuntimeError, OSError) as error:
        reason = str(error).rsplit("] ", 1)[-1]
        if most := re.search(r"too high .* <= (\d+)", reason):
            advice = f"it has words for at most {most[1]} tokens; set {most[1]} or less"
            raise VocabularySizeError(vocabulary_size, advice, int(most[1])) from None
        if least := re.search(r"smaller than required_chars\. \d+ vs (\d+)", reason):
            advice = f"its characters alone take {least[1]} tokens; set {least[1]} or more, or lower character_coverage"
            raise VocabularySizeError(vocabulary_size, advice, int(least[1])) from None
        raise InputError(f"tokenizer: SentencePiece cannot learn from the training text: {reason}") from None
    write_atomically(path, model.getvalue())


def load_tokenizer(path: Path) -> Tokenizer:
    """Loads the tokenizer of a run: a `MarianTokenizer` if the file is JSON, otherwise a `Tokenizer`.

    Raises:
        InputError: a file is missing or damaged.
    """
    return MarianTokenizer(path) if path.suffix == ".json" else Tokenizer(path)
