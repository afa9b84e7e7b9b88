"""A sentence as it is printed, and as a table."""

import numpy as np
import pytest

from qkv.errors import InputError

DIGITS, HUGE = pytest.param("9" * 5000, id="digits"), pytest.param(10**5000, id="huge")


def test_a_record_is_printed_on_one_line(make_record):
    record = make_record(7, source="a\nb", hypothesis="x" * 100)
    assert repr(record) == str(record)
    assert repr(record) == (
        f"<Record 7: 'a\\nb' -> '{'x' * 59}…', forced; cross (2, 3, 4, 5), encoder (2, 3, 5, 5), decoder (2, 3, 4, 4)>"
    )


def test_a_table_has_one_head_or_their_mean(make_record):
    record = make_record()
    weights = record.attention["cross"]
    for head in (2, -1, "2", np.int64(2)):
        np.testing.assert_array_equal(record.to_frame(layer=-1, head=head), weights[1, 2])
    np.testing.assert_array_equal(record.to_frame("encoder_self"), record.to_numpy("encoder_self")[0].mean(axis=0))


@pytest.mark.parametrize("layer", [2, -3, HUGE, DIGITS, "last", "1_0", "١", "-1", 0.0, float("nan"), None])
def test_a_layer_that_is_not_there_is_refused(make_record, layer):
    with pytest.raises(InputError, match=r"sentence 0: layer: expected a number from -2 to 1 .*, found ") as caught:
        make_record().to_frame(layer=layer)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("head", [3, -4, HUGE, DIGITS, "max", 1.5, float("inf"), None])
def test_a_head_that_is_not_there_is_refused(make_record, head):
    with pytest.raises(InputError, match=r"head: expected a number from -3 to 2 \(-1: the last\) or 'mean', found "):
        make_record().to_frame(head=head)


@pytest.mark.parametrize("site", ["norms", "cros", "", DIGITS, 5, None, ["cross"]])
def test_attention_that_is_not_kept_is_refused(make_record, site):
    for read in (make_record().to_frame, make_record().to_numpy):
        with pytest.raises(InputError, match=r"site: expected one of cross, encoder, decoder, found .*\.attention"):
            read(site)


def test_a_record_without_cross_attention_has_no_table(make_record):
    record = make_record(attention={"cross": np.zeros((0, 1, 4, 5), np.float32)})
    assert record.to_numpy().shape == (0, 1, 4, 5)
    with pytest.raises(InputError, match="the model has no attention at the site 'cross'"):
        record.to_frame()
