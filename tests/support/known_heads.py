"""A Transformer whose heads look at the key whose token or position fits, and sentences in which places and words have
nothing in common. Tokens and positions are rows of a Hadamard matrix in coordinates of their own, which norms keep."""

from functools import cache

import numpy as np

from qkv.inspection.record import Record
from qkv.model.transformer import Transformer
from qkv.text.corpora.word_links import GoldAlignment

SIZE = 32  # of a token and of a position
SHARPNESS = 2.0
KNOWN = {
    ("encoder", 0, 0): "previous",
    ("encoder", 0, 1): "next",
    ("decoder", 0, 0): "previous",
    ("cross", 0, 0): "same",
    ("cross", 0, 1): "input_aligner",
}
"""The types of heads by site, layer and head; the other head of the decoder is uniform."""


@cache
def known_transformer():
    model = Transformer(
        SIZE,
        d_model=2 * SIZE,
        num_heads=2,
        d_ff=4,
        encoder_layers=1,
        decoder_layers=1,
        positions="learned",
        tie_embeddings="none",
        scale_embeddings=False,
        max_positions=SIZE,
    )
    model.build()
    for variable in model.trainable_variables:
        if not variable.path.endswith(("gamma", "beta")):
            variable.assign(np.zeros(variable.shape))
    hadamard = np.ones((1, 1))
    while len(hadamard) < SIZE:
        hadamard = np.block([[hadamard, hadamard], [hadamard, -hadamard]])
    rows = np.roll(hadamard, -1, axis=0)  # the row of ones, whose mean is not 0, is the last one
    nothing = np.zeros((SIZE, SIZE))
    for table in (model.source_embedding.table, model.target_embedding.table):
        table.assign(np.hstack([rows, nothing]))
    for layer in (model.source_positions, model.target_positions):
        layer.table.assign(np.hstack([nothing, rows]))
    word, place = np.vstack([np.eye(SIZE), nothing]), np.vstack([nothing, np.eye(SIZE)])
    before, after = (place @ rows.T @ np.roll(rows, offset, axis=0) / SIZE for offset in (1, -1))
    encoder, decoder = model.encoder_blocks[0], model.decoder_blocks[0]
    _set(encoder.self_attention.qkv_projection, before, after, place, place)
    _set(decoder.self_attention.qkv_projection, before, 0 * place, place, place)
    _set(decoder.cross_attention.query_projection, place, word)
    _set(decoder.cross_attention.key_projection, place, word)
    return model


def _set(projection, *columns):
    kernel = np.zeros(projection.kernel.shape)
    given = SHARPNESS * np.hstack(columns)
    kernel[:, : given.shape[1]] = given
    projection.kernel.assign(kernel)


def known_sentences(number=40, seed=0):
    """Sources of different words in random order, and targets of some of them in another one; with their links, which
    are those of equal ids.

    Returns:
        Records with the attention of `known_transformer` over them, and their gold alignments.
    """
    random = np.random.default_rng(seed)
    pairs, gold = [], []
    for _ in range(number):
        source = random.permutation(np.arange(4, SIZE - 1))[: random.integers(6, 10)]
        target = random.permutation(source)[: random.integers(4, 6)]
        links = frozenset((int(np.flatnonzero(source == word)[0]), place) for place, word in enumerate(target))
        gold.append(GoldAlignment(links, links))
        pairs.append(([*source, 3], [2, *target]))
    sources, targets = (np.zeros((number, max(map(len, side))), "int32") for side in zip(*pairs, strict=True))
    for place, (source, target) in enumerate(pairs):
        sources[place, : len(source)], targets[place, : len(target)] = source, target
    model = known_transformer()
    memory = model.encode(sources)
    output = model.decode(targets, memory)
    weights = {
        site: np.stack([layer.numpy() for layer in layers], axis=1)
        for site, layers in (
            ("cross", output.cross),
            ("encoder", memory.self_attention),
            ("decoder", output.decoder_self),
        )
    }
    return [_record(i, *pair, {site: x[i] for site, x in weights.items()}) for i, pair in enumerate(pairs)], gold


def _record(number, source, target, weights):
    S, T = len(source), len(target)
    sizes = {"cross": (T, S), "encoder": (S, S), "decoder": (T, T)}
    tokens = [f"s{word}" for word in source[:-1]], [f"t{word}" for word in target[1:]]
    return Record(
        id=number,
        source=" ".join(tokens[0]),
        reference=None,
        hypothesis=" ".join(tokens[1]),
        source_tokens=[*tokens[0], "</s>"],
        target_input_tokens=["<s>", *tokens[1]],
        target_output_tokens=[*tokens[1], "</s>"],
        source_words=[*range(S - 1), None],
        target_words=[*range(T - 1), None],
        token_log_probabilities=[],
        mode="forced",
        truncated=False,
        attention={site: x[..., : sizes[site][0], : sizes[site][1]] for site, x in weights.items()},
    )
