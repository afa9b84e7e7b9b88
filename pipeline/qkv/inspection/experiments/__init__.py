"""Experiments on the attention of a trained model.

The modules, in reading order:

- `activations`: activations by name, to read and to patch
- `intervention`: replacements of attention weights of heads or rows in a pass or a search
- `perturbation`: ablations of single heads, which measure the rise of the loss
- `head_effects`: tables of the effects of head ablations
- `changed_mechanism`: the accuracy of the model if a part of its cross-attention is changed without retraining, beside
  controls
- `pronouns`: heads that attend from a pronoun to its noun, and the pronoun's translation without them
- `score_parts`: decomposition of attention scores into parts of query and key
- `logit_parts`: decomposition of logits into parts of the residual stream
- `row_steps`: one row of one head recomputed in NumPy, line by line
- `spectra`: the singular values of `W_Q W_K^T`, and low-rank approximations of it
- `head_weights`: a table of the norms and ranks of the matrices of heads
- `faithfulness`: scores of source tokens' importance, and tables of their faithfulness
- `removal`: comprehensiveness and sufficiency of these scores, by removal of source tokens
- `faithfulness_plot`: a plot of the faithfulness of all scorers
"""
