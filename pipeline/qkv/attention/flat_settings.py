"""Settings of attention layers as version 0.1 saved them."""


def flatten_settings(config):
    """Returns the arguments of an attention layer in the flat form; version 0.1 saved those of mechanism and score in
    dicts of their own."""
    config = dict(config)
    settings = dict(config.pop("mechanism_settings", None) or {})
    for part, own in (("score", settings.pop("score_settings", None)), ("mechanism", settings)):
        if own:
            config[part] = {"class_name": config[part], "config": dict(own)}
    return config
