"""Random Marian models in folders, as Hugging Face's `save_pretrained` writes them; needs torch and transformers."""

import io
import json
import random
from dataclasses import dataclass
from pathlib import Path

import sentencepiece

TAGS = (">>fra<<", ">>deu<<")


@dataclass(frozen=True)
class Shape:
    """A random model: its sizes, and what else differs between Marian models."""

    name: str
    layers: tuple[int, int] = (2, 2)
    width: int = 64
    heads: int = 4
    hidden: int = 96
    activation: str = "swish"
    pieces: tuple[int, int] = (300, 300)  # of the models of source and target
    separate: bool = False
    tied: bool = True
    scale: bool = True
    eos_first: bool = True
    renormalize: bool = True
    seed: int = 1
    no_repeat: int = 2
    vocabulary_size: int = 0  # filled up with pieces that no text has
    rules: tuple[str, str] = ("nmt_nfkc", "nmt_nfkc")  # of normalisation; with their tables, a model has 240 kB


SHAPES = (
    Shape("silu"),
    Shape("relu", (3, 2), 128, 8, 256, "relu", (411, 333), seed=2),
    Shape("split", (2, 3), 96, 4, 128, "swish", (257, 389), separate=True, eos_first=False, renormalize=False, seed=3),
    Shape("untied", (2, 2), 64, 2, 64, "relu", (301, 350), tied=False, scale=False, seed=4),
    Shape("deep", (6, 6), 256, 8, 512, "swish", (500, 450), eos_first=False, seed=5),
    Shape("wide", (3, 3), 512, 8, 1024, "gelu", (611, 677), seed=6, no_repeat=0),
)


def train_model(lines: list[str], size: int, normalization: str = "nmt_nfkc") -> bytes:
    """Trains a SentencePiece model as those of OPUS-MT are, with their normalisation."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([*lines, *made_up_words(3000)]),
        model_writer=model,
        model_type="unigram",
        vocab_size=size,
        character_coverage=0.995,
        normalization_rule_name=normalization,
        num_threads=1,
        minloglevel=2,
    )
    return model.getvalue()


def made_up_words(count: int) -> list[str]:
    """Lines of a few syllables, since the demo's words are too few for some hundred pieces."""
    draw = random.Random(1)
    syllables = [a + b + c for a in "bcdfglmnprstv" for b in "aeiou" for c in ("", "n", "r", "s")]
    return [" ".join("".join(draw.choices(syllables, k=3)) for _ in range(4)) for _ in range(count)]


def pieces_of(model: bytes) -> list[str]:
    """The pieces of a model but for its special ones."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [processor.id_to_piece(i) for i in range(3, processor.get_piece_size())]


def write_folder(folder: Path, shape: Shape, source: list[str], target: list[str], max_length: int = 30) -> None:
    """Writes a random model and its tokenizer, trained on the lines."""
    folder.mkdir(parents=True)
    sides = zip((source, target), shape.pieces, shape.rules, strict=True)
    models = [train_model(lines, size, rule) for lines, size, rule in sides]
    for side, model in zip(("source", "target"), models, strict=True):
        (folder / f"{side}.spm").write_bytes(model)
    pieces = [pieces_of(model) for model in models]
    vocabularies = [vocabulary([*TAGS, *own], shape.eos_first) for own in pieces]
    if not shape.separate:
        vocabularies = [vocabulary([*TAGS, *dict.fromkeys([*pieces[0], *pieces[1]])], shape.eos_first)] * 2
    if shape.vocabulary_size:
        filling = [f"\u2581{i}" for i in range(shape.vocabulary_size - len(vocabularies[0]))]
        vocabularies = [vocabulary([*list(one)[2:-1], *filling], shape.eos_first) for one in vocabularies]
    _write_vocabularies(folder, shape, vocabularies)
    _write_model(folder, shape, [len(one) for one in vocabularies], vocabularies[0], max_length)


def _write_vocabularies(folder: Path, shape: Shape, vocabularies: list[dict[str, int]]) -> None:
    from transformers import MarianTokenizer

    names = ("vocab.json", "target_vocab.json")[: 1 + shape.separate]
    paths = [folder / name for name in names]
    for path, one in zip(paths, vocabularies, strict=False):
        path.write_text(json.dumps(one, ensure_ascii=False), encoding="utf-8")
    MarianTokenizer(
        str(folder / "source.spm"),
        str(folder / "target.spm"),
        str(paths[0]),
        str(paths[-1]) if shape.separate else None,
        source_lang="en",
        target_lang="fr",
        separate_vocabs=shape.separate,
    ).save_pretrained(folder)


def vocabulary(pieces: list[str], eos_first: bool) -> dict[str, int]:
    """Marian's numbering: EOS and UNK first and PAD last, or EOS elsewhere, as some models have it."""
    order = ["</s>", "<unk>", *pieces, "<pad>"] if eos_first else ["<unk>", "</s>", "<pad>", *pieces]
    return {piece: number for number, piece in enumerate(order)}


def _write_model(folder: Path, shape: Shape, sizes: list[int], first: dict[str, int], max_length: int) -> None:
    import torch
    from transformers import GenerationConfig, MarianConfig, MarianMTModel

    ids = {"pad_token_id": first["<pad>"], "eos_token_id": first["</s>"], "decoder_start_token_id": first["<pad>"]}
    if sizes[0] != sizes[1] and shape.separate and shape.eos_first:
        raise ValueError("PAD is last, so the two vocabularies must be as large, or begin with their special tokens")
    torch.manual_seed(shape.seed)
    config = MarianConfig(
        vocab_size=sizes[0],
        decoder_vocab_size=sizes[1],
        d_model=shape.width,
        encoder_layers=shape.layers[0],
        decoder_layers=shape.layers[1],
        encoder_attention_heads=shape.heads,
        decoder_attention_heads=shape.heads,
        encoder_ffn_dim=shape.hidden,
        decoder_ffn_dim=shape.hidden,
        activation_function=shape.activation,
        scale_embedding=shape.scale,
        share_encoder_decoder_embeddings=not shape.separate,
        tie_word_embeddings=shape.tied,
        max_position_embeddings=512,
        forced_eos_token_id=ids["eos_token_id"],
        init_std=0.1,
        **ids,
    )
    model = MarianMTModel(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 1:  # they begin as constants, which would hide mistakes
                parameter.add_(0.1 * torch.randn(parameter.shape))
            elif "embed_positions" not in name:  # so large that translations differ from each other
                parameter.mul_((15 if "layers" in name else 6) / shape.width**0.5)
        model.final_logits_bias.copy_(0.5 * torch.randn(model.final_logits_bias.shape))
        model.final_logits_bias[0, ids["eos_token_id"]] += 1.5  # so that some translations end by themselves
    model.generation_config = GenerationConfig(
        max_length=max_length,
        num_beams=4,
        bad_words_ids=[[ids["pad_token_id"]]],
        forced_eos_token_id=ids["eos_token_id"],
        renormalize_logits=shape.renormalize,
        no_repeat_ngram_size=shape.no_repeat,  # random models repeat themselves without end
        **ids,
    )
    model.save_pretrained(folder)
