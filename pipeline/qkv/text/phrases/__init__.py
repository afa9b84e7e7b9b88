"""Phrases that translations must or must not contain, as automata over what each token writes."""
