"""The files that are entered on the way from a sentence's ids to its logits: few enough to read in an afternoon."""

import sys

from tests.support import ROOT
from tests.support.tiny_models import SOURCE, TARGET, shared_transformer

PACKAGE = ROOT / "pipeline" / "qkv"


def files_entered(function):
    """The modules of the package whose functions are called, by their paths in it."""
    entered = set()

    def note(frame, event, _):
        if event == "call":
            entered.add(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    inside = (path for path in entered if path.startswith(f"{PACKAGE}/"))
    return {path.removeprefix(f"{PACKAGE}/").removesuffix(".py") for path in inside}


def test_nine_files_and_the_tap_lead_from_ids_to_logits():
    model = shared_transformer()
    watching = {"layers/constructor_config"}  # watches the attributes that Keras before 3.16 sets in every call
    assert files_entered(lambda: model(SOURCE, TARGET)) - watching == {
        "model/interface",
        "model/transformer",
        "model/embedding",
        "attention/masks",
        "attention/multi_head",
        "attention/self_attention",
        "attention/mechanisms/softmax",
        "attention/scores",
        "layers/keras_layers",
        "layers/tap",  # returns what it is given
    }
