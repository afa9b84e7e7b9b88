"""Experiments on a model's attention, each a question:

- `intervention`: what if heads attended elsewhere, in a pass or a search?
- `perturbation`, `head_effects`: what do predictions lose without a head?
- `inside`: what do the values on the model's way say, and what if they were others?
- `score_parts`: why does a head look where it looks?
- `spectra`: in how many directions does a head compare?
- `faithfulness`, `removal`, `faithfulness_plot`: do the tokens that attention shows matter?
"""
