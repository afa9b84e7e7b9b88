"""Updates of a Transformer in plain JAX on real text in packed rows, compiled by `jax.jit`, on a GPU if there is one.

As in qkv: pre-norm, one table for all embeddings, dropout of embeddings and of each sublayer's output, label smoothing,
clipped gradients, Adam. Weights are in float32 and products in bfloat16. All batches are on the device beforehand.
"""

from functools import partial
from pathlib import Path

import jax
import numpy as np
from jax import numpy as jnp

from tests.benchmarks.contestants.text_batches import PAD, TextBatch, make_batches, padding, repeated, sinusoids

jax.config.update("jax_default_prng_impl", "rbg")  # the fast generator, for dropout
HALF = jnp.bfloat16
SMOOTHING = 0.1


def make_weights(settings) -> dict:
    """Returns the weights, float32, in nested dicts."""
    generator = np.random.default_rng(0)
    width, hidden = settings["width"], settings["hidden"]

    def dense(inputs: int, outputs: int) -> dict:
        limit = (6 / (inputs + outputs)) ** 0.5
        kernel = generator.uniform(-limit, limit, (inputs, outputs)).astype("float32")
        return {"kernel": kernel, "bias": np.zeros(outputs, "float32")}

    def norm() -> dict:
        return {"scale": np.ones(width, "float32"), "offset": np.zeros(width, "float32")}

    def attention() -> dict:
        return {name: dense(width, width) for name in ("query", "key", "value", "output")} | {"norm": norm()}

    def block(*sites: str) -> dict:
        forward = {"inner": dense(width, hidden), "outer": dense(hidden, width), "norm": norm()}
        return {site: attention() for site in sites} | {"forward": forward}

    table = generator.normal(0, width**-0.5, (settings["vocabulary"], width)).astype("float32")
    return {
        "table": table,
        "encoder": [block("self") for _ in range(settings["layers"])],
        "decoder": [block("self", "cross") for _ in range(settings["layers"])],
        "encoder_norm": norm(),
        "decoder_norm": norm(),
    }


def apply_dense(weights, x):
    return x @ weights["kernel"].astype(HALF) + weights["bias"].astype(HALF)


def apply_norm(weights, x):
    x = x.astype(jnp.float32)
    centred = x - x.mean(-1, keepdims=True)
    scaled = centred * jax.lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + 1e-5)
    return (scaled * weights["scale"] + weights["offset"]).astype(HALF)


def attend(weights, x, memory, mask, heads: int):
    """Returns the attention of `x` over `memory`; `mask` is True where a query may look, `(rows, 1, T, S)`."""

    def divide(array):
        return array.reshape(*array.shape[:2], heads, -1)

    query = divide(apply_dense(weights["query"], x))
    key, value = (divide(apply_dense(weights[name], memory)) for name in ("key", "value"))
    attended = jax.nn.dot_product_attention(query, key, value, mask=mask)
    return apply_dense(weights["output"], attended.reshape(x.shape))


def loss_of(weights, batch: TextBatch, key, settings, positions):
    """Returns the smoothed cross-entropy, summed over target tokens."""
    heads, rate = settings["heads"], settings["dropout"]
    keys = iter(jax.random.split(key, 5 * settings["layers"] + 2))

    def drop(x):
        kept = jax.random.bernoulli(next(keys), 1 - rate, x.shape)
        return jnp.where(kept, x / (1 - rate), 0).astype(HALF)

    def embed(ids, places):
        width = settings["width"]
        return drop((weights["table"][ids] * width**0.5 + positions[places]).astype(HALF))

    def forward(block, x):
        inner = jax.nn.relu(apply_dense(block["inner"], apply_norm(block["norm"], x)))
        return x + drop(apply_dense(block["outer"], inner))

    source, target = batch.source_segments, batch.target_segments
    within = (source[:, :, None] == source[:, None])[:, None]
    causal = jnp.tril(jnp.ones((target.shape[1],) * 2, bool))
    own = ((target[:, :, None] == target[:, None]) & causal)[:, None]
    across = ((target[:, :, None] == source[:, None]) | (target[:, :, None] == 0))[:, None]

    x = embed(batch.source, batch.source_positions)
    for block in weights["encoder"]:
        normal = apply_norm(block["self"]["norm"], x)
        x = forward(block["forward"], x + drop(attend(block["self"], normal, normal, within, heads)))
    memory = apply_norm(weights["encoder_norm"], x)
    x = embed(batch.target_input, batch.target_positions)
    for block in weights["decoder"]:
        normal = apply_norm(block["self"]["norm"], x)
        x = x + drop(attend(block["self"], normal, normal, own, heads))
        x = x + drop(attend(block["cross"], apply_norm(block["cross"]["norm"], x), memory, across, heads))
        x = forward(block["forward"], x)
    states = apply_norm(weights["decoder_norm"], x)
    logits = (states @ weights["table"].astype(HALF).T).astype(jnp.float32)
    log_sum = jax.nn.logsumexp(logits, -1)
    expected = jnp.take_along_axis(logits, batch.target_output[..., None], -1)[..., 0]
    losses = log_sum - (1 - SMOOTHING) * expected - SMOOTHING * logits.mean(-1)
    return jnp.where(batch.target_output != PAD, losses, 0).sum()


def update(state, batch: TextBatch, key, settings, positions):
    """Makes one update of Adam; `state` is `(weights, first moments, second moments, updates)`."""
    weights, first, second, count = state
    tokens = (batch.target_output != PAD).sum()
    loss, gradients = jax.value_and_grad(loss_of)(weights, batch, key, settings, positions)
    gradients = jax.tree.map(lambda gradient: gradient / tokens, gradients)
    norm = jnp.sqrt(sum(jnp.square(gradient).sum() for gradient in jax.tree.leaves(gradients)))
    gradients = jax.tree.map(lambda gradient: gradient / jnp.maximum(norm, 1.0), gradients)
    count = count + 1
    first = jax.tree.map(lambda mean, gradient: 0.9 * mean + 0.1 * gradient, first, gradients)
    second = jax.tree.map(lambda mean, gradient: 0.98 * mean + 0.02 * gradient**2, second, gradients)
    rate = 3e-4 * jnp.sqrt(1 - 0.98**count) / (1 - 0.9**count)
    weights = jax.tree.map(lambda w, m, v: w - rate * m / (jnp.sqrt(v) + 1e-9), weights, first, second)
    return (weights, first, second, count), loss / tokens


def prepare(settings):
    """A turn is all batches of the text, as often as takes `settings["turn_seconds"]`."""
    text = make_batches(Path(settings["text"]), "packed", settings["batch_tokens"], settings["pairs"])
    tokens, share = [batch.tokens for batch in text], padding(text)
    batches = [jax.device_put(batch) for batch in text]
    longest = max(max(batch.source.shape[1], batch.target_input.shape[1]) for batch in text)
    positions = jax.device_put(sinusoids(longest, settings["width"]))
    weights = jax.device_put(make_weights(settings))
    zeros = jax.tree.map(jnp.zeros_like, weights)
    state = weights, zeros, jax.tree.map(jnp.zeros_like, weights), jnp.zeros((), jnp.float32)
    compiled = jax.jit(partial(update, settings=settings, positions=positions), donate_argnums=0)
    keys = iter(range(1 << 30))

    def epoch():
        nonlocal state
        for batch in batches:
            state, loss = compiled(state, batch, jax.random.key(next(keys)))
        return float(loss)  # waits for the device

    return repeated(epoch, tokens, share, settings["turn_seconds"])
