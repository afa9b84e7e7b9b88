"""A sentence as it is printed."""


def test_a_record_is_printed_on_one_line(make_record):
    record = make_record(7, source="a\nb", hypothesis="x" * 100)
    assert repr(record) == str(record)
    assert repr(record) == (
        f"<Record 7: 'a\\nb' -> '{'x' * 59}…', forced; cross (2, 3, 4, 5), encoder (2, 3, 5, 5), decoder (2, 3, 4, 4)>"
    )
