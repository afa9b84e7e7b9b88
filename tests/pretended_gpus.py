"""GPUs that are not there: what TensorFlow says of devices, by their compute capabilities."""

from types import SimpleNamespace

import tensorflow as tf


def pretend_gpus(monkeypatch, *capabilities, name="NVIDIA Test"):
    """Makes TensorFlow see GPUs of these compute capabilities; None for another maker's. Returns what was made visible
    since: a list that `use_gpus` fills."""
    gpus = [SimpleNamespace(name=f"/physical_device:GPU:{i}", device_type="GPU") for i in range(len(capabilities))]
    visible = list(gpus)
    of_device = dict(zip((gpu.name for gpu in gpus), capabilities, strict=True))

    def details(device):
        capability = of_device[device.name]
        return {"device_name": name, "compute_capability": capability} if capability else {}

    def set_visible(devices, kind):
        assert kind == "GPU"
        visible[:] = devices

    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind=None: list(gpus))
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind=None: list(visible))
    monkeypatch.setattr(tf.config, "set_visible_devices", set_visible)
    monkeypatch.setattr(tf.config.experimental, "get_device_details", details)
    return visible
