"""Ours: text in, text out."""

from pipeline.native import loading_tensorflow

with loading_tensorflow():
    from pipeline.decoding.beam import BeamSettings
    from pipeline.decoding.search import BeamSearch
    from pipeline.trained_run import make_translator
from tests.benchmarks.contestants import decoding_text


def prepare(settings):
    """Beam search, in batches as the run's config says."""
    run, sentences = decoding_text.load(settings)
    search = BeamSearch(BeamSettings(settings["beam"], 1, settings["length_penalty"]))
    translator = make_translator(run.model, run.tokenizer, run.config, search)

    def turn():
        found = translator.translate(sentences)
        decoding_text.write(settings, [one.text for one in found])
        return {"tokens": sum(len(one.ids) for one in found)}

    return turn
