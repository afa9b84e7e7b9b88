"""CTranslate2 with our weights: text in, text out, by the run's own SentencePiece model."""

import tempfile
from pathlib import Path

import ctranslate2
import sentencepiece

from qkv.exchange.ctranslate2_model import write_ctranslate2
from tests.benchmarks.contestants import decoding_text


def prepare(settings):
    """`settings["quantization"]` is its compute type; its threads share each batch or take batches of their own."""
    decoding_text.leave_gpu(settings)
    run, sentences = decoding_text.load(settings)
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(run.directory.tokenizer))
    with tempfile.TemporaryDirectory() as folder:
        write_ctranslate2(run, Path(folder))
        apart = settings.get("batches_apart", False)
        translator = ctranslate2.Translator(
            folder,
            device=settings.get("device", "cpu"),
            compute_type=settings.get("quantization", "float32"),
            inter_threads=settings["threads"] if apart else 1,
            intra_threads=1 if apart else settings["threads"],
        )

    def turn():
        results = translator.translate_batch(
            pieces.encode(sentences, out_type=str),
            beam_size=settings["beam"],
            length_penalty=settings["length_penalty"],
            max_batch_size=settings["batch"],
            max_decoding_length=256,
        )
        found = [result.hypotheses[0] for result in results]
        decoding_text.write(settings, pieces.decode(found))
        return {"tokens": sum(len(one) + 1 for one in found)}

    return turn
