"""Sentences with which a person can begin."""

from ..errors import InputError
from ..run.trained_run import TrainedRun
from ..text.corpora.formats import read_corpus

EXAMPLES = 12
LONGEST_EXAMPLE = 15  # words


def find_examples(run: TrainedRun) -> list[str]:
    """Returns sentences that a run can be asked: its probes, and short ones of its validation text if that is there."""
    found = [probe.source for probe in run.config.inspection.probes or ()]
    try:
        for source in read_corpus(run.config.data.validation).source if run.config.data.validation else ():
            if len(found) == EXAMPLES:
                break
            if 0 < len(source.split()) <= LONGEST_EXAMPLE:
                found.append(source)
    except InputError:
        pass  # the text was moved
    return list(dict.fromkeys(found))
