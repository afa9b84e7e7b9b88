"""The graph of a forced pass gives what the pass gives, for batches of any shape."""

import numpy as np

from qkv.decoding.forced import forced_pass, gradient_times_input, make_forced_graph
from tests.support.tiny_models import SOURCE, TARGET, shared_transformer

OUTPUT = np.concatenate([TARGET[:, 1:], np.full((len(TARGET), 1), 3, "int32")], 1)


def test_a_graph_gives_what_the_pass_gives_and_is_traced_once():
    model, sites = shared_transformer(), ("cross", "encoder")
    graph = make_forced_graph(model, sites)
    for rows, sources, targets in ((3, 7, 5), (2, 7, 4), (1, 6, 5)):
        batch = SOURCE[:rows, :sources], TARGET[:rows, :targets], OUTPUT[:rows, :targets]
        forced, expected = graph(*batch), forced_pass(model, *batch, sites)
        np.testing.assert_allclose(forced.log_probabilities, expected.log_probabilities, atol=1e-5)
        np.testing.assert_array_equal(forced.likeliest, expected.likeliest)
        assert tuple(forced.attention) == sites
        for site in sites:
            np.testing.assert_allclose(forced.attention[site], expected.attention[site], atol=1e-5)
    assert graph._current().experimental_get_tracing_count() == 1


def test_gradients_are_among_the_sites():
    model = shared_transformer()
    attention = make_forced_graph(model, ("cross", "gradients"))(SOURCE, TARGET, OUTPUT).attention
    assert set(attention) == {"cross", "gradients"}
    expected = gradient_times_input(model, SOURCE, TARGET, OUTPUT)
    np.testing.assert_allclose(attention["gradients"], expected, atol=1e-5)
