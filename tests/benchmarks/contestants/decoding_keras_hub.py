"""`generate` of KerasHub's encoder-decoder (BART) of the same size, with random weights.

Random weights never end a sentence, so each batch has as many steps as the longest reference in it has tokens.
"""

import keras_hub
import numpy as np

from qkv.text.batch import pad
from qkv.text.batch_plan import round_up
from qkv.text.tokens.special_tokens import BOS, EOS
from tests.benchmarks.contestants import decoding_text


def prepare(settings):
    """`settings["xla"]`: whether it is compiled, which is not counted."""
    run, sentences = decoding_text.load(settings)
    references = decoding_text.read_lines(settings["reference"])
    sizes = run.config.model
    model = keras_hub.models.BartSeq2SeqLM(
        keras_hub.models.BartBackbone(
            run.tokenizer.vocabulary_size,
            num_layers=sizes.encoder_layers,
            num_heads=sizes.num_heads,
            hidden_dim=sizes.d_model,
            intermediate_dim=sizes.d_ff,
            max_sequence_length=sizes.max_positions,
        )
    )
    beam = settings["beam"]
    sampler = keras_hub.samplers.BeamSampler(num_beams=beam) if beam > 1 else keras_hub.samplers.GreedySampler()
    model.compile(sampler=sampler, jit_compile=settings["xla"])

    def turn():
        rows, wanted = ([[*ids, EOS] for ids in run.tokenizer.encode(text)] for text in (sentences, references))
        order = sorted(range(len(rows)), key=lambda i: -len(rows[i]))
        tokens = 0
        for first in range(0, len(order), settings["batch"]):
            batch = order[first : first + settings["batch"]]
            source = pad([rows[i] for i in batch], int(round_up(len(rows[batch[0]]), 8)))
            length = int(round_up(max(len(wanted[i]) for i in batch) + 1, 8))
            start = np.zeros((len(batch), length), "int32")
            start[:, 0] = BOS
            model.generate(
                {
                    "encoder_token_ids": source,
                    "encoder_padding_mask": source != 0,
                    "decoder_token_ids": start,
                    "decoder_padding_mask": start != 0,
                },
                stop_token_ids=None,
            )
            tokens += sum(len(wanted[i]) for i in batch)
        return {"tokens": tokens}

    return turn
