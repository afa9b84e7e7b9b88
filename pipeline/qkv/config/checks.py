"""Checks across sections of a config, for settings that are valid by themselves but contradict each other.

Each raises ValueError, whose message names the settings, what was found and what was expected.
"""

from ..errors import did_you_mean
from .data import DataSettings
from .decoding import DecodingSettings
from .inspection import InspectionSettings
from .model import ArchitectureSettings, RecurrentSettings, TransformerSettings
from .names.model import MODEL_PARTS, PARTS_MISSING, WHOLE_MODEL
from .names.text import EUROPARL_LANGUAGES
from .tokenizer import TokenizerSettings
from .training import TrainingSettings


def check_has_text(data: DataSettings, tokenizer: TokenizerSettings, training: TrainingSettings) -> None:
    """Checks that there is text to train on, and an end of training; an imported run that is not trained further needs
    neither."""
    if tokenizer.kind == "given" and training.start_from is None:
        return
    for name in ("train", "validation"):
        if getattr(data, name) is None:
            raise ValueError(f"data.{name}: expected source and target, or table, found null, as in an imported run")
    if training.has_no_limit:
        raise ValueError(
            "training: expected at least one of max_updates, max_epochs and max_minutes, found none of them"
        )


def check_positions(data: DataSettings, model: ArchitectureSettings) -> None:
    """Checks that the longest sentences fit the model's positions."""
    for key in ("max_source_tokens", "max_target_tokens"):
        tokens = getattr(data, key)
        tag = bool(data.tags) and key == "max_source_tokens"
        if tokens + 1 + tag > model.max_positions:
            raise ValueError(
                f"model.max_positions ({model.max_positions}) must exceed data.{key} ({tokens}): "
                "BOS or EOS takes a position too" + f", and so does a tag: expected at least {tokens + 2}" * tag
            )


def check_normalize(data: DataSettings) -> None:
    """Checks that typed text is divided only where the training text is, and in a language with rules for it."""
    normalize = data.normalize
    if normalize is None:
        return
    if (normalize.moses or normalize.europarl) and not data.tokenized:
        raise ValueError("data.normalize divides words, and data.tokenized is false; expected data.tokenized: true")
    if normalize.europarl and data.source_language not in EUROPARL_LANGUAGES:
        expected = " or ".join(EUROPARL_LANGUAGES)
        raise ValueError(
            f"data.normalize.europarl: expected data.source_language {expected}, found {data.source_language!r}"
        )


def check_tag(decoding: DecodingSettings, data: DataSettings) -> None:
    """Checks that the tag of decoding is one that the model was trained with."""
    if decoding.tag is None or decoding.tag in data.tags:
        return
    if data.tags:
        raise ValueError(
            f"decoding.tag: expected one of the tags of data.train, {', '.join(data.tags)}, or null, found "
            f"{decoding.tag!r}{did_you_mean(decoding.tag, data.tags)}"
        )
    raise ValueError(
        f"decoding.tag: no corpus of data.train has a tag, so that there is none to put before sentences; "
        f"expected null, found {decoding.tag!r}"
    )


def check_coverage(decoding: DecodingSettings, model: ArchitectureSettings) -> None:
    """Checks that a coverage penalty has cross-attention to act on."""
    if decoding.coverage_penalty and getattr(model, "cross_attention", "") == "none":
        raise ValueError("decoding.coverage_penalty: a model without cross-attention covers nothing; expected 0")


def check_guided_attention(training: TrainingSettings, data: DataSettings, model: ArchitectureSettings) -> None:
    """Checks that guided attention has word links, and a head whose weights are learnt."""
    guided = training.guided_attention
    if guided is None:
        return
    key = "training.guided_attention"
    if not data.has_word_links:
        raise ValueError(
            f"{key} needs data.train.alignments, a file with the word links of the training pairs"
            + ", for every corpus of the list" * bool(data.listed_corpora)
        )
    layers, heads = model.guided_heads
    if not layers:
        raise ValueError(
            f"{key} needs cross-attention with learnt weights: architecture transformer with mechanism softmax or "
            "sink, or recurrent with a score function"
        )
    if guided.layer >= layers or guided.head >= heads:
        raise ValueError(
            f"{key}: the model has no head {guided.head} in decoder layer {guided.layer}; its {layers} layers and "
            f"{heads} heads are counted from 0"
        )


def check_freeze(training: TrainingSettings, model: ArchitectureSettings) -> None:
    """Checks that the architecture has the parts that are frozen, and another one."""
    missing = PARTS_MISSING.get(model.architecture, ())
    for part in training.freeze:
        if part in missing:
            has = ", ".join(name for name in MODEL_PARTS if name not in missing)
            raise ValueError(f"training.freeze: {model.architecture} has no {part}; expected some of {has}")
    if set(WHOLE_MODEL) - set(missing) <= set(training.freeze):
        raise ValueError(f"training.freeze ({', '.join(training.freeze)}): nothing is left to train; leave a part out")


def check_xla(training: TrainingSettings, model: ArchitectureSettings) -> None:
    """Checks that XLA can compile the update: the gradient of a loop needs a number of steps that it knows before."""
    if training.xla and isinstance(model, RecurrentSettings):
        raise ValueError(
            "training.xla: XLA compiles no update of a recurrent model, whose loop has as many steps as the batch has "
            "tokens; expected false, or another model.architecture"
        )


def check_inspected_attention(inspection: InspectionSettings, model: ArchitectureSettings) -> None:
    """Checks that the architecture has the attention that is to be written."""
    sites = inspection.attention
    if "cross" not in sites:
        raise ValueError(
            f"inspection.attention ({', '.join(sites)}): expected cross among them, of which tables and pages are made"
        )
    if isinstance(model, RecurrentSettings) and not set(sites) <= {"cross", "gradients"}:
        raise ValueError(
            f"inspection.attention ({', '.join(sites)}): a recurrent model has no self-attention and no projected "
            "values; expected [cross] or [cross, gradients]"
        )
    if "norms" in sites and not isinstance(model, TransformerSettings):
        raise ValueError("inspection.attention: norms are those of a Transformer's cross-attention; leave them out")
