"""Builds a search and a translator from settings."""

from collections.abc import Callable, Sequence

import keras

from ..config import RunConfig
from ..config.decoding import DecodingSettings
from ..runtime.devices import parallel_batches, sizes
from ..runtime.graphs import GraphCache
from ..text.phrases.banned import BannedPhrases
from ..text.phrases.token_text import TokenText
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
    read: Callable[[Sequence[str], str], list[list[int]]] | None = None,
    graphs: GraphCache | None = None,
) -> Translator:
    """Builds a translator that uses `search`, with the batch size and the length limits of the config; for `tokens`,
    `read` and `graphs` see `Translator`."""
    settings = config.decoding
    return Translator(
        model,
        tokenizer,
        search=search,
        batch_sentences=sizes().search_sentences if settings.batch_sentences == "auto" else settings.batch_sentences,
        **settings.model_dump(include={"max_target_ratio", "max_target_extra"}),
        max_positions=config.model.max_positions,
        # Random draws depend on their order, so batches that are sampled run one after the other.
        workers=1 if settings.kind == "sampling" else parallel_batches(),
        tokens=tokens,
        read=read,
        graphs=graphs or GraphCache(),
    )


def build_search(settings: DecodingSettings, seed: int, banned: BannedPhrases | None = None) -> Search:
    """Builds the search that the settings ask for, with sampling's seed and what no translation contains."""
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
