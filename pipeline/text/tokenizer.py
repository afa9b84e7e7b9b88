"""Between text and ids: one SentencePiece model for both languages, and which word each token belongs to.

`sentencepiece` trains the model, `tensorflow_text` applies it.
"""

import io
import logging
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import sentencepiece
import tensorflow as tf
import tensorflow_text

from ..errors import InputError
from ..files import write_atomically
from ..runtime.import_tensorflow import silenced_stderr

PAD, UNK, BOS, EOS = 0, 1, 2, 3
WORD_START = "\u2581"  # SentencePiece's mark for the space before a word

log = logging.getLogger(__name__)


def train_tokenizer(
    sentences: Iterable[str], path: Path, *, kind: str, vocabulary_size: int, character_coverage: float
) -> None:
    """Trains a subword model on sentences of both languages and writes it to `path`.

    Text is taken as it is (no Unicode normalisation, accents and case kept); only runs of spaces become one.

    Args:
        sentences: the training text.
        path: where the model goes.
        kind: "bpe" (Sennrich et al. 2016) or "unigram" (Kudo 2018).
        vocabulary_size: number of tokens, the four special ones among them.
        character_coverage: share of the text's characters that get a token.

    Raises:
        InputError: the text does not give that many tokens, or is too rich in characters for so few.
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
            max_sentence_length=1 << 20,  # bytes; longer lines would be skipped in silence
            num_threads=1,  # sums of floats depend on how work is cut
            minloglevel=2,
        )
    except (RuntimeError, OSError) as error:
        reason = str(error).rsplit("] ", 1)[-1]
        raise InputError(
            f"tokenizer.vocabulary_size: {vocabulary_size} does not fit the training text: {reason}"
        ) from None
    write_atomically(path, model.getvalue())


def words_of(text: str) -> list[str]:
    """The words of a text: what stands between spaces, as the tokenizer and alignment files see it."""
    return [word for word in text.split(" ") if word]


class Tokenizer:
    """Applies a trained subword model.

    Args:
        path: the model's file.

    Raises:
        InputError: it is missing or is no such model.
    """

    def __init__(self, path: Path) -> None:
        try:
            self.model = Path(path).read_bytes()
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=self.model)
            self.vocabulary_size = self._processor.get_piece_size()
            self._pieces = [self._processor.id_to_piece(token) for token in range(self.vocabulary_size)]
            with silenced_stderr():
                self._in_tensorflow  # noqa: B018  # fails here rather than at the first use
        except (OSError, RuntimeError, UnicodeDecodeError, tf.errors.OpError):
            raise InputError(f"{path}: not a tokenizer; expected the SentencePiece model that train.py wrote") from None

    @property
    def _in_tensorflow(self) -> tensorflow_text.SentencepieceTokenizer:
        """Made at each use: its model lives in TensorFlow's kernel cache, which is a fast look-up (0.2 ms), but which
        `keras.utils.set_random_seed` and `keras.backend.clear_session` empty."""
        return tensorflow_text.SentencepieceTokenizer(self.model, out_type=tf.int32)

    def encode(self, sentences: Sequence[str]) -> tf.RaggedTensor:
        """Ids of sentences, without BOS and EOS: int32 `(sentences, (tokens))`."""
        return self._in_tensorflow.tokenize(tf.constant(list(sentences), tf.string, shape=(len(sentences),)))

    def sample(self, sentences: Sequence[str], alpha: float, seed: int) -> list[list[int]]:
        """Ids of sentences, cut at random. The same seed gives the same ids.

        Args:
            sentences: the text.
            alpha: of BPE, the probability that a merge is left out (BPE-dropout, Provilkov et al. 2020); of a unigram
                model, the power of their probability in proportion to which segmentations are drawn (Kudo 2018).
            seed: of what is drawn.
        """

        def encode() -> list[list[int]]:
            return self._processor.encode(
                list(sentences), enable_sampling=True, alpha=alpha, nbest_size=-1, num_threads=1
            )

        # SentencePiece's generator belongs to a thread and takes its seed when the thread first draws.
        sentencepiece.set_random_generator_seed(seed)
        with ThreadPoolExecutor(max_workers=1) as thread:
            return thread.submit(encode).result()

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Text of ids; special tokens leave no trace."""
        plain = [[int(token) for token in row if token not in (PAD, BOS, EOS)] for row in ids]
        texts = self._in_tensorflow.detokenize(tf.ragged.constant(plain, dtype=tf.int32, ragged_rank=1))
        return [text.decode() for text in texts.numpy()]

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The vocabulary's spelling of each id, with a mark where a word starts: `['▁the', '▁cat', '</s>']`."""
        return [self._pieces[token] for token in ids]

    @property
    def word_starts(self) -> np.ndarray:
        """Which ids start a word where `encode` uses them: bool `(vocabulary,)`."""
        return np.array([piece.startswith(WORD_START) for piece in self._pieces])

    def words_from_text(self, sentences: Sequence[str]) -> list[list[int | None]]:
        """The word that each token of `encode(sentences)` belongs to, by byte offsets: indices into `words_of` each."""
        given = tf.constant(list(sentences), tf.string, shape=(len(sentences),))
        _, _, ends = self._in_tensorflow.tokenize_with_offsets(given)
        return [_words_at(text, row) for text, row in zip(sentences, ends.to_list(), strict=True)]

    def words_from_ids(self, ids: Sequence[int]) -> list[int | None]:
        """The word that each id belongs to in `decode([ids])`; None for PAD, BOS and EOS.

        A model may spell a word with other tokens than `encode` would, so its own ids are asked and not its text.
        """
        words: list[int | None] = []
        current, fresh = -1, True
        for token, piece in zip(ids, self.pieces(ids), strict=True):
            if token in (PAD, BOS, EOS):
                words.append(None)
                continue
            fresh = fresh or piece.startswith(WORD_START) or token == UNK
            if fresh and piece != WORD_START:
                current, fresh = current + 1, False
                words.append(current)
            else:
                words.append(current + 1 if fresh else current)
            fresh = fresh or token == UNK  # an unknown token is written with spaces around it
        if fresh and words:  # a trailing lone mark is no word
            words = [None if word == current + 1 else word for word in words]
        return words


def _words_at(text: str, ends: list[int]) -> list[int | None]:
    """The word in which the byte before each place of `text` stands; None behind the last one."""
    word_ends, position = [], 0
    for word in text.split(" "):
        position += len(word.encode())
        if word:
            word_ends.append(position)
        position += 1
    # A token is in the word of its last byte; a lone space, in the word after it.
    found = np.searchsorted(word_ends, np.asarray(ends, np.int64) - 1, side="right")
    return [int(word) if word < len(word_ends) else None for word in found]
