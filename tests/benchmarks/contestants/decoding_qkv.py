"""Ours: text in, text out."""

from qkv.runtime.import_tensorflow import importing_tensorflow

with importing_tensorflow():
    from qkv.decoding.beam import BeamSearch, BeamSettings
    from qkv.decoding.build import build_translator
from tests.benchmarks.contestants import decoding_text


def prepare(settings):
    """Beam search, in batches as the run's config says."""
    run, sentences = decoding_text.load(settings)
    search = BeamSearch(BeamSettings(settings["beam"], 1, settings["length_penalty"]))
    translator = build_translator(run.model, run.tokenizer, run.config, search)

    def turn():
        found = translator.translate(sentences)
        decoding_text.write(settings, [one.text for one in found])
        return {"tokens": sum(len(one.ids) for one in found)}

    return turn
