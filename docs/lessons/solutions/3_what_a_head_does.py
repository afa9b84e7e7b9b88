"""Solutions of 3_what_a_head_does.ipynb: what fills each gap, by its name."""

# %% gap-facts
def describe(weights):
    return weights[:, -1].mean(), weights.max(axis=1).mean()

# %% gap-predict
by_head = pd.read_csv(evaluation / "head_alignment.csv")
by_head = by_head[(by_head["side"] == "output") & (by_head["linked"] == "target") & (by_head["site"] == "cross")]
best = by_head[by_head["head"].astype(str).str.isdigit()].sort_values("aer").iloc[0]
prediction = {"aligner": int(best["head"]), "error": float(best["aer"])}

# %% gap-off
def without(text, head):
    return ask(text, [HeadChange(site="cross", layer=0, head=head, change="zeroed")])

# %% gap-cost
def cost(head, pairs):
    lost = tokens = 0
    for text, target in pairs:
        changes = [HeadChange(site="cross", layer=0, head=head, change="zeroed")]
        usual, changed = (sum(ask(text, some, target).record.token_log_probabilities) for some in ([], changes))
        lost, tokens = lost + usual - changed, tokens + len(target)
    return lost / tokens


some_pairs = [(record.source, [*live.run.tokenizer.encode([record.reference])[0], EOS]) for record in records[:12]]
costliest = int(np.argmax([cost(head, some_pairs) for head in range(4)]))

# %% gap-two
def cost_of_both(first, second, pairs):
    lost = tokens = 0
    for text, target in pairs:
        changes = [HeadChange(site="cross", layer=0, head=head, change="zeroed") for head in (first, second)]
        usual, changed = (sum(ask(text, some, target).record.token_log_probabilities) for some in ([], changes))
        lost, tokens = lost + usual - changed, tokens + len(target)
    return lost / tokens
