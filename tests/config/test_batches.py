"""Settings of batches: when batches are packed, and what cannot be trained on packed batches."""

import pytest

from qkv.config import load_run_config
from qkv.config.batches import BatchSettings
from qkv.errors import InputError
from tests.support import ROOT

LINFORMER = {"model.attention.cross.mechanism": "linformer", "model.attention.cross.projected_length": 16}
LSH = {"model.attention.encoder_self": {"mechanism": "lsh"}}


def load(**changes):
    overrides = {key.replace("__", "."): value for key, value in changes.items()}
    return load_run_config(ROOT / "configs" / "demo.yaml", overrides)


@pytest.mark.parametrize(
    ("packed", "without_xla", "with_xla"), [("auto", False, True), (True, True, True), (False, False, False)]
)
def test_batches_are_packed_if_they_shall_be_or_xla_needs_it(packed, without_xla, with_xla):
    batches = load(batches__packed=packed).batches
    assert batches == BatchSettings(batch_tokens=1024, length_multiple=1, packed=packed)
    assert (batches.is_packed(xla=False), batches.is_packed(xla=True)) == (without_xla, with_xla)


@pytest.mark.parametrize("value", ["sometimes", 2, None])
def test_packed_is_true_false_or_auto(value):
    with pytest.raises(InputError, match=r"batches\.packed: expected true or false or auto, found "):
        load(batches__packed=value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            LINFORMER | {"batches.packed": True},
            r"^batches\.packed: model\.attention\.cross\.mechanism linformer cannot",
        ),
        (LINFORMER | {"training.xla": True}, r"^training\.xla: .*cross\.mechanism linformer .*, which XLA needs;"),
        (LSH | {"batches.packed": True}, r"^batches\.packed: model\.attention\.encoder_self\.mechanism lsh cannot"),
        (
            {"batches.packed": False, "training.xla": True},
            r"^training\.xla: .*expected batches\.packed auto, or training",
        ),
    ],
)
def test_what_cannot_be_packed_is_refused_with_the_setting_that_rules_it_out(changes, message):
    with pytest.raises(InputError, match=message):
        load(**changes)


@pytest.mark.parametrize("changes", [LINFORMER, LSH, LINFORMER | {"batches.packed": False}])
def test_without_xla_such_models_are_trained_on_padded_batches(changes):
    assert not load(**changes).batches.is_packed(xla=False)


def test_a_recurrent_model_is_not_packed():
    with pytest.raises(InputError, match=r"batches\.packed: model\.architecture recurrent cannot be trained on rows"):
        load_run_config(ROOT / "configs" / "multi30k_en_de_recurrent.yaml", {"batches.packed": True})
