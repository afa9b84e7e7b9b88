"""What is said of trainings that have ended too early, and of those that can be made longer."""

import re

import pytest

from qkv.training.progress import Progress
from qkv.training.stopping import Limits, StoppingRules, training_advice
from tests.support.training import ONE_VOTE


def ended(update, validations=(500, 1000), best=1000, **more):
    return Progress(update=update, history=[{"update": at} for at in validations], best_update=best, **more)


@pytest.mark.parametrize(
    ("progress", "warmup", "patience", "said"),
    [
        (ended(90, [90], 90), 1000, None, r"within its warm-up: 90 updates of 1000.*training.schedule clock"),
        (ended(90, [90], 90, total_updates=90), 1000, None, "90 updates are few"),
        (ended(290, [100, 290], 290), 50, None, "290 updates are few.*model.d_model.*batches.batch_tokens"),
        (ended(900, [900], 900), 100, None, "only once.*training.validate_every_updates"),
        (ended(1500, [500, 1000, 1500], 500), 100, None, "bleu has not improved since the first.*500 updates"),
        (ended(1500, [500, 1000, 1500], 500), 100, 2, None),
        (ended(1000), 100, None, None),
    ],
)
def test_a_training_that_has_ended_too_early_says_what_to_change(progress, warmup, patience, said):
    advice = training_advice(progress, warmup, "bleu", patience)
    if said is None:
        assert advice is None
    else:
        assert re.search(said, advice) and "\n" not in advice


@pytest.mark.parametrize(
    ("progress", "limits", "patience", "because", "option", "resumes"),
    [
        (Progress(update=9), Limits(max_updates=9, max_minutes=3), None, "max_updates (9)", "max_updates 18", True),
        (
            Progress(update=9),
            Limits(max_updates=9, max_minutes=3, ends_at_zero=True),
            None,
            "learning rate is zero",
            "updates 18",
            False,
        ),
        (
            Progress(update=70, total_updates=70, seconds=300),
            Limits(max_minutes=5, measured=True),
            None,
            "70 updates filled 5 minutes",
            "max_minutes 10",
            False,
        ),
        (Progress(epoch=4), Limits(max_updates=9, max_epochs=4), None, "max_epochs (4)", "max_epochs 8", True),
        (Progress(seconds=99), Limits(max_minutes=1.5), None, "max_minutes (1.5)", "max_minutes 3", True),
        (
            Progress(validations_without_gain=3),
            Limits(max_minutes=1.5),
            3,
            "patience (3)",
            "early_stopping.patience 6",
            False,
        ),
    ],
)
def test_what_has_ended_a_training_says_how_to_make_it_longer(progress, limits, patience, because, option, resumes):
    rules = StoppingRules(limits, "bleu", patience, votes=ONE_VOTE)
    ending = rules.ending(progress, progress.seconds)
    assert because in ending.because and ending.option.endswith(option) and ending.resumes == resumes
    assert rules.reason(progress, progress.seconds) == ending.reason
