"""Architectures and the parts that they can be made of."""

ARCHITECTURES = {
    "transformer": "encoder and decoder of Transformer blocks",
    "recurrent": "GRU encoder and decoder with attention between them",
    "decoder_only": "one causal Transformer over source and target",
}
RECURRENT_DECODERS = {
    "bahdanau": "the state before the step is the query, and the context enters the step",
    "luong": "the state after the step is the query, and the context enters the output",
}
NORMS = {"pre": "normalise before each sublayer", "post": "normalise after it"}
POSITIONS = {
    "sinusoidal": "sines and cosines in turn",
    "sinusoidal_halves": "all sines, then all cosines, as in Marian",
    "learned": "a vector that is learnt for each position",
    "rotary": "queries and keys of self-attention are turned by their position, whatever positions_on says",
    "alibi": "scores of self-attention fall with distance, whatever positions_on says",
}
RELATIVE_POSITIONS = ("rotary", "alibi")
"""Those that act inside self-attention by distance, and add nothing to embeddings."""
POSITION_PLACES = {
    "input": "once to the embeddings",
    "queries_and_keys": "to the queries and keys of every attention layer, never to values",
}
TIED_EMBEDDINGS = {
    "all": "source, target and output share one table",
    "target": "target and output share one",
    "none": "each has its own",
}
MODEL_PARTS = {
    "embeddings": "the tables of tokens, one where model.tie_embeddings ties them, with the bias of the output, and of "
    "learned positions",
    "encoder": "all layers that read the source",
    "decoder": "all layers that write the target, cross-attention included; in decoder_only all layers",
    "self_attention": "the projections of every self-attention",
    "cross_attention": "the projections of every cross-attention; in recurrent the attention",
    "feed_forward": "the feed-forward network of every layer",
    "normalizations": "gains and offsets of every layer normalisation",
}
"""Parts whose weights can be kept as they are. They overlap: a self-attention is also a part of its encoder."""
WHOLE_MODEL = ("embeddings", "encoder", "decoder")
"""The parts that have all weights between them."""
PARTS_MISSING = {
    "recurrent": ("self_attention", "feed_forward", "normalizations"),
    "decoder_only": ("encoder", "cross_attention"),
}
"""The parts that an architecture does not have."""
ACTIVATIONS = ("relu", "gelu", "silu")
