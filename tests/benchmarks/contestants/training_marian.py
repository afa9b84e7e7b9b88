"""The Marian architecture of Hugging Face, of the same size, with random weights."""

from qkv.text.tokens.special_tokens import BOS, EOS, PAD
from tests.benchmarks.contestants.torch_turn import training_turn


def prepare(settings):
    """`settings["precision"]` is float32 or bfloat16."""
    from transformers import MarianConfig, MarianMTModel

    model = MarianMTModel(
        MarianConfig(
            vocab_size=settings["vocabulary"],
            d_model=settings["width"],
            **dict.fromkeys(("encoder_layers", "decoder_layers"), settings["layers"]),
            **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), settings["heads"]),
            **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), settings["hidden"]),
            activation_function="relu",
            dropout=settings["dropout"],
            attention_dropout=0.0,
            scale_embedding=True,
            max_position_embeddings=settings["length"],
            pad_token_id=PAD,
            bos_token_id=BOS,
            eos_token_id=EOS,
            decoder_start_token_id=BOS,
        )
    ).train()

    def logits_of(source, target_input):
        return model(input_ids=source, decoder_input_ids=target_input).logits

    return training_turn(model, settings, logits_of)
