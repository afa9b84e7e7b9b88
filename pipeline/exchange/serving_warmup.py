"""Requests that TensorFlow Serving sends itself before a model counts as ready, so that no client waits for graphs.

The file holds protocol buffers of its `prediction_log.proto`, `predict.proto` and `model.proto`. All of
their fields that are needed are messages or strings, which have one form: number, length, content.
"""

from collections.abc import Sequence
from pathlib import Path

import tensorflow as tf

WARMUP_FILE = Path("assets.extra", "tf_serving_warmup_requests")
WARMUP_SENTENCES = 4

PREDICT_LOG = 6  # of PredictionLog
REQUEST = 1  # of PredictLog
MODEL_SPEC, INPUTS = 1, 2  # of PredictRequest
SIGNATURE_NAME = 3  # of ModelSpec
KEY, VALUE = 1, 2  # of a map's entry


def write_warmup(folder: Path, sentences: Sequence[str]) -> None:
    """Writes requests to translate the first sentences, greedily and with the beam.

    Args:
        folder: of the SavedModel.
        sentences: at least one.
    """
    path = folder / WARMUP_FILE
    path.parent.mkdir()
    with tf.io.TFRecordWriter(str(path)) as records:
        for sentence in sentences[:WARMUP_SENTENCES]:
            for beam in (False, True):
                records.write(
                    prediction_log("translate", {"source": tf.constant([sentence]), "beam": tf.constant(beam)})
                )


def prediction_log(signature: str, inputs: dict[str, tf.Tensor]) -> bytes:
    """Returns a request to a signature as a serialised `PredictionLog`."""
    request = _field(MODEL_SPEC, _field(SIGNATURE_NAME, signature.encode()))
    for name, tensor in inputs.items():
        entry = _field(KEY, name.encode()) + _field(VALUE, tf.make_tensor_proto(tensor).SerializeToString())
        request += _field(INPUTS, entry)
    return _field(PREDICT_LOG, _field(REQUEST, request))


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    """Encodes a number seven bits at a time, the lowest first; the eighth bit says that more follow."""
    if number < 128:
        return bytes([number])
    return bytes([number & 127 | 128]) + _varint(number >> 7)
