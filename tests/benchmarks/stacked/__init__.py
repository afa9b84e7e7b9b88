"""Many candidates trained at the same time on one GPU: a stack of models under `jax.vmap`.

A Transformer of four million parameters leaves a GPU idle. Here two dozen of them, each with its own settings, seed and
batches, make their updates together:

    python train.py --config configs/multi30k_en_de_best.yaml --run.name text    # once `encoded/` is there, it may stop
    python -m tests.benchmarks.stacked.train runs/text runs/stacked              # on the GPU: needs JAX and NumPy alone
    python -m tests.benchmarks.stacked.table runs/text runs/stacked              # the scores, and runs to evaluate

Architecture, loss and optimizer are those of `configs/multi30k_en_de_best.yaml` (post-norm, rotary positions, one
table of embeddings, Muon), written in JAX; `tests/benchmarks/test_stacked.py` compares its updates with those of
`qkv.training.step`. What differs: random numbers; the precision of products in float32, which is the GPU's
(TF32); and the batches, which have few widths, see `buckets.WIDTHS`, because XLA compiles for each, and as many
sentences as fill 1,536 positions at the mean width of their bucket.

Letters: N models, B sentences, T target positions, S source positions, L layers, D model width, F feed-forward width,
H heads, K head size, V vocabulary.
"""
