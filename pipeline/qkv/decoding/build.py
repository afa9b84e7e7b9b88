"""Builds a search and a translator from settings."""

from typing import Any

import keras

from ..config import RunConfig
from ..config.decoding import DecodingSettings
from ..runtime.devices import free_gpu_memory, parallel_batches, sizes
from ..runtime.graphs import GraphCache
from ..text.phrases.banned import BannedPhrases
from ..text.phrases.token_text import TokenText
from ..text.text_reader import TextReader
from ..text.tokens.tokenizer import Tokenizer
from .beam import BeamSearch, BeamSettings
from .greedy import GreedySearch
from .lexical_constraints import Ban
from .sampling import Sampling
from .search import Search
from .translator import Translator


def build_translator(
    model: keras.Model,
    tokenizer: Tokenizer,
    config: RunConfig,
    search: Search,
    tokens: TokenText | None = None,
    reader: TextReader | None = None,
    graphs: GraphCache | None = None,
) -> Translator:
    """Builds a translator with the batch size and the length limits of a config.

    Args:
        model: any `TranslationModel`.
        tokenizer: the tokenizer with which the model was trained.
        config: the settings of the run. Of the settings of the search, only its kind is read.
        search: the search for translations.
        tokens: the tokens of the target language; needed only if phrases are required.
        reader: reads sentences as users write them; by default, the tokenizer encodes sentences unchanged.
        graphs: the cache of graphs; by default a new one.
    """
    settings = config.decoding
    size: dict[str, Any] = {"batch_sentences": settings.batch_sentences}
    if settings.batch_sentences == "auto":
        size = {"batch_sentences": sizes().search_sentences, "free_memory": free_gpu_memory}
    return Translator(
        model,
        tokenizer,
        search=search,
        **size,
        max_target_ratio=settings.max_target_ratio,
        max_target_extra=settings.max_target_extra,
        max_positions=config.model.max_positions,
        # Random draws depend on their order, so batches that are sampled run one after the other.
        threads=1 if settings.kind == "sampling" else parallel_batches(),
        tokens=tokens,
        reader=reader,
        graphs=graphs or GraphCache(),
    )


def build_search(settings: DecodingSettings, seed: int, banned: BannedPhrases | None = None) -> Search:
    """Builds the search that the settings name.

    Args:
        settings: the section `decoding` of a config.
        seed: the seed of the draws of sampling.
        banned: the phrases that no translation contains, or None.
    """
    constraints = settings.model_dump(include={"min_length", "no_repeat_ngram", "force_eos"})
    ban = Ban(banned.table) if banned else None
    if settings.kind == "sampling":
        draws = settings.model_dump(include={"temperature", "top_k", "top_p"})
        return Sampling(**constraints, ban=ban, **draws, seed=seed, count=settings.n_best)
    if settings.kind == "greedy":
        return GreedySearch(**constraints, ban=ban)
    return BeamSearch(
        BeamSettings(
            settings.beam_size,
            settings.n_best,
            settings.length_penalty,
            settings.coverage_penalty,
            divisor=settings.length_divisor,
            end=settings.beam_end,
            renormalize=settings.renormalize,
            **constraints,
        ),
        ban,
    )
