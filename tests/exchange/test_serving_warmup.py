"""Warm-up requests are what TensorFlow Serving's own library writes."""

import tensorflow as tf

from pipeline.exchange.serving_warmup import WARMUP_FILE, WARMUP_SENTENCES, prediction_log, write_warmup

# The bytes of tensorflow-serving-api 2.21 for this request, its inputs in this order.
GOLDEN = (
    b"2=\n;\n\x0b\x1a\ttranslate\x12\x1b\n\x06source\x12\x11\x08\x07\x12\x04\x12\x02\x08\x01B\x07the cat"
    b"\x12\x0f\n\x04beam\x12\x07\x08\n\x12\x00Z\x01\x01"
)


def test_a_request_is_what_the_library_of_serving_writes():
    assert prediction_log("translate", {"source": tf.constant(["the cat"]), "beam": tf.constant(True)}) == GOLDEN


def test_lengths_above_127_take_two_bytes():
    found = prediction_log("s", {"source": tf.constant(["x" * 300])})
    assert found[:3] == bytes([6 << 3 | 2, (len(found) - 3) & 127 | 128, (len(found) - 3) >> 7])
    assert found.endswith(b"x" * 300)


def test_first_sentences_are_asked_greedily_and_with_the_beam(tmp_path):
    write_warmup(tmp_path, [f"sentence {i}" for i in range(WARMUP_SENTENCES + 3)])
    records = [record.numpy() for record in tf.data.TFRecordDataset(str(tmp_path / WARMUP_FILE))]
    assert len(records) == 2 * WARMUP_SENTENCES
    for i, record in enumerate(records):
        inputs = {"source": tf.constant([f"sentence {i // 2}"]), "beam": tf.constant(i % 2 == 1)}
        assert record == prediction_log("translate", inputs)
